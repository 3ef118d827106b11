//! The settings of `Client(...)`, which `pullquote_wire::client` documents.

use pullquote_core::error::{Error, ErrorKind};
pub use pullquote_wire::client::ClientSettings as Settings;

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
