//! Listeners: an address, a Unix socket or a socket of systemd, and the connections accepted there.
//!
//! The file of a Unix socket gets its permissions before anyone can connect to it, and is removed when the server ends.
//! A new server takes over the file of a killed one, but never one that answers or another kind of file.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use pullquote_core::error::{Error, ErrorKind, Result};
use socket2::SockRef;

pub(crate) use self::system::{Listener, Socket, SocketFile, accept};
#[cfg(not(unix))]
use self::tcp as system;
#[cfg(unix)]
use self::unix as system;
use crate::settings::Settings;

#[cfg(not(unix))]
mod tcp;
#[cfg(unix)]
mod unix;

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

/// A bound listener, outside a runtime. Dropping it frees its address.
pub(crate) struct BoundListener {
    listener: system::StdListener,
    pub(crate) address: Address,
    file: Option<SocketFile>,
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
            Ok(Self { listener: system::tcp(listener), address, file: None })
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
            return Ok(Some(Self { listener: system::tcp(listener), address, file: None }));
        }
        let found = system::inherited(&mut sockets)?;
        Ok(found.map(|(listener, path)| Self { listener, address: Address::Unix(path), file: None }))
    }

    fn bind_file(path: &Path, mode: u32) -> io::Result<Self> {
        let (listener, file) = system::bind_file(path, mode, BACKLOG)?;
        Ok(Self { listener, address: Address::Unix(path.to_owned()), file: Some(file) })
    }

    /// The listener for the current runtime, and the file to keep as long as it listens.
    pub(crate) fn listen(self) -> io::Result<(Listener, Option<SocketFile>)> {
        Ok((system::listen(self.listener)?, self.file))
    }
}
