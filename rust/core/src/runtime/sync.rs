//! What the hand-written synchronization is made of: locks, conditions, flags and threads.
//!
//! They are the standard library's. With the feature `loom`, which is for tests alone, they are loom's, and the models beside
//! the code (`vectors/models.rs`, `tasks/models.rs`) run that very code in every order in which its threads may come. Counts
//! of references stay the standard library's, and so does what only counts or keeps ([`crate::runtime::call`]'s progress, the cache).
//!
//! In a model no wait ever times out: whoever is not woken sleeps for ever, and loom says so. So the models also prove that
//! looking around now and then hides no lost call.

#[cfg(feature = "loom")]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, Ordering},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
