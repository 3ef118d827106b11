//! Fetching: pages by their addresses, with `--fetch`.
//!
//! Untrusted clients name the addresses. So a name is resolved once, every address that it has is checked
//! ([`addresses`]), and the connection goes to one that was checked; an IP address in the URL itself is checked before,
//! and all of that again after each redirect. No proxy of the environment is used, no connection is kept, and
//! everything is bounded: bytes (decompressed), time, redirects, lookups and concurrent fetches. [`Unfetched`] says why
//! a page cannot be fetched; the others are not affected. A page stays bytes ([`Fetched`]) until a thread that may
//! compute reads it.

mod addresses;
mod charset;
mod command_line;
mod limited_body;
mod unfetched;
pub(crate) mod upstream;

use std::borrow::Cow;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use flate2::read::MultiGzDecoder;
use ipnet::IpNet;
use pullquote_core::error::Result;
use pullquote_core::text::formats::Format;
use pullquote_core::text::kinds::{FileKind, Reader};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use self::limited_body::Unread;
use crate::http::unread_bodies::BodyMemory;
use crate::net::http_client;
use crate::settings::{Settings, networks};
use addresses::{Guard, PrivateAddress};
pub use charset::decode_undeclared;
pub use command_line::{FetchedPage, fetch_page};
pub(crate) use unfetched::Unfetched;

/// Names that are looked up at the same time: the system does it on a thread that waits for it.
pub(crate) const LOOKUPS: usize = 16;

/// Pages that are fetched at the same time, over all requests.
const AT_ONCE: usize = 64;

/// The accepted types; servers with several types of a page send the first of these.
const ACCEPT: HeaderValue =
    HeaderValue::from_static("text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8");

#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// Private networks that pages may come from.
    pub allow: Vec<IpNet>,
    /// Bytes of a page, decompressed.
    pub max_bytes: usize,
    pub redirects: usize,
    /// Time of all pages of a request.
    pub timeout: Duration,
}

impl FetchLimits {
    /// Those of a server's settings.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](pullquote_core::error::ErrorKind::InvalidArgument) for a network of another notation.
    pub fn of(settings: &Settings) -> Result<Self> {
        Ok(Self {
            allow: networks(&settings.fetch_allow)?,
            max_bytes: settings.fetch_max_bytes,
            redirects: settings.fetch_redirects,
            timeout: settings.fetch_timeout,
        })
    }
}

pub(crate) struct Fetcher {
    client: Client,
    guard: Guard,
    limits: FetchLimits,
    bodies: BodyMemory,
    at_once: Semaphore,
}

/// A page as it was received.
pub(crate) struct Fetched {
    bytes: Vec<u8>,
    /// `None` for a file that is not text.
    format: Option<Format>,
    /// The encoding that its server names.
    charset: Option<String>,
    /// Content codings that reqwest has not decoded, in the order in which they were applied.
    codings: Vec<String>,
    max_bytes: usize,
    /// Its share of the memory for all bodies.
    _memory: OwnedSemaphorePermit,
}

impl Fetcher {
    pub(crate) fn new(limits: FetchLimits, bodies: &BodyMemory) -> Result<Self> {
        let guard = Guard::new(limits.allow.clone());
        let resolver = Resolver { guard: guard.clone(), lookups: Arc::new(Semaphore::new(LOOKUPS)) };
        let client = http_client::builder()
            .dns_resolver(resolver)
            .build()
            .map_err(|error| http_client::cannot_be_built(&error))?;
        Ok(Self { client, guard, limits, bodies: bodies.clone(), at_once: Semaphore::new(AT_ONCE) })
    }

    /// The time limit of all pages of a request.
    pub(crate) const fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    pub(crate) async fn fetch(&self, address: &str, until: Instant) -> Result<Fetched, Unfetched> {
        let fetch = async {
            let _place = self.at_once.acquire().await.map_err(|_| Unfetched::Failed)?;
            self.follow(address).await
        };
        timeout_at(until, fetch).await.unwrap_or(Err(Unfetched::TimedOut))
    }

    async fn follow(&self, address: &str) -> Result<Fetched, Unfetched> {
        let mut url = Url::parse(address).map_err(|_| Unfetched::NoAddress)?;
        for _ in 0..=self.limits.redirects {
            self.check(&url)?;
            let request = self.client.get(url.clone()).header(header::ACCEPT, ACCEPT);
            let response = request.send().await.map_err(|error| Unfetched::of(&error))?;
            let Some(next) = redirect(&response) else { return self.read(response).await };
            url = url.join(next).map_err(|_| Unfetched::NoAddress)?;
        }
        Err(Unfetched::TooManyRedirects(self.limits.redirects))
    }

