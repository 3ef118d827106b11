//! The choice of instruction set: the best that this processor has, or the one that `PULLQUOTE_CPU` names.

use pullquote_core::error::{Error, ErrorKind, Result};

#[cfg(target_arch = "aarch64")]
use crate::vector::neon::Neon;
use crate::vector::portable::Portable;
#[cfg(target_arch = "x86_64")]
use crate::vector::x86::{Avx2, Avx512};
use crate::vector::{ByteProduct, Simd, Task};

/// The environment variable that forces a set.
pub const ENV_VARIABLE: &str = "PULLQUOTE_CPU";

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSet(Set);

macro_rules! sets {
    ($($(#[$condition:meta])* $variant:ident, $name:literal, $kind:ty, $detect:expr;)*) => {
        #[derive(Clone, Copy, Debug)]
        enum Set {
            $($(#[$condition])* $variant($kind),)*
        }

        impl InstructionSet {
            /// Every set that this processor has, the best first.
            pub fn available() -> Vec<Self> {
                let mut found = Vec::new();
                $($(#[$condition])* if let Some(simd) = $detect { found.push(Self(Set::$variant(simd))); })*
                found
            }

            /// The names of all sets for processors of this kind.
            fn names() -> Vec<&'static str> {
                vec![$($(#[$condition])* $name,)*]
            }

            /// The name in `PULLQUOTE_CPU` and in reports.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($(#[$condition])* Set::$variant(_) => $name,)*
                }
            }

            /// Runs a task with this set. [`Simd::vectorize`] compiles its parts for the set.
            pub fn dispatch<T: Task>(self, task: T) -> T::Output {
                match self.0 {
                    $($(#[$condition])* Set::$variant(simd) => task.run(simd),)*
                }
            }
        }
    };
}

sets! {
    #[cfg(target_arch = "x86_64")] Avx512Bf16, "avx512bf16", Avx512<true, true>, Avx512::detect();
    #[cfg(target_arch = "x86_64")] Avx512Vnni, "avx512vnni", Avx512<true, false>, Avx512::detect();
    #[cfg(target_arch = "x86_64")] Avx512, "avx512", Avx512<false, false>, Avx512::detect();
    #[cfg(target_arch = "x86_64")] AvxVnni, "avxvnni", Avx2<true>, Avx2::detect();
    #[cfg(target_arch = "x86_64")] Avx2, "avx2", Avx2<false>, Avx2::detect();
    #[cfg(target_arch = "aarch64")] NeonDot, "neondot", Neon<true>, Neon::detect();
    #[cfg(target_arch = "aarch64")] Neon, "neon", Neon<false>, Neon::detect();
    Portable, "portable", Portable, Some(Portable);
}

impl InstructionSet {
    /// The set that `PULLQUOTE_CPU` names, or the best.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the variable names no set, or one that this processor lacks.
    pub fn selected() -> Result<Self> {
        match std::env::var(ENV_VARIABLE) {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::available()[0]),
        }
    }

    pub fn named(name: &str) -> Result<Self> {
        let available = Self::available();
        if let Some(found) = available.iter().find(|set| set.name() == name) {
            return Ok(*found);
        }
        let names = available.iter().map(|set| set.name()).collect::<Vec<_>>().join(", ");
        let what = if Self::names().contains(&name) {
            "this processor lacks those instructions".to_owned()
        } else {
            format!("unknown; the names are {}", Self::names().join(", "))
        };
        let message = format!("{ENV_VARIABLE}={name:?}: {what}; this processor has {names}");
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    /// Whether the set multiplies bfloat16 by instructions of its own.
    pub fn has_bf16(self) -> bool {
        struct HasBf16;
        impl Task for HasBf16 {
            type Output = bool;
            fn run<S: Simd>(self, _: S) -> bool {
                S::HAS_BF16
            }
        }
        self.dispatch(HasBf16)
    }

    /// Whether int8 is faster than float32: where bytes are multiplied as they are, not widened first.
    pub fn has_fast_int8(self) -> bool {
        struct HasFastInt8;
        impl Task for HasFastInt8 {
            type Output = bool;
            fn run<S: Simd>(self, _: S) -> bool {
                S::BYTE_PRODUCT != ByteProduct::Pairs
            }
        }
        self.dispatch(HasFastInt8)
    }
}
