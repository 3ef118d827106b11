//! The options of a call: their one source. Python's signature, the command line, HTTP, `OpenAPI` and the documentation
//! use the names, defaults, ranges and doc comments of [`Options`]; [`Options::json_schema`] has them all.
//!
//! The engine takes them as its [`Question`], [`Pairing`] and [`Format`].

use std::fmt;
use std::time::Duration;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::engine::{Effort, Pairing, Question};
use crate::error::{Error, ErrorKind, Result};
use crate::highlights::{Bounds, DedupeOption, Limits, MinScore, Order};
use crate::ranking::relevance::LexicalWeight;
use crate::text::formats::Format;
use crate::text::pieces::{Unit, Windows};

/// The range of an option that counts something.
const WHOLE_FROM_ONE: &str = "a whole number from 1";

/// The options of a call.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are four independent options")]
pub struct Options {
    /// Length of a window, in units.
    #[serde(deserialize_with = "count")]
    #[schemars(range(min = 1))]
    pub highlight_length: i64,
    /// Distance between the starts of two windows, in units; above `highlight_length` only with `allow_gaps`.
    #[serde(deserialize_with = "count")]
    #[schemars(range(min = 1))]
    pub step_size: i64,
    /// Unit of windows: sentences, words or tokens of the model.
    pub unit: Unit,
    /// Format of the pages; `auto` detects it for each page.
    pub format: Format,
    /// `all` compares each query with every page, `each` compares query i with page i; `auto` is `all`, and refuses
    /// several queries with several pages.
    pub pairing: PairingOption,
    /// Return one answer to all queries: each sentence has the relevance of the query that it answers best.
    pub fuse: bool,
    /// Maximum number of highlights for each page; 3 if neither it nor another limit is set.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub top_k: Option<i64>,
    /// Maximum number of characters for each page, over all its highlights.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub max_chars: Option<i64>,
    /// Maximum number of the model's tokens for each page, over all its highlights.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<i64>,
    /// Maximum number of characters for all pages together; the most relevant passages get them.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub max_total_chars: Option<i64>,
    /// Maximum number of the model's tokens for all pages together; the most relevant passages get them.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub max_total_tokens: Option<i64>,
    /// Maximum number of highlights for all pages together; the best ones.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(range(min = 1))]
    pub max_total_highlights: Option<i64>,
    /// Minimum score of a highlight, the probability that it answers the query, from 0 to 1; the result may be empty.
    /// `auto` leaves out what hardly answers it, and keeps 95 % of the answers.
    #[schemars(schema_with = "min_score_schema")]
    pub min_score: Option<MinScore>,
    /// `score` returns the best highlights first, `position` the order of the page.
    pub order: Order,
    /// Drop near-duplicate passages: within each `page`, across the whole `answer`, or nowhere (`none`); `auto` is
    /// `answer` when pages share a limit, else `page`.
    pub dedupe: DedupeOption,
    /// Number of sentences to report before and after each highlight.
    #[schemars(range(min = 0))]
    pub context: i64,
    /// Report the words that matched, and where.
    pub explain: bool,
    /// Allow a `step_size` above `highlight_length`, which skips text.
    pub allow_gaps: bool,
    /// Rank sentences and grow passages from them; otherwise return the best windows as they were cut.
    pub expand: bool,
    /// Weight of words (BM25 and coverage) against meaning (cosine), from 0 to 1; `auto` is 0.5, more for scripts that
    /// the model's tokenizer does not know, less if the pages have few of the query's words.
    #[serde(deserialize_with = "weight", serialize_with = "weight_or_auto")]
    #[schemars(schema_with = "weight_schema")]
    pub lexical_weight: Option<f64>,
    /// Share of the windows to encode: `full`, all; `auto`, those that could be among the best; `fast`, at most 64 for
    /// each page beyond those that the words select; `instant`, none: passages come from words and from vectors of
    /// single tokens.
    pub effort: Effort,
    /// Seconds after which the call fails; no limit by default.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// Urgency of the call's work on the devices; lower goes first.
    pub priority: i32,
}

/// A [`Pairing`] as a caller names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PairingOption {
    #[default]
    Auto,
    Each,
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            highlight_length: 3,
            step_size: 1,
            unit: Unit::default(),
            format: Format::default(),
            pairing: PairingOption::default(),
            fuse: false,
            top_k: None,
            max_chars: None,
            max_tokens: None,
            max_total_chars: None,
            max_total_tokens: None,
            max_total_highlights: None,
            min_score: None,
            order: Order::default(),
            dedupe: DedupeOption::default(),
            context: 0,
            explain: false,
            allow_gaps: false,
            expand: true,
            lexical_weight: None,
            effort: Effort::default(),
            timeout: None,
            priority: 0,
        }
    }
}

