//! Named values from Python or JSON, read into a struct by serde.
//!
//! An error names the option, its value and what would work; a wrong type and a value that is not allowed are different
//! kinds.

use std::fmt;

use pullquote_wire::schema::Settings;
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::error::{Error, ErrorKind};

/// A value of an option. Unlike in JSON, a number may be infinite or NaN.
#[derive(Clone, Debug)]
pub enum OptionValue {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<OptionValue>),
    Map(Vec<(String, OptionValue)>),
    /// A value of no type that an option has, as the caller's language names that type.
    Other(String),
}

#[derive(Debug)]
pub struct OptionError {
    /// [`ErrorKind::InvalidType`] or [`ErrorKind::InvalidArgument`].
    pub kind: ErrorKind,
    /// The invalid option, if it is only one.
    pub name: Option<String>,
    pub message: String,
}

/// Reads options into a struct, whose fields are their names.
///
/// # Errors
/// [`OptionError`] for a name that the struct does not have, and for a value that its field cannot take.
pub fn read<T: DeserializeOwned>(options: impl IntoIterator<Item = (String, OptionValue)>) -> Result<T, OptionError> {
    T::deserialize(MapAccessDeserializer::new(OptionMap { remaining: options.into_iter(), current: None }))
}

/// Reads settings, and checks each number against the range of its field.
///
/// # Errors
/// As [`read`], and [`ErrorKind::InvalidArgument`] for a number out of its range.
pub fn read_settings<T: DeserializeOwned + Settings>(
    settings: impl IntoIterator<Item = (String, OptionValue)>,
) -> Result<T, OptionError> {
    let settings: T = read(settings).map_err(hide_secret::<T>)?;
    settings.check_ranges().map_err(|message| OptionError::new(ErrorKind::InvalidArgument, message))?;
    Ok(settings)
}

/// Takes the value of a secret out of a message, which logs would keep.
fn hide_secret<T: Settings>(mut error: OptionError) -> OptionError {
    let is_secret = |name: &str| {
        T::fields()
            .iter()
            .any(|field| field["name"] == name && field.get("format").is_some_and(|format| format == "password"))
    };
    if error.name.as_deref().is_some_and(is_secret)
        && let Some((expected, _)) = error.message.split_once(", not ")
    {
        error.message = format!("{expected}; what it is instead is not shown, because it is a secret");
    }
    error
}

struct OptionMap<I> {
    remaining: I,
    current: Option<(String, OptionValue)>,
}

