//! The routes, a family in each module.

pub(crate) mod cohere;
pub(crate) mod exa;
pub(crate) mod health;
pub(crate) mod highlights;
pub(crate) mod limits;
pub(crate) mod llama_cpp;
pub(crate) mod mcp;
pub(crate) mod offsets;
pub(crate) mod openai;
pub(crate) mod opensearch;
pub(crate) mod render;
pub(crate) mod request_pages;
pub(crate) mod rerank;
pub(crate) mod schema_placeholders;
pub(crate) mod static_files;
pub(crate) mod stored_documents;
pub(crate) mod tei;
pub(crate) mod token_vectors;
pub(crate) mod tokens;
pub(crate) mod vector_stream;
pub(crate) mod vectors;
pub(crate) mod vllm;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::app::App;
use crate::http::failure::{Cause, Failure};

/// `fetches` is whether the server fetches web pages.
pub(crate) fn families(fetches: bool) -> Router<Arc<App>> {
    Router::new()
        .merge(cohere::routes())
        .merge(stored_documents::routes())
        .merge(exa::routes())
        .merge(health::routes())
        .merge(highlights::routes())
        .merge(llama_cpp::routes())
        .merge(mcp::routes(fetches))
        .merge(openai::routes())
        .merge(opensearch::routes())
        .merge(static_files::routes())
        .merge(render::routes())
        .merge(rerank::routes())
        .merge(tei::routes())
        .merge(tokens::routes())
        .merge(vllm::routes())
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

/// Seconds since 1970.
pub(super) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
