//! Parses the option `devices`.
//!
//! Every returned device exists. The number of GPUs is determined only if a name needs it, because asking CUDA may load
//! drivers.

use crate::error::{Error, ErrorKind, Result};

/// A small model gains nothing from more threads.
const MAX_THREADS: usize = 32;

/// A device to load a model on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceConfig {
    /// A share of the CPU cores.
    Cpu {
        /// As the user wrote it.
        name: String,
        /// Threads that each compute whole batches; 0 where the thread that collects computes them.
        workers: usize,
    },
    Cuda {
        /// `cuda:` and the index.
        name: String,
        /// The number that CUDA gives it.
        index: usize,
    },
}

/// A name before threads are distributed.
enum ParsedName {
    Cpu(Option<usize>),
    Cuda(usize),
}

/// Parses a list of device names.
///
/// `threads` is the number of CPU workers, distributed over the CPU devices. `None` starts one for each core, at most
/// 32; with 0, the thread that collects computes the batches. `cuda_devices` returns the number of GPUs.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a contradictory list, [`ErrorKind::Device`] for a device that this machine lacks.
pub fn parse_devices(
    names: &[String],
    threads: Option<usize>,
    cuda_devices: &dyn Fn() -> usize,
) -> Result<Vec<DeviceConfig>> {
    let names = match names {
        [] => return Err(Error::new(ErrorKind::InvalidArgument, "devices is empty; name at least one, or \"auto\"")),
        [only] if only == "auto" => automatic(cuda_devices()),
        _ => names.to_vec(),
    };
    let parsed = names.iter().map(|name| parse_name(name, cuda_devices)).collect::<Result<Vec<_>>>()?;
    check_cpus(&names, &parsed)?;
    let cpus = parsed.iter().filter(|name| matches!(name, ParsedName::Cpu(_))).count();
    let threads = threads.unwrap_or_else(|| cores().min(MAX_THREADS));
    // At least one each, unless there are none.
    let share = |cpu: usize| (threads / cpus + usize::from(cpu < threads % cpus)).max(threads.min(1));
    let mut next = 0..;
    let config = |(name, parsed): (String, ParsedName)| match parsed {
        ParsedName::Cpu(_) => DeviceConfig::Cpu { name, workers: share(next.next().unwrap_or(0)) },
        ParsedName::Cuda(index) => DeviceConfig::Cuda { name: format!("cuda:{index}"), index },
    };
    Ok(names.into_iter().zip(parsed).map(config).collect())
}

fn automatic(cuda_devices: usize) -> Vec<String> {
    if cuda_devices == 0 {
        return vec!["cpu".to_owned()];
    }
    (0..cuda_devices).map(|index| format!("cuda:{index}")).collect()
}

fn parse_name(name: &str, cuda_devices: &dyn Fn() -> usize) -> Result<ParsedName> {
    let unknown = || {
        let forms = "expected \"auto\" alone, or any of \"cpu\", \"cpu:N\", \"cuda\", \"cuda:N\"";
        Error::new(ErrorKind::Device, format!("unknown device {name:?}; {forms}"))
    };
    let (kind, index) = match name.split_once(':') {
        // Rust parses "+1" and "01" as numbers too.
        Some((kind, index))
            if index.bytes().all(|byte| byte.is_ascii_digit()) && (index.len() == 1 || !index.starts_with('0')) =>
        {
            (kind, Some(index.parse::<usize>().map_err(|_| unknown())?))
        }
        Some(_) => return Err(unknown()),
        None => (name, None),
    };
    match kind {
        "cpu" => Ok(ParsedName::Cpu(index)),
        "cuda" => {
            let index = index.unwrap_or(0);
            let there = match cuda_devices() {
                0 => "this machine has no CUDA device; use \"cpu\"".to_owned(),
                count if index < count => return Ok(ParsedName::Cuda(index)),
                1 => "this machine has only \"cuda:0\"".to_owned(),
                count => format!("this machine has \"cuda:0\" to \"cuda:{}\"", count - 1),
            };
            Err(Error::new(ErrorKind::Device, format!("no device {name:?}: {there}")))
        }
        _ => Err(unknown()),
    }
}

