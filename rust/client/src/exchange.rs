//! Exchange: one request to one of the servers and its answer, again where that may help, twice where it takes long.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select};
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Response};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{timeout, timeout_at};

use crate::attempts::{Attempts, Budget, CallOptions};
use crate::direct::RawBody;
use crate::endpoints::{Endpoint, Endpoints, InFlight};
use crate::raw::{OCTETS, bad};
use crate::request_error::RequestError;
use crate::settings::{Settings, invalid};

/// Bytes of a refusal that are read.
const LONGEST_REFUSAL: usize = 64 * 1024;
/// Bytes above which reading or writing JSON is no work for a thread that others wait for.
const MUCH: usize = 64 * 1024;

/// What all requests of a client share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) endpoints: Endpoints,
    headers: HeaderMap,
    budget: Budget,
    /// One for each request that may be in flight.
    permits: Semaphore,
    /// Values of a vector, as the last answer had them; 0 before the first.
    pub(crate) dimension: AtomicUsize,
    /// Whether vectors are asked for as `OpenAI`'s clients do: the address says so, or a server did not know our route.
    pub(crate) speaks_openai: AtomicBool,
    /// Whether the client was closed.
    pub(crate) closed: watch::Sender<bool>,
}

/// A request, as often as it is sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Behind the server's address.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    /// JSON.
    pub(crate) body: Option<Bytes>,
}

/// The head of an answer that says yes, its body still to be read.
pub(crate) struct Answer<'client> {
    pub(crate) response: Response,
    /// Its body, where that is not the response's.
    raw: Option<RawBody<'client>>,
    turn: InFlight<'client>,
    /// Until when its body must be here.
    until: Instant,
    patience: Duration,
    _permit: SemaphorePermit<'client>,
}

/// An answer that is here.
pub(crate) struct Whole<'client> {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    server: &'client str,
}

impl Whole<'_> {
    /// An error of this answer, which says whose it is.
    pub(crate) fn wrong(&self, error: &Error) -> Error {
        wrong(self.server, error)
    }
}

fn wrong(server: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("the answer of {server} cannot be used: {}", error.message()))
}

impl Request {
    pub(crate) fn post(path: &str, body: Bytes) -> Self {
        Self { method: Method::POST, path: path.to_owned(), accept: "application/json", body: Some(body) }
    }

    pub(crate) fn of(method: Method, path: String) -> Self {
        Self { method, path, accept: "application/json", body: None }
    }
}

