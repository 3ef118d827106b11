//! The rest of a request's body after an early answer: a full queue, a wrong path, a deadline.
//!
//! Over HTTP/1.1, hyper closes a connection after an answer if the request's body was not read to its end. A client
//! that does not know sends its next request there and loses it. So the server reads a small rest and ignores it. If
//! the rest is larger or does not come, the answer says `connection: close`.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{Version, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use pullquote_core::runtime::sync::lock;
use tokio::time::timeout;

/// The largest rest that is read: a new connection costs about as much.
const MAX_REST: u64 = 64 * 1024;

/// A rest that takes longer is not on its way: the client waits for something.
const TIMEOUT: Duration = Duration::from_millis(20);

/// What a route leaves unread of a request's body.
#[derive(Clone, Default)]
pub(crate) struct BodyDrain(Arc<Mutex<Remainder>>);

#[derive(Default)]
enum Remainder {
    /// Nothing, or it does not matter.
    #[default]
    Nothing,
    Rest(Body),
    DoNotRead,
}

/// A body that passes its rest on when it is dropped.
struct TrackedBody {
    body: Body,
    /// Also after an error.
    has_ended: bool,
    /// Whether the client waits for `100 Continue`, which a read would send.
    awaits_continue: bool,
    drain: BodyDrain,
}

impl BodyDrain {
    pub(crate) fn track(request: Request) -> (Request, Self) {
        let drain = Self::default();
        if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
            return (request, drain);
        }
        let awaits_continue = request.headers().contains_key(header::EXPECT);
        let tracked = |body| Body::new(TrackedBody { body, has_ended: false, awaits_continue, drain: drain.clone() });
        (request.map(tracked), drain)
    }

    /// Reads the rest. Whether the connection can carry another request.
    pub(crate) async fn finish(&self) -> bool {
        let remainder = std::mem::take(&mut *lock(&self.0));
        let mut body = match remainder {
            Remainder::Nothing => return true,
            Remainder::DoNotRead => return false,
            Remainder::Rest(body) => body,
        };
        let mut read = 0;
        let drain = async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, Bytes::len) as u64;
                if read > MAX_REST {
                    return false;
                }
            }
            true
        };
        timeout(TIMEOUT, drain).await.unwrap_or(false)
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.awaits_continue = false;
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
        let is_small = rest.size_hint().lower() <= MAX_REST;
        let remainder = if is_small && !self.awaits_continue { Remainder::Rest(rest) } else { Remainder::DoNotRead };
        *lock(&self.drain.0) = remainder;
    }
}
