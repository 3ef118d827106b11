//! The priority of threads that compute for long.
//!
//! A library leaves its threads at the host's priority. In a server, threads that compute large texts and batches would
//! keep those that read and answer small requests waiting for a slice of the scheduler at each of their hand-overs.
//! A lower priority lets a thread that wakes up go first, and longer slices let it go at once (`bench/small_requests.py`);
//! `SCHED_BATCH` did neither.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::{panic, thread};

use crate::runtime::sync::lock;

/// The nice value of this process's computing threads.
static NICE: AtomicI32 = AtomicI32::new(UNCHANGED);

const UNCHANGED: i32 = i32::MIN;

/// Makes the calling thread's slices longer, if the process can; takes its nice value.
static LENGTHEN_SLICES: OnceLock<fn(i32)> = OnceLock::new();

/// Makes the nice value of this process's computing threads that of the calling thread and `more`.
pub fn set_nice(more: i32) {
    NICE.store(own_nice().filter(|_| more > 0).map_or(UNCHANGED, |own| own + more), Ordering::Relaxed);
}

/// Sets what makes the slices of computing threads longer, which takes unsafe code.
pub fn set_longer_slices(lengthen: fn(i32)) {
    let _ = LENGTHEN_SLICES.set(lengthen);
}

/// Lowers the calling thread's priority for the rest of its life: without a privilege, no thread can raise it again.
/// The threads that it starts inherit it.
pub fn lower() {
    thread_local! {
        static IS_LOWER: Cell<bool> = const { Cell::new(false) };
    }
    let nice = NICE.load(Ordering::Relaxed);
    if nice != UNCHANGED && !IS_LOWER.replace(true) {
        set_own_nice(nice);
        if let Some(lengthen) = LENGTHEN_SLICES.get() {
            lengthen(nice);
        }
    }
}

/// Runs `work` on a thread of its own with lower priority, and waits for it. Here, if there is no need or no thread.
#[expect(clippy::missing_panics_doc, reason = "only what `work` raises")]
pub fn run_lower<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if NICE.load(Ordering::Relaxed) == UNCHANGED {
        return work();
    }
    let work = Mutex::new(Some(work));
    let run = || {
        let work = lock(&work).take().expect("one thread runs the work, once");
        work()
    };
    thread::scope(|scope| {
        let run_lower = || {
            lower();
            run()
        };
        match thread::Builder::new().name("pullquote-large".to_owned()).spawn_scoped(scope, run_lower) {
            Ok(thread) => thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload)),
            Err(_) => run(),
        }
    })
}

// Linux takes the calling thread for the process that is not named. Elsewhere, it would be the whole process.

#[cfg(target_os = "linux")]
fn own_nice() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

#[cfg(target_os = "linux")]
fn set_own_nice(nice: i32) {
    // After an error, the thread keeps its priority.
    let _ = rustix::process::setpriority_process(None, nice);
}

#[cfg(not(target_os = "linux"))]
const fn own_nice() -> Option<i32> {
    None
}

#[cfg(not(target_os = "linux"))]
const fn set_own_nice(_: i32) {}
