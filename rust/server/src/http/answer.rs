//! An answer while it is written: in chunks, within a limit and the memory for answers, until its request ends.
//!
//! An answer may have [`MULTIPLE`] bytes for each byte of its request and of the texts that this names, for each of its
//! queries, and [`LEAST`] more, but no more than half of `--max-queue-bytes`. So the cost of a request is bounded by
//! what it sent, whatever its options multiply.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::call::Call;
use serde::{Serialize, Serializer};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::not_json;
use crate::http::failure::{Amount, Cause, Failure};
use crate::http::memory::{FREE_BYTES, RequestMemory};

/// A token or a highlight of one byte takes up to 80 bytes of JSON, and no option alone takes more.
pub const MULTIPLE: usize = 80;

/// Every answer may have this many bytes.
pub const LEAST: usize = 1024 * 1024;

/// Bytes of a chunk. The first chunk of an answer does not count.
const CHUNK_BYTES: usize = FREE_BYTES;

/// Writes the JSON of an answer.
pub(crate) struct AnswerWriter {
    call: Call<'static>,
    /// `None` in a host, which limits its answers itself.
    memory: Option<RequestMemory>,
    limit: AnswerLimit,
    chunk: Vec<u8>,
    written: WrittenAnswer,
    /// Bytes that were taken before the end.
    taken: usize,
    /// Why a chunk could not be written.
    failure: Option<Failure>,
}

/// The most bytes of an answer, and what a failure says of it.
struct AnswerLimit {
    sent: usize,
    queries: usize,
    /// Bytes that are limited elsewhere.
    vectors: usize,
    most: usize,
    field: Option<&'static str>,
    advice: Cow<'static, str>,
}

/// The body of an answer. Each chunk gives its memory back when it is sent.
#[derive(Default)]
pub(crate) struct WrittenAnswer {
    chunks: VecDeque<(Bytes, Option<OwnedSemaphorePermit>)>,
    bytes: usize,
}

/// A list whose entries are made while they are written.
pub(crate) struct Listed<F>(pub(crate) F);

impl<F, I> Serialize for Listed<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

impl AnswerWriter {
    /// A writer that stops with the call.
    pub(crate) fn new(call: Call<'static>, memory: RequestMemory) -> Self {
        let (sent, most) = (memory.held_bytes(), memory.max_answer_bytes());
        Self::limited(call, Some(memory), sent, most)
    }

    /// A writer in a host, for a request of this many bytes.
    pub(crate) fn hosted(call: Call<'static>, sent: usize) -> Self {
        Self::limited(call, None, sent, usize::MAX)
    }

    fn limited(call: Call<'static>, memory: Option<RequestMemory>, sent: usize, most: usize) -> Self {
        let limit = AnswerLimit { sent, queries: 1, vectors: 0, most, field: None, advice: "request less".into() };
        Self { call, memory, limit, chunk: Vec::new(), written: WrittenAnswer::default(), taken: 0, failure: None }
    }

    /// An answer to each of several queries.
    pub(crate) fn for_queries(mut self, queries: usize) -> Self {
        self.limit.queries = queries;
        self
    }

    /// An answer that also has vectors, which have a limit of their own.
    pub(crate) fn with_vectors(mut self, bytes: usize) -> Self {
        self.limit.vectors = bytes;
        self
    }

    /// The field that makes this answer large, and what would work.
    pub(crate) fn advising(mut self, field: &'static str, advice: impl Into<Cow<'static, str>>) -> Self {
        (self.limit.field, self.limit.advice) = (Some(field), advice.into());
        self
    }

    /// Refuses an answer of this number of bytes, before they are made.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.limit.bytes() { Ok(()) } else { Err(self.limit.failure()) }
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut *self, value).map_err(|error| match self.failure.take() {
            Some(failure) => failure,
            // The call may have ended in the value itself.
            None => self.call.check().err().unwrap_or_else(|| not_json(&error)).into(),
        })
    }

    /// A value as a line.
    pub(crate) fn line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        self.json(value)?;
        self.chunk.push(b'\n');
        Ok(())
    }

    /// Appends JSON that is written without serde.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        write(&mut self.chunk);
        if self.chunk.len() < CHUNK_BYTES { Ok(()) } else { self.end_chunk() }
    }

    /// Appends a list; `write` appends an entry.
    pub(crate) fn entries<T>(
        &mut self,
        entries: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) -> Result<(), Failure> {
        self.append(|json| json.push(b'['))?;
        for (place, entry) in entries.into_iter().enumerate() {
            self.append(|json| {
                json.extend_from_slice(if place > 0 { b"," } else { b"" });
                write(json, entry);
            })?;
        }
        self.append(|json| json.push(b']'))
    }

    pub(crate) fn finish(mut self) -> Result<WrittenAnswer, Failure> {
        self.end_chunk()?;
        Ok(self.written)
    }

    /// What is written so far, which the limit still counts; the writer goes on.
    pub(crate) fn take(&mut self) -> Result<WrittenAnswer, Failure> {
        self.end_chunk()?;
        self.taken += self.written.bytes;
        Ok(std::mem::take(&mut self.written))
    }

    fn end_chunk(&mut self) -> Result<(), Failure> {
        self.check(self.taken + self.written.bytes + self.chunk.len())?;
        self.call.check()?;
        let is_free = self.taken == 0 && self.written.chunks.is_empty();
        let memory = self.memory.as_ref().filter(|_| !is_free);
        let memory = memory.map(|memory| memory.reserve_answer(self.chunk.len())).transpose()?;
        self.written.add(std::mem::take(&mut self.chunk).into(), memory);
        Ok(())
    }
}

