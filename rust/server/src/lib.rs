//! pullquote over HTTP.
//!
//! One process serves one engine. Asynchronous code reads requests and writes responses, and never computes. Blocking
//! threads compute; they never await, and stop when their client disconnects (`http::admission`).
//!
//! A folder imports only those above it:
//!
//! | folder | does |
//! |---|---|
//! | `net` | listeners, connections and their timeouts |
//! | `http` | what every request has: middleware, admission, authentication, errors, metrics |
//! | `store` | documents that clients have stored |
//! | `fetch` | pages by their addresses, and other servers that search |
//! | `uploads` | uploaded files, read by processes of their own |
//! | `app` | state that the routes share |
//! | `routes` | one module for each API; Exa's contract is in `routes/exa` |
//! | `openapi` | the document that describes all routes |
//! | `router` | all routes inside the middleware |
//! | `stdio` | the tools of agents over standard input and output |

mod app;
mod fetch;
mod http;
mod net;
mod openapi;
mod router;
mod routes;
mod serde_messages;
mod settings;
mod stdio;
mod store;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use pullquote_core::engine::Engine;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::priority::set_nice;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tracing_appender::non_blocking::WorkerGuard;

use app::App;
pub use fetch::{FetchLimits, FetchedPage, decode_undeclared, fetch_page};
pub use http::answer::{LEAST as LEAST_ANSWER, MULTIPLE as ANSWER_MULTIPLE};
use http::auth::Keys;
use net::connections::{ConnectionMetrics, Connections};
pub use net::listener::Address;
use net::listener::BoundListener;
use net::shutdown::Signals;
pub use routes::highlights::{BodyLimits, BodyRefusal, HighlightsBody};
pub use routes::request_pages::RequestText;
pub use settings::{LogFormat, Settings};
pub use stdio::{AgentSettings, ServerSettings, serve_agent};
pub use store::check_store;

/// Signals this close together are one: `timeout` sends one to the process and one to its group.
const SAME_SIGNAL: Duration = Duration::from_secs(2);

/// A server that has bound its address.
pub struct Server {
    app: Arc<App>,
    connections: Connections,
    keys: Arc<Keys>,
    stop: watch::Sender<bool>,
    bound: BoundListener,
    signals: Signals,
    runtime: Runtime,
    _log: WorkerGuard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every accepted request was answered.
    Done,
    /// Some requests were not answered, after a second signal or `shutdown_timeout`.
    Cut,
}

/// Tells systemd, or another manager with its protocol; without one, nothing happens.
#[cfg(unix)]
fn notify(state: sd_notify::NotifyState) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}

impl Server {
    /// Binds the address. From now on the first SIGTERM or SIGINT ends the server instead of the process.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for settings that contradict each other or an address that cannot be bound, [`ErrorKind::Internal`] if no thread can be
    /// started.
    pub fn bind(settings: Settings, engine: Arc<Engine>) -> Result<Self> {
        let internal = |error: std::io::Error| Error::new(ErrorKind::Internal, format!("no runtime: {error}"));
        settings::check(&settings)?;
        engine.start()?;
        set_nice(settings.nice);
        let log = http::log::start(&settings)?;
        let bound = BoundListener::bind(&settings)?;
        let runtime = router::runtime(&settings)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::listen().map_err(internal)?
        };
        let keys = Arc::new(Keys::read(&settings)?);
        let (stop, stopping) = watch::channel(false);
        let (app, router) = router::service(settings, engine, &keys, &bound.address, stopping.clone())?;
        let metrics: Arc<dyn ConnectionMetrics> = Arc::clone(&app.metrics) as _;
        let connections = Connections::new(&app.settings, router, metrics, stopping);
        Ok(Self { app, connections, keys, stop, bound, signals, runtime, _log: log })
    }

    pub const fn address(&self) -> &Address {
        &self.bound.address
    }

    /// Serves until a signal, then answers the accepted requests within `shutdown_timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the runtime cannot use the listener.
    pub fn run(self) -> Result<Ended> {
        let Self { app, connections, keys, stop, bound, mut signals, runtime, .. } = self;
        let (address, has_keys) = (bound.address.clone(), keys.are_required());
        let ended = runtime.block_on(async {
            let (listener, _file) =
                bound.listen().map_err(|error| Error::new(ErrorKind::Internal, format!("no listener: {error}")))?;
            let served = tokio::spawn(connections.serve(listener));
            tokio::spawn(keys.watch());
            for device in app.engine.devices() {
                let (depth, batch_tokens, padded_rows) = (device.depth, device.batch_tokens, device.padded_rows);
                tracing::info!(name = device.name, depth, batch_tokens, padded_rows, "device");
            }
            tracing::info!(%address, "serving");
            let is_remote = matches!(&address, Address::Tcp(address) if !address.ip().to_canonical().is_loopback());
            if is_remote && !has_keys {
                tracing::warn!(%address, "other machines reach this server without a key; --api-key requires one");
            }
            #[cfg(unix)]
            notify(sd_notify::NotifyState::Ready);
            signals.next().await;
            #[cfg(unix)]
            notify(sd_notify::NotifyState::Stopping);
            let (running, waiting) = app.admission.state();
            tracing::info!(running, waiting, "stopping: answering the accepted requests");
            let _ = stop.send(true);
            let ended = tokio::select! {
                _ = served => Ended::Done,
                () = signals.next_after(SAME_SIGNAL) => Ended::Cut,
                () = tokio::time::sleep(app.settings.shutdown_timeout) => Ended::Cut,
            };
            tracing::info!(?ended, "stopped");
            Ok(ended)
        });
        if let Some(exporter) = &app.exporter {
            exporter.stop();
        }
        match ended {
            Ok(Ended::Done) => runtime.shutdown_timeout(Duration::from_secs(1)),
            _ => runtime.shutdown_background(),
        }
        ended
    }
}
