//! The answer of `/highlights` with vectors: `multipart/form-data` with the passages as JSON, and the vectors of passages and
//! of queries as bytes, each part with its headers.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use multer::Multipart;
use pullquote_core::error::Result;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::raw::bad;

pub(crate) const FORM: &str = "multipart/form-data";

/// A part of the form.
#[derive(Debug, Default)]
pub struct Part {
    /// The part's own headers.
    pub headers: HeaderMap,
    /// Vectors, or JSON.
    pub content: Bytes,
}

/// The parts of an answer.
#[derive(Debug)]
pub struct Form {
    /// JSON.
    pub highlights: Bytes,
    /// The vectors of its passages, in their order.
    pub vectors: Part,
    /// The vectors of the queries.
    pub queries: Part,
}

/// Reads a form, which must have each part once, and no other.
///
/// # Errors
/// [`pullquote_core::error::ErrorKind::BadAnswer`] for any other body.
pub async fn read_form(content_type: Option<&HeaderValue>, body: Bytes) -> Result<Form> {
    let kind = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind)
        .map_err(|_| bad(format!("it is {kind:?}, where {FORM} with a boundary was asked for")))?;
    let broken = |error: multer::Error| bad(format!("its form cannot be read: {error}"));
    // The whole body is here, so nothing below waits.
    let mut form = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let names = ["highlights", "vectors", "queries"];
    let mut parts: [Option<Part>; 3] = [None, None, None];
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let place = names.iter().position(|name| field.name() == Some(name));
        let Some(part) = place.and_then(|place| parts.get_mut(place)).filter(|part| part.is_none()) else {
            return Err(bad(format!("its form has a part {:?} that does not belong there", field.name())));
        };
        let headers = field.headers().clone();
        *part = Some(Part { headers, content: field.bytes().await.map_err(broken)? });
    }
    match parts {
        [Some(highlights), Some(vectors), Some(queries)] => {
            Ok(Form { highlights: highlights.content, vectors, queries })
        }
        _ => Err(bad(format!("its form lacks one of the parts {}", names.join(", ")))),
    }
}
