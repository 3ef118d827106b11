//! The types that models compute in, by the names that people write.

use crate::error::{Error, ErrorKind, Result};

/// What a model computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// What all others are measured by.
    Float32,
    /// Half the bits of float32, and all of its range.
    BFloat16,
    /// Half the bits of float32, and more digits than bfloat16.
    Float16,
    /// Linear layers in bytes; on CPUs only.
    Int8,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Float32, Self::BFloat16, Self::Float16, Self::Int8];

    /// The one with this name; none for `auto`.
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

    /// What people write.
    #[must_use]
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
