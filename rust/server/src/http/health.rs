//! Health: whether an encode has just succeeded, and not whether the process still stands.
//!
//! Any request whose texts were encoded proves it. Where none was of late, a small text is encoded; that takes its turn
//! among the batches of all requests, so a busy server is healthy as long as it gets anything done. What a probe found
//! holds for a while, so that asking often costs nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

use crate::app::App;

/// How long a success, and what a probe found, speaks for the server.
const HOLDS: Duration = Duration::from_secs(2);

/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the encoder.
#[derive(Default)]
pub(crate) struct Health {
    /// When a text was last encoded.
    success: Mutex<Option<Instant>>,
    /// When the last probe ended, and how. Locked while one is under way, so that there is one at a time.
    probe: tokio::sync::Mutex<Option<(Instant, Result<()>)>>,
}

impl Health {
    /// A text was encoded.
    pub(crate) fn succeeded(&self) {
        *self.success.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn succeeded_since(&self, moment: Instant) -> bool {
        self.success.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|success| success >= moment)
    }

    /// Whether texts are being encoded. Who asks may hang up: the probe goes on, and the next one is told what it found.
    pub(crate) async fn check(app: &Arc<App>) -> Result<()> {
        let found = tokio::spawn(Self::find(Arc::clone(app))).await;
        found.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the probe panicked")))
    }

    async fn find(app: Arc<App>) -> Result<()> {
        let asked = Instant::now();
        let recent = asked.checked_sub(HOLDS).unwrap_or(asked);
        if app.health.succeeded_since(recent) {
            return Ok(());
        }
        let mut last = app.health.probe.lock().await;
        if let Some((at, found)) = &*last
            && *at >= recent
        {
            return found.clone();
        }
        let engine = Arc::clone(&app.engine);
        let probe = move || engine.embed(&["health"], Role::Passage, &Call::new(Some(PATIENCE), None));
        let found = match tokio::task::spawn_blocking(probe).await {
            Ok(embedded) => embedded.map(|_| ()),
            Err(_) => Err(Error::new(ErrorKind::Internal, "the probe panicked")),
        };
        // Others may have got something done while the probe had to wait.
        let found = if app.health.succeeded_since(asked) { Ok(()) } else { found };
        if found.is_ok() {
            app.health.succeeded();
        }
        *last = Some((Instant::now(), found.clone()));
        found
    }
}
