//! By what means a model is computed: found out once, when it is loaded.

use tch::{Device, Kind};

use crate::devices::{Precision, computes_bfloat16, multiplies_tiles};
use crate::kernels::Kernels;
use crate::operators::runs;
use crate::shape::Shape;
use crate::varlen::agrees;

/// What may be used where it is there. Tests forbid some of it, to compare the results.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// oneDNN's laid out weights.
    pub onednn: bool,
    /// The kernels of this crate.
    pub kernels: bool,
    /// Attention over rows without padding, where batches are sent to a card.
    pub varlen: Varlen,
}

/// Where variable-length attention may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varlen {
    /// Nowhere.
    Nowhere,
    /// On graphics cards: on a CPU torch has no kernel for it, and says so on stderr.
    OnCards,
    /// On CPUs as well: for tests that bring a kernel.
    Anywhere,
}

impl Allowed {
    /// Whatever this machine has.
    pub const ALL: Self = Self { onednn: true, kernels: true, varlen: Varlen::OnCards };
    /// torch's plain operators only.
    pub const PLAIN: Self = Self { onednn: false, kernels: false, varlen: Varlen::Nowhere };
}

/// How layers are computed.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// The type of activations, and of weights that are no bytes.
    pub kind: Kind,
    /// Whether weights are bytes.
    pub bytes: bool,
    /// Whether oneDNN multiplies; or else torch's plain operators.
    pub onednn: bool,
    /// What does the rest; or else torch's plain operators.
    pub kernels: Option<Kernels>,
    /// What multiplies before oneDNN: kernels again, in floating point, where oneDNN has no better instructions.
    pub multiplying: Option<Kernels>,
    /// Whether rows need no padding on a card, because variable-length attention works there.
    pub varlen: bool,
}

impl Means {
    /// The fastest means on this device, of those that are allowed.
    #[must_use]
    pub fn find(device: Device, precision: Precision, shape: &Shape, allowed: Allowed) -> Self {
        let kind = precision.kind();
        let bytes = precision == Precision::Int8;
        let tried = match allowed.varlen {
            Varlen::Nowhere => false,
            Varlen::OnCards => device != Device::Cpu,
            Varlen::Anywhere => true,
        };
        let varlen = tried && !bytes && agrees(device, kind, shape);
        if device != Device::Cpu {
            return Self { kind, bytes, onednn: false, kernels: None, multiplying: None, varlen };
        }
        // oneDNN's float16 needs instructions that few have, and nobody asks for it on a CPU.
        let able = match precision {
            Precision::Float16 => false,
            Precision::BFloat16 => computes_bfloat16(),
            Precision::Float32 | Precision::Int8 => true,
        };
        let onednn = allowed.onednn && able && runs(if bytes { Kind::Int8 } else { kind });
        let kernels = if allowed.kernels { Kernels::for_model(kind, shape) } else { None };
        let better = bytes || kind == Kind::BFloat16 && onednn && multiplies_tiles();
        let multiplying = kernels.filter(|_| !better);
        Self { kind, bytes, onednn, kernels, multiplying, varlen }
    }
}