impl<'de, I: Iterator<Item = (String, OptionValue)>> de::MapAccess<'de> for OptionMap<I> {
    type Error = OptionError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, OptionError> {
        self.current = self.remaining.next();
        self.current.as_ref().map(|(name, _)| seed.deserialize(name.as_str().into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, OptionError> {
        let (name, value) = self.current.take().ok_or_else(|| de::Error::custom("a value without a name"))?;
        seed.deserialize(&value).map_err(|OptionError { kind, message: expected, .. }| OptionError {
            kind,
            message: format!("{name} must be {expected}, not {value}"),
            name: Some(name),
        })
    }
}

impl<'de> Deserializer<'de> for &OptionValue {
    type Error = OptionError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, OptionError> {
        match self {
            OptionValue::Null => visitor.visit_unit(),
            OptionValue::Bool(value) => visitor.visit_bool(*value),
            OptionValue::Integer(value) => visitor.visit_i64(*value),
            OptionValue::Float(value) => visitor.visit_f64(*value),
            OptionValue::Text(value) => visitor.visit_str(value),
            OptionValue::List(values) => visitor.visit_seq(SeqDeserializer::new(values.iter())),
            OptionValue::Map(values) => {
                visitor.visit_map(MapDeserializer::new(values.iter().map(|(name, value)| (name.as_str(), value))))
            }
            OptionValue::Other(name) => Err(de::Error::invalid_type(de::Unexpected::Other(name), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, OptionError> {
        if matches!(self, OptionValue::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, OptionError> {
        match self {
            OptionValue::Text(variant) => visitor.visit_enum(variant.as_str().into_deserializer()),
            _ => Err(OptionError::new(ErrorKind::InvalidType, one_of(variants))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, OptionError> for &OptionValue {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            // 2.0 where a whole number is wanted is not 2.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(_) => f.write_str("an array"),
            Self::Map(_) => f.write_str("an object"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

impl From<serde_json::Value> for OptionValue {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(value) => match (value.as_i64(), value.as_f64().unwrap_or(f64::NAN)) {
                (Some(integer), _) => Self::Integer(integer),
                (None, number) => whole(number).map_or(Self::Float(number), Self::Integer),
            },
            Value::String(value) => Self::Text(value),
            Value::Array(values) => Self::List(values.into_iter().map(Self::from).collect()),
            Value::Object(values) => Self::Map(values.into_iter().map(|(name, value)| (name, value.into())).collect()),
        }
    }
}

/// JSON has one kind of number: 3.0 is the whole number 3.
fn whole(number: f64) -> Option<i64> {
    // Up to here, each whole number is one.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

impl OptionError {
    pub fn into_error(self) -> Error {
        match self.name {
            Some(name) if self.kind == ErrorKind::InvalidArgument => Error::of_field(name, self.message),
            _ => Error::new(self.kind, self.message),
        }
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, name: None, message }
    }
}

impl std::error::Error for OptionError {}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Until `OptionMap` knows the option's name and value, the message is the expected value.
impl de::Error for OptionError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(ErrorKind::InvalidArgument, message.to_string())
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(ErrorKind::InvalidType, in_words(expected))
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(ErrorKind::InvalidArgument, in_words(expected))
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Self::new(ErrorKind::InvalidArgument, one_of(variants))
    }

    fn unknown_field(name: &str, fields: &'static [&'static str]) -> Self {
        let message = match similar(name, fields) {
            Some(similar) => format!("there is no option {name:?}; did you mean {similar:?}?"),
            None => format!("there is no option {name:?}; the options are {}", fields.join(", ")),
        };
        Self { name: Some(name.to_owned()), ..Self::new(ErrorKind::InvalidType, message) }
    }
}

/// What other libraries and engines call ours.
const OTHER_NAMES: [(&str, &[&str]); 13] = [
    ("top_k", &["count", "k", "limit", "max_results", "n", "num_results", "number_of_fragments", "size", "top_n"]),
    ("top_n", &["k", "limit", "n", "top_k"]),
    (
        "min_score",
        &["cutoff", "min_similarity", "score_threshold", "similarity_cutoff", "similarity_threshold", "threshold"],
    ),
    ("model", &["embedding_model", "model_id", "model_name", "model_name_or_path"]),
    ("model_name", &["embedding_model", "model", "model_id", "model_name_or_path"]),
    ("max_chars", &["fragment_size", "max_characters", "max_length", "num_characters"]),
    ("highlight_length", &["chunk_size", "length", "num_sentences", "window", "window_size"]),
    ("step_size", &["chunk_overlap", "overlap", "step", "stride"]),
    ("lexical_weight", &["alpha", "bm25_weight", "keyword_weight"]),
    ("order", &["sort", "sort_by"]),
    ("query", &["q", "queries", "question", "questions"]),
    ("texts", &["docs", "documents", "pages", "passages"]),
    ("documents", &["docs", "pages", "passages", "text", "texts"]),
];

/// The name that was probably meant by `name`, such as `top_k` for `topK` or `limit`.
pub fn similar<'name>(name: &str, names: &[&'name str]) -> Option<&'name str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let is_other = |ours: &str| {
        let others =
            OTHER_NAMES.iter().find(|(known, _)| plain(known) == plain(ours)).map_or(&[][..], |(_, others)| others);
        others.iter().any(|other| plain(other) == plain(name))
    };
    if let Some(ours) = names.iter().copied().find(|ours| is_other(ours)) {
        return Some(ours);
    }
    let alike = |other: &&str| strsim::normalized_damerau_levenshtein(&plain(name), &plain(other));
    let best = names.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(&best) >= 0.65).then_some(best)
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.as_slice() {
        [names @ .., last] if !names.is_empty() => format!("{} or {last}", names.join(", ")),
        names => names.concat(),
    }
}

/// serde names a number by Rust's type.
fn in_words(expected: &dyn de::Expected) -> String {
    match expected.to_string().as_str() {
        "i32" => "a whole number of 32 bits".to_owned(),
        "i64" => "a whole number".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" | "u64" | "usize" => "a whole number from 0".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        expected => expected.to_owned(),
    }
}
