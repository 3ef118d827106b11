//! An answer line by line: each list of passages as soon as its pages are done, and a last line with the rest.
//!
//! The headers wait for the first pages, so that a failure before them has its own status. A later one is the last line,
//! as the body of a failed request would be. The work never waits for the client: the lines that it has not read are in
//! the memory for answers, and have its limits. A client that disconnects ends the work.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame as BodyFrame;
use pullquote_core::engine::{Engine, StreamedHighlights, Work};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::LINES;
use super::failure::NATIVE;
use super::request::PreparedRequest;
use super::response::{Frame, Totals, limited};
use crate::app::App;
use crate::http::answer::{AnswerWriter, WrittenAnswer};
use crate::http::failure::Failure;
use crate::http::input::{Input, RequestControl};
use crate::http::metrics::Metrics;
use crate::http::reply::Reply;
use crate::http::request_id::RequestId;
use crate::routes::request_pages::RequestText;

/// The lines of an answer that are still to be written.
struct Lines {
    engine: Arc<Engine>,
    request: PreparedRequest,
    streamed: StreamedHighlights<RequestText>,
    end: RequestControl,
    answer: AnswerWriter,
    totals: Totals,
    queued: Duration,
}

/// A body whose lines are still being made.
struct LinesBody {
    lines: WrittenAnswer,
    later: UnboundedReceiver<WrittenAnswer>,
}

/// Answers with the lines of the first pages; the reply's rest writes the others.
pub(super) fn respond(
    app: &App,
    input: &Input,
    request: PreparedRequest,
    end: RequestControl,
) -> Result<Reply, Failure> {
    let mut lines = Lines {
        engine: Arc::clone(&app.engine),
        streamed: StreamedHighlights::new(Arc::clone(&request.texts), request.question)?,
        answer: limited(&request, input.answer()),
        request,
        end,
        totals: Totals::default(),
        queued: input.queued,
    };
    let first = lines.next()?;
    if lines.streamed.is_finished() {
        return Ok(Reply::new(LINES, first.into_body(), lines.totals.work));
    }
    let (sending, later) = unbounded_channel();
    let (metrics, id) = (Arc::clone(&app.metrics), input.id.clone());
    let rest = move || {
        while !lines.streamed.is_finished() {
            let next = lines.next();
            // A client that disconnected has stopped the call.
            if sending.is_closed() {
                break;
            }
            let has_failed = next.is_err();
            let _ = sending.send(next.unwrap_or_else(|failure| last_line(failure, &metrics, &id)));
            if has_failed {
                break;
            }
        }
        let work = lines.totals.work;
        metrics.count(&work);
        tracing::info!(request_id = %id.0, windows = work.windows, tokens = work.tokens, "the answer ended");
    };
    // What it took is known, and counted, at its end.
    let reply = Reply::new(LINES, Body::new(LinesBody { lines: first, later }), Work::default());
    Ok(Reply { rest: Some(Box::new(rest)), ..reply })
}

impl Lines {
    /// The lines of the next pages; with the last of them, that of the rest.
    fn next(&mut self) -> Result<WrittenAnswer, Failure> {
        let call = self.end.call();
        let next = self.engine.wait(&call, self.streamed.next(&self.engine, &call))?;
        if let Some((pages, answers)) = next {
            self.totals.add(&answers, &self.request.options);
            let frame = Frame::of_pages(&self.request, &answers, &call, pages);
            frame.check_marks(&self.answer)?;
            frame.pages().try_for_each(|page| self.answer.line(&page))?;
        }
        if self.streamed.is_finished() {
            self.answer.line(&self.totals.footer(&self.request, self.queued))?;
        }
        self.answer.take()
    }
}

/// A failure after the answer has begun.
fn last_line(mut failure: Failure, metrics: &Metrics, id: &RequestId) -> WrittenAnswer {
    let cause = failure.cause.row().name;
    metrics.failure(&cause);
    tracing::warn!(request_id = %id.0, failure = %cause, "the answer ended early");
    failure.conceal(id);
    let mut line = WrittenAnswer::default();
    line.push(format!("{}\n", (NATIVE.body)(&failure, &id.0)));
    line
}

impl hyper::body::Body for LinesBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        loop {
            match Pin::new(&mut self.lines).poll_frame(context) {
                Poll::Ready(None) => {}
                frame => return frame,
            }
            match self.later.poll_recv(context) {
                Poll::Ready(Some(lines)) => self.lines = lines,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
