//! JSON Schemas of the types that routes read and write, with the limits of a server filled in.

use pullquote_wire::schema::schema_settings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The path of schemas in a document.
const COMPONENTS: &str = "/components/schemas";

/// The schemas that the document has so far. A type may have one schema for reading and another for writing.
pub(crate) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    pub(crate) fn new() -> Self {
        let settings = || schema_settings().with(|settings| settings.definitions_path = COMPONENTS.into());
        let answers = settings().for_serialize().with_transform(exact);
        Self { requests: settings().into_generator(), answers: answers.into_generator() }
    }

    pub(crate) fn request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }

    pub(crate) fn response<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// The schema of an answer that has no type of its own.
    pub(crate) fn written(&mut self, schema: impl FnOnce(&mut SchemaGenerator) -> Schema) -> Value {
        let mut schema = schema(&mut self.answers);
        exact(&mut schema);
        schema.to_value()
    }

    /// All schemas that others refer to.
    pub(crate) fn components(mut self) -> Map<String, Value> {
        let mut components = self.requests.take_definitions(true);
        components.extend(self.answers.take_definitions(true));
        components
    }
}

/// An answer has the fields that are listed and no others; one that may be left out is never null.
fn exact(schema: &mut Schema) {
    transform_subschemas(&mut exact, schema);
    let Some(schema) = schema.as_object_mut() else { return };
    // An answer needs no bound that is merely its type's.
    if schema.get("maximum").is_some_and(|most| [json!(i64::MAX), json!(u64::MAX)].contains(most)) {
        schema.remove("maximum");
    }
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        if !required.iter().any(|known| known == name) {
            remove_null(property);
        }
    }
    schema.entry("additionalProperties").or_insert(json!(false));
}

fn remove_null(property: &mut Value) {
    if let Some([kind, null]) = property["type"].as_array().map(Vec::as_slice)
        && null == "null"
    {
        property["type"] = kind.clone();
    }
    let Some(property) = property.as_object_mut() else { return };
    if let Some(choices) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| *choice != json!({"type": "null"}));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            property.remove("anyOf");
            property.extend(only);
        }
    }
}

/// Replaces `{name}` with the fact of this name. A string that is nothing else becomes the fact, a number for example.
pub(crate) fn fill(value: &mut Value, facts: &Map<String, Value>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, facts)),
        Value::Object(fields) => fields.values_mut().for_each(|value| fill(value, facts)),
        Value::String(text) => {
            for (name, fact) in facts {
                let name = format!("{{{name}}}");
                if *text == name {
                    *value = fact.clone();
                    return;
                }
                if text.contains(&name) {
                    *text = text.replace(&name, fact.to_string().trim_matches('"'));
                }
            }
        }
        _ => {}
    }
}
