//! The HTTP client for requests to other servers.

use std::error::Error as _;

use pullquote_core::error::{Error, ErrorKind};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, blocking};

/// A client that uses no proxy of the environment, follows no redirect itself, and keeps no connection.
pub(crate) fn builder() -> ClientBuilder {
    choose_cryptography();
    Client::builder()
        .user_agent(concat!("pullquote/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0)
}

/// The same for a thread that may block. It calls only one server, repeatedly, so it keeps its connection.
pub(crate) fn blocking_builder() -> blocking::ClientBuilder {
    choose_cryptography();
    blocking::Client::builder()
        .user_agent(concat!("pullquote/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
}

fn choose_cryptography() {
    // An error means that it is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The error of a client that cannot be built, for example because the system has no trusted certificates.
pub(crate) fn cannot_be_built(error: &reqwest::Error) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("cannot make an HTTP client: {}", with_causes(error)))
}

pub(crate) fn with_causes(error: &reqwest::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message.push_str(": ");
        message.push_str(&inner.to_string());
        cause = inner.source();
    }
    message
}
