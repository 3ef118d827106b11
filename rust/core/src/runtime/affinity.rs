//! CPU affinity: the number of threads for this process, and the cores that an engine's threads run on.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// The number of threads to use: the cores in this process's affinity mask and cgroup quota, capped by
/// `OMP_NUM_THREADS`, which Slurm and other job schedulers set.
pub fn available_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = std::env::var("OMP_NUM_THREADS").ok();
    cores.min(limit.as_deref().and_then(outermost_level).unwrap_or(usize::MAX))
}

/// `OMP_NUM_THREADS` may list one count for each nesting level, as in `4,2`. Our threads are the outermost level.
fn outermost_level(list: &str) -> Option<usize> {
    list.split(',').next()?.trim().parse().ok().filter(|threads| *threads > 0)
}

/// The cores for an engine's threads. The default leaves each thread with the affinity it inherits.
#[derive(Clone, Debug, Default)]
pub struct CpuAffinity(Option<Arc<[usize]>>);

impl CpuAffinity {
    /// Checks that threads of this process can run on `cores`, by setting the affinity of a short-lived thread.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the process cannot run on these cores, or the platform has no call to set
    /// affinity.
    pub fn new(cores: &[usize]) -> Result<Self> {
        let cores = Self(Some(cores.into()));
        let to_try = cores.clone();
        let attempt = std::thread::spawn(move || to_try.apply());
        attempt.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "choosing cores panicked")))?;
        Ok(cores)
    }

    /// Sets the affinity of the calling thread.
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
    fn omp_num_threads_counts_the_outermost_level() {
        assert_eq!(outermost_level("4"), Some(4));
        assert_eq!(outermost_level(" 3, 2"), Some(3));
        assert_eq!(outermost_level("0"), None);
        assert_eq!(outermost_level("many"), None);
    }

    #[test]
    fn unknown_cores_are_invalid_arguments() {
        assert_eq!(CpuAffinity::new(&[100_000]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(CpuAffinity::new(&[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
