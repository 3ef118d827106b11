//! The log on standard error. A thread writes it, so that a full pipe blocks no request.

use pullquote_core::error::{Error, ErrorKind, Result};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::settings::{LogFormat, Settings};

/// Starts the log; dropping the guard writes its last lines. If the process already has a log, that one stays.
pub(crate) fn start(settings: &Settings) -> Result<WorkerGuard> {
    let level: LevelFilter = settings.log_level.parse().map_err(|_| {
        let message = format!("log_level must be off, error, warn, info, debug or trace, not {:?}", settings.log_level);
        Error::new(ErrorKind::InvalidArgument, message)
    })?;
    // Lines are dropped while the pipe is full.
    let (writer, guard) = non_blocking(std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).with_target(false);
    let lines = match settings.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // The exporter would say every few seconds what `http::otel` says once a minute.
    let filter = Targets::new().with_default(level).with_target("opentelemetry-otlp", LevelFilter::OFF);
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(guard)
}
