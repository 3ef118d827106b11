//! torch's errors as pullquote's: one line, and the kind that says what can be done about it.

use pullquote_core::error::{Error, ErrorKind};
use tch::TchError;

pub type TorchResult<T> = Result<T, TchError>;

/// The line of torch's message that says what happened; the rest is a C++ backtrace.
pub(crate) fn reason(error: &TchError) -> String {
    let TchError::Torch(message) = error else { return error.to_string() };
    // TorchScript puts its own backtrace first and the reason last.
    let line = message.lines().find_map(|line| line.strip_prefix("RuntimeError: "));
    line.or_else(|| message.lines().find(|line| !line.trim().is_empty())).unwrap_or("no message").trim().to_owned()
}

/// An error of this kind: what failed, and torch's reason.
pub(crate) fn torch_error(kind: ErrorKind, what: &str, error: &TchError) -> Error {
    Error::new(kind, format!("{what}: {}", reason(error)))
}

pub(crate) fn batch_error(error: &TchError) -> Error {
    torch_error(kind_of_message(&error.to_string()), "the batch failed", error)
}

/// Texts of errors that CUDA's libraries and driver report of themselves; without memory they do so too.
const LIBRARY_ERRORS: [&str; 6] = ["CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN", "CUDA driver error", "nvrtc", "cutlass"];

/// With less free memory than this, CUDA's libraries cannot load a kernel or allocate a workspace.
const SHORT_MEMORY: u64 = 64 << 20;

fn is_library_error(message: &str) -> bool {
    LIBRARY_ERRORS.iter().any(|text| message.contains(text))
}

/// As [`batch_error`], on a GPU with this many free bytes: an error of one of CUDA's libraries for lack of memory is
/// [`ErrorKind::OutOfMemory`].
pub(crate) fn gpu_error(error: &TchError, free: u64) -> Error {
    let found = batch_error(error);
    if found.kind() == ErrorKind::Device && is_library_error(&error.to_string()) && free < SHORT_MEMORY {
        let message = format!("{}; the GPU has next to no free memory", found.message());
        return Error::new(ErrorKind::OutOfMemory, message);
    }
    found
}

/// Through tch, torch's errors have no types, only messages. Those below are from `c10/cuda/CUDACachingAllocator.cpp`,
/// `c10/core/impl/alloc_cpu.cpp`, `c10/cuda/CUDAException.cpp`, and cuBLAS without memory.
fn kind_of_message(message: &str) -> ErrorKind {
    let has_any = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if has_any(&["out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "bad_alloc"]) {
        return ErrorKind::OutOfMemory;
    }
    // After most of these nothing runs on the GPU any more, whatever the rows are.
    if is_library_error(message) || has_any(&["CUDA error", "NVML", "no CUDA-capable device"]) {
        return ErrorKind::Device;
    }
    ErrorKind::Encoder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torch_messages_have_kinds() {
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
            ("cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.", ErrorKind::Device),
            ("CUDNN_STATUS_NOT_INITIALIZED", ErrorKind::Device),
            ("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", ErrorKind::Encoder),
        ];
        for (message, kind) in kinds {
            let error = batch_error(&TchError::Torch(format!("{message}\nException raised from here")));
            assert_eq!(error.kind(), kind, "{message}");
        }
    }

    #[test]
    fn a_library_that_fails_without_memory_is_out_of_memory() {
        let error = |text: &str| TchError::Torch(format!("CUDA error: {text}\nException raised from here"));
        let library = error("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`");
        assert_eq!(gpu_error(&library, 1 << 20).kind(), ErrorKind::OutOfMemory);
        assert_eq!(gpu_error(&library, 1 << 30).kind(), ErrorKind::Device);
        assert_eq!(gpu_error(&error("unspecified launch failure"), 1 << 20).kind(), ErrorKind::Device);
    }

    #[test]
    fn the_allocators_own_error_is_out_of_memory() {
        // 4 EiB, which no machine has.
        let huge = tch::Tensor::f_empty([1_i64 << 60], (tch::Kind::Float, tch::Device::Cpu));
        assert_eq!(batch_error(&huge.expect_err("no machine has it")).kind(), ErrorKind::OutOfMemory);
    }
}
