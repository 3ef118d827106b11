//! Listeners: an address, a Unix socket or a socket of systemd, and the connections accepted there.
//!
//! The file of a Unix socket gets its permissions before anyone can connect to it, and is removed when the server ends.
//! A new server takes over the file of a killed one, but never one that answers or another kind of file.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use pullquote_core::error::{Error, ErrorKind, Result};
use socket2::{Domain, SockAddr, SockRef, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use crate::settings::Settings;

/// Connections that the system keeps until they are accepted; Linux takes at most `net.core.somaxconn`. std's 128 are
/// too few for a thousand clients that connect at once: each of the others waits a second until its system asks again.
const BACKLOG: i32 = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
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

pub(crate) type Listener = Either<TcpListener, UnixListener>;

pub(crate) type Socket = Either<TcpStream, UnixStream>;

/// A bound listener, outside a runtime. Dropping it frees its address.
pub(crate) struct BoundListener {
    listener: Either<std::net::TcpListener, std::os::unix::net::UnixListener>,
    pub(crate) address: Address,
    file: Option<SocketFile>,
}

/// The file of our socket, removed with this value unless another file has taken its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl BoundListener {
    /// Takes the socket that systemd has bound (`LISTEN_FDS`), or else binds the address of the settings.
    pub(crate) fn bind(settings: &Settings) -> Result<Self> {
        let inherited = Self::inherited().map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, format!("the socket of LISTEN_FDS cannot be used: {error}"))
        })?;
        if let Some(inherited) = inherited {
            return Ok(inherited);
        }
        if let Some(path) = &settings.uds {
            return Self::bind_file(path, settings.uds_mode).map_err(|error| {
                let message = format!("cannot listen on the socket {}: {error}", path.display());
                Error::new(ErrorKind::InvalidArgument, message)
            });
        }
        let bound = std::net::TcpListener::bind((settings.host.as_str(), settings.port)).and_then(|listener| {
            SockRef::from(&listener).listen(BACKLOG)?;
            listener.set_nonblocking(true)?;
            let address = Address::Tcp(listener.local_addr()?);
            Ok(Self { listener: Either::Left(listener), address, file: None })
        });
        bound.map_err(|error| {
            let message = format!("cannot listen on {}:{}: {error}", settings.host, settings.port);
            Error::new(ErrorKind::InvalidArgument, message)
        })
    }

    fn inherited() -> io::Result<Option<Self>> {
        // As sd_listen_fds: without the process that they are for, they are another's.
        if std::env::var_os("LISTEN_PID").is_none() {
            return Ok(None);
        }
        let mut sockets = ListenFd::from_env();
        if sockets.len() == 0 {
            return Ok(None);
        }
        if let Ok(Some(listener)) = sockets.take_tcp_listener(0) {
            listener.set_nonblocking(true)?;
            let address = Address::Tcp(listener.local_addr()?);
            return Ok(Some(Self { listener: Either::Left(listener), address, file: None }));
        }
        let Some(listener) = sockets.take_unix_listener(0)? else { return Ok(None) };
        listener.set_nonblocking(true)?;
        let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        Ok(Some(Self { listener: Either::Right(listener), address: Address::Unix(path), file: None }))
    }

    fn bind_file(path: &Path, mode: u32) -> io::Result<Self> {
        remove_stale(path)?;
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let found = path.symlink_metadata()?;
        let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
        // It does not listen yet, so no client can connect before this.
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let address = Address::Unix(path.to_owned());
        Ok(Self { listener: Either::Right(socket.into()), address, file: Some(file) })
    }

    /// The listener for the current runtime, and the file to keep as long as it listens.
    pub(crate) fn listen(self) -> io::Result<(Listener, Option<SocketFile>)> {
        let listener = match self.listener {
            Either::Left(listener) => Either::Left(TcpListener::from_std(listener)?),
            Either::Right(listener) => Either::Right(UnixListener::from_std(listener)?),
        };
        Ok((listener, self.file))
    }
}

/// Removes the socket of a killed server.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file exists there that is not a socket"));
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

pub(crate) async fn accept(listener: &mut Listener) -> io::Result<Socket> {
    Ok(match listener.accept().await? {
        Either::Left((stream, _)) => {
            // Answers are written whole, so Nagle's algorithm would only delay them.
            let _ = stream.set_nodelay(true);
            Either::Left(stream)
        }
        Either::Right((stream, _)) => Either::Right(stream),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> Option<io::ErrorKind> {
        BoundListener::bind_file(path, 0o600).err().map(|error| error.kind())
    }

    #[test]
    fn unix_socket_file_has_mode_and_is_removed() {
        let folder = std::env::temp_dir().join(format!("pullquote-sockets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        let bound = BoundListener::bind_file(&path, 0o640).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(bound.address.to_string(), format!("unix:{}", path.display()));
        assert_eq!(refusal(&path), Some(io::ErrorKind::AddrInUse));
        // As after a kill: the file stays, and nothing answers.
        let BoundListener { listener, file, .. } = bound;
        drop(listener);
        std::mem::forget(file);
        let taken_over = BoundListener::bind_file(&path, 0o600).unwrap();
        drop(taken_over);
        assert!(!path.exists());
        // A file that is not ours stays.
        let bound = BoundListener::bind_file(&path, 0o600).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(bound);
        assert_eq!(refusal(&path), Some(io::ErrorKind::AlreadyExists));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
