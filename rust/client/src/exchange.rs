//! One request and its answer: on which server, and with retries.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{timeout, timeout_at};
use tower::retry::budget::TpsBudget;

use crate::call_options::CallOptions;
use crate::endpoints::{Endpoint, Endpoints, InFlightRequest};
use crate::raw::bad;
use crate::request_error::RequestError;
use crate::retry::{Attempts, deadline_exceeded, retry_budget};
use crate::settings::{Settings, invalid};

const JSON: &str = "application/json";
/// Bytes read of an error's body.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// Above this number of bytes, JSON is read and written off the I/O threads.
const BLOCKING_BYTES: usize = 64 * 1024;

/// State that all requests of a client share.
pub(crate) struct ClientState {
    pub(crate) settings: Settings,
    pub(crate) endpoints: Endpoints,
    headers: HeaderMap,
    budget: TpsBudget,
    permits: Semaphore,
    /// Values of a vector in the last answer; 0 before the first.
    pub(crate) dimension: AtomicUsize,
    /// Whether to use `OpenAI`'s route: because of the address, or because a server does not have ours.
    pub(crate) uses_openai: AtomicBool,
    pub(crate) closed: watch::Sender<bool>,
}

/// A request, for any number of attempts.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Appended to the server's address.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<Bytes>,
    pub(crate) content_type: Cow<'static, str>,
}

/// A successful answer whose body is still to be read.
pub(crate) struct OpenResponse<'client> {
    pub(crate) response: Response,
    in_flight: InFlightRequest<'client>,
    deadline: Instant,
    timeout: Duration,
    _permit: SemaphorePermit<'client>,
}

/// An answer with its whole body.
pub(crate) struct FullResponse<'client> {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    server: &'client str,
}

impl FullResponse<'_> {
    /// An error in this answer, with the server's name.
    pub(crate) fn error(&self, error: &Error) -> Error {
        error_of(self.server, error)
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| self.error(&bad(error.to_string())))
    }
}

pub(crate) fn json_body(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| invalid(format!("the call cannot be written as JSON: {error}")))
}

fn error_of(server: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("the answer of {server} cannot be used: {}", error.message()))
}

impl Request {
    pub(crate) fn post(path: &str, body: Bytes) -> Self {
        Self { body: Some(body), ..Self::of(Method::POST, path.to_owned()) }
    }

    pub(crate) fn of(method: Method, path: String) -> Self {
        Self { method, path, accept: JSON, body: None, content_type: Cow::Borrowed(JSON) }
    }
}

