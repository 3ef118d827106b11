//! The body of raw vectors, read from the socket into its place in the array.
//!
//! hyper writes the request and reads the head of the answer. Then hyper returns the socket, and the waiting task reads
//! the body into the array: no buffer, no copy, no other task. This needs plain HTTP/1.1 and a `Content-Length`; hyper
//! continues with every other answer. A connection is reused if its body was read to the last byte and no byte
//! followed. `bench/notes/wire.md` compares it with reqwest.

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use reqwest::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use reqwest::{Body, Response, StatusCode, Version};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tower_service::Service;
use url::Url;

use crate::raw::is_octets;

/// How long an idle connection is kept, as in reqwest.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of a read that does not go into the array.
const CHUNK: usize = 64 * 1024;

/// Connections to a server, outside reqwest.
pub(crate) struct DirectConnections {
    connector: HttpConnector,
    server: hyper::Uri,
    host: HeaderValue,
    /// Whether the server's last answer to this client was raw vectors.
    is_raw: AtomicBool,
    /// Each with the time it became idle, the latest last; `None` once the client was closed.
    idle: Mutex<Option<Vec<(TcpStream, Instant)>>>,
    max_idle: usize,
}

pub(crate) enum DirectError {
    Request(reqwest::Error),
    Connect(Box<dyn std::error::Error + Send + Sync>),
    Http(hyper::Error),
}

/// A body that is still to be read.
pub(crate) struct DirectBody<'server> {
    connections: &'server DirectConnections,
    /// `None` once it has ended.
    stream: Option<TcpStream>,
    /// Its first bytes, which came with the head.
    early: Bytes,
    /// Bytes to come, `early` included.
    left: usize,
    is_reusable: bool,
}

impl DirectConnections {
    /// For a server at an `http:` address.
    pub(crate) fn new(url: &Url, connect_timeout: Duration, max_idle: usize) -> Option<Self> {
        let host = url.host_str()?;
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        Some(Self {
            connector,
            server: url.as_str().parse().ok()?,
            host: HeaderValue::from_str(&host).ok()?,
            is_raw: AtomicBool::new(false),
            idle: Mutex::new(Some(Vec::new())),
            max_idle,
        })
    }

    /// Whether the next answer is read this way.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_raw.load(Ordering::Relaxed)
    }

    pub(crate) fn record_response_kind(&self, is_raw: bool) {
        self.is_raw.store(is_raw, Ordering::Relaxed);
    }

    /// Closes idle connections, now and later.
    pub(crate) fn close(&self) {
        drop(self.idle.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Sends a request. An answer with raw vectors comes without its body, which is to be read next.
    pub(crate) async fn send(
        &self,
        request: reqwest::Request,
    ) -> Result<(Response, Option<DirectBody<'_>>), DirectError> {
        let stream = match self.idle() {
            Some(stream) => stream,
            None => self
                .connector
                .clone()
                .call(self.server.clone())
                .await
                .map_err(|e| DirectError::Connect(e.into()))?
                .into_inner(),
        };
        let request = self.convert(request).map_err(DirectError::Request)?;
        let (mut sender, mut connection) = http1::handshake(TokioIo::new(stream)).await.map_err(DirectError::Http)?;
        let mut answered = pin!(sender.send_request(request));
        let mut has_ended = false;
        let answered = std::future::poll_fn(|context| {
            // If the connection ends early, the answer is an error.
            has_ended = has_ended || connection.poll_without_shutdown(context).is_ready();
            answered.as_mut().poll(context)
        });
        let response = answered.await.map_err(DirectError::Http)?;
        let Some(left) = length_of_raw(&response) else {
            self.record_response_kind(false);
            if !has_ended {
                // It ends when its body has ended or is dropped.
                tokio::spawn(connection);
            }
            return Ok((response.map(Body::wrap).into(), None));
        };
        let is_last =
            |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("close"));
        let is_reusable =
            response.version() == Version::HTTP_11 && !response.headers().get_all(CONNECTION).iter().any(is_last);
        let (head, mut body) = response.into_parts();
        let mut early = Vec::new();
        while let Some(bytes) = next_buffered(&mut body).map_err(DirectError::Http)? {
            early.extend_from_slice(&bytes);
        }
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        early.extend_from_slice(&read_buf);
        let is_reusable = is_reusable && early.len() <= left;
        early.truncate(left);
        let early = early.into();
        let body = DirectBody { connections: self, stream: Some(io.into_inner()), early, left, is_reusable };
        Ok((hyper::Response::from_parts(head, "").into(), Some(body)))
    }

    /// The request as hyper writes it, with a path for its address.
    fn convert(&self, request: reqwest::Request) -> reqwest::Result<hyper::Request<Body>> {
        let mut request = hyper::Request::<Body>::try_from(request)?;
        request.headers_mut().insert(HOST, self.host.clone());
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
        Ok(request)
    }

    /// An idle connection that is open and silent.
    fn idle(&self) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.as_mut()?;
        idle.retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
        while let Some((stream, _)) = idle.pop() {
            if is_silent(&stream) {
                return Some(stream);
            }
        }
        None
    }

    fn keep(&self, stream: TcpStream) {
        if let Some(idle) = &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner)
            && idle.len() < self.max_idle
        {
            idle.push((stream, Instant::now()));
        }
    }
}

impl DirectBody<'_> {
    /// Bytes to come.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Reads the whole body into a place of its length.
    pub(crate) async fn fill(&mut self, place: &mut [u8]) -> io::Result<()> {
        let (early, rest) = place.split_at_mut(self.early.len());
        early.copy_from_slice(&self.early);
        match &mut self.stream {
            Some(stream) => stream.read_exact(rest).await.map_err(ended_early)?,
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        self.left = 0;
        self.end();
        Ok(())
    }

    /// The next bytes; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut chunk = std::mem::take(&mut self.early);
        if chunk.is_empty() {
            let Some(stream) = &mut self.stream else { return Ok(None) };
            let mut bytes = Vec::with_capacity(self.left.min(CHUNK));
            stream.take(bytes.capacity() as u64).read_buf(&mut bytes).await?;
            chunk = bytes.into();
        }
        if chunk.is_empty() {
            return Err(ended_early(io::ErrorKind::UnexpectedEof.into()));
        }
        self.left -= chunk.len();
        if self.left == 0 {
            self.end();
        }
        Ok(Some(chunk))
    }

    /// Keeps the connection after the last byte.
    fn end(&mut self) {
        if let Some(stream) = self.stream.take()
            && self.is_reusable
        {
            self.connections.keep(stream);
        }
    }
}

/// The length of a body of raw vectors, if the answer has one.
fn length_of_raw(response: &hyper::Response<Incoming>) -> Option<usize> {
    let is_raw = |kind: &HeaderValue| kind.to_str().is_ok_and(is_octets);
    let is_raw = response.status() == StatusCode::OK && response.headers().get(CONTENT_TYPE).is_some_and(is_raw);
    let length = response.body().size_hint().exact().filter(|length| is_raw && *length > 0)?;
    usize::try_from(length).ok()
}

/// A part of the body that hyper has already read.
fn next_buffered(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => Ok(frame.into_data().ok()),
        Poll::Ready(Some(Err(error))) => Err(error),
        Poll::Ready(None) | Poll::Pending => Ok(None),
    }
}

/// Whether a connection is open and has no bytes to read.
fn is_silent(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn ended_early(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return error;
    }
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed before the end of the body")
}
