//! Admission: how many requests may wait and run, and how the ones that run leave the asynchronous world.
//!
//! A request first takes a slot (refused at once where all are taken: nothing of its body was read then), then its body is
//! read into memory that is bounded over all requests, then it waits its turn (`turns`), and runs on a thread where it may
//! block. A request keeps all three until its work has really ended, even where its client has hung up before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use pullquote_core::engine::Work;
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::{Call, Stop};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

use crate::app::App;
use crate::http::body;
use crate::http::concurrency::ConcurrencyLimiter;
use crate::http::failure::{Cause, Failure};
use crate::http::middleware::RequestId;
use crate::http::trace_context::Trace;

/// What bounds the requests of a server.
pub(crate) struct Admission {
    /// Requests that wait or run.
    slots: Arc<Semaphore>,
    /// Requests that run.
    turns: Arc<ConcurrencyLimiter>,
    /// Bodies in memory, in KiB.
    memory: Arc<Semaphore>,
    max_slots: usize,
}

/// When a request must be answered, and how urgent it is; an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    pub(crate) deadline: Instant,
    /// Lower is more urgent.
    pub(crate) priority: i32,
}

/// What a request's work is given.
pub(crate) struct Input {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) limits: RequestLimits,
    /// How long it waited for its turn.
    pub(crate) queued: Duration,
    /// The request's name, for lines of the log that are written behind its answer.
    pub(crate) id: RequestId,
    stop: Stop,
}

/// What ends a request; calls of it may be made on any thread.
#[derive(Clone)]
pub(crate) struct RequestControl {
    limits: RequestLimits,
    stop: Stop,
}

/// What a request's work comes to.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) work: Work,
    /// What is still to be done when the answer has begun.
    pub(crate) rest: Option<Continuation>,
}

/// The rest of a request's work, which its body waits for.
pub(crate) type Continuation = Box<dyn FnOnce(&App) + Send>;

/// What a request took; an extension of every response that had a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTimes {
    pub(crate) queued: Duration,
    pub(crate) ran: Duration,
    pub(crate) work: Work,
}

/// A request that was let in: its body is in memory, and its work may have its turn.
pub(crate) struct Admitted {
    app: Arc<App>,
    pub(crate) headers: HeaderMap,
    body: Bytes,
    pub(crate) limits: RequestLimits,
    id: RequestId,
    /// Its place in a trace, where it has one.
    pub(crate) trace: Option<Trace>,
    hang_up: HangUp,
    /// Shared with the work that runs.
    held: Arc<Held>,
    taken: RequestTimes,
}

/// What a request gives back when the last of its work has ended.
struct Held {
    _slot: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

/// Stops the call when what waits for it is dropped, the request's future or the answer's body: its client has hung up.
struct HangUp(Stop);

/// The body of an answer, and the call that it comes from.
struct Telemetry {
    body: Body,
    _hang_up: HangUp,
}

impl hyper::body::Body for Telemetry {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Admission {
    pub(crate) fn new(settings: &crate::settings::Settings) -> Self {
        let max_turns = settings.max_concurrent.min(Semaphore::MAX_PERMITS / 4);
        let max_slots = max_turns + settings.max_queue.min(Semaphore::MAX_PERMITS / 4);
        let kibibytes = (settings.max_queue_bytes / 1024).min(Semaphore::MAX_PERMITS / 4);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            slots: semaphore(max_slots),
            turns: ConcurrencyLimiter::new(max_turns, max_slots),
            memory: semaphore(kibibytes),
            max_slots,
        }
    }

    /// How many requests run, and how many wait.
    pub(crate) fn state(&self) -> (usize, usize) {
        let running = self.turns.running();
        let admitted = self.max_slots - self.slots.available_permits();
        (running, admitted.saturating_sub(running))
    }

    fn slot(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            overloaded(format!("{} requests are being answered or waiting, as many as may; try again", self.max_slots))
        })
    }

    /// Memory for so many bytes of a body.
    pub(crate) fn memory(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        Arc::clone(&self.memory).try_acquire_many_owned(kibibytes).map_err(|_| {
            overloaded("the bodies of waiting requests fill the memory they may have; try again".to_owned())
        })
    }
}

impl Input {
    /// A call that ends with the request: by its deadline, its own timeout, or because the client has hung up.
    pub(crate) fn call(&self, timeout: Option<Duration>) -> Call<'static> {
        self.end().within(timeout).call()
    }

    /// What ends the request.
    pub(crate) fn end(&self) -> RequestControl {
        RequestControl { limits: self.limits, stop: self.stop.clone() }
    }
}

impl RequestControl {
    /// The same, or sooner.
    pub(crate) fn within(mut self, timeout: Option<Duration>) -> Self {
        if let Some(sooner) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
            self.limits.deadline = self.limits.deadline.min(sooner);
        }
        self
    }

    /// The same for calls of this priority.
    pub(crate) fn with_priority(mut self, priority: i32) -> Self {
        self.limits.priority = priority;
        self
    }

    /// A call that ends then.
    pub(crate) fn call(&self) -> Call<'static> {
        let left = self.limits.deadline.saturating_duration_since(Instant::now());
        Call::new(Some(left), None).stopped_by(self.stop.clone()).with_priority(self.limits.priority)
    }
}

