//! The memory of a request: its body, the texts that it names in place of sending them, and its answer.
//!
//! Bodies and texts share `--max-queue-bytes`. Answers have as much for themselves, so that clients that read slowly
//! can refuse large answers to others, but no request.

use std::sync::{Arc, Mutex};

use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::failure::{Cause, Failure, overloaded};
use crate::http::unread_bodies::BodyMemory;
use crate::settings::Settings;

/// The memory that all requests share.
#[derive(Clone)]
pub(crate) struct SharedMemory {
    bodies: BodyMemory,
    /// One permit for each KiB.
    answers: Arc<Semaphore>,
    max_bytes: usize,
}

/// The memory of one request, until the last of its work has ended.
#[derive(Clone)]
pub(crate) struct RequestMemory {
    shared: SharedMemory,
    held: Arc<Mutex<OwnedSemaphorePermit>>,
}

impl SharedMemory {
    pub(crate) fn new(settings: &Settings, bodies: BodyMemory) -> Self {
        let max_bytes = settings.max_queue_bytes;
        let answers = Arc::new(Semaphore::new((max_bytes / 1024).min(Semaphore::MAX_PERMITS / 4)));
        Self { bodies, answers, max_bytes }
    }

    /// The memory of a request whose body is there.
    pub(crate) fn of_request(&self, body: OwnedSemaphorePermit) -> RequestMemory {
        RequestMemory { shared: self.clone(), held: Arc::new(Mutex::new(body)) }
    }
}

impl RequestMemory {
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
        lock(&self.held).merge(more);
        Ok(())
    }

    /// Bytes of the body and of the texts that the request names, in whole KiB.
    pub(crate) fn held_bytes(&self) -> usize {
        lock(&self.held).num_permits() * 1024
    }

    /// Memory for a part of an answer, until its client has read it.
    pub(crate) fn reserve_answer(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let full = |_| overloaded("the answers that clients are reading have reached their limit; try again");
        Arc::clone(&self.shared.answers).try_acquire_many_owned(kibibytes).map_err(full)
    }

    /// The most bytes of an answer: half, so that one large answer does not refuse all others.
    pub(crate) const fn max_answer_bytes(&self) -> usize {
        self.shared.max_bytes / 2
    }
}
