//! The signals that stop a server.

use std::io::Result;
use std::time::{Duration, Instant};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT on Unix; Ctrl-C elsewhere.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers; from now on, the signals do not end the process.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "it can fail elsewhere")]
    pub(crate) const fn listen() -> Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal after this delay. Earlier ones are ignored.
    pub(crate) async fn next_after(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            self.next().await;
            if Instant::now() >= until {
                return;
            }
        }
    }

    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
