//! The engine's own rayon pool, for text only.
//!
//! It is built for the first page that is large enough to need it. This library never uses rayon's global pool, which
//! belongs to the host: [`map`] runs serially outside this pool. No encoder is called from here; the reason is in
//! `docs/decisions/0003-one-thread-owns-every-device.md`.

use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::affinity::{CpuAffinity, available_threads};
use crate::runtime::call::{Call, Check};
use crate::runtime::priority;

/// More threads speed text up no further and cost the host; llguidance caps its pool at the same number.
pub const MAX_THREADS: usize = 32;

/// Texts up to this size run on the caller's thread.
const INLINE_BYTES: usize = 64 * 1024;

/// A rayon pool that starts its threads on first use.
#[derive(Debug)]
pub struct TextPool {
    threads: usize,
    cores: CpuAffinity,
    built: OnceLock<ThreadPool>,
}

impl TextPool {
    /// `None` takes [`available_threads`]; at most [`MAX_THREADS`].
    pub fn new(threads: Option<usize>) -> Self {
        let threads = threads.unwrap_or_else(available_threads).clamp(1, MAX_THREADS);
        Self { threads, cores: CpuAffinity::default(), built: OnceLock::new() }
    }

    /// Takes effect only before the threads start.
    pub(crate) fn set_affinity(&mut self, cores: CpuAffinity) {
        self.cores = cores;
    }

    /// The number of threads, started or not.
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` over `bytes` bytes of text: on the pool while the caller's thread polls for interrupts, or inline if
    /// they are few. `work` must call its check, which ends when the call does.
    ///
    /// # Errors
    /// Errors of `work`; [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`] if the caller gives up first.
    pub fn run<R: Send>(&self, call: &Call, bytes: usize, work: impl FnOnce(&Check) -> Result<R> + Send) -> Result<R> {
        if bytes <= INLINE_BYTES || self.threads == 1 {
            call.check()?;
            return work(&call.own_checker());
        }
        let pool = self.pool()?;
        let check = call.checker();
        let (done, result) = sync_channel(1);
        pool.in_place_scope(|scope| {
            scope.spawn(move |_| {
                // The receiver outlives the scope.
                let _ = done.send(work(&check));
            });
            let mut stopped = Ok(());
            loop {
                match result.recv_timeout(call.poll_interval()) {
                    Ok(result) => return stopped.and(result),
                    Err(RecvTimeoutError::Timeout) if stopped.is_ok() => stopped = call.check(),
                    Err(RecvTimeoutError::Timeout) => {
                        // Already stopped. The work ends at its next poll of the stop handle.
                        if let Ok(result) = result.recv() {
                            return stopped.and(result);
                        }
                    }
                    // The work panicked. rayon resumes the panic when the scope ends.
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
                move |_| {
                    // `CpuAffinity::new` checked these cores.
                    drop(cores.apply());
                    priority::lower();
                }
            })
            .build()
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no threads for the text pool: {error}")))?;
        // If two callers race here, the second pool is dropped unused.
        Ok(self.built.get_or_init(|| pool))
    }
}

/// Maps items in order: in parallel inside a [`TextPool`], serially outside.
pub fn map<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> Result<R> + Send + Sync) -> Result<Vec<R>> {
    if items.len() < 2 || rayon::current_thread_index().is_none() {
        return items.iter().map(each).collect();
    }
    items.par_iter().map(each).collect()
}
