//! What torch calls the types that models compute in.

use pullquote_core::encoder::device_config::DeviceConfig;
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Kind;

/// The type of what goes from layer to layer.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for bytes: those are for pullquote's own encoder, on CPUs.
pub fn kind_of(dtype: Dtype, place: &DeviceConfig) -> Result<Kind> {
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

/// What a module that returns this type computes in.
#[must_use]
pub fn dtype_of(kind: Kind) -> Dtype {
    match kind {
        Kind::BFloat16 => Dtype::BFloat16,
        Kind::Half => Dtype::Float16,
        _ => Dtype::Float32,
    }
}

/// The fastest whose vectors are still good, on this device. On a CPU libtorch is the reference.
#[must_use]
pub fn automatic(place: &DeviceConfig) -> Dtype {
    match place {
        DeviceConfig::Cuda { .. } => Dtype::Float16,
        DeviceConfig::Cpu { .. } => Dtype::Float32,
    }
}
