//! Operators that tch has no functions for, called by name: torch's dispatcher, through the C interface of
//! `torch/csrc/stable/c/shim.h`. So no C++ is compiled for them, and no C++ exception reaches Rust.
//!
//! Arguments and results are 64-bit `StableIValue`s, as in `torch/csrc/stable/stableivalue_conversions.h`. Numbers and
//! booleans are their own bits. A tensor is a pointer to an `at::Tensor` that the receiver owns. An optional is null,
//! or a pointer to another `StableIValue` on C++'s heap that the receiver frees.
//!
//! torch writes the reason of a failure to stderr; the interface says only that a call failed.

use std::ffi::CStr;

use tch::{TchError, Tensor};

use crate::error::TorchResult;

/// What torch's C functions return: zero on success.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Status(i32);

impl Status {
    fn check(self, what: &str) -> TorchResult<()> {
        if self.0 == 0 {
            return Ok(());
        }
        Err(TchError::Kind(format!("torch's {what} failed; it wrote the reason to stderr")))
    }
}

#[derive(Debug)]
pub(crate) enum Value {
    Tensor(Tensor),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// An argument, plain or optional as in the schema.
#[derive(Debug)]
pub(crate) enum Argument {
    Plain(Value),
    Optional(Option<Value>),
}

impl Argument {
    pub(crate) const NONE: Self = Self::Optional(None);
}

/// Calls an operator, which takes ownership of its arguments.
///
/// # Safety
/// Number and types of arguments and results must be those of the operator's schema; nothing checks them.
///
/// # Errors
/// If this torch has no such operator, the arguments leak.
pub(crate) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
    name: &CStr,
    arguments: [Argument; ARGUMENTS],
) -> TorchResult<[Tensor; RESULTS]> {
    // Results are written over the arguments.
    const { assert!(RESULTS <= ARGUMENTS) };
    // SAFETY: the caller promises it.
    unsafe { shim::call(name, arguments) }
}

/// A second reference to a tensor, for a call to own.
pub(crate) fn new_reference(tensor: &Tensor) -> TorchResult<Tensor> {
    shim::new_reference(tensor)
}

/// `gelu(input · transposed + bias)`, the activation in the product's epilogue; `None` where this torch cannot. tch has
/// a function for it, but that computes `ReLU`.
pub(super) fn linear_gelu(input: &Tensor, transposed: &Tensor, bias: &Tensor) -> Option<Tensor> {
    shim::linear_gelu(input, transposed, bias)
}

/// The functions themselves, which torch's wheels for Linux export.
#[cfg(target_os = "linux")]
mod shim {
    use std::ffi::{CStr, c_char, c_void};
    use std::mem::ManuallyDrop;
    use std::ptr::null_mut;
    use std::sync::LazyLock;

    use tch::{Device, TchError, Tensor};

    use super::{Argument, Status, Value};
    use crate::error::TorchResult;

    type StableIValue = u64;

    /// torch 2.11.0, as `TORCH_ABI_VERSION` encodes it: the version whose conventions we follow.
    const TORCH_ABI_VERSION: u64 = (2 << 56) | (11 << 48);

    /// `aoti_torch_cpu__addmm_activation` in `torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h`, and the same for
    /// CUDA.
    type AddmmActivation = unsafe extern "C" fn(
        bias: *mut c_void,
        left: *mut c_void,
        right: *mut c_void,
        beta: f64,
        alpha: f64,
        use_gelu: i32,
        result: *mut *mut c_void,
    ) -> Status;

    unsafe extern "C" {
        fn aoti_torch_cpu__addmm_activation(
            bias: *mut c_void,
            left: *mut c_void,
            right: *mut c_void,
            beta: f64,
            alpha: f64,
            use_gelu: i32,
            result: *mut *mut c_void,
        ) -> Status;
        fn torch_call_dispatcher(
            name: *const c_char,
            overload: *const c_char,
            stack: *mut StableIValue,
            abi_version: u64,
        ) -> Status;
        fn aoti_torch_new_tensor_handle(tensor: *mut c_void, reference: *mut *mut c_void) -> Status;
        // C++'s `operator new(size_t, const std::nothrow_t &)` and its `std::nothrow`: torch frees optionals by
        // `delete`, and 2.11 has no function that makes one. Null where there is no memory.
        #[link_name = "_ZnwmRKSt9nothrow_t"]
        fn new(bytes: usize, nothrow: *const u8) -> *mut StableIValue;
        #[link_name = "_ZSt7nothrow"]
        static NOTHROW: u8;
    }

