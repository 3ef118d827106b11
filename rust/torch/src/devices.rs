//! Devices and precisions, from the names people write.
//!
//! Everything is checked here, once: what comes out exists. What this machine has is asked for only where a name needs
//! it, because asking for CUDA may load drivers.

use pullquote_core::error::{Error, ErrorKind, Result};
use tch::Kind;

/// More threads than this bring a small model nothing.
const MOST_THREADS: usize = 32;

/// A device on which batches run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A share of the processor's cores.
    Cpu {
        /// As people write it.
        name: String,
        /// Threads, each of which runs whole batches; none where those who wait for batches run them.
        workers: usize,
        /// Batches that it has at once: one more than workers, or one for each core that whoever helps may run on.
        depth: usize,
    },
    /// A graphics card.
    Cuda {
        /// As people write it.
        name: String,
        /// Its number.
        index: usize,
    },
    /// A processor that does all that is done for a graphics card; only tests name one.
    CpuAsCard {
        /// As people would write it.
        name: String,
    },
}

/// What a name means, before the threads are shared out.
enum Meaning {
    Cpu(Option<usize>),
    Cuda(usize),
}

/// Reads names of devices.
///
/// `threads` is the number of CPU workers, shared out over the CPU devices; `None` is one for each core, at most 32, and 0
/// leaves batches to those who wait for them.
/// `cuda_devices` says how many cards this machine has.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] where the list makes no sense, [`ErrorKind::Device`] where a device is not there.
pub fn parse_devices(names: &[String], threads: Option<usize>, cuda_devices: &dyn Fn() -> usize) -> Result<Vec<Place>> {
    let names = match names {
        [] => return Err(Error::new(ErrorKind::InvalidArgument, "devices is empty; name at least one, or \"auto\"")),
        [only] if only == "auto" => automatic(cuda_devices()),
        _ => names.to_vec(),
    };
    let meanings = names.iter().map(|name| parse_name(name, cuda_devices)).collect::<Result<Vec<_>>>()?;
    check_cpus(&names, &meanings)?;
    let cpus = meanings.iter().filter(|meaning| matches!(meaning, Meaning::Cpu(_))).count();
    let threads = threads.unwrap_or_else(|| cores().min(MOST_THREADS));
    // Beside a card, whoever waits for vectors waits for the card too, and computes only then.
    let most = if cpus == names.len() { cores() } else { 1 };
    let share = |of: usize, cpu: usize| (of / cpus + usize::from(cpu < of % cpus)).max(1);
    let cpu = |name, cpu| match threads {
        0 => Place::Cpu { name, workers: 0, depth: share(most, cpu) },
        _ => Place::Cpu { name, workers: share(threads, cpu), depth: share(threads, cpu) + 1 },
    };
    let mut next = 0..;
    let place = |(name, meaning): (String, Meaning)| match meaning {
        Meaning::Cpu(_) => cpu(name, next.next().unwrap_or(0)),
        Meaning::Cuda(index) => Place::Cuda { name: format!("cuda:{index}"), index },
    };
    Ok(names.into_iter().zip(meanings).map(place).collect())
}

fn automatic(cuda_devices: usize) -> Vec<String> {
    if cuda_devices == 0 {
        return vec!["cpu".to_owned()];
    }
    (0..cuda_devices).map(|index| format!("cuda:{index}")).collect()
}

fn parse_name(name: &str, cuda_devices: &dyn Fn() -> usize) -> Result<Meaning> {
    let unknown = || {
        let forms = "expected \"auto\" alone, or any of \"cpu\", \"cpu:N\", \"cuda\", \"cuda:N\"";
        Error::new(ErrorKind::Device, format!("unknown device {name:?}; {forms}"))
    };
    let (kind, index) = match name.split_once(':') {
        // Rust reads "+1" and "01" as numbers, people would not write them.
        Some((kind, index))
            if index.bytes().all(|byte| byte.is_ascii_digit()) && (index.len() == 1 || !index.starts_with('0')) =>
        {
            (kind, Some(index.parse::<usize>().map_err(|_| unknown())?))
        }
        Some(_) => return Err(unknown()),
        None => (name, None),
    };
    match kind {
        "cpu" => Ok(Meaning::Cpu(index)),
        "cuda" => {
            let index = index.unwrap_or(0);
            let there = match cuda_devices() {
                0 => "this machine has no CUDA device; use \"cpu\"".to_owned(),
                count if index < count => return Ok(Meaning::Cuda(index)),
                1 => "this machine has only \"cuda:0\"".to_owned(),
                count => format!("this machine has \"cuda:0\" to \"cuda:{}\"", count - 1),
            };
            Err(Error::new(ErrorKind::Device, format!("no device {name:?}: {there}")))
        }
        _ => Err(unknown()),
    }
}

