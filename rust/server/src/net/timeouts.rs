//! Timeouts that hyper lacks: a connection without a request, and an answer over HTTP/2 that its client does not read.
//!
//! Over HTTP/1.1 hyper bounds the time between requests, and a blocked write shows a client that does not read. Over
//! HTTP/2, flow control stops hyper before a write blocks. So hyper gets a body in parts, each when the client's window
//! allows it, and a timer runs until hyper fetches the next one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::Version;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// The largest part of a body that hyper gets at once. Small, because a client can leave the last one unread.
const MAX_PART: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Idle,
    Stalled,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// No request has come yet.
    New,
    /// hyper's own timeouts hold.
    Http1,
    Http2 {
        open_streams: usize,
    },
    /// A client of HTTP/2 does not read its answer.
    Stalled,
}

#[derive(Clone)]
pub(crate) struct Activity {
    state: watch::Sender<ConnectionState>,
    write_timeout: Duration,
}

/// A request over HTTP/2, until its answer is sent or it is dropped.
pub(crate) struct OpenStream(Activity);

impl Activity {
    pub(crate) fn new(write_timeout: Duration) -> Self {
        Self { state: watch::Sender::new(ConnectionState::New), write_timeout }
    }

    pub(crate) fn request(&self, version: Version) -> Option<OpenStream> {
        if version < Version::HTTP_2 {
            self.state
                .send_if_modified(|state| std::mem::replace(state, ConnectionState::Http1) != ConnectionState::Http1);
            return None;
        }
        self.state.send_modify(|state| match state {
            ConnectionState::Http2 { open_streams } => *open_streams += 1,
            ConnectionState::New | ConnectionState::Http1 => *state = ConnectionState::Http2 { open_streams: 1 },
            ConnectionState::Stalled => {}
        });
        Some(OpenStream(self.clone()))
    }

    /// Waits until the connection had no request for `idle_timeout`, or an answer stalls.
    pub(crate) async fn overdue(&self, idle_timeout: Duration) -> Overdue {
        let mut state = self.state.subscribe();
        loop {
            let current = *state.borrow_and_update();
            match current {
                ConnectionState::Stalled => return Overdue::Stalled,
                ConnectionState::New | ConnectionState::Http2 { open_streams: 0 } => {
                    if timeout(idle_timeout, state.changed()).await.is_err() {
                        return Overdue::Idle;
                    }
                }
                // It cannot fail: `self` has a sender.
                ConnectionState::Http1 | ConnectionState::Http2 { .. } => drop(state.changed().await),
            }
        }
    }

    /// Whether the client speaks HTTP/1.1, as far as it has shown.
    pub(crate) fn may_be_http1(&self) -> bool {
        matches!(*self.state.borrow(), ConnectionState::New | ConnectionState::Http1)
    }

    pub(crate) async fn first_request(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state != ConnectionState::New).await;
    }

    /// Waits until no stream of HTTP/2 is open.
    pub(crate) async fn no_streams(&self) {
        let is_open = |state: &ConnectionState| matches!(state, ConnectionState::Http2 { open_streams: 1.. });
        let _ = self.state.subscribe().wait_for(|state| !is_open(state)).await;
    }
}

impl OpenStream {
    pub(crate) fn watch(self, body: Body) -> Body {
        Body::new(WatchedBody { body, rest: Bytes::new(), timer: None, stream: self })
    }

    /// A timer that marks the connection as stalled, unless it is dropped before.
    fn timer(&self) -> AbortOnDropHandle<()> {
        let Activity { state, write_timeout } = self.0.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            sleep(write_timeout).await;
            state.send_replace(ConnectionState::Stalled);
        }))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| {
            if let ConnectionState::Http2 { open_streams } = state {
                *open_streams -= 1;
            }
        });
    }
}

struct WatchedBody {
    body: Body,
    /// What is left of the last frame.
    rest: Bytes,
    /// Runs while a part waits for the client.
    timer: Option<AbortOnDropHandle<()>>,
    stream: OpenStream,
}

impl hyper::body::Body for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.timer = None;
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let size = self.rest.len().min(MAX_PART);
        let part = self.rest.split_to(size);
        self.timer = Some(self.stream.timer());
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