/// `cpu` is all cores and `cpu:N` a share of them, so no name may repeat, and the two forms exclude each other.
fn check_cpus(names: &[String], meanings: &[ParsedName]) -> Result<()> {
    let cpus: Vec<(&String, Option<usize>)> = names
        .iter()
        .zip(meanings)
        .filter_map(|(name, meaning)| match meaning {
            ParsedName::Cpu(index) => Some((name, *index)),
            ParsedName::Cuda(_) => None,
        })
        .collect();
    for (place, (name, index)) in cpus.iter().enumerate() {
        if cpus[..place].iter().any(|(_, earlier)| earlier == index) {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("device {name:?} is named twice")));
        }
        if index.is_none() && cpus.iter().any(|(_, other)| other.is_some()) {
            let message = "device \"cpu\" is all cores and excludes \"cpu:N\"; name \"cpu:0\", \"cpu:1\" and so on";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str], threads: usize, cuda_devices: usize) -> Result<Vec<DeviceConfig>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        parse_devices(&names, (threads > 0).then_some(threads), &|| cuda_devices)
    }

    #[test]
    fn wrong_devices_are_named() {
        use ErrorKind::{Device, InvalidArgument};
        let cases: &[(&[&str], usize, ErrorKind, &[&str])] = &[
            (&[], 0, InvalidArgument, &["empty", "auto"]),
            (&["tpu"], 0, Device, &["\"tpu\"", "\"cuda:N\""]),
            (&["CPU"], 0, Device, &["\"CPU\""]),
            (&["cpu:"], 0, Device, &["\"cpu:\""]),
            (&["cpu:-1"], 0, Device, &["\"cpu:-1\""]),
            (&["cpu:+1"], 0, Device, &["\"cpu:+1\""]),
            (&["cuda:01"], 4, Device, &["\"cuda:01\""]),
            (&["cuda:99999999999999999999999"], 4, Device, &["unknown device"]),
            (&["mps:0"], 0, Device, &["\"mps:0\""]),
            (&["auto", "cpu"], 0, Device, &["\"auto\" alone"]),
            (&["cuda"], 0, Device, &["\"cuda\"", "this machine has no CUDA device; use \"cpu\""]),
            (&["cuda:1"], 1, Device, &["\"cuda:1\"", "only \"cuda:0\""]),
            (&["cuda:4"], 4, Device, &["\"cuda:0\" to \"cuda:3\""]),
            (&["cpu", "cpu"], 0, InvalidArgument, &["\"cpu\" is named twice"]),
            (&["cpu:1", "cpu:1"], 0, InvalidArgument, &["\"cpu:1\" is named twice"]),
            (&["cpu", "cpu:1"], 0, InvalidArgument, &["\"cpu\" is all cores"]),
            (&["cpu:1", "cpu"], 0, InvalidArgument, &["\"cpu\" is all cores"]),
        ];
        for (names, cuda_devices, kind, words) in cases {
            let error = places(names, 1, *cuda_devices).expect_err("the devices are wrong");
            assert_eq!(error.kind(), *kind, "{error}");
            words.iter().for_each(|word| assert!(error.message().contains(word), "{error:?} does not say {word:?}"));
        }
    }

    #[test]
    fn threads_are_shared_out() {
        let cpu = |name: &str, workers| DeviceConfig::Cpu { name: name.to_owned(), workers };
        let cuda = |index| DeviceConfig::Cuda { name: format!("cuda:{index}"), index };
        assert_eq!(places(&["cpu"], 5, 0).unwrap(), [cpu("cpu", 5)]);
        assert_eq!(places(&["cpu:0", "cpu:1"], 5, 0).unwrap(), [cpu("cpu:0", 3), cpu("cpu:1", 2)]);
        assert_eq!(places(&["cpu:7", "cpu:2"], 1, 0).unwrap(), [cpu("cpu:7", 1), cpu("cpu:2", 1)]);
        assert_eq!(places(&["auto"], 2, 0).unwrap(), [cpu("cpu", 2)]);
        assert_eq!(places(&["auto"], 2, 2).unwrap(), [cuda(0), cuda(1)]);
        assert_eq!(places(&["cuda", "cuda:0", "cpu"], 2, 1).unwrap(), [cuda(0), cuda(0), cpu("cpu", 2)]);
        assert!(matches!(&places(&["cpu"], 0, 0).unwrap()[..], [DeviceConfig::Cpu { workers: 1..=32, .. }]));
        let names = ["cpu:0", "cpu:1"].map(str::to_owned);
        assert_eq!(parse_devices(&names, Some(0), &|| 0).unwrap(), [cpu("cpu:0", 0), cpu("cpu:1", 0)]);
    }
}
