//! The routes, a family in each module.

mod documents;
mod health;
mod highlights;
mod openai;
mod page;
mod rerank;
mod tei;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderValue;
use axum::middleware::from_fn_with_state;
use pullquote_core::error::{Error, ErrorKind, Result};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer, ExposeHeaders};

use crate::app::App;
use crate::envelope::{EXPOSED, envelope};
use crate::failure::{Cause, Failure};

/// How long a browser may remember what it is allowed.
const CORS_AGE: Duration = Duration::from_secs(60 * 60);

/// All routes, and the envelope around them.
pub(crate) fn router(app: &Arc<App>) -> Result<Router> {
    let router = Router::new()
        .merge(documents::routes())
        .merge(health::routes())
        .merge(highlights::routes())
        .merge(openai::routes())
        .merge(page::routes())
        .merge(rerank::routes())
        .merge(tei::routes())
        .fallback(async || Failure::new(Cause::NotFound, "there is no such route"))
        .method_not_allowed_fallback(async || Failure::new(Cause::MethodNotAllowed, "the route is not for this method"))
        .layer(from_fn_with_state(Arc::clone(app), envelope))
        .with_state(Arc::clone(app));
    let origins = &app.settings.cors_origin;
    if origins.is_empty() {
        return Ok(router);
    }
    // Around the envelope: a browser asks what is allowed without a key.
    let layer = CorsLayer::new()
        .allow_origin(allowed(origins)?)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::list(EXPOSED))
        .max_age(CORS_AGE);
    Ok(router.layer(layer))
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
