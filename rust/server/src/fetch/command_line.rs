//! Fetching one page for the command line, with the same guard and limits.

use std::time::Duration;

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use super::{FetchLimits, Fetcher, Unfetched};
use crate::http::unread_bodies::BodyMemory;

/// The interval of checks for cancellation.
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub enum FetchedPage {
    /// HTML, Markdown or plain text.
    Text(String),
    /// The bytes of a file that is not text.
    File(Vec<u8>),
}

/// Fetches a page.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for an address that is private or not of the web, [`ErrorKind::Unavailable`] if its
/// server does not return it, [`ErrorKind::LimitExceeded`] and [`ErrorKind::DeadlineExceeded`] beyond the limits, and
/// [`ErrorKind::InvalidText`] if it is of a kind that cannot be read.
pub fn fetch_page(address: &str, limits: FetchLimits, call: &Call) -> Result<FetchedPage> {
    let internal = |error: std::io::Error| Error::new(ErrorKind::Internal, format!("no runtime: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(internal)?;
    let bodies = BodyMemory::new(limits.max_bytes.saturating_add(64 * 1024), 0);
    let until = Instant::now() + limits.timeout;
    let web = Fetcher::new(limits, &bodies)?;
    let stopped = async {
        loop {
            sleep(POLL).await;
            if let Err(error) = call.check() {
                return error;
            }
        }
    };
    let page = runtime.block_on(async {
        tokio::select! {
            page = web.fetch(address, until) => Ok(page),
            error = stopped => Err(error),
        }
    });
    // A lookup of the system may still wait.
    runtime.shutdown_background();
    let failed = |unfetched: Unfetched| {
        let advice = if unfetched == Unfetched::Private { "; --fetch-allow allows its network" } else { "" };
        Error::new(unfetched.kind(), format!("{address} cannot be fetched: {}{advice}", unfetched.row().2))
    };
    let page = page?.map_err(failed)?;
    Ok(match page.format {
        Some(_) => FetchedPage::Text(page.read().map_err(failed)?.0),
        None => FetchedPage::File(page.bytes().map_err(failed)?.into_owned()),
    })
}

impl Unfetched {
    const fn kind(&self) -> ErrorKind {
        match self {
            Self::NoAddress | Self::Private => ErrorKind::InvalidArgument,
            Self::NotFound | Self::NoFetcher | Self::Status(404 | 410) => ErrorKind::NotFound,
            Self::TimedOut => ErrorKind::DeadlineExceeded,
            Self::TooManyRedirects(_) | Self::TooLarge(_) => ErrorKind::LimitExceeded,
            Self::NoText(_) | Self::Unreadable(_) => ErrorKind::InvalidText,
            Self::Status(_) | Self::NoMemory | Self::Failed => ErrorKind::Unavailable,
        }
    }
}
