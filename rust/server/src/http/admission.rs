//! Admission control: which requests get 429, how many queue and run, and how they move to a blocking thread.
//!
//! A request's body is read first, into memory of a limit over all requests, so that a slow sender takes no slot
//! (`http::unread_bodies`). Then the request takes a slot. Without a free one, or without memory, it gets 429, before its
//! body is read if that is known. Then it queues for a permit of the concurrency limit, and runs on a blocking thread. It
//! returns all three when its work has ended, even if its client disconnected earlier.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use opentelemetry::trace::SpanContext;
use pullquote_core::runtime::call::Stop;
use pullquote_core::runtime::priority::run_lower;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use crate::http::body::BodyReader;
use crate::http::concurrency::ConcurrencyLimiter;
use crate::http::failure::{Failure, internal, too_late};
use crate::http::health::Health;
use crate::http::input::{Input, RequestLimits};
use crate::http::memory::{RequestMemory, SharedMemory};
use crate::http::otel::Exporter;
use crate::http::process_memory;
use crate::http::reply::{Continuation, Reply, RequestTimes};
use crate::http::request_id::RequestId;
use crate::http::slots::{Slot, Slots};
use crate::http::vector_headers::{COMPUTE_TOKENS, TRUNCATED};
use crate::http::work_memory::{PARSED, SMALL_BYTES, STORED, TEXT};
use crate::settings::Settings;

pub(crate) struct Admission {
    /// Requests that queue or run.
    slots: Arc<Slots>,
    limiter: Arc<ConcurrencyLimiter>,
    pub(crate) bodies: BodyReader,
    memory: SharedMemory,
    health: Arc<Health>,
    exporter: Option<Arc<Exporter>>,
}

/// The state of a server that admits requests.
pub(crate) trait Admits: Send + Sync + 'static {
    fn admission(&self) -> &Admission;
}

/// A request that has its slot and its body, and may queue for a permit.
pub(crate) struct Admitted<S> {
    state: Arc<S>,
    pub(crate) headers: HeaderMap,
    body: Bytes,
    pub(crate) limits: RequestLimits,
    id: RequestId,
    /// Its span, if it is part of a trace.
    pub(crate) span: Option<SpanContext>,
    cancel: CancelOnDrop,
    /// Shared with the work that runs.
    held: Arc<HeldPermits>,
    /// Memory that running it takes, for each byte.
    work_multiple: usize,
    times: RequestTimes,
}

/// Returned when the last of a request's work has ended.
struct HeldPermits {
    _slot: Slot,
    memory: RequestMemory,
}

/// Stops a request's calls when its client disconnects, which drops the request's future or the answer's body.
struct CancelOnDrop(Stop);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Admission {
    pub(crate) fn new(settings: &Settings, health: Arc<Health>, exporter: Option<Arc<Exporter>>) -> Self {
        let max_running = process_memory::running(settings.max_concurrent).min(Semaphore::MAX_PERMITS / 4);
        let max_slots = max_running + settings.max_queue.min(Semaphore::MAX_PERMITS / 4);
        let bodies = BodyReader::new(settings);
        Self {
            slots: Slots::new(max_slots, settings.max_key_requests),
            limiter: ConcurrencyLimiter::new(max_running, max_slots),
            memory: SharedMemory::new(settings, bodies.memory.clone()),
            bodies,
            health,
            exporter,
        }
    }

    /// How many requests run, and how many queue.
    pub(crate) fn state(&self) -> (usize, usize) {
        let running = self.limiter.running();
        (running, self.slots.taken().saturating_sub(running))
    }
}

/// Admits a request and runs its work on a blocking thread.
pub(crate) async fn admit_and_run<S: Admits>(
    state: &Arc<S>,
    request: Request,
    work: impl FnOnce(&S, &Input) -> Result<Reply, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    run(Admitted::admit(state, request).await?, work).await
}

/// Runs the work of an admitted request on a blocking thread.
pub(crate) async fn run<S: Admits>(
    mut admitted: Admitted<S>,
    work: impl FnOnce(&S, &Input) -> Result<Reply, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let run = |state: &S, input: &Input| {
        let mut reply = work(state, input)?;
        reply.headers.extend(input.ignored_header());
        let rest = reply.rest.take();
        Ok((reply, rest))
    };
    let reply = admitted.with_permit_and_rest(run).await?;
    Ok(admitted.respond(reply))
}

