//! The routes, an API in each module.

pub(crate) mod cite;
pub(crate) mod cohere;
pub(crate) mod exa;
pub(crate) mod health;
pub(crate) mod highlights;
pub(crate) mod item_limits;
pub(crate) mod llama_cpp;
pub(crate) mod locate;
pub(crate) mod mcp;
pub(crate) mod openai;
pub(crate) mod opensearch;
pub(crate) mod prune;
pub(crate) mod render;
pub(crate) mod request_pages;
pub(crate) mod rerank;
pub(crate) mod route;
pub(crate) mod schema_placeholders;
pub(crate) mod schemas;
pub(crate) mod static_files;
pub(crate) mod stored_documents;
pub(crate) mod tei;
pub(crate) mod token_vectors;
pub(crate) mod tokens;
pub(crate) mod vector_stream;
pub(crate) mod vectors;
pub(crate) mod vllm;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use self::highlights::failure::NATIVE;
use self::openai::failure::OPENAI;
use self::route::Route;
use self::schemas::Schemas;
use crate::http::failure::{Cause, ErrorShape, Failure};
use crate::http::route_table::{Access, RouteTable};

/// All routes, in the order of the document's tags, and the schemas of their bodies. `fetches` is whether the server
/// fetches web pages.
pub(crate) fn all(fetches: bool) -> (Vec<Route>, Schemas) {
    type Family = fn(&mut Schemas) -> Vec<Route>;
    let families: [Family; 16] = [
        highlights::routes,
        locate::routes,
        cite::routes,
        prune::routes,
        render::routes,
        stored_documents::routes,
        exa::routes,
        openai::routes,
        openai::models::routes,
        tei::routes,
        tokens::routes,
        rerank::routes,
        cohere::routes,
        vllm::routes,
        llama_cpp::routes,
        opensearch::routes,
    ];
    let mut schemas = Schemas::new();
    let mut routes: Vec<Route> = families.iter().flat_map(|family| family(&mut schemas)).collect();
    routes.extend(mcp::routes(fetches));
    routes.extend(health::routes(&mut schemas));
    routes.extend(static_files::routes());
    (routes, schemas)
}

/// What the middleware reads of the routes.
pub(crate) fn table(routes: &[Route]) -> RouteTable {
    let paths = |route: &Route| std::iter::once(route.path).chain(route.alias);
    let errors = routes.iter().flat_map(|route| paths(route).map(|path| (path, route.errors)));
    let open = routes.iter().filter(|route| route.access != Access::Keyed).map(|route| (route.path, route.access));
    let other_errors: fn(&str) -> &'static ErrorShape = |path| if path.starts_with("/v1/") { &OPENAI } else { &NATIVE };
    RouteTable { errors: errors.collect(), other_errors, open: open.collect() }
}

/// The name in a route's path.
struct Name(String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let not_unicode = |_| Failure::new(Cause::Unprocessable, "the percent-decoded name in the path is not UTF-8");
        Path::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(not_unicode)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use pullquote_core::error::ErrorKind;
    use serde_json::json;

    use super::exa::failure::EXA;
    use super::mcp::failure::MCP;
    use super::rerank::failure::RERANK;
    use super::tei::failure::TEI;
    use super::vllm::failure::VLLM;
    use super::*;
    use crate::http::failure::Amount;

    #[test]
    fn errors_have_the_shape_of_the_routes_api() {
        let table = table(&all(true).0);
        for (shape, paths) in [
            (&RERANK, "/rerank /v1/rerank /v2/rerank /reranking /v1/reranking"),
            (&VLLM, "/v1/embed /v2/embed /v1/tokenize /v1/detokenize /detokenize /score /v1/score /pooling"),
            (&VLLM, "/invocations /version"),
            (&OPENAI, "/embedding /embeddings /models /v1/models /v1/models/a /v1/embeddings /v1/none /v1/health"),
            (&TEI, "/ /embed /embed_all /embed_sparse /predict /similarity /tokenize /decode /info /ping"),
            (&EXA, "/contents //contents /search //search /findSimilar //findSimilar /answer //answer"),
            (&MCP, "/mcp"),
            (&NATIVE, "/highlights /render /documents /documents/a /live /metrics /page.css /none"),
            (&NATIVE, "/predictions/semantic_highlighter"),
        ] {
            for path in paths.split(' ') {
                assert_eq!(table.errors(path).name, shape.name, "{path}");
            }
        }
    }

    #[test]
    fn each_api_has_its_own_error_body() {
        let body = |shape: &ErrorShape, failure: &Failure| (shape.body)(failure, "id");
        let failure = Failure::of_field(Cause::Unprocessable, "input", "too many");
        assert_eq!(
            body(&OPENAI, &failure),
            json!({"error": {"message": "input: too many", "type": "invalid_request_error", "param": "input", "code": "invalid_body"}})
        );
        assert_eq!(body(&TEI, &failure), json!({"error": "input: too many", "error_type": "Validation"}));
        let too_much = Failure::of_amount(Amount::TooMuch, "inputs", "too many");
        let nothing = Failure::of_amount(Amount::Nothing, "inputs", "none");
        assert_eq!((TEI.status)(&too_much), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!((TEI.status)(&nothing), StatusCode::BAD_REQUEST);
        assert_eq!(body(&TEI, &nothing), json!({"error": "inputs: none", "error_type": "Empty"}));
        assert_eq!((OPENAI.status)(&too_much), StatusCode::BAD_REQUEST);
        assert_eq!((NATIVE.status)(&too_much), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(
            body(&EXA, &failure),
            json!({"requestId": "id", "error": "input: too many", "tag": "INVALID_REQUEST_BODY"})
        );
        assert_eq!((EXA.status)(&failure), StatusCode::BAD_REQUEST);
        let too_many = body(&VLLM, &failure);
        assert_eq!(too_many["message"], "input: too many");
        assert_eq!(
            too_many["error"],
            json!({"message": "input: too many", "type": "BadRequestError", "param": "input", "code": 400})
        );
        assert_eq!(body(&RERANK, &failure)["message"], "input: too many");
        let refused = Failure::new(Cause::Core(ErrorKind::Overloaded), "try again");
        assert_eq!(
            body(&MCP, &refused),
            json!({
                "jsonrpc": "2.0",
                "id": null,
                "error": {"code": -32600, "message": "try again", "data": {"kind": "overloaded", "retryable": true}},
            })
        );
        assert_eq!(
            body(&NATIVE, &failure),
            json!({"error": {"kind": "invalid_body", "message": "too many", "field": "input", "retryable": false}, "request_id": "id"})
        );
    }
}
