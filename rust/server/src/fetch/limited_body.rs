//! Bodies of other servers, read within the memory that all bodies share.

use reqwest::Response;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::failure::Failure;
use crate::http::unread_bodies::BodyMemory;

/// Why a body was not read to its end.
pub(crate) enum Unread {
    TooLarge,
    NoMemory(Failure),
    Broken(reqwest::Error),
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
