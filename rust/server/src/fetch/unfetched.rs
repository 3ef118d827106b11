//! Why a page is unavailable, as Exa's clients read it.

use std::borrow::Cow;
use std::error::Error;

use pullquote_core::error::ErrorKind;
use pullquote_core::text::kinds::readable;

use super::addresses::PrivateAddress;
use crate::http::failure::{Cause, Failure};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfetched {
    /// The request does not contain it, and it is not an address.
    NotFound,
    /// The request did not send it, and fetching is off.
    NoFetcher,
    /// Its address cannot be fetched.
    NoAddress,
    Private,
    Status(u16),
    TimedOut,
    TooManyRedirects(usize),
    TooLarge(usize),
    /// Its content type has no text.
    NoText(String),
    /// It is a file that cannot be read, and why.
    Unreadable(String),
    /// The bodies of all requests fill their memory.
    NoMemory,
    /// No server answered, or the answer was not HTTP.
    Failed,
}

impl Unfetched {
    /// The kind of a failed request.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            if inner.is::<PrivateAddress>() {
                return Self::Private;
            }
            cause = inner.source();
        }
        if error.is_timeout() { Self::TimedOut } else { Self::Failed }
    }

    /// The reason why a file that was fetched has no text.
    pub(crate) fn of_file(failure: &Failure) -> Self {
        match failure.cause {
            Cause::Core(ErrorKind::DeadlineExceeded) => Self::TimedOut,
            Cause::Core(ErrorKind::Internal) => Self::Failed,
            // Addresses have no passwords.
            _ if failure.field.as_deref() == Some("password") => Self::Unreadable("it is encrypted".to_owned()),
            _ => Self::Unreadable(failure.message.clone()),
        }
    }

    /// The tag, the status, and the message, which reveals nothing about the internal network.
    pub(crate) fn row(&self) -> (Cow<'static, str>, u16, Cow<'static, str>) {
        let (tag, status, message) = match self {
            Self::NotFound => ("CRAWL_NOT_FOUND", 404, "no document with this name was sent, here or before"),
            Self::NoFetcher => {
                let message = "no document with this address was sent, here or before, and this server fetches none; pullquote \
                     serve --fetch does";
                ("CRAWL_NOT_FOUND", 404, message)
            }
            Self::NoAddress => {
                ("UNSUPPORTED_URL", 400, "only addresses that begin with http:// or https:// are fetched")
            }
            Self::Private => ("SOURCE_NOT_AVAILABLE", 403, "the address is not public"),
            Self::Status(404 | 410) => ("CRAWL_NOT_FOUND", 404, "its server does not have it"),
            Self::Status(status) => {
                let message = format!("its server answered {status}");
                return (format!("CRAWL_HTTP_{status}").into(), *status, message.into());
            }
            Self::TimedOut => ("CRAWL_TIMEOUT", 504, "it did not arrive in time"),
            Self::TooManyRedirects(most) => {
                let message = format!("it was redirected more than {most} times");
                return ("CRAWL_UNKNOWN_ERROR".into(), 500, message.into());
            }
            Self::TooLarge(most) => {
                let message = format!("it has more than {most} bytes");
                return ("CRAWL_UNKNOWN_ERROR".into(), 500, message.into());
            }
            Self::NoText(kind) => {
                let message = format!("it is {kind:?}; {} can be read", readable());
                return ("UNSUPPORTED_URL".into(), 415, message.into());
            }
            Self::Unreadable(why) => return ("UNSUPPORTED_URL".into(), 415, why.clone().into()),
            Self::NoMemory => ("CRAWL_UNKNOWN_ERROR", 503, "too much is being fetched; try again"),
            Self::Failed => ("CRAWL_UNKNOWN_ERROR", 500, "its server could not be reached, or its answer ended early"),
        };
        (tag.into(), status, message.into())
    }
}
