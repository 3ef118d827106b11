//! Systems whose Unix sockets tokio does not know: addresses only.

use std::io;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpStream};

/// Outside a runtime.
pub(crate) type StdListener = std::net::TcpListener;

pub(crate) type Listener = TcpListener;

pub(crate) type Socket = TcpStream;

/// There is none.
pub(crate) enum SocketFile {}

pub(crate) fn tcp(listener: std::net::TcpListener) -> StdListener {
    listener
}

#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn inherited(_: &mut ListenFd) -> io::Result<Option<(StdListener, PathBuf)>> {
    Ok(None)
}

pub(crate) fn bind_file(_: &Path, _: u32, _: i32) -> io::Result<(StdListener, SocketFile)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets; listen on a host and a port"))
}

/// The listener for the current runtime.
pub(crate) fn listen(listener: StdListener) -> io::Result<Listener> {
    TcpListener::from_std(listener)
}

pub(crate) async fn accept(listener: &mut Listener) -> io::Result<Socket> {
    let (stream, _) = listener.accept().await?;
    // Answers are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
