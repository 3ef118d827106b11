//! Threads that are inside: in Rust without Python's lock, and about to ask for it again; or in Python, called from Rust.
//!
//! Before 3.14 an interpreter that ends stops each thread that asks for its lock by unwinding it, which Rust's frames do not
//! survive: the process is aborted. So before it ends, every engine is closed, and their threads are given the time to leave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// No lock guards it: a fork may come at any moment, and its child has none of the threads that could hold one.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// How often who waits for others to leave looks for them; it happens once in a process.
const LOOK: Duration = Duration::from_millis(1);

/// Being inside, until it is dropped.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // In a fork the number begins again, and who was inside leaves what is not counted any more.
        let _ = INSIDE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inside| inside.checked_sub(1));
    }
}

/// Waits until no thread is inside, at most so many seconds; whether none is.
#[pyfunction]
pub(crate) fn wait_for_threads(py: Python<'_>, seconds: f64) -> bool {
    let longest = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| {
        let began = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 {
            if began.elapsed() >= longest {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    })
}

/// In a fork: the threads that were inside are not here.
#[pyfunction]
pub(crate) fn forget_threads() {
    INSIDE.store(0, Ordering::SeqCst);
}
