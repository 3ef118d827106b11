//! The engine's own rayon pool, for text and for nothing else.
//!
//! It is built when the first page is large enough to need it. Nothing in this library touches rayon's global pool, which
//! belongs to the host: [`map`] runs serially outside this pool. No encoder is ever called from here (see
//! `docs/decisions/0003-one-thread-owns-every-device.md`, "Why no rayon iterator surrounds an encoder call").

use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::affinity::{CpuAffinity, available_threads};
use crate::runtime::call::Call;

/// More threads than this bring text nothing, and cost the host (see llguidance, which caps at the same number).
pub const MAX_THREADS: usize = 32;

/// Bytes of text that are worth handing to other threads; less is done on the caller's.
const INLINE_BYTES: usize = 64 * 1024;

/// A lazily built pool of a fixed size.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    cores: CpuAffinity,
    built: OnceLock<ThreadPool>,
}

impl Pool {
    /// A pool of this many threads, or of as many as this process may have; at most [`MAX_THREADS`].
    #[must_use]
    pub fn new(threads: Option<usize>) -> Self {
        let threads = threads.unwrap_or_else(available_threads).clamp(1, MAX_THREADS);
        Self { threads, cores: CpuAffinity::default(), built: OnceLock::new() }
    }

    /// The same pool on certain cores.
    pub(crate) fn keep_on(&mut self, cores: CpuAffinity) {
        self.cores = cores;
    }

    /// How many threads it has, once it has any.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` over texts of so many bytes: on the pool, while the caller's thread looks around, or inline where
    /// there is little to do. `work` must look at the call's stop handle now and then.
    ///
    /// # Errors
    /// What `work` says; [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`] where the caller is done with it.
    pub fn run<R: Send>(&self, call: &Call, bytes: usize, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        if bytes <= INLINE_BYTES || self.threads == 1 {
            call.check()?;
            return work();
        }
        let pool = self.pool()?;
        let (done, result) = sync_channel(1);
        pool.in_place_scope(|scope| {
            scope.spawn(move |_| {
                // The receiver outlives the scope.
                let _ = done.send(work());
            });
            let mut stopped = Ok(());
            loop {
                match result.recv_timeout(call.patience()) {
                    Ok(result) => return stopped.and(result),
                    Err(RecvTimeoutError::Timeout) if stopped.is_ok() => stopped = call.check(),
                    Err(RecvTimeoutError::Timeout) => {
                        // Already stopped; the work ends at its next look at the stop handle.
                        if let Ok(result) = result.recv() {
                            return stopped.and(result);
                        }
                    }
                    // The work panicked; rayon hands the panic on when the scope ends.
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::new(ErrorKind::Internal, "work on a page's text panicked"));
                    }
                }
            }
        })
    }

    fn pool(&self) -> Result<&ThreadPool> {
        if let Some(pool) = self.built.get() {
            return Ok(pool);
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(self.threads)
            .thread_name(|index| format!("pullquote-text:{index}"))
            .start_handler({
                let cores = self.cores.clone();
                // They were tried when the engine was made.
                move |_| drop(cores.apply())
            })
            .build()
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no threads for the text pool: {error}")))?;
        // Where two callers were first at once, one of the two pools is dropped unused.
        Ok(self.built.get_or_init(|| pool))
    }
}

/// Maps items in order: side by side inside a [`Pool`], one after the other outside.
///
/// # Errors
/// The error of one of the items.
pub fn map<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> Result<R> + Send + Sync) -> Result<Vec<R>> {
    if items.len() < 2 || rayon::current_thread_index().is_none() {
        return items.iter().map(each).collect();
    }
    items.par_iter().map(each).collect()
}
