//! Locks, condition variables, flags and threads of the hand-written synchronization.
//!
//! They are the standard library's. With the feature `loom`, for tests only, they are loom's, and the models
//! (`scheduler/loom_models.rs`, `tasks/loom_models.rs`) run the real code in every order of its threads. `Arc`, counters
//! ([`crate::runtime::call`]'s progress) and the cache stay on the standard library.
//!
//! In a model no wait times out: a thread that misses its wake-up sleeps forever, and loom reports it. So the models
//! also prove that the periodic checks hide no lost wake-up.

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

/// Locks a mutex none of whose holders panics halfway through a change, so that a panic poisons nothing.
pub fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
