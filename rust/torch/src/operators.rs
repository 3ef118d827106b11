//! oneDNN's operators that tch has no functions for: linear layers with weights laid out beforehand, in float and in int8.
//!
//! They are reached through torch's C interfaces: its [`crate::dispatcher`], and the functions that compiled models call
//! (`torch/csrc/inductor/aoti_torch/c/shim_cpu.h`). So nothing is compiled for them, and no C++ exception gets here. Tried beside it: `TorchScript`, which is as fast (10 µs a call, both) but needs a module that
//! Python wrote.
//!
//! Where this torch lacks them, what is tried first fails: [`runs`]. torch writes the reason of a failure to stderr.

use std::ffi::CStr;

use tch::{Kind, Tensor};

use crate::dispatcher::{Argument, Value, call, share};
use crate::failure::TorchResult;

/// Function that oneDNN applies to a layer's results on their way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fused {
    /// None.
    Nothing,
    /// Gelu, by the error function.
    Gelu,
    /// Gelu, approximated by the hyperbolic tangent.
    GeluTanh,
    /// Negative values become zero.
    Relu,
}

/// Lays out a weight `[outputs, inputs]` for [`linear`]. What comes back has no memory that could be read.
///
/// # Errors
/// Where this torch has no such operator.
pub fn prepack(weight: &Tensor) -> TorchResult<Tensor> {
    lay_out(c"mkldnn::_reorder_linear_weight", weight)
}

/// Lays out an int8 weight `[outputs, inputs]` for [`multiply_bytes`].
///
/// # Errors
/// Where this torch has no such operator.
pub fn prepack_bytes(weight: &Tensor) -> TorchResult<Tensor> {
    lay_out(c"onednn::qlinear_prepack", weight)
}

/// Calls an operator of the schema `(Tensor weight, <optional>) -> Tensor`.
fn lay_out(name: &CStr, weight: &Tensor) -> TorchResult<Tensor> {
    let weight = Argument::Plain(Value::Tensor(share(weight)?));
    // SAFETY: the arguments are those of the schema.
    unsafe { call(name, [weight, Argument::ABSENT]) }.map(|[laid_out]| laid_out)
}

/// `input · weightᵀ + bias`, then the function; the weight is one of [`prepack`].
///
/// # Errors
/// Where torch has no memory, or shapes or types do not fit.
pub fn linear(input: &Tensor, weight: &Tensor, bias: &Tensor, fused: Fused) -> TorchResult<Tensor> {
    let (name, algorithm) = match fused {
        Fused::Nothing => (c"none", c""),
        Fused::Gelu => (c"gelu", c"none"),
        Fused::GeluTanh => (c"gelu", c"tanh"),
        Fused::Relu => (c"relu", c""),
    };
    c::linear(input, weight, bias, name, algorithm)
}

/// `(input · weightᵀ) · scales` in float32, exact but for the last product. The input is uint8 `[rows, inputs]`, the weight
/// one of [`prepack_bytes`], the scales are float32 `[outputs]`.
///
/// # Errors
/// Where torch has no memory, or shapes or types do not fit.
pub fn multiply_bytes(input: &Tensor, weight: &Tensor, scales: &Tensor, neutral: &Neutral) -> TorchResult<Tensor> {
    c::multiply_bytes(input, weight, scales, neutral)
}

/// Scales of one and zero points of zero, for an operator that must have some.
#[derive(Debug)]
pub struct Neutral {
    one: Tensor,
    zero: Tensor,
    /// One for each output.
    zeros: Tensor,
}

impl Neutral {
    /// For a weight with so many outputs.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn new(outputs: i64) -> TorchResult<Self> {
        let device = tch::Device::Cpu;
        Ok(Self {
            one: Tensor::f_ones([1], (Kind::Float, device))?,
            zero: Tensor::f_zeros([1], (Kind::Int, device))?,
            zeros: Tensor::f_zeros([outputs], (Kind::Int, device))?,
        })
    }
}

/// Whether layers with weights of this type run here: tries the smallest there is.
#[must_use]
pub fn runs(kind: Kind) -> bool {
    let device = tch::Device::Cpu;
    let tried = || {
        let weight = Tensor::f_ones([1, 1], (kind, device))?;
        if kind == Kind::Int8 {
            let input = Tensor::f_ones([1, 1], (Kind::Uint8, device))?;
            let neutral = Neutral::new(1)?;
            return multiply_bytes(&input, &prepack_bytes(&weight)?, &neutral.one, &neutral);
        }
        let bias = Tensor::f_ones([1], (kind, device))?;
        linear(&weight, &prepack(&weight)?, &bias, Fused::Nothing)
    };
    tch::utils::has_mkldnn() && tried().is_ok()
}

