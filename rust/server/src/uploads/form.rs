//! Forms (`multipart/form-data`): a request as JSON, and files.

use std::convert::Infallible;

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use multer::Multipart;

use crate::http::failure::{Cause, Failure, refused};

const FORM: &str = "multipart/form-data";

pub(crate) struct UploadForm {
    /// JSON: `{}` if the form has no such part.
    pub(crate) request: Bytes,
    pub(crate) files: Vec<UploadedFile>,
    /// Of encrypted PDFs.
    pub(crate) password: Option<String>,
}

pub(crate) struct UploadedFile {
    pub(crate) name: Option<String>,
    pub(crate) content: Bytes,
}

pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let kind = content_type(headers).split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(FORM)
}

impl UploadForm {
    /// Reads a body: a part `request`, parts `file`, and a `password`.
    pub(crate) fn read(headers: &HeaderMap, body: Bytes) -> Result<Self, Failure> {
        let broken = |error: multer::Error| Failure::new(Cause::Malformed, format!("the form cannot be read: {error}"));
        let boundary = multer::parse_boundary(content_type(headers)).map_err(|error| {
            let message = format!("the content-type of the form needs a boundary: {error}");
            Failure::new(Cause::UnsupportedMediaType, message)
        })?;
        let mut parts = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
        let mut form = Self { request: Bytes::new(), files: Vec::new(), password: None };
        while let Some(part) = now(parts.next_field())?.map_err(broken)? {
            let name = part.name().unwrap_or_default().to_owned();
            let file_name = part.file_name().map(str::to_owned);
            let content = now(part.bytes())?.map_err(broken)?;
            match name.as_str() {
                "request" if form.request.is_empty() => form.request = content,
                "file" => form.files.push(UploadedFile { name: file_name, content }),
                "password" if form.password.is_none() => {
                    form.password = Some(String::from_utf8_lossy(&content).into_owned());
                }
                _ => {
                    let message = format!(
                        "the part {name:?} is unknown, or there twice; a form has request (JSON, such as {{\"query\": \"Who paid?\"}}), \
                         file (repeatable) and password"
                    );
                    return refused(name, message);
                }
            }
        }
        if form.files.is_empty() {
            return refused("file", "the form has no file");
        }
        if form.request.is_empty() {
            form.request = Bytes::from_static(b"{}");
        }
        Ok(form)
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The whole body is here, so nothing waits.
fn now<T>(part: impl Future<Output = T>) -> Result<T, Failure> {
    part.now_or_never().ok_or_else(|| Failure::new(Cause::Malformed, "the form ends within a part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(parts: &[(&str, &str)]) -> Result<UploadForm, Failure> {
        let part = |(name, content): &(&str, &str)| {
            format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"a.pdf\"\r\n\r\n{content}\r\n")
        };
        let body: String = parts.iter().map(part).chain(["--x--\r\n".to_owned()]).collect();
        let headers =
            HeaderMap::from_iter([(header::CONTENT_TYPE, "multipart/form-data; boundary=x".parse().unwrap())]);
        assert!(is_form(&headers));
        UploadForm::read(&headers, body.into())
    }

    #[test]
    fn form_has_a_request_and_files() {
        let read =
            form(&[("request", "{\"query\": \"a\"}"), ("file", "%PDF-1"), ("file", ""), ("password", "p")]).unwrap();
        assert_eq!(read.request, "{\"query\": \"a\"}");
        assert_eq!(read.files.iter().map(|file| file.content.len()).collect::<Vec<_>>(), [6, 0]);
        assert_eq!(read.files[0].name.as_deref(), Some("a.pdf"));
        assert_eq!(read.password.as_deref(), Some("p"));
        assert_eq!(form(&[("file", "a")]).unwrap().request, "{}");
        for (parts, field) in [(&[("request", "{}")][..], "file"), (&[("fiel", "a"), ("file", "b")], "fiel")] {
            assert_eq!(form(parts).err().and_then(|failure| failure.field).as_deref(), Some(field));
        }
    }
}
