//! Threads in native sections: in Rust without Python's lock and about to take it again, or in Python called from Rust.
//!
//! Before 3.14, an ending interpreter unwinds each thread that takes its lock. Rust's frames do not survive that, and
//! the process aborts. So before the interpreter ends, `_engine/handle.py` closes every engine and waits until these
//! threads have left; others do not enter.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Threads in native sections, and `ENDING`. An atomic, not a lock: a fork's child has none of the threads that could
/// hold a lock.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Set from `wait_for_threads` on: the interpreter is about to end.
const ENDING: usize = 1 << (usize::BITS - 1);

/// The thread that ends the interpreter, which alone may still enter.
static ENDING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Between two checks in `wait_for_threads`, which runs once in a process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

thread_local! {
    /// The sections that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A native section, until it is dropped.
pub(crate) struct NativeSection {
    is_of_thread: bool,
}

impl NativeSection {
    /// For a thread that holds Python's lock. If the interpreter is ending, a thread that is in no section never
    /// returns from here, as none returns from taking the lock with Python 3.14.
    pub(crate) fn enter(py: Python<'_>) -> Self {
        let is_outer = DEPTH.get() == 0;
        let section = Self::enter_unattached();
        let is_ending = THREADS.load(Ordering::SeqCst) & ENDING != 0;
        if !is_outer || !is_ending || ENDING_THREAD.get() == Some(&std::thread::current().id()) {
            return section;
        }
        drop(section);
        py.detach(|| {
            loop {
                std::thread::park();
            }
        })
    }

    /// For a thread that may not hold the lock, and has to take it to run Python.
    pub(crate) fn enter_unattached() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        THREADS.fetch_add(1, Ordering::SeqCst);
        Self { is_of_thread: true }
    }

    /// For a thread that is going to take the lock.
    pub(crate) fn for_another_thread() -> Self {
        THREADS.fetch_add(1, Ordering::SeqCst);
        Self { is_of_thread: false }
    }
}

impl Drop for NativeSection {
    fn drop(&mut self) {
        if self.is_of_thread {
            DEPTH.set(DEPTH.get() - 1);
        }
        // A fork resets the count, so a section that began before the fork is no longer counted.
        let left = |threads| (threads & !ENDING > 0).then(|| threads - 1);
        let _ = THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
    }
}

/// Lets no other thread enter a section with Python's lock, and waits until none is in one, at most `seconds`. Returns
/// whether none is.
#[pyfunction]
pub(crate) fn wait_for_threads(py: Python<'_>, seconds: f64) -> bool {
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| {
        let began = Instant::now();
        ENDING_THREAD.get_or_init(|| std::thread::current().id());
        THREADS.fetch_or(ENDING, Ordering::SeqCst);
        while THREADS.load(Ordering::SeqCst) != ENDING {
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
