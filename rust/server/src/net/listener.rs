//! Sockets: where a server listens, an address or a file, and the connections it accepts there.
//!
//! The file of a Unix socket is made with its permissions before anybody can connect to it, and removed when the server ends.
//! One that a server left behind when it was killed is taken over; one that answers, or is something else, never is.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use pullquote_core::error::{Error, ErrorKind, Result};
use socket2::{Domain, SockAddr, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::settings::Settings;

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A place that was taken; gives it back when it is dropped.
pub(crate) struct BoundListener {
    listener: Waiting,
    pub(crate) address: Address,
    file: Option<SocketFile>,
}

/// A listener outside of any runtime.
enum Waiting {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// A listener inside of one.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a socket of ours, removed with this value unless somebody else has put one in its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundListener {
    /// Takes the place that settings name.
    pub(crate) fn take(settings: &Settings) -> Result<Self> {
        if let Some(path) = &settings.uds {
            return Self::file(path, settings.uds_mode).map_err(|error| {
                let message = format!("cannot listen on the socket {}: {error}", path.display());
                Error::new(ErrorKind::InvalidArgument, message)
            });
        }
        let bound = std::net::TcpListener::bind((settings.host.as_str(), settings.port)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = Address::Tcp(listener.local_addr()?);
            Ok(Self { listener: Waiting::Tcp(listener), address, file: None })
        });
        bound.map_err(|error| {
            let message = format!("cannot listen on {}:{}: {error}", settings.host, settings.port);
            Error::new(ErrorKind::InvalidArgument, message)
        })
    }

    fn file(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let found = path.symlink_metadata()?;
        let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
        // Nobody can connect before it listens, so there is no moment at which others may.
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let address = Address::Unix(path.to_owned());
        Ok(Self { listener: Waiting::Unix(socket.into()), address, file: Some(file) })
    }

    /// The listener, for the runtime around this call, and what must be kept as long as it listens.
    pub(crate) fn listen(self) -> io::Result<(Listener, Option<SocketFile>)> {
        let listener = match self.listener {
            Waiting::Tcp(listener) => Listener::Tcp(TcpListener::from_std(listener)?),
            Waiting::Unix(listener) => Listener::Unix(UnixListener::from_std(listener)?),
        };
        Ok((listener, self.file))
    }
}

/// Removes a socket at which nobody listens any more.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match BlockingUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers there")),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |found: std::fs::Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        if self.path.symlink_metadata().is_ok_and(is_ours) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        let kind = match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole; waiting for more to send would only delay them.
                let _ = stream.set_nodelay(true);
                Kind::Tcp(stream)
            }
            Self::Unix(listener) => Kind::Unix(listener.accept().await?.0),
        };
        Ok(Socket { kind, abandoned: Arc::default() })
    }
}

/// A connection.
pub(crate) struct Socket {
    kind: Kind,
    abandoned: Arc<AtomicBool>,
}

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Says of a connection, wherever it is, that nothing is worth sending on it any more.
#[derive(Clone)]
pub(crate) struct Abandon(Arc<AtomicBool>);

impl Abandon {
    pub(crate) fn abandon(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Socket {
    pub(crate) fn handle(&self) -> Abandon {
        Abandon(Arc::clone(&self.abandoned))
    }
}

impl Drop for Socket {
    /// What still lies with the system for a client that does not read goes with the connection.
    fn drop(&mut self) {
        if let Kind::Tcp(stream) = &self.kind
            && self.abandoned.load(Ordering::Relaxed)
        {
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(context, read),
            Kind::Unix(stream) => Pin::new(stream).poll_read(context, read),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Kind::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Kind::Unix(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Tcp(stream) => stream.is_write_vectored(),
            Kind::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Kind::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Kind::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &Path) -> String {
        BoundListener::file(path, 0o600).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn unix_socket_file_has_mode_and_is_removed() {
        let folder = std::env::temp_dir().join(format!("pullquote-sockets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        let place = BoundListener::file(&path, 0o640).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(place.address.to_string(), format!("unix:{}", path.display()));
        assert_eq!(message(&path), "another server answers there");
        // Killed: the file stays, and nobody answers.
        let BoundListener { listener, file, .. } = place;
        drop(listener);
        std::mem::forget(file);
        let taken_over = BoundListener::file(&path, 0o600).unwrap();
        drop(taken_over);
        assert!(!path.exists());
        // What is no longer ours is not removed.
        let place = BoundListener::file(&path, 0o600).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(place);
        assert_eq!(message(&path), "there is a file that is no socket");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