    /// # Safety
    /// As [`super::call`].
    pub(super) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
        name: &CStr,
        arguments: [Argument; ARGUMENTS],
    ) -> TorchResult<[Tensor; RESULTS]> {
        let mut stack = [0; ARGUMENTS];
        for (slot, argument) in stack.iter_mut().zip(arguments) {
            // Where there is no memory for an optional, the arguments before it leak.
            *slot = match argument {
                Argument::Plain(value) => to_stable_ivalue(value),
                Argument::Optional(None) => 0,
                Argument::Optional(Some(value)) => on_heap(to_stable_ivalue(value))?,
            };
        }
        // SAFETY: the stack has as many arguments as the schema, of its types, as the caller promises, and room for the
        // results; strings end in NUL. The dispatcher takes ownership of the arguments.
        let status =
            unsafe { torch_call_dispatcher(name.as_ptr(), c"".as_ptr(), stack.as_mut_ptr(), TORCH_ABI_VERSION) };
        status.check(&name.to_string_lossy())?;
        // SAFETY: the call succeeded, so the stack begins with the results, tensors that we own.
        Ok(std::array::from_fn(|result| unsafe { tensor(pointer(stack[result])) }))
    }

    pub(super) fn new_reference(shared: &Tensor) -> TorchResult<Tensor> {
        let mut reference = null_mut();
        let handle = shared.as_ptr().cast_mut().cast();
        // SAFETY: the handle is a live tensor; a new reference to it is written, which we own.
        unsafe {
            aoti_torch_new_tensor_handle(handle, &raw mut reference).check("reference to a tensor")?;
            Ok(tensor(reference))
        }
    }

    pub(super) fn linear_gelu(input: &Tensor, transposed: &Tensor, bias: &Tensor) -> Option<Tensor> {
        static CUDA: LazyLock<Option<AddmmActivation>> = LazyLock::new(|| {
            let function = crate::torch_cuda::find(c"aoti_torch_cuda__addmm_activation")?;
            // SAFETY: the type is that of the header.
            Some(unsafe { std::mem::transmute::<*mut c_void, AddmmActivation>(function) })
        });
        let function = match input.device() {
            Device::Cpu => aoti_torch_cpu__addmm_activation,
            _ => (*CUDA)?,
        };
        let [bias, input, transposed] = [bias, input, transposed].map(|tensor| tensor.as_ptr().cast_mut().cast());
        let mut result = null_mut();
        // SAFETY: the handles are live tensors, of which only the data is read; a new tensor is written, which we own.
        unsafe {
            let status = function(bias, input, transposed, 1.0, 1.0, 1, &raw mut result);
            status.check("addmm_activation").ok().map(|()| tensor(result))
        }
    }

    fn to_stable_ivalue(value: Value) -> StableIValue {
        match value {
            Value::Tensor(tensor) => ManuallyDrop::new(tensor).as_mut_ptr().expose_provenance() as u64,
            Value::Int(value) => value.cast_unsigned(),
            Value::Float(value) => value.to_bits(),
            Value::Bool(value) => u64::from(value),
        }
    }

    fn on_heap(value: StableIValue) -> TorchResult<StableIValue> {
        // SAFETY: `nothrow` always exists, and its value is not read; the result is null, or ours and large enough.
        unsafe {
            let place = new(size_of::<StableIValue>(), &raw const NOTHROW);
            if place.is_null() {
                return Err(TchError::Kind("can't allocate memory for an argument".to_owned()));
            }
            place.write(value);
            Ok(place.expose_provenance() as u64)
        }
    }

    fn pointer(value: StableIValue) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(usize::try_from(value).unwrap_or(0))
    }

    /// # Safety
    /// The caller must own the handle, and gives it up.
    unsafe fn tensor(handle: *mut c_void) -> Tensor {
        // SAFETY: both sides allocate an `at::Tensor` with C++'s `new` and free it with `delete`.
        unsafe { Tensor::from_ptr(handle.cast()) }
    }
}

/// torch's wheels for other systems export none of it.
#[cfg(not(target_os = "linux"))]
mod shim {
    use std::ffi::CStr;

    use tch::{TchError, Tensor};

    use super::Argument;
    use crate::error::TorchResult;

    fn unavailable() -> TchError {
        TchError::Kind("torch's dispatcher is called on Linux only".to_owned())
    }

    pub(super) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
        _: &CStr,
        _: [Argument; ARGUMENTS],
    ) -> TorchResult<[Tensor; RESULTS]> {
        Err(unavailable())
    }

    pub(super) fn new_reference(_: &Tensor) -> TorchResult<Tensor> {
        Err(unavailable())
    }

    pub(super) fn linear_gelu(_: &Tensor, _: &Tensor, _: &Tensor) -> Option<Tensor> {
        None
    }
}