impl Reply {
    /// A reply of this JSON.
    pub(crate) fn json(value: &impl serde::Serialize, work: Work) -> Result<Self, Failure> {
        let body = serde_json::to_vec(value).map_err(|error| body::unfit(&error))?;
        Ok(Self::new("application/json", body.into(), work))
    }

    /// A reply of this content.
    pub(crate) const fn new(content_type: &'static str, body: Body, work: Work) -> Self {
        Self { status: StatusCode::OK, content_type, body, headers: Vec::new(), work, rest: None }
    }

    /// The same reply with these headers.
    pub(crate) fn with(self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self { headers, ..self }
    }
}

/// Runs a request's work on a thread where it may block.
pub(crate) async fn compute(
    app: &Arc<App>,
    request: Request,
    work: impl FnOnce(&App, &Input) -> Result<Reply, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let mut admitted = Admitted::new(app, request).await?;
    let begun = |app: &App, input: &Input| {
        let mut reply = work(app, input)?;
        let rest = reply.rest.take();
        Ok((reply, rest))
    };
    let reply = admitted.begin(begun).await?;
    Ok(admitted.respond(reply))
}

impl Admitted {
    /// Takes a slot and reads the body.
    pub(crate) async fn new(app: &Arc<App>, request: Request) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let limits: RequestLimits =
            *parts.extensions.get().ok_or_else(|| internal("a request without its deadline"))?;
        let id = parts.extensions.get::<RequestId>().cloned().ok_or_else(|| internal("a request without its name"))?;
        let slot = app.admission.slot()?;
        let (body, memory) = body::read(app, &parts.headers, body, limits.deadline.into()).await?;
        Ok(Self {
            app: Arc::clone(app),
            headers: parts.headers,
            body,
            limits,
            id,
            trace: parts.extensions.get().cloned(),
            hang_up: HangUp(Stop::default()),
            held: Arc::new(Held { _slot: slot, _memory: memory }),
            taken: RequestTimes::default(),
        })
    }

    /// Waits for a turn and runs work in it. Work that has to wait for others in between takes one turn before and one after.
    pub(crate) async fn turn<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&App, &Input) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.begin(|app, input| Ok((work(app, input)?, None))).await
    }

    /// The same for work that has a rest: what it comes to is there before the rest is done, which the turn lasts for too.
    async fn begin<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&App, &Input) -> Result<(T, Option<Continuation>), Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        let turn = self.app.admission.turns.turn(self.limits.priority);
        let turn = match timeout_at(self.limits.deadline.into(), turn).await {
            Ok(turn) => turn.ok_or_else(|| internal("the queue was closed"))?,
            Err(_) => return Err(too_late("the request's timeout passed while it waited for its turn")),
        };
        self.taken.queued += began.elapsed();
        self.tell("queue", began.elapsed());
        let input = Input {
            headers: self.headers.clone(),
            body: self.body.clone(),
            limits: self.limits,
            queued: self.taken.queued,
            id: self.id.clone(),
            stop: self.hang_up.0.clone(),
        };
        let (shared, held) = (Arc::clone(&self.app), Arc::clone(&self.held));
        let (tell, told) = oneshot::channel();
        let ended = tokio::task::spawn_blocking(move || {
            let held = (held, turn);
            let began = Instant::now();
            let (done, rest) = match work(&shared, &input) {
                Ok((done, rest)) => (Ok(done), rest),
                Err(failure) => (Err(failure), None),
            };
            let tell = || tell.send((done, began.elapsed()));
            let Some(rest) = rest else {
                // Whoever has its answer finds the turn free.
                drop(held);
                return drop(tell());
            };
            // Where nobody waits for the answer any more, its rest need not be done.
            if tell().is_ok() {
                rest(&shared);
            }
            drop(held);
        });
        let Ok((done, ran)) = told.await else {
            if let Err(error) = ended.await {
                tracing::error!(%error, "the work of a request panicked");
            }
            return Err(internal("the work of this request panicked; please report this"));
        };
        self.taken.ran += ran;
        self.tell("inference", ran);
        done
    }

    /// Tells a collector, where there is one, of a part that has just ended.
    fn tell(&self, part: &'static str, took: Duration) {
        if let (Some(exporter), Some(trace)) = (&self.app.exporter, &self.trace) {
            exporter.part(trace, part, took);
        }
    }

    /// The response that a reply is.
    pub(crate) fn respond(self, reply: Reply) -> Response {
        let Reply { status, content_type, body, headers, work, rest: _ } = reply;
        if work.tokens > 0 {
            self.app.health.succeeded();
        }
        // Until the last of it is sent, a client that hangs up stops what is still done for it.
        let body = Body::new(Telemetry { body, _hang_up: self.hang_up });
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(RequestTimes { work, ..self.taken });
        response
    }
}

fn overloaded(message: String) -> Failure {
    Failure::new(Cause::Core(ErrorKind::Overloaded), message)
}

pub(crate) fn too_late(message: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::DeadlineExceeded), message)
}

fn internal(message: &str) -> Failure {
    Failure::new(Cause::Core(ErrorKind::Internal), message)
}