impl Shared {
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let endpoints = Endpoints::new(&settings)?;
        Ok(Self {
            headers: headers(&settings)?,
            budget: Budget::new(settings.retry_budget),
            permits: Semaphore::new(settings.max_in_flight.min(Semaphore::MAX_PERMITS)),
            dimension: AtomicUsize::new(0),
            speaks_openai: AtomicBool::new(endpoints.are_openai()),
            closed: watch::Sender::new(false),
            endpoints,
            settings,
        })
    }

    pub(crate) fn attempts(&self, call: CallOptions) -> Attempts<'_> {
        Attempts::new(&self.budget, self.settings.retries, call)
    }

    /// The whole answer to a request, of at most so many bytes, tried as often as may help.
    pub(crate) async fn whole(&self, request: &Request, call: CallOptions) -> Result<Whole<'_>> {
        let mut attempts = self.attempts(call);
        loop {
            let (failure, endpoint) = match self.open(request, &attempts).await {
                Ok(mut answer) => match answer.whole(self.settings.max_answer_bytes).await {
                    Ok(body) => {
                        let headers = std::mem::take(answer.response.headers_mut());
                        return Ok(Whole { headers, body, server: &answer.turn.endpoint.name });
                    }
                    Err(failure) => (failure, Some(answer.index())),
                },
                // What the first attempt deleted is not there for the second.
                Err((failure, _))
                    if request.method == Method::DELETE
                        && !attempts.is_first()
                        && failure.error.kind() == ErrorKind::NotFound =>
                {
                    return Ok(Whole { headers: HeaderMap::new(), body: Bytes::new(), server: "" });
                }
                Err(failed) => failed,
            };
            attempts.after(failure, endpoint).await?;
        }
    }

    /// The head of an answer. Where it is long in coming and hedging is on, the request is sent once more, and the first
    /// answer counts; the other is dropped, which closes its stream.
    pub(crate) async fn open(
        &self,
        request: &Request,
        attempts: &Attempts<'_>,
    ) -> Result<Answer<'_>, (RequestError, Option<usize>)> {
        let patience = attempts.patience(self.settings.request_timeout()).map_err(|error| (error.into(), None))?;
        let permit = self.permit(attempts).await.map_err(|error| (error.into(), None))?;
        let turn = self.endpoints.turn(attempts.avoided);
        let first_index = turn.index;
        let mut first = pin!(self.send(request, turn, permit, (patience, attempts.call.priority)));
        let Some(hedge_after) = self.settings.hedge_after else { return first.await };
        let hedge_at = tokio::time::Instant::now() + Duration::from_secs_f64(hedge_after.min(1e9));
        if let Ok(answered) = timeout_at(hedge_at, &mut first).await {
            return answered;
        }
        let Ok(permit) = self.permits.try_acquire() else { return first.await };
        if !self.budget.take() {
            return first.await;
        }
        let second = pin!(self.send(
            request,
            self.endpoints.turn(Some(first_index)),
            permit,
            (patience, attempts.call.priority)
        ));
        match select(first, second).await {
            Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
        }
    }

    /// Whether this very server says that it is healthy.
    pub(crate) async fn healthy(&self, endpoint: &Endpoint, call: CallOptions) -> Result<()> {
        let patience = self.attempts(call).patience(self.settings.request_timeout())?;
        let request = endpoint.http.get(format!("{}/health", endpoint.base)).headers(self.headers.clone());
        let asked = async {
            let mut response = request.send().await?;
            let mut body = Vec::new();
            while body.len() < LONGEST_REFUSAL
                && let Some(chunk) = response.chunk().await?
            {
                body.extend_from_slice(&chunk);
            }
            Ok::<_, reqwest::Error>((response.status(), response.headers().clone(), body))
        };
        let (status, headers, body) = match timeout(patience, asked).await {
            Err(_) => return Err(RequestError::slow(&endpoint.name, patience).error),
            Ok(Err(error)) => return Err(RequestError::broken(&error, &endpoint.name).error),
            Ok(Ok(answered)) => answered,
        };
        if status.is_success() {
            return Ok(());
        }
        Err(RequestError::refused(&endpoint.name, status, &headers, &body).error)
    }

    async fn permit(&self, attempts: &Attempts<'_>) -> Result<SemaphorePermit<'_>> {
        let gone = |_| Error::new(ErrorKind::Closed, CLOSED);
        let acquired = self.permits.acquire();
        match attempts.call.deadline {
            None => acquired.await.map_err(gone),
            Some(deadline) => match timeout_at(deadline.into(), acquired).await {
                Ok(acquired) => acquired.map_err(gone),
                Err(_) => Err(crate::attempts::too_late()),
            },
        }
    }

    async fn send<'client>(
        &'client self,
        request: &Request,
        turn: InFlight<'client>,
        permit: SemaphorePermit<'client>,
        (patience, priority): (Duration, Option<i32>),
    ) -> Result<Answer<'client>, (RequestError, Option<usize>)> {
        let until = Instant::now().checked_add(patience).unwrap_or_else(|| Instant::now() + YEAR);
        let endpoint = turn.endpoint;
        let url = format!("{}{}", endpoint.base, request.path);
        let mut sent = endpoint.http.request(request.method.clone(), url).headers(self.headers.clone());
        sent = sent.header(ACCEPT, request.accept).header(REQUEST_TIMEOUT, milliseconds(patience));
        if let Some(priority) = priority {
            sent = sent.header(REQUEST_PRIORITY, priority);
        }
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let index = turn.index;
        let failed = |failure: RequestError| {
            endpoint.failed();
            (failure, Some(index))
        };
        let direct =
            endpoint.direct.as_ref().filter(|direct| direct.is_enabled() && request.accept.starts_with(OCTETS));
        let sent = async {
            let broken = |error| RequestError::broken(&error, &endpoint.name);
            let Some(direct) = direct else { return Ok((sent.send().await.map_err(broken)?, None)) };
            let sent = sent.build().map_err(broken)?;
            direct.send(sent).await.map_err(|failed| RequestError::not_sent(&failed, &endpoint.name))
        };
        let (response, raw) = match timeout_at(until.into(), sent).await {
            Err(_) => return Err(failed(RequestError::slow(&endpoint.name, patience))),
            Ok(Err(failure)) => return Err(failed(failure)),
            Ok(Ok(answered)) => answered,
        };
        let mut answer = Answer { response, raw, turn, until, patience, _permit: permit };
        let status = answer.response.status();
        if status.is_success() {
            endpoint.answered();
            return Ok(answer);
        }
        // It answers, but what stands behind it does not.
        if matches!(status.as_u16(), 502 | 503) {
            endpoint.failed();
        } else {
            endpoint.answered();
        }
        let body = answer.whole(LONGEST_REFUSAL).await.unwrap_or_default();
        Err((RequestError::refused(&endpoint.name, status, answer.response.headers(), &body), Some(index)))
    }
}

