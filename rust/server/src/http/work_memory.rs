//! Memory for running requests. A request waits until the memory that it may need is free, so that many large requests
//! together cannot exhaust the process.
//!
//! What a request needs is not known before it runs, so it counts at the most that any text needs ([`TEXT`]). Small
//! requests have a share of their own, and never wait for large ones.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::http::failure::{Cause, Failure, internal, overloaded, too_late};
use crate::http::process_memory::{self, kibibytes};
use crate::settings::Settings;
use pullquote_core::error::ErrorKind;

/// Bytes of memory for a byte of text that is cut, tokenized and ranked.
pub(crate) use pullquote_core::engine::MEMORY_OF_TEXT as TEXT;

/// The same for each query after the first.
pub(crate) const QUERY: usize = 24;

/// The same for a byte that is parsed and stored, or handed to a process.
pub(crate) const STORED: usize = 8;

/// The same for a byte that becomes a tree of JSON.
pub(crate) const PARSED: usize = 64;

/// Memory of work that comes up while a request runs, and does not count.
pub(crate) const FREE_WORK: usize = 4 * 1024 * 1024;

/// Requests of up to this many bytes are small.
pub(crate) const SMALL_BYTES: usize = 64 * 1024;

/// The share of small requests.
const SMALL_SHARE: usize = 8;

/// Memory of the process besides requests: the model, its workers and stacks, the page cache.
const PROCESS_BYTES: usize = 512 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct WorkMemory {
    /// One permit for each KiB.
    large: Arc<Semaphore>,
    small: Arc<Semaphore>,
    large_bytes: usize,
    small_bytes: usize,
}

impl WorkMemory {
    pub(crate) fn new(settings: &Settings) -> Self {
        let limit = settings.max_memory_bytes.or_else(process_memory::limit).unwrap_or(usize::MAX);
        // Bodies and answers have memory of their own.
        let others = settings.max_queue_bytes.saturating_mul(2).saturating_add(PROCESS_BYTES);
        Self::of(limit.saturating_sub(others).max(limit / 4))
    }

    fn of(bytes: usize) -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS / 4);
        let small_bytes = bytes / SMALL_SHARE;
        let large_bytes = bytes - small_bytes;
        let semaphore = |bytes: usize| Arc::new(Semaphore::new(bytes.div_ceil(1024)));
        Self { large: semaphore(large_bytes), small: semaphore(small_bytes), large_bytes, small_bytes }
    }

    /// Waits for the memory of a request of this many bytes.
    pub(crate) async fn acquire(
        &self,
        bytes: usize,
        multiple: usize,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        let work = bytes.saturating_mul(multiple);
        let (pool, permits) = if bytes <= SMALL_BYTES {
            (&self.small, kibibytes(work.min(self.small_bytes)))
        } else {
            self.check(bytes, work)?;
            (&self.large, kibibytes(work))
        };
        match timeout_at(deadline, Arc::clone(pool).acquire_many_owned(permits)).await {
            Ok(memory) => memory.map_err(|_| internal("the memory of requests was closed")),
            Err(_) => Err(too_late("the request's timeout passed while it waited for memory")),
        }
    }

    /// Memory for texts that a running request names, which must not wait.
    pub(crate) fn try_acquire(&self, bytes: usize, multiple: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let work = bytes.saturating_mul(multiple);
        self.check(bytes, work)?;
        let full = |_| overloaded("running requests need all memory; try again");
        Arc::clone(&self.large).try_acquire_many_owned(kibibytes(work)).map_err(full)
    }

    fn check(&self, bytes: usize, work: usize) -> Result<(), Failure> {
        if work <= self.large_bytes {
            return Ok(());
        }
        let message = format!(
            "a request of {bytes} bytes may need {work} bytes of memory, and this server has {} for all requests \
             (--max-memory-bytes); send fewer or shorter texts at once",
            self.large_bytes
        );
        Err(Failure::new(Cause::Core(ErrorKind::LimitExceeded), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::FutureExt;
    use std::time::Duration;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn large_requests_wait_for_each_other_and_small_ones_for_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let memory = WorkMemory::of(8 * TEXT * MIB);
            let later = Instant::now() + Duration::from_secs(60);
            let acquire = |bytes| Box::pin(memory.acquire(bytes, TEXT, later));
            let first = acquire(4 * MIB).await.unwrap();
            let mut second = acquire(4 * MIB);
            assert!((&mut second).now_or_never().is_none());
            let small: Vec<_> = (0..16).map(|_| acquire(SMALL_BYTES).now_or_never().unwrap().unwrap()).collect();
            assert!(acquire(SMALL_BYTES).now_or_never().is_none());
            assert!(memory.try_acquire(MIB, TEXT).is_err());
            drop((first, small));
            assert!(second.now_or_never().is_some_and(|memory| memory.is_ok()));
        });
    }

    #[test]
    fn request_that_never_fits_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let memory = WorkMemory::of(8 * TEXT * MIB);
        let refused = runtime.block_on(memory.acquire(8 * MIB, TEXT, Instant::now())).unwrap_err();
        assert_eq!(refused.cause, Cause::Core(ErrorKind::LimitExceeded));
        assert!(refused.message.contains("max-memory-bytes"), "{}", refused.message);
        assert!(runtime.block_on(memory.acquire(8 * MIB, STORED, Instant::now())).is_ok());
    }
}