    /// Names are checked when they are resolved; an address in the place of a name is never resolved.
    fn check(&self, url: &Url) -> Result<(), Unfetched> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Unfetched::NoAddress);
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(_)) => return Ok(()),
            None => return Err(Unfetched::NoAddress),
        };
        if self.guard.allows(address) { Ok(()) } else { Err(Unfetched::Private) }
    }

    async fn read(&self, response: Response) -> Result<Fetched, Unfetched> {
        let status = response.status();
        if !status.is_success() {
            return Err(Unfetched::Status(status.as_u16()));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or("unreadable"));
        let (format, charset) = read_kind(kind)?;
        let codings = codings(&response);
        let max_bytes = self.limits.max_bytes;
        let (bytes, memory) =
            limited_body::read(&self.bodies, response, max_bytes).await.map_err(|unread| match unread {
                Unread::TooLarge => Unfetched::TooLarge(max_bytes),
                Unread::NoMemory(_) => Unfetched::NoMemory,
                Unread::Broken(error) => Unfetched::of(&error),
            })?;
        Ok(Fetched { bytes, format, charset, codings, max_bytes, _memory: memory })
    }
}

impl Fetched {
    /// The page's source in Unicode, and its format.
    pub(crate) fn read(&self) -> Result<(String, Format), Unfetched> {
        let format = self.format.unwrap_or_default();
        Ok((charset::decode(&self.bytes()?, self.charset.as_deref(), format == Format::Html), format))
    }

    /// Whether it is a file that is not text.
    pub(crate) const fn is_file(&self) -> bool {
        self.format.is_none()
    }

    /// Its bytes, uncompressed.
    pub(crate) fn bytes(&self) -> Result<Cow<'_, [u8]>, Unfetched> {
        let mut bytes = Cow::Borrowed(self.bytes.as_slice());
        for coding in self.codings.iter().rev() {
            bytes = Cow::Owned(decoded(&bytes, coding, self.max_bytes)?);
        }
        Ok(bytes)
    }
}

/// The encodings of a response. The client decodes a single one, and takes it out of the headers.
fn codings(response: &Response) -> Vec<String> {
    let values = response.headers().get_all(header::CONTENT_ENCODING).into_iter();
    let names = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty() && name != "identity").collect()
}

/// Bytes without one encoding. Only servers that compress what is compressed already use more than one, with gzip.
fn decoded(bytes: &[u8], coding: &str, most: usize) -> Result<Vec<u8>, Unfetched> {
    if !matches!(coding, "gzip" | "x-gzip") {
        return Err(Unfetched::NoText(format!("content-encoding {}", coding.chars().take(100).collect::<String>())));
    }
    let mut all = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut all).map_err(|_| Unfetched::Failed)?;
    if all.len() > most { Err(Unfetched::TooLarge(most)) } else { Ok(all) }
}

fn redirect(response: &Response) -> Option<&str> {
    let goes_on = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    response.headers().get(header::LOCATION).filter(|_| goes_on)?.to_str().ok()
}

/// The format and encoding of a page, from its server's headers, or else from its first bytes. Files that are not text
/// have no format.
fn read_kind(kind: Option<&str>) -> Result<(Option<Format>, Option<String>), Unfetched> {
    let Some(kind) = kind else { return Ok((Some(Format::Auto), None)) };
    let refused = || Unfetched::NoText(kind.chars().take(100).collect());
    let mime: mime::Mime = kind.parse().map_err(|_| refused())?;
    let format = match FileKind::of_media_type(mime.essence_str()).map(|kind| &kind.reader) {
        Some(Reader::Core(format)) => Some(*format),
        Some(Reader::Parser { .. }) => None,
        Some(Reader::None) | None => return Err(refused()),
    };
    Ok((format, mime.get_param(mime::CHARSET).map(|charset| charset.as_str().to_owned())))
}

/// Resolves names, and rejects those that have a private address.
struct Resolver {
    guard: Guard,
    lookups: Arc<Semaphore>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookups) = (self.guard.clone(), Arc::clone(&self.lookups));
        Box::pin(async move {
            let place = lookups.acquire_owned().await?;
            let found = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs().map(Vec::from_iter);
                // The request may have ended during the lookup; the thread is free only now.
                drop(place);
                found
            });
            let found: Vec<SocketAddr> = found.await??;
            if !found.iter().all(|address| guard.allows(address.ip())) {
                return Err(PrivateAddress.into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readable_media_types_are_pages() {
        let read = |kind| read_kind(Some(kind)).map_err(|unfetched| unfetched.row().0);
        assert_eq!(
            read("text/html; charset=\"Shift_JIS\""),
            Ok((Some(Format::Html), Some("Shift_JIS".to_lowercase())))
        );
        assert_eq!(read("TEXT/Markdown"), Ok((Some(Format::Markdown), None)));
        assert_eq!(read("application/pdf"), Ok((None, None)));
        for kind in ["application/json", "image/png", "text/css", "", "nonsense"] {
            assert_eq!(read(kind), Err("UNSUPPORTED_URL".into()), "{kind}");
        }
        assert_eq!(read_kind(None).ok(), Some((Some(Format::Auto), None)));
        for accepted in ACCEPT.to_str().unwrap().split(", ") {
            assert!(matches!(read(accepted), Ok((Some(_), None))), "{accepted}");
        }
    }
}
