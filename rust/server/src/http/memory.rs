//! The memory of a request: its body, the texts that it names in place of sending them, and its answer.
//!
//! Bodies and texts share `--max-queue-bytes`. Answers have as much for themselves, so that clients that read slowly
//! can refuse large answers to others, but no request.

use std::sync::{Arc, Mutex};

use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::http::failure::{Cause, Failure, overloaded};
use crate::http::process_memory::kibibytes;
use crate::http::unread_bodies::BodyMemory;
use crate::http::work_memory::{FREE_WORK, WorkMemory};
use crate::settings::Settings;

/// Bytes of each answer that do not count: those of all connections together are little, and small answers never wait
/// for clients that read slowly.
pub(crate) const FREE_BYTES: usize = 64 * 1024;

/// The memory that all requests share.
#[derive(Clone)]
pub(crate) struct SharedMemory {
    bodies: BodyMemory,
    /// One permit for each KiB.
    answers: Arc<Semaphore>,
    work: WorkMemory,
    max_bytes: usize,
}

/// The memory of one request, until the last of its work has ended.
#[derive(Clone)]
pub(crate) struct RequestMemory {
    shared: SharedMemory,
    /// Of the body, and of each text.
    held: Arc<Mutex<Vec<OwnedSemaphorePermit>>>,
}

impl SharedMemory {
    pub(crate) fn new(settings: &Settings, bodies: BodyMemory) -> Self {
        let max_bytes = settings.max_queue_bytes;
        let answers = Arc::new(Semaphore::new((max_bytes / 1024).min(Semaphore::MAX_PERMITS / 4)));
        Self { bodies, answers, work: WorkMemory::new(settings), max_bytes }
    }

    /// The memory of a request whose body is there.
    pub(crate) fn of_request(&self, body: OwnedSemaphorePermit) -> RequestMemory {
        RequestMemory { shared: self.clone(), held: Arc::new(Mutex::new(vec![body])) }
    }
}

impl RequestMemory {
    /// Memory for running the request, until its work has ended.
    pub(crate) async fn acquire_work(
        &self,
        multiple: usize,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Failure> {
        self.shared.work.acquire(self.held_bytes(), multiple, deadline).await
    }

    /// Memory for work on this number of bytes, without waiting.
    pub(crate) fn try_acquire_work(&self, bytes: usize, multiple: usize) -> Result<OwnedSemaphorePermit, Failure> {
        self.shared.work.try_acquire(bytes, multiple)
    }

    /// The same, or none for little work: small requests do not wait for large ones.
    pub(crate) fn try_acquire_large_work(
        &self,
        bytes: usize,
        multiple: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        let is_large = bytes.saturating_mul(multiple) > FREE_WORK;
        is_large.then(|| self.try_acquire_work(bytes, multiple)).transpose()
    }

    /// Memory for a text that the request names.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Failure> {
        let most = self.shared.max_bytes;
        if self.held_bytes().saturating_add(bytes) > most {
            let message = format!(
                "the request and the texts that it names have more than {most} bytes, which is --max-queue-bytes; name fewer"
            );
            return Err(Failure::new(Cause::Core(ErrorKind::LimitExceeded), message));
        }
        let more = self.shared.bodies.reserve(bytes)?;
        lock(&self.held).push(more);
        Ok(())
    }

    /// Bytes of the body and of the texts that the request names, in whole KiB.
    pub(crate) fn held_bytes(&self) -> usize {
        lock(&self.held).iter().map(OwnedSemaphorePermit::num_permits).sum::<usize>() * 1024
    }

    /// Memory for a part of an answer, until its client has read it.
    pub(crate) fn reserve_answer(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let full = |_| overloaded("the answers that clients are reading have reached their limit; try again");
        Arc::clone(&self.shared.answers).try_acquire_many_owned(kibibytes(bytes)).map_err(full)
    }

    /// Memory for vectors, which are made as a whole.
    pub(crate) fn reserve_vectors(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        (bytes > FREE_BYTES).then(|| self.reserve_answer(bytes)).transpose()
    }

    /// The most bytes of an answer: half, so that one large answer does not refuse all others.
    pub(crate) const fn max_answer_bytes(&self) -> usize {
        self.shared.max_bytes / 2
    }
}
