//! `GET /openapi.json` and `GET /docs`: what this server takes and answers, for programs and for people.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::app::App;
use crate::net::listener::Address;

/// What an address may be written with.
const OF_ADDRESSES: &str = ".:-_[]";

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", get(document)).route("/docs", get(page))
}

async fn document(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], app.document.clone())
}

async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> impl IntoResponse {
    let asked = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_address = |host: &&str| {
        !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || OF_ADDRESSES.contains(letter))
    };
    let address = match &app.address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(_) => "localhost".to_owned(),
    };
    let about: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, &app.page.policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "host"),
    ];
    (about, app.page.at(asked.filter(is_address).unwrap_or(&address))).into_response()
}
