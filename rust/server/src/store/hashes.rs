//! Hashes that identify texts.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Identifies a text: the SHA-256 of its UTF-8, after `sha256:`.
pub(crate) fn text_hash(text: &str) -> String {
    bytes_hash(text.as_bytes())
}

pub(crate) fn bytes_hash(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_hash_is_sha256() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text_hash("abc"), known);
    }
}
