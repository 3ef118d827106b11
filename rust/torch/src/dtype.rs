//! Data types: pullquote's names and torch's.

use pullquote_core::encoder::device_config::DeviceConfig;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Kind;

/// torch's name of a type.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for int8, which only pullquote's CPU encoder has.
pub(crate) fn torch_kind(dtype: Dtype, place: &DeviceConfig) -> Result<Kind> {
    match dtype {
        Dtype::Float32 => Ok(Kind::Float),
        Dtype::BFloat16 => Ok(Kind::BFloat16),
        Dtype::Float16 => Ok(Kind::Half),
        Dtype::Int8 => {
            let (DeviceConfig::Cpu { name, .. } | DeviceConfig::Cuda { name, .. }) = place;
            let message = format!(
                "dtype \"int8\" is for pullquote's own encoder, on CPUs; for device {name:?} with libtorch use \"float16\", \
                 \"bfloat16\" or \"auto\""
            );
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

/// The type that a module computes in which returns this kind.
pub(crate) fn dtype_of_module(kind: Kind) -> Dtype {
    match kind {
        Kind::BFloat16 => Dtype::BFloat16,
        Kind::Half => Dtype::Float16,
        _ => Dtype::Float32,
    }
}

/// The fastest type that keeps the quality. On a CPU libtorch is the reference, so it computes in float32.
pub(crate) fn default_dtype(place: &DeviceConfig) -> Dtype {
    match place {
        DeviceConfig::Cuda { .. } => Dtype::Float16,
        DeviceConfig::Cpu { .. } => Dtype::Float32,
    }
}
