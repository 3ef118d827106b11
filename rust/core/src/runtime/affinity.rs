//! Cores: how many threads this process may have, and on which cores an engine's threads run.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// How many threads the system and the user allow: the cores that this process may run on (its affinity, and what its
/// control groups leave it), and no more than `OMP_NUM_THREADS`, by which schedulers say how many a process has.
#[must_use]
pub fn available_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let said = std::env::var("OMP_NUM_THREADS").ok();
    cores.min(said.as_deref().and_then(first_number).unwrap_or(usize::MAX))
}

/// The number of threads on the outermost level, which is the one that is ours.
fn first_number(list: &str) -> Option<usize> {
    list.split(',').next()?.trim().parse().ok().filter(|threads| *threads > 0)
}

/// The cores that threads of an engine run on; those of whoever starts them where there are none.
#[derive(Clone, Debug, Default)]
pub struct CpuAffinity(Option<Arc<[usize]>>);

impl CpuAffinity {
    /// These cores.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where this process cannot run on them, or where this system does not let one choose.
    pub fn new(cores: &[usize]) -> Result<Self> {
        let cores = Self(Some(cores.into()));
        let to_try = cores.clone();
        let attempt = std::thread::spawn(move || to_try.apply());
        attempt.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "choosing cores panicked")))?;
        Ok(cores)
    }

    /// Keeps the calling thread on these cores from now on.
    ///
    /// # Errors
    /// As [`CpuAffinity::new`].
    pub fn apply(&self) -> Result<()> {
        let Some(cores) = &self.0 else { return Ok(()) };
        set_affinity(cores).map_err(|why| {
            Error::new(ErrorKind::InvalidArgument, format!("threads cannot run on cores {cores:?}: {why}"))
        })
    }
}

#[cfg(target_os = "linux")]
fn set_affinity(cores: &[usize]) -> std::result::Result<(), String> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for core in cores {
        if *core >= CpuSet::MAX_CPU {
            return Err(format!("there is no core {core}"));
        }
        set.set(*core);
    }
    sched_setaffinity(None, &set).map_err(|error| error.to_string())
}

#[cfg(not(target_os = "linux"))]
fn set_affinity(_: &[usize]) -> std::result::Result<(), String> {
    Err("this system does not let a library choose".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_number_of_threads_is_ours() {
        assert_eq!(first_number("4"), Some(4));
        assert_eq!(first_number(" 3, 2"), Some(3));
        assert_eq!(first_number("0"), None);
        assert_eq!(first_number("many"), None);
    }

    #[test]
    fn cores_that_are_not_there_are_refused() {
        assert_eq!(CpuAffinity::new(&[100_000]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(CpuAffinity::new(&[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
