//! The upstream: another server that searches (`--upstream`), with Exa's requests and answers.
//!
//! The operator of this server names it, so any address is allowed. Its answers have the limits of a client's body.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use opentelemetry::trace::SpanContext;
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::{Client, Response};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::fetch::limited_body::{self, Unread};
use crate::http::failure::{Cause, Failure, too_late};
use crate::http::trace_context;
use crate::http::unread_bodies::BodyMemory;
use crate::net::http_client;
use crate::settings::Settings;

pub(crate) struct Upstream {
    client: Client,
    search: Url,
    key: Option<HeaderValue>,
    /// Without a key of its own: whether requests carry the client's key.
    forwards_keys: bool,
    bodies: BodyMemory,
    max_body_bytes: usize,
}

pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// Its share of the memory for all bodies.
    _memory: OwnedSemaphorePermit,
}

impl Upstream {
    /// `None` without `--upstream`. `has_keys` states whether this server has keys of its own.
    pub(crate) fn new(settings: &Settings, has_keys: bool, bodies: &BodyMemory) -> Result<Option<Self>> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let Some(address) = &settings.upstream else { return Ok(None) };
        let search = Url::parse(&format!("{}/search", address.trim_end_matches('/'))).ok();
        let search = search
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| invalid(format!("upstream must be like https://api.exa.ai, not {address:?}")))?;
        let key = settings.upstream_key.as_ref().map(|key| {
            let mut key = HeaderValue::from_str(key.trim())
                .map_err(|_| invalid("the upstream's key is invalid in a header".to_owned()))?;
            key.set_sensitive(true);
            Result::Ok(key)
        });
        let client = http_client::builder().build().map_err(|error| http_client::cannot_be_built(&error))?;
        Ok(Some(Self {
            client,
            search,
            key: key.transpose()?,
            forwards_keys: !has_keys,
            bodies: bodies.clone(),
            max_body_bytes: settings.max_body_bytes,
        }))
    }

    /// Forwards a search. Without `--upstream-key`, it gets the client's key, unless that is a key of this server.
    pub(crate) async fn search(
        &self,
        headers: &HeaderMap,
        span: Option<&SpanContext>,
        body: Vec<u8>,
        deadline: Instant,
    ) -> Result<Answered, Failure> {
        let mut request = self.client.post(self.search.clone()).header(header::CONTENT_TYPE, "application/json");
        if let Some(span) = span {
            request = request.headers(trace_context::headers(span));
        }
        if let Some(key) = &self.key {
            request = request.header("x-api-key", key);
        } else if self.forwards_keys {
            for name in ["x-api-key", "authorization"] {
                if let Some(key) = headers.get(name) {
                    request = request.header(name, key);
                }
            }
        }
        let ask = async {
            let response = request.body(body).send().await.map_err(|error| broken(&error))?;
            self.read(response).await
        };
        match timeout_at(deadline, ask).await {
            Ok(answered) => answered,
            Err(_) => Err(too_late("the request's timeout passed before the upstream had answered")),
        }
    }

    async fn read(&self, response: Response) -> Result<Answered, Failure> {
        let (status, most) = (response.status(), self.max_body_bytes);
        if status.is_redirection() {
            return Err(Failure::new(Cause::Upstream, format!("the upstream answered {status}")));
        }
        let (body, memory) = limited_body::read(&self.bodies, response, most).await.map_err(|unread| match unread {
            Unread::TooLarge => Failure::new(Cause::Upstream, format!("the upstream answered more than {most} bytes")),
            Unread::NoMemory(failure) => failure,
            Unread::Broken(error) => broken(&error),
        })?;
        Ok(Answered { status, body: body.into(), _memory: memory })
    }
}

/// The log has the reason. The client does not get it, because it may contain the address.
fn broken(error: &reqwest::Error) -> Failure {
    tracing::warn!(%error, "the upstream request failed");
    Failure::new(Cause::Upstream, "the upstream could not be reached, or its answer ended early; try again")
}
