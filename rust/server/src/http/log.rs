//! The log on standard error. A thread writes it, so that a full pipe blocks no request.

use pullquote_core::error::{Error, ErrorKind, Result};
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking;
use tracing_appender::non_blocking::WorkerGuard;

use crate::settings::{LogFormat, Settings};

/// Starts the log; dropping the guard writes its last lines. If the process already has a log, that one stays.
pub(crate) fn start(settings: &Settings) -> Result<WorkerGuard> {
    let level: LevelFilter = settings.log_level.parse().map_err(|_| {
        let message = format!("log_level must be off, error, warn, info, debug or trace, not {:?}", settings.log_level);
        Error::new(ErrorKind::InvalidArgument, message)
    })?;
    // Lines are dropped while the pipe is full.
    let (writer, guard) = non_blocking(std::io::stderr());
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(writer).with_ansi(false).with_target(false);
    let _ = match settings.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(guard)
}
