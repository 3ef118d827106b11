//! Longer slices for the computing threads of a server, so that any thread that wakes up goes before them.
//!
//! Linux lets a running thread end its slice before one of higher priority that woke up, unless the latter's slices are
//! shorter (since 6.12; older kernels ignore them). Where more threads than cores compute, that is a few milliseconds at
//! most hand-overs of a small request (`bench/small_requests.py`). A system call of its own, as no library offers it.

/// Nanoseconds. The kernel's own slices have 2.8 milliseconds at most.
const SLICE: u64 = 10_000_000;
/// Bytes of the attributes, by which the kernel knows their version.
const SIZE: u32 = 48;

/// Makes the calling thread's slices long; `nice` is its priority, which the call sets too.
#[cfg(target_os = "linux")]
pub(crate) fn lengthen(nice: i32) {
    let attributes = libc::sched_attr {
        size: SIZE,
        sched_policy: libc::SCHED_OTHER.unsigned_abs(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads the attributes, of the size that they name, before the call returns. 0 is this thread.
    // After an error, the thread keeps its slices.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn lengthen(_: i32) {}