impl io::Write for AnswerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.len() >= CHUNK_BYTES {
            self.end_chunk().map_err(|failure| {
                self.failure = Some(failure);
                io::Error::from(io::ErrorKind::Other)
            })?;
            self.chunk.reserve_exact(CHUNK_BYTES);
        }
        let taken = bytes.len().min(CHUNK_BYTES.saturating_sub(self.chunk.len()));
        self.chunk.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AnswerLimit {
    fn bytes(&self) -> usize {
        let Self { sent, queries, vectors, most, .. } = self;
        (sent.saturating_mul(MULTIPLE).saturating_mul(*queries).saturating_add(LEAST))
            .min(*most)
            .saturating_add(*vectors)
    }

    fn failure(&self) -> Failure {
        let Self { sent, advice, .. } = self;
        let message = format!(
            "the answer would have more than {} bytes, the maximum for a request of {sent} bytes; {advice}",
            self.bytes()
        );
        let field = self.field.map(str::to_owned);
        let cause = Cause::Core(ErrorKind::InvalidArgument);
        Failure { field, amount: Some(Amount::TooMuch), ..Failure::new(cause, message) }
    }
}

impl WrittenAnswer {
    fn add(&mut self, bytes: Bytes, memory: Option<OwnedSemaphorePermit>) {
        self.bytes += bytes.len();
        self.chunks.push_back((bytes, memory));
    }

    /// Appends bytes that are counted elsewhere.
    pub(crate) fn push(&mut self, bytes: impl Into<Bytes>) {
        self.add(bytes.into(), None);
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.chunks.extend(other.chunks);
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes);
        self.chunks.into_iter().for_each(|(bytes, _)| all.extend_from_slice(&bytes));
        all
    }

    pub(crate) fn into_body(mut self) -> Body {
        if self.chunks.len() > 1 {
            return Body::new(self);
        }
        self.chunks.pop_front().map_or_else(Body::empty, |(bytes, _)| bytes.into())
    }
}

impl hyper::body::Body for WrittenAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some((bytes, _)) = self.chunks.pop_front() else { return Poll::Ready(None) };
        self.bytes -= bytes.len();
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sent: usize, queries: usize, text: &str) -> Result<Vec<u8>, Failure> {
        let mut writer =
            AnswerWriter::hosted(Call::default(), sent).for_queries(queries).advising("context", "use less");
        writer.json(&text)?;
        Ok(writer.finish()?.into_vec())
    }

    #[test]
    fn answer_is_whole_in_any_number_of_chunks() {
        for bytes in [0, 1, CHUNK_BYTES - 2, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES, 1_000_000] {
            let text = "a".repeat(bytes);
            assert!(written(1, 1, &text).is_ok_and(|written| written == format!("\"{text}\"").into_bytes()), "{bytes}");
        }
    }

    #[test]
    fn answer_over_multiple_of_request_names_field() {
        let text = |bytes: usize| "a".repeat(bytes - 2);
        assert!(written(1000, 1, &text(LEAST + MULTIPLE * 1000)).is_ok());
        let failure = written(1000, 1, &text(LEAST + MULTIPLE * 1000 + 1)).expect_err("it is too long");
        assert_eq!(failure.field.as_deref(), Some("context"));
        assert!(failure.message.contains("1000") && failure.message.ends_with("use less"), "{}", failure.message);
        assert!(written(1000, 2, &text(LEAST + MULTIPLE * 1000 + 1)).is_ok());
    }

    #[test]
    fn answer_stops_with_its_call() {
        let call = Call::default();
        let mut writer = AnswerWriter::hosted(call.clone(), 1);
        call.stop().stop();
        let failure = writer.json(&"a".repeat(2 * CHUNK_BYTES)).expect_err("the call was stopped");
        assert_eq!(failure.cause, Cause::Core(ErrorKind::Cancelled));
    }
}
