//! What is documented is what there is: routes, methods and fields of bodies, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

use super::{Facts, Page, document};
use crate::routes::{bodies, families};
use crate::settings::tests::settings;

/// A deserializer that only wants to know which fields a struct has.
struct Fields<'list>(&'list mut Vec<&'static str>);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.0.extend(fields);
        Err(Error::custom("that is all"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The fields that serde reads into a struct.
pub(crate) fn fields_of<T: Deserialize<'static>>() -> Vec<&'static str> {
    let mut fields = Vec::new();
    let _ = T::deserialize(Fields(&mut fields));
    assert!(!fields.is_empty(), "serde tells no fields of this type: is it no struct, or is a field of it flattened?");
    fields
}

fn documented(has_keys: bool) -> Value {
    let settings = settings(&json!({})).unwrap();
    document(&Facts { settings: &settings, has_keys, dimension: 384, max_tokens: 256, normalizes: true })
}

/// Paths and methods, as axum shows them where it is asked for debugging.
fn routed() -> BTreeSet<(String, String)> {
    let shown = format!("{:?}", families());
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
        // Whatever answers to GET answers to HEAD.
        let allowed = methods[id].split(',').filter(|method| *method != "HEAD");
        allowed.map(|method| ((*path).to_owned(), method.to_lowercase())).collect::<Vec<_>>()
    };
    // Two slashes are one that a client put there twice.
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
fn every_field_of_a_body_is_documented_and_no_other() {
    let document = documented(false);
    let operations = operations(&document);
    let mut read = BTreeSet::new();
    for (method, path, fields) in bodies() {
        let operation = operations[&(path.to_owned(), method.to_owned())];
        let schema = resolved(&document, &operation["requestBody"]["content"]["application/json"]["schema"]);
        assert_eq!(keys(&schema["properties"]), fields.into_iter().collect::<BTreeSet<&str>>(), "{method} {path}");
        read.insert((path.to_owned(), method.to_owned()));
    }
    let taking = |(_, method): &(String, String)| method == "post" || method == "put";
    assert_eq!(operations.into_keys().filter(taking).collect::<BTreeSet<_>>(), read);
}

#[test]
fn every_field_of_a_document_is_documented_and_no_other() {
    let document = documented(false);
    let [listed, named] = &document["components"]["schemas"]["Documents"]["anyOf"].as_array().unwrap()[..] else {
        panic!("documents are a list or have ids");
    };
    let [of_one, of_ids] = crate::store::documents::fields().map(BTreeSet::from_iter);
    assert_eq!(keys(&listed["items"]["anyOf"][1]["properties"]), of_one);
    assert_eq!(keys(&named["properties"]), of_ids);
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
fn keys_are_asked_for_where_there_are_some_and_never_on_open_routes() {
    let has_way_without = |document: &Value| document["security"].as_array().unwrap().contains(&json!({}));
    assert!(has_way_without(&documented(false)));
    let document = documented(true);
    assert!(!has_way_without(&document));
    for ((path, _), operation) in operations(&document) {
        let is_open = crate::http::middleware::OPEN.contains(&path.as_str());
        assert_eq!(operation["security"] == json!([]), is_open, "{path}");
        assert_eq!(operation["responses"]["401"].is_null(), is_open, "{path}");
    }
}

#[test]
fn the_page_has_every_operation_and_every_field() {
    let document = documented(true);
    let page = Page::new(&document, true).at("a\"<b>.example");
    assert!(page.contains("http://a&quot;&lt;b&gt;.example/highlights") && !page.contains("ORIGIN"));
    for ((path, method), operation) in operations(&document) {
        assert!(page.contains(&format!("{} {path}</a></h3>", method.to_uppercase())), "{method} {path}");
        let schema = resolved(&document, &operation["requestBody"]["content"]["application/json"]["schema"]);
        for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(page.contains(&format!("<dt><code>{name}</code> ")), "{name} of {path}");
        }
    }
    assert!(page.contains("<code>results[].highlights[].text</code>"));
    assert!(page.contains("Bearer $PULLQUOTE_KEY"));
}