impl ClientState {
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let endpoints = Endpoints::new(&settings)?;
        Ok(Self {
            headers: headers(&settings)?,
            budget: retry_budget(settings.retry_budget),
            permits: Semaphore::new(settings.max_in_flight.min(Semaphore::MAX_PERMITS)),
            dimension: AtomicUsize::new(0),
            uses_openai: AtomicBool::new(endpoints.are_openai()),
            closed: watch::Sender::new(false),
            endpoints,
            settings,
        })
    }

    pub(crate) fn attempts(&self, call: CallOptions) -> Attempts<'_> {
        Attempts::new(&self.budget, self.settings.retries, call)
    }

    /// Sends a request, with retries, and reads the whole answer.
    pub(crate) async fn fetch(&self, request: &Request, call: CallOptions) -> Result<FullResponse<'_>> {
        let mut attempts = self.attempts(call);
        loop {
            let (failure, endpoint) = match self.open(request, &attempts).await {
                Ok(mut answer) => match answer.read_all(self.settings.max_answer_bytes).await {
                    Ok(body) => {
                        let headers = std::mem::take(answer.response.headers_mut());
                        return Ok(FullResponse { headers, body, server: &answer.in_flight.endpoint.name });
                    }
                    Err(failure) => (failure, Some(answer.index())),
                },
                // The first attempt of a DELETE may have succeeded unnoticed.
                Err((failure, _))
                    if request.method == Method::DELETE
                        && !attempts.is_first()
                        && failure.error.kind() == ErrorKind::NotFound =>
                {
                    return Ok(FullResponse { headers: HeaderMap::new(), body: Bytes::new(), server: "" });
                }
                Err(failed) => failed,
            };
            attempts.backoff(failure, endpoint).await?;
        }
    }

    /// Sends a request once and waits for the head of its answer.
    pub(crate) async fn open(
        &self,
        request: &Request,
        attempts: &Attempts<'_>,
    ) -> Result<OpenResponse<'_>, (RequestError, Option<usize>)> {
        let timeout = attempts.timeout(self.settings.timeout).map_err(|error| (error.into(), None))?;
        let permit = self.permit(attempts).await.map_err(|error| (error.into(), None))?;
        let in_flight = self.endpoints.pick(attempts.avoided);
        let deadline = Instant::now().checked_add(timeout).unwrap_or_else(|| Instant::now() + YEAR);
        let InFlightRequest { endpoint, index } = in_flight;
        let url = format!("{}{}", endpoint.base, request.path);
        let mut builder = endpoint.http.request(request.method.clone(), url).headers(self.headers.clone());
        builder = builder.header(ACCEPT, request.accept).header(REQUEST_TIMEOUT, milliseconds(timeout));
        if let Some(priority) = attempts.call.priority {
            builder = builder.header(REQUEST_PRIORITY, priority);
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, &*request.content_type).body(body.clone());
        }
        let failed = |failure: RequestError| {
            endpoint.record_failure();
            (failure, Some(index))
        };
        let response = match timeout_at(deadline.into(), builder.send()).await {
            Err(_) => return Err(failed(RequestError::timed_out(&endpoint.name, timeout))),
            Ok(Err(error)) => return Err(failed(RequestError::of_reqwest(&error, &endpoint.name))),
            Ok(Ok(response)) => response,
        };
        let mut answer = OpenResponse { response, in_flight, deadline, timeout, _permit: permit };
        let status = answer.response.status();
        if status.is_success() {
            endpoint.record_success();
            return Ok(answer);
        }
        // A proxy answers for a server that does not.
        if matches!(status.as_u16(), 502 | 503) {
            endpoint.record_failure();
        } else {
            endpoint.record_success();
        }
        let body = answer.read_all(MAX_ERROR_BODY).await.unwrap_or_default();
        Err((RequestError::of_status(&endpoint.name, status, answer.response.headers(), &body), Some(index)))
    }

    pub(crate) async fn check_health(&self, endpoint: &Endpoint, call: CallOptions) -> Result<()> {
        let limit = self.attempts(call).timeout(self.settings.timeout)?;
        let request = endpoint.http.get(format!("{}/health", endpoint.base)).headers(self.headers.clone());
        let answer = async {
            let mut response = request.send().await?;
            let mut body = Vec::new();
            while body.len() < MAX_ERROR_BODY
                && let Some(chunk) = response.chunk().await?
            {
                body.extend_from_slice(&chunk);
            }
            Ok::<_, reqwest::Error>((response.status(), response.headers().clone(), body))
        };
        let (status, headers, body) = match timeout(limit, answer).await {
            Err(_) => return Err(RequestError::timed_out(&endpoint.name, limit).error),
            Ok(Err(error)) => return Err(RequestError::of_reqwest(&error, &endpoint.name).error),
            Ok(Ok(answer)) => answer,
        };
        if status.is_success() {
            return Ok(());
        }
        Err(RequestError::of_status(&endpoint.name, status, &headers, &body).error)
    }

    async fn permit(&self, attempts: &Attempts<'_>) -> Result<SemaphorePermit<'_>> {
        let closed = |_| Error::new(ErrorKind::Closed, CLOSED);
        let acquired = self.permits.acquire();
        match attempts.call.deadline {
            None => acquired.await.map_err(closed),
            Some(deadline) => match timeout_at(deadline.into(), acquired).await {
                Ok(acquired) => acquired.map_err(closed),
                Err(_) => Err(deadline_exceeded()),
            },
        }
    }
}

impl OpenResponse<'_> {
    pub(crate) const fn index(&self) -> usize {
        self.in_flight.index
    }

    /// The next part of the body, before the deadline.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        let endpoint = self.in_flight.endpoint;
        let failure = match timeout_at(self.deadline.into(), self.response.chunk()).await {
            Ok(Ok(chunk)) => return Ok(chunk),
            Ok(Err(error)) => RequestError::of_reqwest(&error, &endpoint.name),
            Err(_) => RequestError::timed_out(&endpoint.name, self.timeout),
        };
        endpoint.record_failure();
        Err(failure)
    }

    /// The whole body; an error if it is longer than `limit`.
    pub(crate) async fn read_all(&mut self, limit: usize) -> Result<Bytes, RequestError> {
        let too_long = || RequestError::from(bad(format!("the answer exceeds max_answer_bytes, {limit} bytes")));
        if self.response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// An error in this answer, with the server's name.
    pub(crate) fn error(&self, error: &Error) -> Error {
        error_of(&self.in_flight.endpoint.name, error)
    }
}

pub(crate) const CLOSED: &str = "the client was closed; make a new one";
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout-ms");
const REQUEST_PRIORITY: HeaderName = HeaderName::from_static("request-priority");
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Whole milliseconds, at least one, as the server reads them.
fn milliseconds(timeout: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).clamp(1, 1_000_000_000))
}

/// Computes without blocking I/O: for many bytes, the runtime moves its other tasks off this thread.
pub(crate) fn compute<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes > BLOCKING_BYTES { tokio::task::block_in_place(work) } else { work() }
}

/// The headers of all requests. Possible secrets are marked as sensitive.
fn headers(settings: &Settings) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("pullquote/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in settings.headers.iter().flatten() {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("{name:?} is not a valid name of a header")))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            invalid(format!("the value of the header {name} is invalid: visible ASCII and spaces only"))
        })?;
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