impl Options {
    /// The JSON Schema of the options: description, type, range and default of each.
    pub fn json_schema() -> Schema {
        schema_settings().into_generator().into_root_schema_for::<Self>()
    }

    /// The checked parameters of the call.
    pub fn question(&self) -> Result<Question> {
        let limits = Limits {
            top_k: self.top_k,
            max_chars: self.max_chars,
            max_tokens: self.max_tokens,
            max_total_chars: self.max_total_chars,
            max_total_tokens: self.max_total_tokens,
            max_total_highlights: self.max_total_highlights,
            min_score: self.min_score,
        };
        let Ok(context) = usize::try_from(self.context) else {
            return invalid(format!("context must be 0 or more, not {}", self.context));
        };
        Ok(Question {
            unit: self.unit,
            windows: Windows::new(self.highlight_length, self.step_size, self.allow_gaps)?,
            expand: self.expand,
            lexical_weight: LexicalWeight::new(self.lexical_weight)?,
            effort: self.effort,
            context,
            explain: self.explain,
            bounds: Bounds::new(&limits, self.order, self.dedupe.resolve(&limits))?,
        })
    }

    /// Which query goes with which page.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value. Several queries and several pages need a `pairing`: equal
    /// numbers of both may be a coincidence.
    pub fn pairing(&self, queries: usize, pages: usize) -> Result<Pairing> {
        match (self.pairing, self.fuse) {
            (PairingOption::Auto | PairingOption::All, true) => Ok(Pairing::Fused),
            (PairingOption::Each, true) => invalid(
                "fuse=True joins all queries on every page, so it cannot be combined with pairing=\"each\"".to_owned(),
            ),
            (PairingOption::Auto, false) if queries > 1 && pages > 1 => invalid(format!(
                "{queries} queries and {pages} pages: pairing=\"all\" asks each query of every page, pairing=\"each\" asks query i \
                 of page i"
            )),
            (PairingOption::Auto | PairingOption::All, false) => Ok(Pairing::All),
            (PairingOption::Each, false) => Ok(Pairing::Each),
        }
    }

    /// How long the call may take.
    pub fn timeout(&self) -> Result<Option<Duration>> {
        self.timeout.map(seconds).transpose()
    }
}

/// A timeout in seconds.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] naming the value, unless it is above 0.
pub fn seconds(timeout: f64) -> Result<Duration> {
    if timeout.is_nan() || timeout <= 0.0 {
        return invalid(format!("timeout must be more than 0 seconds, not {timeout}"));
    }
    Ok(Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX))
}

/// How JSON Schemas of our types are written: an enum is a list of its names, a description is one paragraph, and
/// integers have the bounds of their type.
pub fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(simplify)
}

fn simplify(schema: &mut Schema) {
    transform_subschemas(&mut simplify, schema);
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = description.replace('\n', " ");
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
        "uint" | "uint64" => Some((0.into(), u64::MAX.into())),
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

fn weight_schema(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({"anyOf": [{"const": "auto"}, {"type": "number", "minimum": 0, "maximum": 1}]})
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

fn min_score_schema(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({"anyOf": [{"const": "auto"}, {"type": "number"}, {"type": "null"}]})
}

/// `"auto"` as `None`, or a number; what is expected.
struct NumberOrAuto(&'static str);

impl Visitor<'_> for NumberOrAuto {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == "auto" { Ok(None) } else { Err(E::invalid_value(de::Unexpected::Str(text), &self)) }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "only 0 and 1 are allowed, and checked later")]
    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "only 0 and 1 are allowed, and checked later")]
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number as f64))
    }
}

/// A number that counts something; [`Options::question`] checks its range.
struct Count(i64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(CountVisitor)
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WHOLE_FROM_ONE)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Count, E> {
        Ok(Count(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
        Ok(Count(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Count::deserialize(deserializer).map(|Count(number)| number)
}

fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Count>::deserialize(deserializer)?.map(|Count(number)| number))
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    deserializer.deserialize_any(NumberOrAuto("\"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone)"))
}

impl<'de> Deserialize<'de> for MinScore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let score = deserializer.deserialize_any(NumberOrAuto("\"auto\" or a number from 0 to 1"))?;
        Ok(score.map_or(Self::Auto, Self::Score))
    }
}

impl Serialize for MinScore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Score(score) => serializer.serialize_f64(*score),
        }
    }
}

