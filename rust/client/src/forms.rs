//! Forms (`multipart/form-data`) of `/highlights`. A request with files has them after its JSON. An answer with vectors
//! has the passages as JSON, and the vectors of passages and of queries as bytes, each part with its headers.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use multer::Multipart;
use pullquote_core::error::Result;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::raw::bad;

pub(crate) const FORM: &str = "multipart/form-data";

/// A file to upload.
pub struct File {
    /// Without folders.
    pub name: Option<String>,
    pub content: Bytes,
}

/// The form of a request, and its content type.
pub(crate) fn write_form(request: &[u8], files: &[File], password: Option<&str>) -> (Bytes, String) {
    let boundary = format!("pullquote-{:032x}", fastrand::u128(..));
    let mut body = Vec::with_capacity(request.len() + files.iter().map(|file| file.content.len() + 256).sum::<usize>());
    let mut part = |name: &str, file_name: &str, content: &[u8]| {
        let head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"{file_name}\r\n\r\n");
        body.extend([head.as_bytes(), content, b"\r\n"].concat());
    };
    part("request", "", request);
    if let Some(password) = password {
        part("password", "", password.as_bytes());
    }
    for File { name, content } in files {
        // As browsers escape names.
        let escape = |name: &String| name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        let name = name.as_ref().map(escape).unwrap_or_default();
        part("file", &format!("; filename=\"{name}\""), content);
    }
    body.extend(format!("--{boundary}--\r\n").into_bytes());
    (body.into(), format!("{FORM}; boundary={boundary}"))
}

#[derive(Debug, Default)]
pub struct Part {
    pub headers: HeaderMap,
    /// Vectors, or JSON.
    pub content: Bytes,
}

#[derive(Debug)]
pub struct HighlightsForm {
    pub highlights: Bytes,
    pub vectors: Part,
    pub queries: Part,
}

/// Reads a form, which must have each part once, and no other.
pub async fn read_form(content_type: Option<&HeaderValue>, body: Bytes) -> Result<HighlightsForm> {
    let kind = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary =
        multer::parse_boundary(kind).map_err(|_| bad(format!("it is {kind:?} instead of {FORM} with a boundary")))?;
    let broken = |error: multer::Error| bad(format!("its form cannot be read: {error}"));
    // The whole body is here, so nothing below waits.
    let mut form = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let names = ["highlights", "vectors", "queries"];
    let mut parts: [Option<Part>; 3] = [None, None, None];
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let place = names.iter().position(|name| field.name() == Some(name));
        let Some(part) = place.and_then(|place| parts.get_mut(place)).filter(|part| part.is_none()) else {
            return Err(bad(format!("its form has an unknown part {:?}", field.name())));
        };
        let headers = field.headers().clone();
        *part = Some(Part { headers, content: field.bytes().await.map_err(broken)? });
    }
    match parts {
        [Some(highlights), Some(vectors), Some(queries)] => {
            Ok(HighlightsForm { highlights: highlights.content, vectors, queries })
        }
        _ => Err(bad(format!("its form lacks one of the parts {}", names.join(", ")))),
    }
}
