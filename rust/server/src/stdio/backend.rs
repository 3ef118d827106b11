//! `/mcp` of a server, or of the routes in this process.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use pullquote_core::engine::Engine;
use pullquote_core::error::{Error, ErrorKind, Result};
use reqwest::{Certificate, Client};
use rmcp::model::{CallToolResult, JsonObject, ResultType};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt;
use url::Url;

use super::ServerSettings;
use crate::http::auth::Keys;
use crate::net::http_client;
use crate::net::listener::Address;
use crate::router::service;
use crate::settings::Settings;

/// The limit of the bytes of a call in this process, and of a file.
pub(super) const MAX_BYTES: usize = 1024 * 1024 * 1024;

/// Calls in this process end when the agent cancels them.
const TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) enum Backend {
    Local {
        router: Router,
        /// The routes refuse requests once it is gone.
        _running: watch::Sender<bool>,
    },
    Server(Box<Server>),
}

pub(super) struct Server {
    client: Client,
    address: Url,
    key: Option<HeaderValue>,
    /// Its address as the command names it.
    shown: String,
}

/// The answer of `/mcp`, or its error.
#[derive(Default, Deserialize)]
struct Answer {
    result: Option<CallToolResult>,
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
struct AnswerError {
    message: String,
}

impl Backend {
    pub(super) fn local(settings: Settings, engine: Arc<Engine>) -> Result<Self> {
        let settings = Settings {
            timeout: TIMEOUT,
            max_body_bytes: MAX_BYTES,
            max_queue_bytes: MAX_BYTES,
            max_document_bytes: MAX_BYTES,
            max_memory_bytes: Some(usize::MAX),
            ..settings
        };
        let keys = Arc::new(Keys::read(&settings)?);
        let (running, stopping) = watch::channel(false);
        // No browser reaches it, as with a Unix socket.
        let (_, router) = service(settings, engine, &keys, &Address::Unix("/".into()), stopping)?;
        Ok(Self::Local { router, _running: running })
    }

    pub(super) fn server(settings: &ServerSettings) -> Result<Self> {
        let ServerSettings { url, api_key, ca_certs, timeout } = settings;
        let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let mut client = http_client::builder();
        let mut address = url.as_str();
        if let Some(path) = url.strip_prefix("unix:") {
            client = client.unix_socket(path);
            address = "http://localhost";
        }
        if let Some(path) = ca_certs {
            let unreadable = |error: std::io::Error| invalid(format!("ca_certs: {}: {error}", path.display()));
            let certificates = Certificate::from_pem_bundle(&std::fs::read(path).map_err(unreadable)?);
            let certificates =
                certificates.map_err(|error| invalid(format!("ca_certs: {}: {error}", path.display())))?;
            client = client.tls_certs_only(certificates);
        }
        let key = api_key.as_ref().map(|key| HeaderValue::from_str(&format!("Bearer {}", key.trim())));
        Ok(Self::Server(Box::new(Server {
            client: client
                .timeout(Duration::try_from_secs_f64(*timeout).unwrap_or(TIMEOUT))
                .build()
                .map_err(|error| http_client::cannot_be_built(&error))?,
            address: Url::parse(&format!("{}/mcp", address.trim_end_matches('/')))
                .map_err(|error| invalid(format!("server: {url}: {error}")))?,
            key: key.transpose().map_err(|_| invalid("the key is invalid in a header".to_owned()))?,
            shown: url.clone(),
        })))
    }

    /// Calls a tool. The error is for the agent.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<CallToolResult, String> {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let (status, body) = match self {
            Self::Local { router, .. } => local(router, body).await?,
            Self::Server(server) => server.post(body).await?,
        };
        let answer: Answer = serde_json::from_slice(&body).unwrap_or_default();
        match (answer.result, answer.error) {
            (Some(mut result), _) => {
                // The SDK leaves it out for agents of older versions.
                result.result_type = Some(ResultType::COMPLETE);
                Ok(result)
            }
            (None, Some(error)) => Err(format!("{} ({status})", error.message)),
            (None, None) => Err(format!("the answer of /mcp is not JSON-RPC ({status})")),
        }
    }
}

async fn local(router: &Router, body: String) -> Result<(StatusCode, Bytes), String> {
    // The SDK wants a host.
    let request = Request::post("/mcp").header(header::HOST, "localhost");
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body));
    let response = router.clone().oneshot(request.map_err(|error| error.to_string())?).await;
    let Ok(response) = response;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok((status, body.to_bytes()))
}

impl Server {
    async fn post(&self, body: String) -> Result<(StatusCode, Bytes), String> {
        let mut request = self.client.post(self.address.clone()).header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key);
        }
        let failed = |error: reqwest::Error| {
            format!("the server at {} does not answer: {}", self.shown, http_client::with_causes(&error))
        };
        let response = request.body(body).send().await.map_err(failed)?;
        let status = response.status();
        Ok((status, response.bytes().await.map_err(failed)?))
    }
}