#[expect(clippy::ref_option, reason = "what serde calls")]
fn weight_or_auto<S: Serializer>(weight: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match weight {
        None => serializer.serialize_str("auto"),
        Some(weight) => serializer.serialize_f64(*weight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::option_values::{self, OptionError};

    fn read(json: &str) -> std::result::Result<Options, OptionError> {
        let options: serde_json::Map<String, Value> = serde_json::from_str(json).unwrap();
        option_values::read(options.into_iter().map(|(name, value)| (name, value.into())))
    }

    #[test]
    fn options_left_out_have_their_defaults() {
        assert_eq!(format!("{:?}", read("{}").unwrap()), format!("{:?}", Options::default()));
        let written = serde_json::to_string(&Options::default()).unwrap();
        assert_eq!(format!("{:?}", read(&written).unwrap()), format!("{:?}", Options::default()));
    }

    #[test]
    fn option_errors_name_option_value_and_allowed_values() {
        for (json, kind, parts) in [
            (r#"{"topk": 3}"#, ErrorKind::InvalidType, ["topk", "topk", "top_k"]),
            (r#"{"top_k": "3"}"#, ErrorKind::InvalidType, ["top_k", "\"3\"", "whole number from 1"]),
            (r#"{"top_k": 1.5}"#, ErrorKind::InvalidType, ["top_k", "1.5", "whole number from 1"]),
            (r#"{"unit": null}"#, ErrorKind::InvalidType, ["unit", "null", "\"word\" or \"token\""]),
            (r#"{"order": []}"#, ErrorKind::InvalidType, ["order", "array", "\"score\" or \"position\""]),
            (r#"{"effort": "most"}"#, ErrorKind::InvalidArgument, ["effort", "\"most\"", "\"auto\""]),
            (r#"{"lexical_weight": "some"}"#, ErrorKind::InvalidArgument, ["lexical_weight", "\"some\"", "\"auto\""]),
            (r#"{"min_score": "high"}"#, ErrorKind::InvalidArgument, ["min_score", "\"high\"", "\"auto\""]),
            (r#"{"priority": 3000000000}"#, ErrorKind::InvalidArgument, ["priority", "3000000000", "32 bits"]),
        ] {
            let error = read(json).unwrap_err();
            assert_eq!((error.kind, error.name.as_deref()), (kind, Some(parts[0])), "{error}");
            assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
        }
    }

    #[test]
    fn lexical_weight_is_a_number_or_auto() {
        assert_eq!(read(r#"{"lexical_weight": "auto"}"#).unwrap().lexical_weight, None);
        assert_eq!(read(r#"{"lexical_weight": 1}"#).unwrap().lexical_weight, Some(1.0));
    }

    #[test]
    fn the_schema_has_each_option_with_its_meaning_range_and_default() {
        let schema = serde_json::to_value(Options::json_schema()).unwrap();
        let defaults = serde_json::to_value(Options::default()).unwrap();
        let (properties, defaults) = (schema["properties"].as_object().unwrap(), defaults.as_object().unwrap());
        assert!(properties.keys().eq(defaults.keys()));
        for (name, option) in properties {
            assert!(option["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
            assert_eq!(option["default"], defaults[name], "{name}");
        }
        assert_eq!(properties["effort"]["enum"], json!(["full", "fast", "auto", "instant"]));
        assert_eq!(properties["dedupe"]["enum"], json!(["auto", "page", "answer", "none"]));
        assert_eq!((&properties["top_k"]["minimum"], &properties["top_k"]["maximum"]), (&json!(1), &json!(i64::MAX)));
        assert_eq!(properties["priority"]["minimum"], json!(i32::MIN));
    }

    #[test]
    fn several_queries_and_pages_need_a_pairing() {
        let options = Options::default();
        assert_eq!(options.pairing(1, 3).unwrap(), Pairing::All);
        assert_eq!(options.pairing(3, 1).unwrap(), Pairing::All);
        let refused = options.pairing(3, 3).unwrap_err();
        assert!(["3 queries", "3 pages", "\"all\"", "\"each\""].iter().all(|part| refused.message().contains(part)));
        let each = Options { pairing: PairingOption::Each, ..Options::default() };
        assert_eq!(each.pairing(3, 3).unwrap(), Pairing::Each);
        let fused = Options { fuse: true, ..Options::default() };
        assert_eq!(fused.pairing(3, 3).unwrap(), Pairing::Fused);
        let wrong = Options { pairing: PairingOption::Each, ..fused };
        let refused = wrong.pairing(3, 3).unwrap_err();
        assert!(["fuse", "pairing=\"each\""].iter().all(|part| refused.message().contains(part)), "{refused:?}");
    }
}
