//! Health: whether texts are being encoded.
//!
//! Each request that encoded a text proves it. Without a recent one, a probe encodes a small text. It shares the
//! batches of all requests, so a busy server is healthy as long as it makes progress. The result of a probe is reused
//! for a while.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pullquote_core::engine::Engine;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::runtime::sync::lock;

/// How long a success, or the result of a probe, is valid.
const MAX_AGE: Duration = Duration::from_secs(2);

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Health {
    engine: Arc<Engine>,
    /// When a text was last encoded.
    success: Mutex<Option<Instant>>,
    /// When the last probe ended, and its result. Locked during a probe, so that there is one at a time.
    probe: tokio::sync::Mutex<Option<(Instant, Result<()>)>>,
}

impl Health {
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine, success: Mutex::default(), probe: tokio::sync::Mutex::default() })
    }

    pub(crate) fn succeeded(&self) {
        *lock(&self.success) = Some(Instant::now());
    }

    fn succeeded_since(&self, moment: Instant) -> bool {
        lock(&self.success).is_some_and(|success| success >= moment)
    }

    /// Whether texts are being encoded. If the client disconnects, the probe continues, for the next client.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<()> {
        let result = tokio::spawn(Arc::clone(self).find()).await;
        result.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the probe panicked")))
    }

    async fn find(self: Arc<Self>) -> Result<()> {
        let began = Instant::now();
        let recent = began.checked_sub(MAX_AGE).unwrap_or(began);
        if self.succeeded_since(recent) {
            return Ok(());
        }
        let mut last = self.probe.lock().await;
        if let Some((at, found)) = &*last
            && *at >= recent
        {
            return found.clone();
        }
        let engine = Arc::clone(&self.engine);
        let probe = move || {
            let call = Call::new(Some(PROBE_TIMEOUT), None);
            engine.probe(&call)
        };
        let found = match tokio::task::spawn_blocking(probe).await {
            Ok(probed) => probed,
            Err(_) => Err(Error::new(ErrorKind::Internal, "the probe panicked")),
        };
        // A request may have succeeded while the probe waited.
        let found = if self.succeeded_since(began) { Ok(()) } else { found };
        if found.is_ok() {
            self.succeeded();
        }
        *last = Some((Instant::now(), found.clone()));
        found
    }
}
