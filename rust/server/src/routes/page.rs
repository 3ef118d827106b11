//! `GET /`: a page to try it in a browser, with all that it is made of; its files are in `rust/server/page`.
//!
//! It asks `POST /highlights` like any other client. Whatever text it shows, nothing of it can run: the policy lets scripts and
//! styles come from here only, and text become nothing but text (trusted types).

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;
use crate::store::documents::text_hash;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
pub(crate) struct File {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    content: &'static str,
}

pub(crate) const HTML: &str = "text/html; charset=utf-8";

pub(crate) static FILES: [File; 4] = [
    File { path: "/", content_type: HTML, content: include_str!("../../page/index.html") },
    File { path: "/page.css", content_type: "text/css; charset=utf-8", content: include_str!("../../page/page.css") },
    File {
        path: "/page.js",
        content_type: "text/javascript; charset=utf-8",
        content: include_str!("../../page/page.js"),
    },
    File { path: "/page.svg", content_type: "image/svg+xml", content: include_str!("../../page/page.svg") },
];

pub(super) fn routes() -> Router<Arc<App>> {
    FILES.iter().fold(Router::new(), |router, file| {
        let tag = tag(file.content);
        router.route(file.path, get(async move |headers: HeaderMap| file.answer(&headers, &tag)))
    })
}

impl File {
    fn answer(&self, asked: &HeaderMap, tag: &HeaderValue) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
            // Kept, but asked for again: another version of the server has another page.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::ETAG, tag.clone()),
        ];
        if is_known(asked, tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.content).into_response()
    }
}

/// A name for a file's content.
fn tag(content: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", text_hash(content))).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the client has it already.
fn is_known(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let tags = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = tags.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}