/// The functions themselves, which torch's wheels for Linux export.
#[cfg(target_os = "linux")]
mod c {
    use std::ffi::{CStr, c_char, c_void};
    use std::ptr::{null, null_mut};

    use tch::Tensor;

    use super::Neutral;
    use crate::dispatcher::Outcome;
    use crate::failure::TorchResult;

    /// A pointer to an `at::Tensor`, as tch's are.
    type Handle = *mut c_void;

    unsafe extern "C" {
        safe fn aoti_torch_dtype_float32() -> i32;
        fn aoti_torch_cpu__linear_pointwise(
            input: Handle,
            weight: Handle,
            bias: *mut Handle,
            function: *const c_char,
            arguments: *const *const f64,
            argument_count: i64,
            algorithm: *const *const c_char,
            result: *mut Handle,
        ) -> Outcome;
        fn aoti_torch_cpu__qlinear_pointwise_tensor(
            input: Handle,
            input_scale: Handle,
            input_zero_point: Handle,
            weight: Handle,
            weight_scales: Handle,
            weight_zero_points: Handle,
            bias: *mut Handle,
            output_scale: f64,
            output_zero_point: i64,
            output_dtype: *const i32,
            function: *const c_char,
            arguments: *const *const f64,
            argument_count: i64,
            algorithm: *const c_char,
            result: *mut Handle,
        ) -> Outcome;
    }

    pub(super) fn linear(
        input: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        function: &CStr,
        algorithm: &CStr,
    ) -> TorchResult<Tensor> {
        let mut bias = handle(bias);
        let algorithm = algorithm.as_ptr();
        let mut result = null_mut();
        // SAFETY: handles are live tensors and only read; the function has no arguments; texts end in NUL; the result is
        // written where the call succeeds.
        unsafe {
            aoti_torch_cpu__linear_pointwise(
                handle(input),
                handle(weight),
                &raw mut bias,
                function.as_ptr(),
                null(),
                0,
                &raw const algorithm,
                &raw mut result,
            )
            .check("mkldnn::_linear_pointwise")?;
            Ok(tensor(result))
        }
    }

    pub(super) fn multiply_bytes(
        input: &Tensor,
        weight: &Tensor,
        scales: &Tensor,
        neutral: &Neutral,
    ) -> TorchResult<Tensor> {
        let float32 = aoti_torch_dtype_float32();
        let mut result = null_mut();
        // SAFETY: as in `linear`; there is no bias.
        unsafe {
            aoti_torch_cpu__qlinear_pointwise_tensor(
                handle(input),
                handle(&neutral.one),
                handle(&neutral.zero),
                handle(weight),
                handle(scales),
                handle(&neutral.zeros),
                null_mut(),
                1.0,
                0,
                &raw const float32,
                c"none".as_ptr(),
                null(),
                0,
                c"none".as_ptr(),
                &raw mut result,
            )
            .check("onednn::qlinear_pointwise")?;
            Ok(tensor(result))
        }
    }

    /// Borrowed: whoever gets it reads it during the call.
    fn handle(tensor: &Tensor) -> Handle {
        tensor.as_ptr().cast_mut().cast()
    }

    /// # Safety
    /// The handle must be owned by the caller, who gives it up.
    unsafe fn tensor(handle: Handle) -> Tensor {
        // SAFETY: both sides allocate an `at::Tensor` with C++'s `new` and free it with `delete`.
        unsafe { Tensor::from_ptr(handle.cast()) }
    }
}

/// torch's wheels for other systems are built without oneDNN.
#[cfg(not(target_os = "linux"))]
mod c {
    use std::ffi::CStr;

    use tch::{TchError, Tensor};

    use super::Neutral;
    use crate::failure::TorchResult;

    fn missing() -> TorchResult<Tensor> {
        Err(TchError::Kind("this torch has no oneDNN".to_owned()))
    }

    pub(super) fn linear(_: &Tensor, _: &Tensor, _: &Tensor, _: &CStr, _: &CStr) -> TorchResult<Tensor> {
        missing()
    }

    pub(super) fn multiply_bytes(_: &Tensor, _: &Tensor, _: &Tensor, _: &Neutral) -> TorchResult<Tensor> {
        missing()
    }
}
