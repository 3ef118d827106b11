//! Sending: a connection whose other end must go on reading.
//!
//! hyper waits for ever until a client takes its answer, which all the while lies in memory and holds a connection's place.
//! Here a write that makes no progress for the time that settings give it is an error, and ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A connection with a bound on how long a write may stand still.
pub(crate) struct Sending {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
    has_stalled: bool,
}

impl Sending {
    pub(crate) const fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, has_stalled: false }
    }

    /// The bare connection, and whether its client stopped reading.
    pub(crate) fn into_parts(self) -> (TcpStream, bool) {
        (self.stream, self.has_stalled)
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        if waiting.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.has_stalled = true;
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for Sending {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, read)
    }
}

impl AsyncWrite for Sending {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
