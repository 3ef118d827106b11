//! torch's errors as pullquote's: one line, with the value it happened on.

use pullquote_core::error::{Error, ErrorKind};
use tch::TchError;

/// What torch's operators return.
pub type TorchResult<T> = Result<T, TchError>;

/// The line of torch's message that says what happened; the rest is a C++ backtrace.
#[must_use]
pub fn describe(error: &TchError) -> String {
    let TchError::Torch(message) = error else { return error.to_string() };
    // TorchScript puts its own backtrace first and the reason last.
    let reason = message.lines().find_map(|line| line.strip_prefix("RuntimeError: "));
    reason.or_else(|| message.lines().find(|line| !line.trim().is_empty())).unwrap_or("no message").trim().to_owned()
}

/// An error of this kind: what was tried, and torch's reason.
#[must_use]
pub fn torch_failed(kind: ErrorKind, what: &str, error: &TchError) -> Error {
    Error::new(kind, format!("{what}: {}", describe(error)))
}

/// The error of a batch, by what can be done about it: less at once, another device, or nothing.
#[must_use]
pub fn batch_failed(error: &TchError) -> Error {
    torch_failed(kind_of(&error.to_string()), "the batch failed", error)
}

/// The kind of what torch says. Through tch its errors have no types, only messages: those of
/// `c10/cuda/CUDACachingAllocator.cpp`, `c10/core/impl/alloc_cpu.cpp` and `c10/cuda/CUDAException.cpp`, and what
/// cuBLAS says where it finds no memory for itself.
fn kind_of(message: &str) -> ErrorKind {
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if says(&["out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "bad_alloc"]) {
        return ErrorKind::OutOfMemory;
    }
    // After most of these nothing runs on the card any more, whatever the rows are.
    if says(&["CUDA error", "CUDA driver error", "CUBLAS_STATUS_", "cuDNN error", "NVML", "no CUDA-capable device"]) {
        return ErrorKind::Device;
    }
    ErrorKind::Encoder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_torch_says_decides_what_is_done() {
        let kinds = [
            (
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB",
                ErrorKind::OutOfMemory,
            ),
            ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", ErrorKind::OutOfMemory),
            ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", ErrorKind::OutOfMemory),
            (
                "[enforce fail at alloc_cpu.cpp:126] DefaultCPUAllocator: can't allocate memory: you tried to",
                ErrorKind::OutOfMemory,
            ),
            ("CUDA error: an illegal memory access was encountered", ErrorKind::Device),
            ("CUDA error: device-side assert triggered", ErrorKind::Device),
            ("CUDA error: uncorrectable ECC error encountered", ErrorKind::Device),
            ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`", ErrorKind::Device),
            ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", ErrorKind::Encoder),
        ];
        for (message, kind) in kinds {
            let error = batch_failed(&TchError::Torch(format!("{message}\nException raised from here")));
            assert_eq!(error.kind(), kind, "{message}");
        }
    }

    #[test]
    fn memory_that_the_system_does_not_have_is_told_apart() {
        // 4 EiB: no machine has it, so the real allocator says so.
        let huge = tch::Tensor::f_empty([1_i64 << 60], (tch::Kind::Float, tch::Device::Cpu));
        assert_eq!(batch_failed(&huge.expect_err("no machine has it")).kind(), ErrorKind::OutOfMemory);
    }
}
