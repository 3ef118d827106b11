//! Streams: what bounds a connection of HTTP/2, on which requests are answered beside each other.
//!
//! It has the bounds of one of HTTP/1.1. A connection without a request ends after the time that headers may take. An answer of
//! which the client takes nothing for the time that a write may stand still ends it too; this cannot be seen by writes, for a
//! client of HTTP/2 says by itself how much may be sent to it. So an answer's body goes to hyper in pieces, each when the
//! client has room for it, and what is looked at is how long one waits for that.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Requests of a connection at the same time; a client with more waits.
const MAX_STREAMS: u32 = 128;

/// What a client may send before somebody reads it: of a request, and of all of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;

/// The most of a body that hyper is given at once. The last piece can be left lying by a client, so it is not large.
const PIECE: usize = 64 * 1024;

/// How long things may stand still.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// A connection without a request.
    pub(crate) idle: Duration,
    /// An answer that is not taken.
    pub(crate) stalled: Duration,
}

/// What has stood still for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The connection.
    Idle,
    /// An answer.
    Stalled,
}

/// The requests of a connection.
#[derive(Clone)]
pub(crate) struct Streams(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signalled where something may be overdue sooner than was thought, and when no request is left.
    changed: Notify,
}

struct State {
    limits: Limits,
    open: usize,
    idle_since: Instant,
    /// Answers of which a piece waits for the client, each since when.
    held: HashMap<u64, Instant>,
    next: u64,
}

/// A request that is answered; its end is noted when this is dropped.
pub(crate) struct Noted {
    streams: Streams,
    id: u64,
}

/// The body of its answer.
struct Pieces {
    body: Body,
    /// What is left of the last frame.
    rest: Bytes,
    noted: Noted,
}

/// How HTTP/2 is spoken.
pub(crate) fn builder(max_header_bytes: usize) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    http
}

impl Streams {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State { limits, open: 0, idle_since: Instant::now(), held: HashMap::new(), next: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// A request has come.
    pub(crate) fn begin(&self) -> Noted {
        let mut state = self.state();
        state.open += 1;
        state.next += 1;
        Noted { streams: self.clone(), id: state.next }
    }

    /// The connection is to end; from now on it may stand still as long as an answer.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.limits.idle = state.limits.stalled;
        state.idle_since = Instant::now();
        self.0.changed.notify_waiters();
    }

    /// Waits until something is overdue.
    pub(crate) async fn overdue(&self) -> Overdue {
        loop {
            let changed = self.0.changed.notified();
            let due = self.state().due();
            match due {
                Some((due, overdue)) if due <= Instant::now() => return overdue,
                Some((due, _)) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Waits until no request is being answered.
    pub(crate) async fn none(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.state().open == 0 {
                return;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in there is ever left half changed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn due(&self) -> Option<(Instant, Overdue)> {
        if self.open == 0 {
            return Some((self.idle_since + self.limits.idle, Overdue::Idle));
        }
        self.held.values().min().map(|since| (*since + self.limits.stalled, Overdue::Stalled))
    }
}

impl Noted {
    /// The body of the answer, in pieces that are watched.
    pub(crate) fn body(self, body: Body) -> Body {
        Body::new(Pieces { body, rest: Bytes::new(), noted: self })
    }

    fn hold(&self) {
        let mut state = self.streams.state();
        if state.held.is_empty() {
            self.streams.0.changed.notify_waiters();
        }
        state.held.insert(self.id, Instant::now());
    }

    fn let_go(&self) {
        self.streams.state().held.remove(&self.id);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.held.remove(&self.id);
        state.open -= 1;
        if state.open == 0 {
            state.idle_since = Instant::now();
            self.streams.0.changed.notify_waiters();
        }
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.noted.let_go();
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let size = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(size);
        self.noted.hold();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
