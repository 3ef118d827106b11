//! The routes, a family in each module.

pub(crate) mod cohere;
pub(crate) mod documents;
pub(crate) mod exa;
pub(crate) mod health;
pub(crate) mod highlights;
pub(crate) mod llama_cpp;
pub(crate) mod mcp;
pub(crate) mod offsets;
pub(crate) mod openai;
pub(crate) mod opensearch;
pub(crate) mod page;
pub(crate) mod render;
pub(crate) mod rerank;
pub(crate) mod tei;
pub(crate) mod token_vectors;
pub(crate) mod tokens;
pub(crate) mod vectors;
pub(crate) mod vllm;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use pullquote_core::engine::option_values::similar;
use pullquote_core::error::{Error, ErrorKind, Result};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer, ExposeHeaders};

use crate::app::App;
use crate::http::binary_body;
use crate::http::failure::{Cause, Failure};
use crate::http::middleware::{EXPOSED, handle};
use crate::http::negotiation::compress_if_preferred;
use crate::http::tei_headers;
use crate::openapi;

/// How long a browser may cache the result of a preflight.
const CORS_AGE: Duration = Duration::from_secs(60 * 60);

pub(crate) fn families() -> Router<Arc<App>> {
    Router::new()
        .merge(cohere::routes())
        .merge(documents::routes())
        .merge(exa::routes())
        .merge(health::routes())
        .merge(highlights::routes())
        .merge(llama_cpp::routes())
        .merge(mcp::routes())
        .merge(openai::routes())
        .merge(opensearch::routes())
        .merge(page::routes())
        .merge(render::routes())
        .merge(rerank::routes())
        .merge(tei::routes())
        .merge(tokens::routes())
        .merge(vllm::routes())
}

/// All routes, inside the middleware.
pub(crate) fn router(app: &Arc<App>) -> Result<Router> {
    let router = families()
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(app), handle))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .layer(from_fn(compress_if_preferred))
        .with_state(Arc::clone(app));
    let router = prefixed(router, &app.settings.url_prefix);
    let origins = &app.settings.cors_origin;
    if origins.is_empty() {
        return Ok(router);
    }
    // Outside the middleware: a browser's preflight has no key.
    let layer = CorsLayer::new()
        .allow_origin(allowed(origins)?)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::list(
            EXPOSED.into_iter().chain(binary_body::EXPOSED).chain(tei_headers::EXPOSED),
        ))
        .max_age(CORS_AGE);
    Ok(router.layer(layer))
}

/// The routes, and the same under a prefix. With the prefix `/v1`, the routes already have infinity's paths.
fn prefixed(router: Router, prefix: &str) -> Router {
    match prefix.trim_end_matches('/') {
        "" | "/v1" => router,
        path => Router::new().nest(path, router.clone()).fallback_service(router),
    }
}

async fn no_such_route(method: Method, uri: Uri) -> Failure {
    let all = openapi::routes();
    let paths: Vec<&str> = all.iter().map(|(_, path)| *path).collect();
    let advice = if let Some(path) = similar(uri.path(), &paths) {
        format!("did you mean {path}?")
    } else {
        // Not the files of the pages.
        let routes = all.iter().filter(|(_, path)| !path.contains('.') || *path == "/openapi.json");
        let routes: Vec<String> = routes.map(|(method, path)| format!("{} {path}", method.to_uppercase())).collect();
        format!("the routes are {}", routes.join(", "))
    };
    let message = format!("there is no route {method} {}; {advice}", uri.path());
    Failure::new(Cause::Core(ErrorKind::NotFound), message)
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let path = uri.path();
    let allowed = openapi::routes().iter().filter(|(_, other)| *other == path).map(|(method, _)| method.to_uppercase());
    let allowed: Vec<String> = allowed.collect();
    let advice = if allowed.is_empty() { String::new() } else { format!("; send {}", allowed.join(" or ")) };
    Failure::new(Cause::MethodNotAllowed, format!("{path} does not take {method}{advice}"))
}

/// The name in a route's path.
struct Name(String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let unfit = |_| Failure::new(Cause::Unprocessable, "the percent-decoded name in the path is not UTF-8");
        Path::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(unfit)
    }
}

fn allowed(origins: &[String]) -> Result<AllowOrigin> {
    if origins.iter().any(|origin| origin == "*") {
        return Ok(AllowOrigin::any());
    }
    let read = |origin: &String| {
        HeaderValue::from_str(origin.trim_end_matches('/')).map_err(|_| {
            let message = format!("cors_origin must be * or like https://example.com, not {origin:?}");
            Error::new(ErrorKind::InvalidArgument, message)
        })
    };
    Ok(AllowOrigin::list(origins.iter().map(read).collect::<Result<Vec<HeaderValue>>>()?))
}
