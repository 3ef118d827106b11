//! Structs of settings, and the JSON Schemas that flags, signatures and documentation are made from.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A group of settings: its heading, the commands that have a flag for each, and their names.
pub type Group = (&'static str, &'static str, &'static [&'static str]);

/// The schema of a number of bytes, which people write with a unit too.
#[derive(JsonSchema)]
#[schemars(inline, extend("format" = "bytes"))]
pub struct ByteCount(#[expect(dead_code, reason = "only its schema is used")] usize);

/// A struct of settings, made by [`settings!`](crate::settings).
pub trait Settings: JsonSchema + Serialize + Default {
    /// All fields, in the order of documentation.
    const GROUPS: &'static [Group];

    /// The schema of each field, with `name`, `group` and `commands`. A command has a flag for each setting that lists it.
    ///
    /// A secret has the format `password`, as in OpenAPI, and a number of bytes the format `bytes`. The first paragraph of a field's comment is its help, and `description` has all of them. A field may add: `x-flag` and
    /// `x-short`, names of the flag; `x-metavar`, `x-help`, `x-const` and `x-commands` of the flag; `x-default`, the default in
    /// words; `x-env`, an environment variable; `x-python`, the type in Python; `x-docs`, a page that says more.
    fn fields() -> Vec<Map<String, Value>> {
        let settings = SchemaSettings::draft2020_12().with_transform(simplify);
        let schema = settings.into_generator().into_root_schema_for::<Self>();
        let field = |group: &str, commands: &str, name: &str| {
            let mut field =
                schema.get("properties").and_then(|all| all.get(name)?.as_object().cloned()).unwrap_or_default();
            let commands = field.remove("x-commands").unwrap_or_else(|| commands.into());
            field.extend([
                ("name".to_owned(), name.into()),
                ("group".to_owned(), group.into()),
                ("commands".to_owned(), commands),
            ]);
            field
        };
        let fields = Self::GROUPS
            .iter()
            .flat_map(|(group, commands, names)| names.iter().map(move |name| field(group, commands, name)));
        fields.collect()
    }

    /// Checks each number against the range in its schema, and that no secret is empty; else the message says what would
    /// work. An empty secret is a variable that was not set: with it, a server would be open to everyone.
    ///
    /// # Errors
    /// The first field that is out of its range.
    fn check_ranges(&self) -> Result<(), String> {
        let values = serde_json::to_value(self).unwrap_or_default();
        for field in Self::fields() {
            let name = field["name"].as_str().unwrap_or_default();
            let is_secret = field.get("format").is_some_and(|format| format == "password");
            if is_secret && has_empty_text(&values[name]) {
                return Err(format!("{name} is empty; it needs at least one character, or leave it out"));
            }
            let Some(value) = values[name].as_f64() else { continue };
            let limit = |keyword: &str| field.get(keyword).and_then(Value::as_f64);
            let wrong = match (limit("minimum"), limit("exclusiveMinimum"), limit("maximum")) {
                (Some(least), ..) if value < least => format!("at least {least}"),
                (_, Some(bound), _) if value <= bound => format!("more than {bound}"),
                (.., Some(most)) if value > most => format!("at most {most}"),
                _ => continue,
            };
            return Err(format!("{name} must be {wrong}, not {value}"));
        }
        Ok(())
    }
}

fn has_empty_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.iter().any(has_empty_text),
        _ => false,
    }
}

/// Declares a struct of settings: each field with its comment, type and default. A group of fields has a heading, and
/// the commands that have them as flags.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])* pub struct $name:ident {
            $([$group:literal for $commands:literal] $($(#[$field_meta:meta])* $field:ident: $kind:ty = $default:expr,)*)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $($($(#[$field_meta])* pub $field: $kind,)*)* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($($field: $default,)*)* }
            }
        }

        impl $crate::schema::Settings for $name {
            const GROUPS: &'static [$crate::schema::Group] = &[$(($group, $commands, &[$(stringify!($field)),*])),*];
        }
    };
}

/// How JSON Schemas of our types are written. An enum is a list of its names, a line break in a description is a space,
/// and integers have the bounds of their type. What is for flags and documentation is left out.
pub fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(simplify).with_transform(without_extensions)
}

fn without_extensions(schema: &mut Schema) {
    transform_subschemas(&mut without_extensions, schema);
    if let Some(object) = schema.as_object_mut() {
        object.retain(|keyword, _| !keyword.starts_with("x-"));
    }
}

fn simplify(schema: &mut Schema) {
    transform_subschemas(&mut simplify, schema);
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::String(description)) = object.get_mut("description") {
        let paragraphs: Vec<String> = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
    if let Some(names) = object.get("oneOf").and_then(names) {
        object.remove("oneOf");
        object.insert("type".to_owned(), json!("string"));
        object.insert("enum".to_owned(), names.into());
    }
    add_null(object);
    let format = object.get("format").and_then(Value::as_str).unwrap_or_default().to_owned();
    let bounds: Option<(Value, Value)> = match format.as_str() {
        "int32" => Some((i32::MIN.into(), i32::MAX.into())),
        "int64" => Some((i64::MIN.into(), i64::MAX.into())),
        "uint32" => Some((0.into(), u32::MAX.into())),
        "uint" | "uint64" | "bytes" => Some((0.into(), u64::MAX.into())),
        _ => None,
    };
    if ["int", "uint", "float", "double"].iter().any(|number| format.starts_with(number)) {
        object.remove("format");
    }
    if object.contains_key("enum") {
        object.remove("minimum");
    } else if let Some((least, most)) = bounds {
        object.entry("minimum").or_insert(least);
        object.entry("maximum").or_insert(most);
    }
}

/// The names of an enum. Its schema lists each variant with a description alone, and all others together.
fn names(variants: &Value) -> Option<Vec<Value>> {
    let of_variant = |variant: &Value| match (variant.get("const"), variant.get("enum")) {
        (Some(name), _) => Some(vec![name.clone()]),
        (None, names) => names?.as_array().cloned(),
    };
    let names: Option<Vec<Vec<Value>>> = variants.as_array()?.iter().map(of_variant).collect();
    Some(names?.concat())
}

/// Makes one list of an enum or a choice, and null.
fn add_null(object: &mut Map<String, Value>) -> Option<()> {
    let [Value::Object(inner), null] = object.get("anyOf")?.as_array()?.as_slice() else { return None };
    let (mut inner, null) = (inner.clone(), null.clone());
    if null != json!({"type": "null"}) {
        return None;
    }
    if let Some(names) = inner.get_mut("enum").and_then(Value::as_array_mut) {
        names.push(Value::Null);
        inner.insert("type".to_owned(), json!(["string", "null"]));
    } else {
        inner.get_mut("anyOf")?.as_array_mut()?.push(null);
    }
    object.remove("anyOf");
    for (keyword, value) in inner {
        object.entry(keyword).or_insert(value);
    }
    Some(())
}
