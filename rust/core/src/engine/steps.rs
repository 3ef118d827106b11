//! Steps: a host drives the engine on its own thread, one round at a time, as vLLM's engine.
//!
//! A request is a future that waits between rounds. A step polls new requests and those whose vectors are back, runs
//! one round of the scheduler, and returns finished requests. Nothing here starts a thread or waits longer than
//! [`MAX_WAIT`]. Of an encoder without threads, each device computes at most two batches in a step, on the host's thread.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drivers::DrivenCall;
use super::{Answers, Engine, Question, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::{Call, CallProgress};

/// How long a step waits for a busy device. A later step collects what takes longer.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// How long a step polls requests before it runs the scheduler. The stage in progress ends first.
const POLL_TIME: Duration = Duration::from_millis(20);

/// An engine and its unfinished requests, which end with a `T` each.
pub struct Steps<T = Answers> {
    engine: Arc<Engine>,
    /// In the order of polling: by priority, then by arrival.
    requests: Vec<ActiveRequest<T>>,
}

struct ActiveRequest<T> {
    id: String,
    driven: DrivenCall<T>,
}

#[derive(Debug)]
pub struct Finished<T = Answers> {
    pub id: String,
    /// The request's error, unless the engine's process was forked.
    pub output: Result<T>,
    /// Work done, also for a failed request.
    pub progress: CallProgress,
}

impl<T: Send + 'static> Steps<T> {
    /// The engine must be [`Engine::stepped`].
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, requests: Vec::new() }
    }

    /// Adds a request of highlights, as [`Self::add_call`].
    ///
    /// # Errors
    /// As [`Self::add_call`], and as [`Engine::highlights`] for an invalid request.
    pub fn add<Text: AsRef<str> + Send + Sync + 'static>(
        &mut self,
        id: String,
        request: Request<Text>,
        question: Question,
        call: Call<'static>,
    ) -> Result<()>
    where
        T: From<Answers>,
    {
        request.check()?;
        self.add_call(id, call, |engine, call| async move {
            engine.highlights(&request, &question, &call).await.map(T::from)
        })
    }

    /// Adds a request whose work is a future of the engine. Requests of a lower priority run first. Work on it starts with
    /// the next step.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if an unfinished request has this id.
    pub fn add_call<F: Future<Output = Result<T>> + Send + 'static>(
        &mut self,
        id: String,
        call: Call<'static>,
        work: impl FnOnce(Arc<Engine>, Arc<Call<'static>>) -> F,
    ) -> Result<()> {
        self.engine.scheduler()?;
        if self.requests.iter().any(|request| request.id == id) {
            let message = format!("request {id:?} is not finished; give each unfinished request a name of its own");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let call = Arc::new(call);
        let future = work(Arc::clone(&self.engine), Arc::clone(&call));
        let index = self.requests.partition_point(|request| request.driven.priority() <= call.priority());
        self.requests.insert(index, ActiveRequest { id, driven: DrivenCall::new(call, future) });
        Ok(())
    }

    /// Cancels and removes requests; no step returns them. Unknown ids are ignored.
    pub fn abort(&mut self, ids: &[String]) {
        self.requests.retain(|request| !ids.contains(&request.id));
    }

    /// The number of requests that no step has returned.
    pub fn unfinished(&self) -> usize {
        self.requests.len()
    }

    /// Runs one round. Returns at once if no request can continue and no device is busy, else after a batch or
    /// `MAX_WAIT`.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]. A request's own error is in its [`Finished`].
    pub fn step(&mut self) -> Result<Vec<Finished<T>>> {
        self.engine.check_process()?;
        let mut finished = Vec::new();
        if self.requests.is_empty() {
            return Ok(finished);
        }
        self.poll_requests(&mut finished);
        // One round submits and collects. If no request can continue then, wait for a batch.
        if let Ok(scheduler) = self.engine.scheduler()
            && !self.requests.is_empty()
        {
            scheduler.step(Duration::ZERO);
            if finished.is_empty() && !self.is_any_woken() {
                scheduler.step(MAX_WAIT);
            }
        }
        self.poll_requests(&mut finished);
        Ok(finished)
    }

    fn is_any_woken(&self) -> bool {
        self.requests.iter().any(|request| request.driven.is_woken())
    }

    /// Polls woken requests in their order, for about [`POLL_TIME`].
    fn poll_requests(&mut self, finished: &mut Vec<Finished<T>>) {
        let began = Instant::now();
        let mut index = 0;
        while index < self.requests.len() {
            match self.requests[index].poll(began) {
                Some(output) => {
                    let ActiveRequest { id, driven } = self.requests.remove(index);
                    finished.push(Finished { id, output, progress: driven.progress() });
                }
                None => index += 1,
            }
        }
    }
}

impl<T> ActiveRequest<T> {
    fn poll(&mut self, began: Instant) -> Option<Result<T>> {
        if let Err(error) = self.driven.check() {
            return Some(Err(error));
        }
        while began.elapsed() < POLL_TIME && self.driven.is_woken() {
            if let Some(output) = self.driven.poll() {
                return Some(output);
            }
        }
        None
    }
}
