//! `GET /`, a page to try the server in a browser, `GET /docs`, the API's documentation, and `GET /openapi.json`, which
//! that shows.
//!
//! The files of the first are in `rust/server/page`, those of the second in `rust/server/docs`. Both pages call the
//! server like any other client. No text that they show can run: the policy allows scripts and styles from this server
//! only, and on `/` it makes text nothing but text (trusted types).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::health::{API, TEI_API};
use super::route::Route;
use crate::app::App;
use crate::http::route_table::Access;
use crate::store::hashes::bytes_hash;

macro_rules! policy {
    ($images:literal, $more:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src ",
            $images,
            "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            $more
        )
    };
}

/// Images of a PDF's pages are blobs.
const PAGE_POLICY: &str = policy!("'self' blob:", "; require-trusted-types-for 'script'; trusted-types 'none'");
/// Swagger UI's style sheet has icons in it, and its sanitizer writes HTML.
const DOCS_POLICY: &str = policy!("'self' data:", "");

pub(crate) struct File {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    /// Its operation in the `OpenAPI` document.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    content: &'static [u8],
    policy: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! file {
    ($path:literal, $content_type:expr, $id:literal, $summary:literal, $policy:expr, $file:literal) => {
        File {
            path: $path,
            content_type: $content_type,
            id: $id,
            summary: $summary,
            content: include_bytes!(concat!("../../", $file)),
            policy: $policy,
        }
    };
}

pub(crate) static FILES: [File; 12] = [
    file!("/", HTML, "page", "A page to try the server", PAGE_POLICY, "page/index.html"),
    file!("/page.css", CSS, "pageStyle", "Its style", PAGE_POLICY, "page/page.css"),
    file!("/page.js", SCRIPT, "pageScript", "Its script", PAGE_POLICY, "page/page.js"),
    file!("/kinds.js", SCRIPT, "pageKinds", "The files it opens", PAGE_POLICY, "page/kinds.js"),
    file!("/layout.js", SCRIPT, "pageLayout", "How it shows a page", PAGE_POLICY, "page/layout.js"),
    file!("/session.js", SCRIPT, "pageSession", "What a reload keeps", PAGE_POLICY, "page/session.js"),
    file!("/sheets.js", SCRIPT, "pageSheets", "How it shows a PDF", PAGE_POLICY, "page/sheets.js"),
    file!("/page.svg", SVG, "pageIcon", "Its icon", PAGE_POLICY, "page/page.svg"),
    file!("/docs", HTML, "docs", "A page that shows this document", DOCS_POLICY, "docs/index.html"),
    file!("/docs/start.js", SCRIPT, "docsScript", "Its script", DOCS_POLICY, "docs/start.js"),
    file!("/docs/swagger-ui.css", CSS, "docsViewerStyle", "Swagger UI's style", DOCS_POLICY, "docs/swagger-ui.css.gz"),
    file!("/docs/swagger-ui.js", SCRIPT, "docsViewer", "Swagger UI", DOCS_POLICY, "docs/swagger-ui.js.gz"),
];

pub(super) fn routes() -> Vec<Route> {
    let open = |access, route| Route { access, ..route };
    let document = open(Access::Open, API.get("/openapi.json", document, "openapi", "Return this document"))
        .writes_json("OpenAPI 3.1, with the limits of this server.", json!({"type": "object"}));
    let file = |file: &'static File| {
        let tag = tag(file.content);
        let handler = async move |headers: HeaderMap| file.respond(&headers, &tag);
        let api = if file.path == "/" { TEI_API } else { API };
        // The page has nothing of this server, and asks for the key. The documentation shows its limits.
        let access = if file.path.starts_with("/docs") { Access::Open } else { Access::Public };
        open(access, api.get(file.path, handler, file.id, file.summary))
            .writes(200, "For a browser.", vec![(file.content_type, json!({"type": "string"}))])
            .writes(304, "The client has the current version (`if-none-match`).", Vec::new())
    };
    std::iter::once(document).chain(FILES.iter().map(file)).collect()
}

async fn document(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], app.document.clone())
}

impl File {
    fn respond(&self, request_headers: &HeaderMap, tag: &HeaderValue) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(self.policy)),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
            // Browsers cache it, but check for a newer version each time.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::ETAG, tag.clone()),
        ];
        if is_known(request_headers, tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let mut response = (headers, self.content).into_response();
        if self.content.starts_with(&GZIP) {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// The first bytes of a file that is stored with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A name for a file's content.
fn tag(content: &[u8]) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", bytes_hash(content))).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the client has this version.
fn is_known(request_headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let tags = request_headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = tags.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}
