//! Operators that tch has no functions for, called by name: torch's dispatcher, through the C interface of
//! `torch/csrc/stable/c/shim.h`. So nothing is compiled for them, and no C++ exception gets here.
//!
//! Arguments and results are words of 64 bits, as `torch/csrc/stable/stableivalue_conversions.h` has them. Numbers and truths
//! are their own bits. A tensor is a pointer to an `at::Tensor`, which whoever gets the word owns. An optional is null, or a
//! pointer to a word on C++'s heap, which whoever gets it frees.
//!
//! torch writes the reason of a failure to stderr, and says no more than that there was one.

use std::ffi::CStr;

use tch::{TchError, Tensor};

use crate::failure::TorchResult;

/// What torch's C functions return: zero where it went well.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Outcome(i32);

impl Outcome {
    fn check(self, what: &str) -> TorchResult<()> {
        if self.0 == 0 {
            return Ok(());
        }
        Err(TchError::Kind(format!("torch's {what} failed; it wrote the reason to stderr")))
    }
}

/// A value of one of the types that operators here are called with.
#[derive(Debug)]
pub(crate) enum Value {
    Tensor(Tensor),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// An argument: as the schema has it, plain or optional.
#[derive(Debug)]
pub(crate) enum Argument {
    Plain(Value),
    Optional(Option<Value>),
}

impl Argument {
    /// An optional argument that is not given.
    pub(crate) const ABSENT: Self = Self::Optional(None);
}

/// Calls an operator, which answers with as many tensors as are asked for. It takes its arguments over.
///
/// # Safety
/// Number and types of arguments and results must be those of the operator's schema: nobody checks words.
///
/// # Errors
/// Where this torch has no such operator (then what was given is lost), or it fails.
pub(crate) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
    name: &CStr,
    arguments: [Argument; ARGUMENTS],
) -> TorchResult<[Tensor; RESULTS]> {
    // Results are written over the arguments.
    const { assert!(RESULTS <= ARGUMENTS) };
    // SAFETY: the caller promises it.
    unsafe { c::call(name, arguments) }
}

/// The same tensor again, for a call to take over.
pub(crate) fn share(tensor: &Tensor) -> TorchResult<Tensor> {
    c::share(tensor)
}

/// The functions themselves, which torch's wheels for Linux export.
#[cfg(target_os = "linux")]
mod c {
    use std::ffi::{CStr, c_char, c_void};
    use std::mem::ManuallyDrop;
    use std::ptr::null_mut;

    use tch::{TchError, Tensor};

    use super::{Argument, Outcome, Value};
    use crate::failure::TorchResult;

    /// torch 2.11.0, as `TORCH_ABI_VERSION` encodes it: what the dispatcher is told that we were built with.
    const BUILT_WITH: u64 = (2 << 56) | (11 << 48);

    unsafe extern "C" {
        fn torch_call_dispatcher(name: *const c_char, overload: *const c_char, words: *mut u64, built: u64) -> Outcome;
        fn aoti_torch_new_tensor_handle(tensor: *mut c_void, reference: *mut *mut c_void) -> Outcome;
        // C++'s `operator new(size_t, const std::nothrow_t &)` and its `std::nothrow`: torch frees the words of optionals by
        // `delete`, and 2.11 has no function that makes one. Null where there is no memory.
        #[link_name = "_ZnwmRKSt9nothrow_t"]
        fn new(bytes: usize, nothrow: *const u8) -> *mut u64;
        #[link_name = "_ZSt7nothrow"]
        static NOTHROW: u8;
    }

    /// # Safety
    /// As [`super::call`].
    pub(super) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
        name: &CStr,
        arguments: [Argument; ARGUMENTS],
    ) -> TorchResult<[Tensor; RESULTS]> {
        let mut words = [0; ARGUMENTS];
        for (word, argument) in words.iter_mut().zip(arguments) {
            // Where there are not even eight bytes, those before are lost as well.
            *word = match argument {
                Argument::Plain(value) => word_of(value),
                Argument::Optional(None) => 0,
                Argument::Optional(Some(value)) => on_heap(word_of(value))?,
            };
        }
        // SAFETY: there are as many words as the schema has arguments, and of its types, as the caller promises, and room for
        // the results; texts end in NUL. The dispatcher takes over what the words own.
        let outcome = unsafe { torch_call_dispatcher(name.as_ptr(), c"".as_ptr(), words.as_mut_ptr(), BUILT_WITH) };
        outcome.check(&name.to_string_lossy())?;
        // SAFETY: the call succeeded, so the first words are the results, tensors that we own.
        Ok(std::array::from_fn(|result| unsafe { tensor(pointer(words[result])) }))
    }

    pub(super) fn share(shared: &Tensor) -> TorchResult<Tensor> {
        let mut reference = null_mut();
        let handle = shared.as_ptr().cast_mut().cast();
        // SAFETY: the handle is a live tensor; a new reference to it is written, which we own.
        unsafe {
            aoti_torch_new_tensor_handle(handle, &raw mut reference).check("reference to a tensor")?;
            Ok(tensor(reference))
        }
    }

    fn word_of(value: Value) -> u64 {
        match value {
            Value::Tensor(tensor) => ManuallyDrop::new(tensor).as_mut_ptr().expose_provenance() as u64,
            Value::Int(value) => value.cast_unsigned(),
            Value::Float(value) => value.to_bits(),
            Value::Bool(value) => u64::from(value),
        }
    }

    fn on_heap(word: u64) -> TorchResult<u64> {
        // SAFETY: there is always such a `nothrow`, and nobody looks into it; what comes back is null, or ours and large enough.
        unsafe {
            let place = new(size_of::<u64>(), &raw const NOTHROW);
            if place.is_null() {
                return Err(TchError::Kind("can't allocate memory for an argument".to_owned()));
            }
            place.write(word);
            Ok(place.expose_provenance() as u64)
        }
    }

    fn pointer(word: u64) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(usize::try_from(word).unwrap_or(0))
    }

    /// # Safety
    /// The handle must be owned by the caller, who gives it up.
    unsafe fn tensor(handle: *mut c_void) -> Tensor {
        // SAFETY: both sides allocate an `at::Tensor` with C++'s `new` and free it with `delete`.
        unsafe { Tensor::from_ptr(handle.cast()) }
    }
}

/// torch's wheels for other systems have nothing that is called here.
#[cfg(not(target_os = "linux"))]
mod c {
    use std::ffi::CStr;

    use tch::{TchError, Tensor};

    use super::Argument;
    use crate::failure::TorchResult;

    fn missing() -> TchError {
        TchError::Kind("torch's dispatcher is called on Linux only".to_owned())
    }

    pub(super) unsafe fn call<const ARGUMENTS: usize, const RESULTS: usize>(
        _: &CStr,
        _: [Argument; ARGUMENTS],
    ) -> TorchResult<[Tensor; RESULTS]> {
        Err(missing())
    }

    pub(super) fn share(_: &Tensor) -> TorchResult<Tensor> {
        Err(missing())
    }
}
