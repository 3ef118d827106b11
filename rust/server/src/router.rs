//! All routes, inside the middleware, under their prefix and with CORS.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};
use pullquote_core::engine::Engine;
use pullquote_core::engine::option_values::similar;
use pullquote_core::error::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer, ExposeHeaders};
use url::form_urlencoded;

use crate::app::App;
use crate::fetch::LOOKUPS;
use crate::http::auth::Keys;
use crate::http::body::BodyLimit;
use crate::http::failure::{Cause, Failure};
use crate::http::host_check::Hosts;
use crate::http::middleware::{EXPOSED, Middleware, handle};
use crate::http::negotiation::compress_if_preferred;
use crate::http::{tei_headers, vector_headers};
use crate::net::listener::Address;
use crate::openapi::{self, Facts};
use crate::routes;
use crate::routes::highlights::LINES;
use crate::routes::route::Route;
use crate::settings::Settings;

/// How long a browser may cache the result of a preflight.
const CORS_AGE: Duration = Duration::from_secs(60 * 60);

/// Blocking threads besides those of requests and name lookups: for health probes, the store and the file of keys.
const SPARE_THREADS: usize = 8;

pub(crate) fn runtime(settings: &Settings) -> Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        // They only move bytes; a second one continues during a slow poll.
        .worker_threads(2)
        .max_blocking_threads(settings.max_concurrent.saturating_add(SPARE_THREADS + LOOKUPS))
        .thread_name("pullquote-http")
        .enable_all()
        .build();
    runtime.map_err(|error| Error::new(ErrorKind::Internal, format!("no runtime: {error}")))
}

/// The state of a server, and its routes. `stopping` becomes true with the first signal.
pub(crate) fn service(
    settings: Settings,
    engine: Arc<Engine>,
    keys: &Arc<Keys>,
    address: &Address,
    stopping: watch::Receiver<bool>,
) -> Result<(Arc<App>, Router)> {
    let has_keys = keys.are_required();
    let (dimension, max_tokens) = (engine.spec().dimension, engine.max_tokens());
    let (reranker, is_late_interaction) = (engine.reranker_name(), engine.is_late_interaction());
    let (table, schemas) = routes::all(settings.fetch);
    let facts = Facts {
        settings: &settings,
        has_keys,
        dimension,
        max_tokens,
        reranker: reranker.as_deref(),
        is_late_interaction,
    };
    let document = openapi::document(&facts, &table, schemas);
    let app = Arc::new(App::new(settings, engine, has_keys, document.to_string().into())?);
    let middleware = Middleware {
        routes: routes::table(&table),
        hosts: Hosts::read(&app.settings, address, has_keys)?,
        keys: Arc::clone(keys),
        protect_all: app.settings.protect_all,
        timeout: app.settings.timeout,
        metrics: Arc::clone(&app.metrics),
        exporter: app.exporter.clone(),
        stopping,
    };
    let router = router(&app, table, middleware)?;
    Ok((app, router))
}

/// The method and path of each route.
type Known = Arc<[(Method, &'static str)]>;

/// All routes, inside the middleware.
fn router(app: &Arc<App>, table: Vec<Route>, middleware: Middleware) -> Result<Router> {
    let known: Known = table.iter().map(|route| (route.method.clone(), route.path)).collect();
    let mut router = Router::new();
    for route in table {
        let limit = BodyLimit(route.body_limit.unwrap_or(usize::MAX).min(app.settings.max_body_bytes));
        let handler = route.handler.layer(Extension(limit));
        if let Some(alias) = route.alias {
            router = router.route(alias, handler.clone());
        }
        router = router.route(route.path, handler);
    }
    let of_others = Arc::clone(&known);
    let router = router
        .fallback(async move |method, uri| no_such_route(&known, &method, &uri))
        .method_not_allowed_fallback(async move |method, uri| wrong_method(&of_others, &method, &uri))
        .layer(from_fn_with_state(Arc::new(middleware), handle))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(
            // Lines are sent one by one.
            DefaultPredicate::new().and(NotForContentType::const_new(LINES)),
        ))
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
            EXPOSED.into_iter().chain(vector_headers::EXPOSED).chain(tei_headers::EXPOSED),
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

fn no_such_route(all: &[(Method, &'static str)], method: &Method, uri: &Uri) -> Failure {
    let paths: Vec<&str> = all.iter().map(|(_, path)| *path).collect();
    let file = uri.path().rsplit('/').next().unwrap_or_default();
    let advice = if uri.path() == "/documents/" {
        "the id is empty".to_owned()
    } else if let Some(id) = uri.path().strip_prefix("/documents/") {
        let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
        format!("percent-encode the id: /documents/{id}")
    } else if let Some(path) = similar(uri.path(), &paths) {
        format!("did you mean {path}?")
    } else if file.contains('.') {
        "GET /docs lists the routes".to_owned()
    } else {
        // Not the files of the pages.
        let routes = all.iter().filter(|(_, path)| !path.contains('.') || *path == "/openapi.json");
        let routes: Vec<String> = routes.map(|(method, path)| format!("{method} {path}")).collect();
        format!("the routes are {}", routes.join(", "))
    };
    let message = format!("there is no route {method} {}; {advice}", uri.path());
    Failure::new(Cause::Core(ErrorKind::NotFound), message)
}

fn wrong_method(all: &[(Method, &'static str)], method: &Method, uri: &Uri) -> Failure {
    let path = uri.path();
    let allowed = all.iter().filter(|(_, other)| *other == path).map(|(method, _)| method.to_string());
    let allowed: Vec<String> = allowed.collect();
    let advice = if allowed.is_empty() { String::new() } else { format!("; send {}", allowed.join(" or ")) };
    Failure::new(Cause::MethodNotAllowed, format!("{path} does not take {method}{advice}"))
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
