//! Unread: what a client still sends when it has its answer already: a refusal, most often.
//!
//! Over HTTP/1.1 the next request stands behind the body of the last one, so a connection whose body nobody reads to its end
//! is closed. A client that is not told so asks again on it and gets nothing. So a small rest is read and forgotten; where
//! there is more, or it does not come, the answer says that the connection closes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{Version, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

/// A rest that is worth reading: a new connection costs about as much.
const SMALL: u64 = 64 * 1024;

/// How long it may take to come: it is on its way already, or else the client waits for something.
const SOON: Duration = Duration::from_millis(20);

/// What is left of a request's body when its route has let go of it.
#[derive(Clone, Default)]
pub(crate) struct BodyDrain(Arc<Mutex<Remainder>>);

#[derive(Default)]
enum Remainder {
    /// All was read, or there was nothing, or it does not matter.
    #[default]
    Nothing,
    /// A rest that may be read.
    Rest(Body),
    /// A rest that must not be read.
    DoNotRead,
}

/// A body that leaves its rest behind.
struct TrackedBody {
    body: Body,
    /// Whether its end has come, a bad one too.
    has_ended: bool,
    /// Whether the client waits to be told to send it, which reading it would do.
    is_awaited: bool,
    unread: BodyDrain,
}

impl BodyDrain {
    /// Gives a request a body that leaves its rest here.
    pub(crate) fn watch(request: Request) -> (Request, Self) {
        let unread = Self::default();
        let is_serial = request.version() <= Version::HTTP_11;
        if !is_serial || request.body().is_end_stream() {
            return (request, unread);
        }
        let is_awaited = request.headers().contains_key(header::EXPECT);
        let lent = |body| Body::new(TrackedBody { body, has_ended: false, is_awaited, unread: unread.clone() });
        (request.map(lent), unread)
    }

    /// Whether the connection can carry another request, when the rest of this one has been read.
    pub(crate) async fn is_read(&self) -> bool {
        let left = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut body = match left {
            Remainder::Nothing => return true,
            Remainder::DoNotRead => return false,
            Remainder::Rest(body) => body,
        };
        let mut read = 0;
        let drain = async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, Bytes::len) as u64;
                if read > SMALL {
                    return false;
                }
            }
            true
        };
        timeout(SOON, drain).await.unwrap_or(false)
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // From now on it is on its way.
        self.is_awaited = false;
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.has_ended |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if self.has_ended || self.body.is_end_stream() {
            return;
        }
        let rest = std::mem::replace(&mut self.body, Body::empty());
        let is_small = rest.size_hint().lower() <= SMALL;
        let left = if is_small && !self.is_awaited { Remainder::Rest(rest) } else { Remainder::DoNotRead };
        *self.unread.0.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }
}
