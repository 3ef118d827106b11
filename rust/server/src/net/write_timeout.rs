//! Sending: a connection whose other end must go on reading.
//!
//! hyper waits for ever until a client takes its answer, which all the while lies in memory and holds a connection's place.
//! Here a write that makes no progress for the time that settings give it is an error, and ends the connection.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::net::listener::{Abandon, Socket};

/// How HTTP/2 begins where nothing was agreed on before (RFC 9113, 3.4). No request of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection with a bound on how long a write may stand still.
pub(crate) struct WriteTimeoutStream {
    socket: Socket,
    /// What was read to see which protocol it speaks, and how much of it has been read again.
    begin: Vec<u8>,
    again: usize,
    patience: Duration,
    /// Runs while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
    has_stalled: bool,
}

impl WriteTimeoutStream {
    pub(crate) const fn new(socket: Socket, patience: Duration) -> Self {
        Self { socket, begin: Vec::new(), again: 0, patience, waiting: None, has_stalled: false }
    }

    /// Whether the client speaks HTTP/2: reads as much as it takes to know.
    pub(crate) async fn is_http2(&mut self) -> Result<bool> {
        let mut read = [0; PREFACE.len()];
        loop {
            let known = self.begin.len();
            if self.begin != PREFACE[..known] {
                return Ok(false);
            }
            if known == PREFACE.len() {
                return Ok(true);
            }
            match self.socket.read(&mut read[known..]).await? {
                0 => return Ok(false),
                count => self.begin.extend_from_slice(&read[known..known + count]),
            }
        }
    }

    /// To say from outside that its client is not worth waiting for.
    pub(crate) fn handle(&self) -> Abandon {
        self.socket.handle()
    }

    /// The bare connection, and whether its client stopped reading.
    pub(crate) fn into_parts(self) -> (Socket, bool) {
        (self.socket, self.has_stalled)
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
        // Nothing that still lies with the system is worth waiting for either.
        self.socket.handle().abandon();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let left = &self.begin[self.again..];
        if left.is_empty() {
            return Pin::new(&mut self.socket).poll_read(context, read);
        }
        let count = left.len().min(read.remaining());
        read.put_slice(&left[..count]);
        self.again += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WriteTimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