impl<S: Admits> Admitted<S> {
    /// Reads the body, and takes a slot.
    pub(crate) async fn admit(state: &Arc<S>, request: Request) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let limits: RequestLimits =
            *parts.extensions.get().ok_or_else(|| internal("a request without its deadline"))?;
        let id = parts.extensions.get::<RequestId>().cloned().ok_or_else(|| internal("a request without its name"))?;
        let limit = parts.extensions.get().ok_or_else(|| internal("a request without the limit of its body"))?;
        let admission = state.admission();
        admission.slots.check(limits.key.as_ref())?;
        let (body, memory) = admission.bodies.read(&parts.headers, body, *limit, limits.deadline.into()).await?;
        let slot = admission.slots.take(limits.key)?;
        Ok(Self {
            state: Arc::clone(state),
            headers: parts.headers,
            body,
            limits,
            id,
            span: parts.extensions.get().cloned(),
            cancel: CancelOnDrop(Stop::default()),
            held: Arc::new(HeldPermits { _slot: slot, memory: admission.memory.of_request(memory) }),
            work_multiple: TEXT,
            times: RequestTimes::default(),
        })
    }

    /// A request that stores its body, or hands it to a process.
    pub(crate) fn storing(self) -> Self {
        Self { work_multiple: STORED, ..self }
    }

    /// Memory for parsing the body apart from its work.
    pub(crate) fn try_acquire_parsing(&self) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        let memory = &self.held.memory;
        memory.try_acquire_large_work(memory.held_bytes(), PARSED)
    }

    pub(crate) fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// Waits for a permit and runs work with it. Work with a wait in between takes one permit before and one after it.
    pub(crate) async fn with_permit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&S, &Input) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.with_permit_and_rest(|state, input| Ok((work(state, input)?, None))).await
    }

    /// As `with_permit`, for work with a rest: the result comes before the rest is done, with the same permit.
    async fn with_permit_and_rest<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&S, &Input) -> Result<(T, Option<Continuation>), Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        // Before the permit, which small requests need meanwhile.
        let memory = self.held.memory.acquire_work(self.work_multiple, self.limits.deadline.into()).await?;
        let permit = self.state.admission().limiter.acquire(self.limits.priority);
        let permit = match timeout_at(self.limits.deadline.into(), permit).await {
            Ok(permit) => permit.ok_or_else(|| internal("the queue was closed"))?,
            Err(_) => return Err(too_late("the request's timeout passed while it was queued")),
        };
        self.times.queued += began.elapsed();
        self.export_span("queue", began.elapsed());
        let input = Input {
            headers: self.headers.clone(),
            body: self.body.clone(),
            limits: self.limits,
            queued: self.times.queued,
            id: self.id.clone(),
            ignored: RefCell::default(),
            stop: self.cancel.0.clone(),
            memory: self.held.memory.clone(),
            work: RefCell::default(),
        };
        let (state, held) = (Arc::clone(&self.state), Arc::clone(&self.held));
        let (sender, result) = oneshot::channel();
        let is_large = input.body.len() > SMALL_BYTES;
        let run = move || {
            let held = (held, permit, memory);
            let began = Instant::now();
            let (done, rest) = match work(&state, &input) {
                Ok((done, rest)) => (Ok(done), rest),
                Err(failure) => (Err(failure), None),
            };
            let send = || sender.send((done, began.elapsed()));
            let Some(rest) = rest else {
                // Before the answer: a client that has it finds the permit and the memory free.
                drop((held, input));
                return drop(send());
            };
            // Without a client, the rest is not needed.
            if send().is_ok() {
                rest();
            }
            drop(held);
        };
        let ended = spawn_blocking(move || if is_large { run_lower(run) } else { run() });
        let Ok((done, ran)) = result.await else {
            if let Err(error) = ended.await {
                tracing::error!(%error, "the work of a request panicked");
            }
            return Err(internal("the work of this request panicked; please report this"));
        };
        self.times.ran += ran;
        self.export_span("inference", ran);
        done
    }

    fn export_span(&self, part: &'static str, took: Duration) {
        if let (Some(exporter), Some(span)) = (&self.state.admission().exporter, &self.span) {
            exporter.part(span, part, took);
        }
    }

    pub(crate) fn respond(self, reply: Reply) -> Response {
        let Reply { status, content_type, body, headers, work, compute, rest: _ } = reply;
        if work.tokens > 0 {
            self.state.admission().health.succeeded();
        }
        // The body owns it until it was sent, or the client has disconnected.
        let cancel = self.cancel;
        let body = Body::new(body.map_err(move |error| {
            let _owned = &cancel;
            error
        }));
        let mut response = (status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        if work.tokens > 0 {
            response.headers_mut().insert(TRUNCATED, work.truncated.into());
            response.headers_mut().insert(COMPUTE_TOKENS, work.tokens.into());
        }
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(RequestTimes { work, compute, ..self.times });
        response
    }
}
