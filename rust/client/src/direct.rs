//! Direct: the body of raw vectors, read from the socket into its place.
//!
//! hyper writes the request and reads the answer's head; behind that its connection is taken apart, and nobody else copies
//! the body, has it in memory or is woken for it. This is for plain HTTP/1.1 and bodies of a length that is said beforehand;
//! every other answer goes on as hyper's. A connection is used again where its body was read to the last byte and nothing
//! came behind it.

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

/// How long a connection is kept that nobody uses, as reqwest has it.
const IDLE: Duration = Duration::from_secs(90);
/// Bytes that are read at a time where they have no place of their own.
const CHUNK: usize = 64 * 1024;

/// Connections to a server, outside of reqwest.
pub(crate) struct Direct {
    connector: HttpConnector,
    server: hyper::Uri,
    host: HeaderValue,
    /// Whether its last answer to this client was raw vectors.
    is_raw: AtomicBool,
    /// Those that nobody uses, each since when, the latest last; nothing once the client was closed.
    idle: Mutex<Option<Vec<(TcpStream, Instant)>>>,
    max_idle: usize,
}

/// Why there is no answer.
pub(crate) enum Failed {
    Request(reqwest::Error),
    Connect(Box<dyn std::error::Error + Send + Sync>),
    Http(hyper::Error),
}

/// A body that is still to be read.
pub(crate) struct RawBody<'server> {
    direct: &'server Direct,
    /// None once it has ended.
    stream: Option<TcpStream>,
    /// Its first bytes, which came with the head.
    early: Bytes,
    /// Bytes that are to come, those of `early` included.
    left: usize,
    may_be_used_again: bool,
}

impl Direct {
    /// For a server at an address of plain HTTP.
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

    /// Whether the server is known to answer with what this is for.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_raw.load(Ordering::Relaxed)
    }

    /// The server has answered with raw vectors, or with something else.
    pub(crate) fn record_response_kind(&self, is_raw: bool) {
        self.is_raw.store(is_raw, Ordering::Relaxed);
    }

    /// Closes what nobody uses, now and later.
    pub(crate) fn close(&self) {
        drop(self.idle.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The head of an answer, with its body where that is raw vectors; else the answer is whole.
    pub(crate) async fn send(&self, request: reqwest::Request) -> Result<(Response, Option<RawBody<'_>>), Failed> {
        let stream = match self.idle() {
            Some(stream) => stream,
            None => self
                .connector
                .clone()
                .call(self.server.clone())
                .await
                .map_err(|e| Failed::Connect(e.into()))?
                .into_inner(),
        };
        let request = self.written(request).map_err(Failed::Request)?;
        let (mut sender, mut connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Failed::Http)?;
        let mut answered = pin!(sender.send_request(request));
        let mut has_ended = false;
        let answered = std::future::poll_fn(|context| {
            // Where it ends before its answer, the answer says so.
            has_ended = has_ended || connection.poll_without_shutdown(context).is_ready();
            answered.as_mut().poll(context)
        });
        let response = answered.await.map_err(Failed::Http)?;
        let Some(left) = length_of_raw(&response) else {
            self.record_response_kind(false);
            if !has_ended {
                // It ends with its body, or when that is dropped.
                tokio::spawn(connection);
            }
            return Ok((response.map(Body::wrap).into(), None));
        };
        let is_last =
            |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("close"));
        let may_be_used_again =
            response.version() == Version::HTTP_11 && !response.headers().get_all(CONNECTION).iter().any(is_last);
        let (head, mut body) = response.into_parts();
        let mut early = Vec::new();
        while let Some(bytes) = next_if_here(&mut body).map_err(Failed::Http)? {
            early.extend_from_slice(&bytes);
        }
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        early.extend_from_slice(&read_buf);
        let may_be_used_again = may_be_used_again && early.len() <= left;
        early.truncate(left);
        let early = early.into();
        let body = RawBody { direct: self, stream: Some(io.into_inner()), early, left, may_be_used_again };
        Ok((hyper::Response::from_parts(head, "").into(), Some(body)))
    }

    /// A request as it is written to a server itself.
    fn written(&self, request: reqwest::Request) -> reqwest::Result<hyper::Request<Body>> {
        let mut request = hyper::Request::<Body>::try_from(request)?;
        request.headers_mut().insert(HOST, self.host.clone());
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
        Ok(request)
    }

    /// A connection that was kept, on which nothing has come since.
    fn idle(&self) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.as_mut()?;
        idle.retain(|(_, since)| since.elapsed() < IDLE);
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

impl RawBody<'_> {
    /// Bytes that are to come.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Reads all of it into a place of its length.
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

    /// The next bytes of it; none behind the last.
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

    /// It was read to its end.
    fn end(&mut self) {
        if let Some(stream) = self.stream.take()
            && self.may_be_used_again
        {
            self.direct.keep(stream);
        }
    }
}

/// Bytes of the body where an answer is raw vectors, of a length that it says.
fn length_of_raw(response: &hyper::Response<Incoming>) -> Option<usize> {
    let is_raw = |kind: &HeaderValue| kind.to_str().is_ok_and(is_octets);
    let is_raw = response.status() == StatusCode::OK && response.headers().get(CONTENT_TYPE).is_some_and(is_raw);
    let length = response.body().size_hint().exact().filter(|length| is_raw && *length > 0)?;
    usize::try_from(length).ok()
}

/// What hyper has read of a body already.
fn next_if_here(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => Ok(frame.into_data().ok()),
        Poll::Ready(Some(Err(error))) => Err(error),
        Poll::Ready(None) | Poll::Pending => Ok(None),
    }
}

/// Whether a connection is open and nothing has come on it.
fn is_silent(stream: &TcpStream) -> bool {
    stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn ended_early(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return error;
    }
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed before the end of the body")
}