impl Answer<'_> {
    pub(crate) const fn index(&self) -> usize {
        self.turn.index
    }

    /// The answer is raw vectors: its server's next ones may be read as such.
    pub(crate) fn is_raw(&self) {
        self.turn.endpoint.direct.iter().for_each(|direct| direct.record_response_kind(true));
    }

    /// The next bytes of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        let (endpoint, until, patience) = (self.turn.endpoint, self.until, self.patience);
        if let Some(raw) = &mut self.raw {
            return read(endpoint, (until, patience), raw.chunk(), |error| lost(error, endpoint)).await;
        }
        let broken = |error: &reqwest::Error| RequestError::broken(error, &endpoint.name);
        read(endpoint, (until, patience), self.response.chunk(), broken).await
    }

    /// Reads the whole body into a place of its length where it comes straight from the socket; false where it does not.
    pub(crate) async fn fill(&mut self, place: &mut [u8]) -> Result<bool, RequestError> {
        let (endpoint, limit) = (self.turn.endpoint, (self.until, self.patience));
        match &mut self.raw {
            Some(raw) if raw.left() == place.len() => {
                read(endpoint, limit, raw.fill(place), |error| lost(error, endpoint)).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// The body, if it has at most so many bytes.
    pub(crate) async fn whole(&mut self, most: usize) -> Result<Bytes, RequestError> {
        let endless =
            || RequestError::from(bad(format!("the answer has more than {most} bytes, the most this client takes")));
        if self.response.content_length().is_some_and(|length| length > most as u64) {
            return Err(endless());
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > most {
                return Err(endless());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// An error of this answer, which says whose it is.
    pub(crate) fn wrong(&self, error: &Error) -> Error {
        wrong(&self.turn.endpoint.name, error)
    }
}

/// What a body brings until it is too late.
async fn read<T, E>(
    endpoint: &Endpoint,
    (until, patience): (Instant, Duration),
    reading: impl Future<Output = Result<T, E>>,
    broken: impl FnOnce(&E) -> RequestError,
) -> Result<T, RequestError> {
    let failure = match timeout_at(until.into(), reading).await {
        Ok(Ok(came)) => return Ok(came),
        Ok(Err(error)) => broken(&error),
        Err(_) => RequestError::slow(&endpoint.name, patience),
    };
    endpoint.failed();
    Err(failure)
}

fn lost(error: &std::io::Error, endpoint: &Endpoint) -> RequestError {
    RequestError::lost(Some(error), false, &endpoint.name)
}

pub(crate) const CLOSED: &str = "the client was closed; make a new one";
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout-ms");
const REQUEST_PRIORITY: HeaderName = HeaderName::from_static("request-priority");
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Whole milliseconds, at least one, as the server reads them.
fn milliseconds(patience: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).clamp(1, 1_000_000_000))
}

/// Computes where it holds nobody up: much work on a thread that the runtime does without meanwhile.
pub(crate) fn compute<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > MUCH { tokio::task::block_in_place(work) } else { work() }
}

/// The headers of all requests; those that may be secrets are marked so.
fn headers(settings: &Settings) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("pullquote/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in &settings.headers {
        let key =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(format!("{name:?} is no name of a header")))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| invalid(format!("the value of the header {name} is none: visible ASCII and spaces only")))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    if let Some(key) = &settings.api_key {
        let wrong = |_| invalid("api_key must be visible ASCII, without a line end; was it read with one?");
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(wrong)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}
