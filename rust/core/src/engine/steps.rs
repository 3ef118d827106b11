//! Steps: a host that drives the engine itself, a round at a time, on its own thread.
//!
//! A request is a call that waits between rounds. A step takes new requests in and those further whose vectors are back, lets
//! the scheduler do one round, and returns what is finished. Nothing here starts a thread or waits longer than [`WAIT`]. An
//! encoder that has no threads has the host's for two batches at most.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::{Answers, Engine, OwnedRequest, Question};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::{Call, Done};
use crate::runtime::sync::{AtomicBool, Ordering};

/// How long a step waits for a device that has work. What takes longer is looked for by the next step.
const WAIT: Duration = Duration::from_millis(50);

/// How long a step takes requests further before it lets the devices have what there is; it ends behind the stage it is in.
const TEXT: Duration = Duration::from_millis(20);

/// An engine, and the requests that its host has not heard the end of.
pub struct Steps {
    engine: Arc<Engine>,
    /// In the order in which they are taken further: by priority, then as they came.
    requests: Vec<Active>,
}

/// A request that has not ended.
struct Active {
    id: String,
    call: Arc<Call<'static>>,
    is_woken: Arc<Woken>,
    future: Pin<Box<dyn Future<Output = Result<Answers>> + Send>>,
}

/// Whether a request can be taken further.
struct Woken(AtomicBool);

/// How a request ended.
#[derive(Debug)]
pub struct Finished {
    /// The caller's name for it.
    pub id: String,
    /// What was found, or why nothing was.
    pub answers: Result<Answers>,
    /// How much of it was done, whatever came of it.
    pub done: Done,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Steps {
    /// Steps of an engine that is [driven by its callers](Engine::driven_by_callers).
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine, requests: Vec::new() }
    }

    /// Takes a request in; a call of a lower priority goes first. Nothing is done for it before the next step.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where a request of this name is unfinished; as [`Engine::highlights`] for what can be
    /// seen at once.
    pub fn add<Text: Deref<Target = str> + Send + Sync + 'static>(
        &mut self,
        id: String,
        asked: OwnedRequest<Text>,
        question: Question,
        call: Call<'static>,
    ) -> Result<()> {
        self.engine.scheduler()?;
        if self.requests.iter().any(|request| request.id == id) {
            let message = format!("request {id:?} is not finished; give each unfinished request a name of its own");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        asked.check()?;
        let call = Arc::new(call);
        let future = Box::pin(Arc::clone(&self.engine).answer_later(asked, question, Arc::clone(&call)));
        let is_woken = Arc::new(Woken(AtomicBool::new(true)));
        let place = self.requests.partition_point(|request| request.call.priority() <= call.priority());
        self.requests.insert(place, Active { id, call, is_woken, future });
        Ok(())
    }

    /// Lets go of requests, whatever of them is done; nothing is heard of them again. Names that are not there are nothing.
    pub fn abort(&mut self, ids: &[String]) {
        self.requests.retain(|request| {
            let is_unwanted = ids.contains(&request.id);
            if is_unwanted {
                request.call.stop().stop();
            }
            !is_unwanted
        });
    }

    /// How many requests are unfinished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.requests.len()
    }

    /// One round. Returns at once where there is nothing to do; else when a batch is back, or after [`WAIT`].
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; what fails a request is in its [`Finished`].
    pub fn step(&mut self) -> Result<Vec<Finished>> {
        self.engine.check_process()?;
        let mut finished = Vec::new();
        if self.requests.is_empty() {
            return Ok(finished);
        }
        self.advance(&mut finished);
        // The devices get what there is; where nothing else can be done, a batch is waited for.
        if let Ok(scheduler) = self.engine.scheduler()
            && !self.requests.is_empty()
        {
            let attendant = scheduler.attend();
            attendant.drive(&|| false, Duration::ZERO);
            if finished.is_empty() && !self.can_go_on() {
                attendant.drive(&|| self.can_go_on(), WAIT);
            }
        }
        self.advance(&mut finished);
        Ok(finished)
    }

    fn can_go_on(&self) -> bool {
        self.requests.iter().any(|request| request.is_woken.0.load(Ordering::Acquire))
    }

    /// Takes requests further, in their order, as far as they can go and for about as long as [`TEXT`].
    fn advance(&mut self, finished: &mut Vec<Finished>) {
        let began = Instant::now();
        let mut place = 0;
        while place < self.requests.len() {
            let ended = self.requests[place].advance(began);
            match ended {
                Some(answers) => {
                    let request = self.requests.remove(place);
                    // What a device still has of it is thrown away.
                    request.call.stop().stop();
                    finished.push(Finished { done: request.call.done(), id: request.id, answers });
                }
                None => place += 1,
            }
        }
    }
}

impl Active {
    fn advance(&mut self, began: Instant) -> Option<Result<Answers>> {
        if let Err(error) = self.call.check() {
            return Some(Err(error));
        }
        let waker = Waker::from(Arc::clone(&self.is_woken));
        while began.elapsed() < TEXT && self.is_woken.0.swap(false, Ordering::AcqRel) {
            if let Poll::Ready(answers) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(answers);
            }
        }
        None
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.requests.iter().for_each(|request| request.call.stop().stop());
    }
}