/// `cpu` is all cores, `cpu:N` a share of them: neither can be there twice, nor both together.
fn check_cpus(names: &[String], meanings: &[Meaning]) -> Result<()> {
    let cpus: Vec<(&String, Option<usize>)> = names
        .iter()
        .zip(meanings)
        .filter_map(|(name, meaning)| match meaning {
            Meaning::Cpu(index) => Some((name, *index)),
            Meaning::Cuda(_) => None,
        })
        .collect();
    for (place, (name, index)) in cpus.iter().enumerate() {
        if cpus[..place].iter().any(|(_, earlier)| earlier == index) {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("device {name:?} is named twice")));
        }
        if index.is_none() && cpus.iter().any(|(_, other)| other.is_some()) {
            let message =
                "device \"cpu\" is all cores, so no \"cpu:N\" can stand beside it; name \"cpu:0\", \"cpu:1\" and so on";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The numbers that a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Exact: what others are measured by.
    Float32,
    /// The fastest with good vectors, on processors that have it.
    BFloat16,
    /// The same on graphics cards.
    Float16,
    /// Linear layers in bytes, on CPUs only.
    Int8,
}

impl Precision {
    /// The one with this name; nothing for `auto`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for any other name.
    pub fn parse(name: &str) -> Result<Option<Self>> {
        match name {
            "auto" => Ok(None),
            "float32" => Ok(Some(Self::Float32)),
            "bfloat16" => Ok(Some(Self::BFloat16)),
            "float16" => Ok(Some(Self::Float16)),
            "int8" => Ok(Some(Self::Int8)),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "unknown dtype {name:?}; expected \"auto\", \"float32\", \"bfloat16\", \"float16\" or \"int8\""
                ),
            )),
        }
    }

    /// What people write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::BFloat16 => "bfloat16",
            Self::Float16 => "float16",
            Self::Int8 => "int8",
        }
    }

    /// The type of what goes from layer to layer.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Float32 => Kind::Float,
            Self::Float16 => Kind::Half,
            Self::Int8 if !computes_bfloat16() => Kind::Float,
            Self::BFloat16 | Self::Int8 => Kind::BFloat16,
        }
    }

    /// What a module that returns this type computes in.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::BFloat16 => Self::BFloat16,
            Kind::Half => Self::Float16,
            _ => Self::Float32,
        }
    }

    /// The fastest whose vectors are still good, on this device.
    #[must_use]
    pub fn automatic(place: &Place) -> Self {
        match place {
            Place::Cuda { .. } => Self::Float16,
            Place::Cpu { .. } if computes_bfloat16() => Self::BFloat16,
            Place::Cpu { .. } | Place::CpuAsCard { .. } => Self::Float32,
        }
    }

    /// Whether a device can compute with them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for bytes on a graphics card.
    pub fn check(self, place: &Place) -> Result<()> {
        match place {
            Place::Cuda { name, .. } if self == Self::Int8 => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("dtype \"int8\" is for CPUs; for device {name:?} use \"float16\" or \"auto\""),
            )),
            _ => Ok(()),
        }
    }
}

/// Whether the processor multiplies bfloat16 itself; where it does not, float32 is faster. AMX comes with AVX-512 BF16.
#[must_use]
pub fn computes_bfloat16() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("bf16");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Whether the processor multiplies whole tiles of bfloat16 (AMX), as oneDNN makes it do.
#[must_use]
pub fn multiplies_tiles() -> bool {
    // Intel's Software Developer's Manual, CPUID: leaf 7, EDX, bit 22. Rust does not detect it yet.
    #[cfg(target_arch = "x86_64")]
    return std::arch::x86_64::__cpuid_count(7, 0).edx & (1 << 22) != 0;
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
