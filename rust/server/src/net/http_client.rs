//! The HTTP client for requests to other servers.

use std::error::Error as _;

use pullquote_core::error::{Error, ErrorKind};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, blocking};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::admission::BodyMemory;
use crate::http::failure::Failure;

/// Why a body was not read to its end.
pub(crate) enum Unread {
    TooLarge,
    NoMemory(Failure),
    Broken(reqwest::Error),
}

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
pub(crate) fn unfit(error: &reqwest::Error) -> Error {
    let mut message = format!("cannot make an HTTP client: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        message.push_str(": ");
        message.push_str(&inner.to_string());
        cause = inner.source();
    }
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Reads a body of at most this number of bytes, unpacked, from the memory that all bodies share.
pub(crate) async fn read(
    bodies: &BodyMemory,
    mut response: Response,
    most: usize,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), Unread> {
    // The size of a compressed body is unknown until it is decompressed.
    if response.content_length().is_some_and(|bytes| bytes > most as u64) {
        return Err(Unread::TooLarge);
    }
    let mut memory = bodies.reserve(0).map_err(Unread::NoMemory)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::Broken)? {
        if bytes.len() + chunk.len() > most {
            return Err(Unread::TooLarge);
        }
        if bytes.len() + chunk.len() > memory.num_permits() * 1024 {
            memory.merge(bodies.reserve(chunk.len()).map_err(Unread::NoMemory)?);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, memory))
}
