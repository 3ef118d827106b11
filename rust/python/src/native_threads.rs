//! Threads in native sections: in Rust without Python's lock and about to take it again, or in Python called from Rust.
//!
//! Before 3.14, an ending interpreter unwinds each thread that takes its lock. Rust's frames do not survive that, and
//! the process aborts. So before the interpreter ends, `_engine/handle.py` closes every engine and waits until these
//! threads have left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Threads in native sections. An atomic, not a lock: a fork's child has none of the threads that could hold a lock.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Between two checks in `wait_for_threads`, which runs once in a process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A native section, until it is dropped.
pub(crate) struct NativeSection(());

impl NativeSection {
    pub(crate) fn enter() -> Self {
        THREADS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for NativeSection {
    fn drop(&mut self) {
        // A fork resets the count, so a section that began before the fork is no longer counted.
        let _ = THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |threads| threads.checked_sub(1));
    }
}

/// Waits until no thread is in a native section, at most `seconds`. Returns whether none is.
#[pyfunction]
pub(crate) fn wait_for_threads(py: Python<'_>, seconds: f64) -> bool {
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| {
        let began = Instant::now();
        while THREADS.load(Ordering::SeqCst) > 0 {
            if began.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    })
}

/// Called in a fork's child, which has none of the parent's threads.
#[pyfunction]
pub(crate) fn forget_threads() {
    THREADS.store(0, Ordering::SeqCst);
}
