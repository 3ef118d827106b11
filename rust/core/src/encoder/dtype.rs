//! The values of the option `dtype`.

use crate::error::{Error, ErrorKind, Result};

/// The type of a model's computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// The reference that the others are compared with.
    Float32,
    /// The range of float32 in half its bits.
    BFloat16,
    /// More precise than bfloat16, with a smaller range.
    Float16,
    /// Linear layers in int8, the rest in float32; CPUs only.
    Int8,
}

impl Dtype {
    /// In the order in which errors list them.
    pub const ALL: [Self; 4] = [Self::Float32, Self::BFloat16, Self::Float16, Self::Int8];

    /// `auto` gives `None`: the encoder chooses.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for any other name.
    pub fn parse(name: &str) -> Result<Option<Self>> {
        if name == "auto" {
            return Ok(None);
        }
        Self::ALL.into_iter().find(|dtype| dtype.name() == name).map(Some).ok_or_else(|| {
            let names = Self::ALL.map(|dtype| format!("{:?}", dtype.name())).join(", ");
            Error::new(ErrorKind::InvalidArgument, format!("unknown dtype {name:?}; expected \"auto\", {names}"))
        })
    }

    /// As in the option `dtype`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::BFloat16 => "bfloat16",
            Self::Float16 => "float16",
            Self::Int8 => "int8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_types() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::parse(dtype.name()).unwrap(), Some(dtype));
        }
        assert_eq!(Dtype::parse("auto").unwrap(), None);
        let error = Dtype::parse("half").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("\"half\"") && error.message().contains("\"bfloat16\""), "{error}");
    }
}
