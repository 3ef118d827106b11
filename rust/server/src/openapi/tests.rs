//! The document is consistent in itself, and with the keys and limits of a server.

use std::collections::{BTreeMap, BTreeSet};

use pullquote_wire::schema::Settings as _;
use pullquote_wire::server::ServerSettings;
use serde_json::{Value, json};

use super::{Facts, document};
use crate::http::route_table::Access;
use crate::routes;
use crate::routes::static_files::FILES;
use crate::settings::tests::settings;

fn documented(has_keys: bool) -> Value {
    let settings = settings(&json!({"model_name": "m"})).unwrap();
    let (routes, schemas) = routes::all(true);
    document(
        &Facts {
            settings: &settings,
            has_keys,
            dimension: 384,
            max_tokens: 256,
            reranker: None,
            is_late_interaction: false,
        },
        &routes,
        schemas,
    )
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
    let table = routes::table(&routes::all(true).0);
    for ((path, method), operation) in operations(&document) {
        let is_probe = ["/live", "/health", "/v1/health", "/ping", "/metrics", "/openapi.json"].contains(&&*path);
        let is_open = method == "get" && (is_probe || FILES.iter().any(|file| file.path == path));
        assert_eq!(operation["security"] == json!([]), is_open, "{path}");
        assert_eq!(operation["responses"]["401"].is_null(), is_open, "{path}");
        assert_eq!(table.is_open(&method.to_uppercase().parse().unwrap(), &path, false), is_open, "{path}");
    }
}

#[test]
fn help_and_documentation_name_the_open_routes() {
    let table = routes::table(&routes::all(true).0);
    let is_file = |path: &str| path.starts_with("/docs/");
    let protected = table.open.iter().filter(|(path, access)| **access == Access::Open && !is_file(path));
    let open: BTreeSet<&str> = protected.map(|(path, _)| *path).collect();
    let fields = ServerSettings::fields();
    let help = fields.iter().find(|field| field["name"] == "protect_all").unwrap();
    let security = include_str!("../../../../docs/security.md");
    let security = security.lines().find(|line| line.contains("`--protect-all`")).unwrap();
    for text in [help["description"].as_str().unwrap(), security] {
        let words = text.split_whitespace().map(|word| word.trim_matches(|character| "`,.".contains(character)));
        let named: BTreeSet<&str> = words.filter(|word| word.starts_with('/')).collect();
        assert_eq!(named, open, "{text}");
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
