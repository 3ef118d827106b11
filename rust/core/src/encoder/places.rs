//! Devices, from the names that people write.
//!
//! Names are checked here, once: each place that comes out exists. The number of cards is asked for only where a name needs
//! it, because asking for CUDA may load drivers.

use crate::error::{Error, ErrorKind, Result};

/// More threads than this bring a small model nothing.
const MAX_THREADS: usize = 32;

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
    let threads = threads.unwrap_or_else(|| cores().min(MAX_THREADS));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn places(names: &[&str], threads: usize, cuda_devices: usize) -> Result<Vec<Place>> {
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
        let cpu = |name: &str, workers| Place::Cpu { name: name.to_owned(), workers, depth: workers + 1 };
        let cuda = |index| Place::Cuda { name: format!("cuda:{index}"), index };
        assert_eq!(places(&["cpu"], 5, 0).unwrap(), [cpu("cpu", 5)]);
        assert_eq!(places(&["cpu:0", "cpu:1"], 5, 0).unwrap(), [cpu("cpu:0", 3), cpu("cpu:1", 2)]);
        assert_eq!(places(&["cpu:7", "cpu:2"], 1, 0).unwrap(), [cpu("cpu:7", 1), cpu("cpu:2", 1)]);
        assert_eq!(places(&["auto"], 2, 0).unwrap(), [cpu("cpu", 2)]);
        assert_eq!(places(&["auto"], 2, 2).unwrap(), [cuda(0), cuda(1)]);
        assert_eq!(places(&["cuda", "cuda:0", "cpu"], 2, 1).unwrap(), [cuda(0), cuda(0), cpu("cpu", 2)]);
        assert!(matches!(&places(&["cpu"], 0, 0).unwrap()[..], [Place::Cpu { workers: 1..=32, .. }]));
    }

    #[test]
    fn without_threads_there_are_as_many_batches_as_cores() {
        let places = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            parse_devices(&names, Some(0), &|| 1).unwrap()
        };
        let cpu = |name: &str, depth| Place::Cpu { name: name.to_owned(), workers: 0, depth };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(places(&["cpu"]), [cpu("cpu", cores)]);
        let half = cores / 2;
        assert_eq!(places(&["cpu:0", "cpu:1"]), [cpu("cpu:0", cores - half), cpu("cpu:1", half.max(1))]);
        // Beside a card nobody can be counted on: whoever waits may wait for the card.
        assert_eq!(places(&["cuda", "cpu"])[1], cpu("cpu", 1));
    }
}
