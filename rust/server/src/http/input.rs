//! A request as its work sees it: its body, its deadline and priority, and whether its client has disconnected.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use pullquote_core::runtime::call::{Call, Stop};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::answer::AnswerWriter;
use crate::http::auth::KeyHash;
use crate::http::body;
use crate::http::failure::Failure;
use crate::http::memory::RequestMemory;
use crate::http::request_id::RequestId;
use crate::http::work_memory::{FREE_WORK, QUERY, TEXT};

/// Fields of the request that the route does not know.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-ignored-fields");

/// The longest value of that header, in characters.
const LONGEST_IGNORED: usize = 1024;

/// An extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    pub(crate) deadline: Instant,
    pub(crate) priority: i32,
    /// The valid key that came with it.
    pub(crate) key: Option<KeyHash>,
}

pub(crate) struct Input {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) limits: RequestLimits,
    pub(crate) queued: Duration,
    /// For the log of work that continues after the answer has begun.
    pub(crate) id: RequestId,
    /// Fields of the body that nothing has read.
    pub(super) ignored: RefCell<Vec<String>>,
    pub(super) stop: Stop,
    pub(crate) memory: RequestMemory,
    pub(super) work: RefCell<MoreWork>,
}

/// Memory for work beyond that on the body.
pub(super) struct MoreWork {
    /// Bytes that do not count: small requests do not wait for large ones.
    free: usize,
    taken: Vec<OwnedSemaphorePermit>,
}

impl Default for MoreWork {
    fn default() -> Self {
        Self { free: FREE_WORK, taken: Vec::new() }
    }
}

/// The deadline and cancellation of a request's calls and its memory, for any thread.
#[derive(Clone)]
pub(crate) struct RequestControl {
    limits: RequestLimits,
    stop: Stop,
    pub(crate) memory: RequestMemory,
}

impl Input {
    pub(crate) fn parse<'body, T: Deserialize<'body>>(&'body self) -> Result<T, Failure> {
        body::parse(&self.headers, &self.body, |path| self.ignored.borrow_mut().push(path))
    }

    /// Parses a part of a form, which is a JSON object.
    pub(crate) fn parse_part<T: for<'part> Deserialize<'part>>(&self, part: &[u8]) -> Result<T, Failure> {
        body::parse_json(part, |path| self.ignored.borrow_mut().push(path))
    }

    /// A header with the fields that the route does not know.
    pub(crate) fn ignored_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let names: String = self.ignored.borrow().join(", ").chars().take(LONGEST_IGNORED).collect();
        let names = HeaderValue::from_str(&names).ok().filter(|names| !names.is_empty())?;
        Some((IGNORED, names))
    }

    /// A call that ends with the request: at its deadline, after its own timeout, or when the client disconnects.
    pub(crate) fn call(&self, timeout: Option<Duration>) -> Call<'static> {
        self.end().within(timeout).call()
    }

    /// Takes memory for a text that the request names and works on.
    pub(crate) fn hold_text(&self, bytes: usize) -> Result<(), Failure> {
        self.memory.hold(bytes)?;
        self.work_on(bytes)
    }

    /// Takes memory for work on a text that is not in the body, until that work has ended.
    pub(crate) fn work_on(&self, bytes: usize) -> Result<(), Failure> {
        self.more_work(bytes, TEXT)
    }

    /// Takes memory for queries that are all asked of the same texts.
    pub(crate) fn work_for_queries(&self, queries: usize) -> Result<(), Failure> {
        self.more_work(self.memory.held_bytes(), QUERY * queries.saturating_sub(1))
    }

    fn more_work(&self, bytes: usize, multiple: usize) -> Result<(), Failure> {
        let mut work = self.work.borrow_mut();
        work.free = work.free.saturating_sub(bytes.saturating_mul(multiple));
        if work.free == 0 && multiple > 0 {
            work.taken.push(self.memory.try_acquire_work(bytes, multiple)?);
        }
        Ok(())
    }

    /// A writer of the request's answer.
    pub(crate) fn answer(&self) -> AnswerWriter {
        AnswerWriter::new(self.call(None), self.memory.clone())
    }

    pub(crate) fn end(&self) -> RequestControl {
        RequestControl { limits: self.limits, stop: self.stop.clone(), memory: self.memory.clone() }
    }
}

impl RequestControl {
    pub(crate) fn within(mut self, timeout: Option<Duration>) -> Self {
        if let Some(sooner) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) {
            self.limits.deadline = self.limits.deadline.min(sooner);
        }
        self
    }

    pub(crate) fn with_priority(mut self, priority: i32) -> Self {
        self.limits.priority = priority;
        self
    }

    pub(crate) fn call(&self) -> Call<'static> {
        let left = self.limits.deadline.saturating_duration_since(Instant::now());
        Call::new(Some(left), None).stopped_by(self.stop.clone()).with_priority(self.limits.priority)
    }
}
