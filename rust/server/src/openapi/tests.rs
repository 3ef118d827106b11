//! The documented routes and methods are those of the router, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Facts, document, route_table};
use crate::http::failure::ErrorFormat;
use crate::routes::families;
use crate::routes::static_files::FILES;
use crate::settings::tests::settings;

fn documented(has_keys: bool) -> Value {
    let settings = settings(&json!({})).unwrap();
    document(&Facts { settings: &settings, has_keys, dimension: 384, max_tokens: 256 })
}

/// Paths and methods, as axum prints them for debugging.
fn routed() -> BTreeSet<(String, String)> {
    let shown = format!("{:?}", families(true));
    let shown = shown.split("fallback_router").next().unwrap();
    let (mut paths, mut methods) = (BTreeMap::new(), BTreeMap::new());
    for part in shown.split("RouteId(").skip(1) {
        let (id, rest) = part.split_once("): ").unwrap();
        if let Some(path) = rest.strip_prefix('"') {
            paths.insert(id, path.split('"').next().unwrap());
        } else if let Some((_, allowed)) = rest.split_once("allow_header: Bytes(b\"") {
            methods.insert(id, allowed.split('"').next().unwrap());
        }
    }
    assert_eq!(paths.len(), methods.len(), "axum shows its routes in another way: {shown}");
    let of_path = |(id, path): (&&str, &&str)| {
        // axum answers HEAD for every GET.
        let allowed = methods[id].split(',').filter(|method| *method != "HEAD");
        allowed.map(|method| ((*path).to_owned(), method.to_lowercase())).collect::<Vec<_>>()
    };
    // Paths with two slashes are aliases.
    paths.iter().filter(|(_, path)| !path.starts_with("//")).flat_map(of_path).collect()
}

fn resolved<'document>(document: &'document Value, value: &'document Value) -> &'document Value {
    let Some(path) = value["$ref"].as_str() else { return value };
    document.pointer(&path[1..]).unwrap_or_else(|| panic!("{path} points nowhere"))
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn operations(document: &Value) -> BTreeMap<(String, String), &Value> {
    let mut found = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            found.insert((path.clone(), method.clone()), operation);
        }
    }
    found
}

#[test]
fn every_route_and_method_is_documented_and_no_other() {
    let document = documented(false);
    let documented: BTreeSet<(String, String)> = operations(&document).into_keys().collect();
    let routed = routed();
    assert!(routed.contains(&("/documents/{id}".to_owned(), "put".to_owned())), "{routed:?}");
    assert_eq!(documented, routed);
}

#[test]
fn every_reference_points_at_something_and_every_component_is_pointed_at() {
    fn walk<'document>(document: &'document Value, value: &'document Value, found: &mut BTreeSet<&'document str>) {
        if let Some(path) = value["$ref"].as_str() {
            resolved(document, value);
            found.insert(path);
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|value| walk(document, value, found)),
            Value::Array(values) => values.iter().for_each(|value| walk(document, value, found)),
            _ => {}
        }
    }
    let document = documented(false);
    let mut found = BTreeSet::new();
    walk(&document, &document, &mut found);
    for kind in ["schemas", "responses", "parameters", "headers"] {
        for name in keys(&document["components"][kind]) {
            assert!(found.contains(format!("#/components/{kind}/{name}").as_str()), "nothing points at {name}");
        }
    }
}

#[test]
fn api_keys_are_required_except_on_open_routes() {
    let has_way_without = |document: &Value| document["security"].as_array().unwrap().contains(&json!({}));
    assert!(has_way_without(&documented(false)));
    let document = documented(true);
    assert!(!has_way_without(&document));
    let table = route_table();
    for ((path, method), operation) in operations(&document) {
        let is_probe = ["/live", "/health", "/v1/health", "/ping", "/metrics", "/openapi.json"].contains(&&*path);
        let is_open = method == "get" && (is_probe || FILES.iter().any(|file| file.path == path));
        assert_eq!(operation["security"] == json!([]), is_open, "{path}");
        assert_eq!(operation["responses"]["401"].is_null(), is_open, "{path}");
        assert_eq!(table.is_open(&method.to_uppercase().parse().unwrap(), &path), is_open, "{path}");
    }
}

#[test]
fn errors_have_the_format_of_the_routes_api() {
    let table = route_table();
    for (format, paths) in [
        (ErrorFormat::Rerank, "/rerank /v1/rerank /v2/rerank /reranking /v1/reranking"),
        (ErrorFormat::Vllm, "/v1/embed /v2/embed /v1/tokenize /v1/detokenize /detokenize /score /v1/score /pooling"),
        (ErrorFormat::Vllm, "/invocations /version"),
        (
            ErrorFormat::OpenAi,
            "/embedding /embeddings /models /v1/models /v1/models/a /v1/embeddings /v1/none /v1/health",
        ),
        (ErrorFormat::Tei, "/ /embed /embed_all /embed_sparse /predict /similarity /tokenize /decode /info /ping"),
        (ErrorFormat::Exa, "/contents //contents /search //search /findSimilar //findSimilar /answer //answer"),
        (ErrorFormat::Mcp, "/mcp"),
        (ErrorFormat::Native, "/highlights /render /documents /documents/a /live /metrics /page.css /none"),
        (ErrorFormat::Native, "/predictions/semantic_highlighter"),
    ] {
        for path in paths.split(' ') {
            assert_eq!(table.error_format(path), format, "{path}");
        }
    }
}

#[test]
fn limits_are_filled_in() {
    let document = documented(false);
    let text = document.to_string();
    for name in ["max_", "dimension", "normalize", "model_name", "version"] {
        assert!(!text.contains(&format!("{{{name}")), "{name}");
    }
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["EmbedRequest"]["properties"]["dimensions"]["enum"], json!([384, null]));
}
