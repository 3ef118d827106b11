//! Unix sockets: their files, and listeners of either kind.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use socket2::{Domain, SockAddr, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// Outside a runtime.
pub(crate) type StdListener = Either<std::net::TcpListener, std::os::unix::net::UnixListener>;

pub(crate) type Listener = Either<TcpListener, UnixListener>;

pub(crate) type Socket = Either<TcpStream, UnixStream>;

/// The file of our socket, removed with this value unless another file has taken its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

pub(crate) fn tcp(listener: std::net::TcpListener) -> StdListener {
    Either::Left(listener)
}

/// The first socket of systemd if it is a Unix socket, and its path.
pub(crate) fn inherited(sockets: &mut ListenFd) -> io::Result<Option<(StdListener, PathBuf)>> {
    let Some(listener) = sockets.take_unix_listener(0)? else { return Ok(None) };
    listener.set_nonblocking(true)?;
    let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
    Ok(Some((Either::Right(listener), path)))
}

pub(crate) fn bind_file(path: &Path, mode: u32, backlog: i32) -> io::Result<(StdListener, SocketFile)> {
    remove_stale(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let found = path.symlink_metadata()?;
    let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
    // It does not listen yet, so no client can connect before this.
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok((Either::Right(socket.into()), file))
}

/// The listener for the current runtime.
pub(crate) fn listen(listener: StdListener) -> io::Result<Listener> {
    Ok(match listener {
        Either::Left(listener) => Either::Left(TcpListener::from_std(listener)?),
        Either::Right(listener) => Either::Right(UnixListener::from_std(listener)?),
    })
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
        bind_file(path, 0o600, 16).err().map(|error| error.kind())
    }

    #[test]
    fn unix_socket_file_has_mode_and_is_removed() {
        let folder = std::env::temp_dir().join(format!("pullquote-sockets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        let (listener, file) = bind_file(&path, 0o640, 16).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(refusal(&path), Some(io::ErrorKind::AddrInUse));
        // As after a kill: the file stays, and nothing answers.
        drop(listener);
        std::mem::forget(file);
        let taken_over = bind_file(&path, 0o600, 16).unwrap();
        drop(taken_over);
        assert!(!path.exists());
        // A file that is not ours stays.
        let bound = bind_file(&path, 0o600, 16).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        drop(bound);
        assert_eq!(refusal(&path), Some(io::ErrorKind::AlreadyExists));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
