//! The options of clients of Exa for pages. For each option, `null` means that it is absent.

use std::fmt;
use std::marker::PhantomData;

use pullquote_core::engine::options::Options;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::body;
use crate::http::failure::{Failure, refused};
use crate::routes::item_limits::check_query;

/// Characters that each page adds to the shared budget by default.
const SHARED_CHARACTERS: i64 = 1500;

/// Options that do not change the answer, so that ignoring them needs no warning.
const QUIET: [&str; 10] = [
    "compliance", "filterEmptyResults", "flags", "livecrawl", "livecrawlTimeout", "maxAgeHours", "snapshotAsOf",
    "userIdentifier", "userLocation", "verbosity",
];

/// The options of `/contents`, which `/search` has under `contents`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub(crate) struct ContentsOptions {
    /// Return the text of each page.
    text: Option<Switch<TextOptions>>,
    /// Return highlights of each page.
    highlights: Option<Switch<HighlightOptions>>,
    /// Return the contents of all pages as one string: the texts if `text` is given or `highlights` is not, else the
    /// highlights.
    context: Option<Switch<TextOptions>>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// `true`, `false`, or an object of options.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
enum Switch<T> {
    Plain(bool),
    Detailed(T),
}

/// Options of texts, and of the string with all contents.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct TextOptions {
    /// Maximum number of characters; all by default.
    #[schemars(range(min = 1))]
    pub(super) max_characters: Option<usize>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Options of highlights.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(inline)]
pub(super) struct HighlightOptions {
    /// By default the query of the search, or the title of each page.
    #[schemars(regex(pattern = r"\S"))]
    pub(super) query: Option<String>,
    /// Sentences of each highlight.
    #[schemars(range(min = 1))]
    num_sentences: Option<i64>,
    /// Maximum number of highlights for each page.
    #[schemars(range(min = 1))]
    highlights_per_url: Option<i64>,
    /// Maximum number of characters for each page, over all its highlights.
    #[schemars(range(min = 1))]
    max_characters: Option<i64>,
    /// Share one budget among all pages; the most relevant highlights get it.
    dynamic: Option<bool>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What the client should know about its answer: an option was ignored, or no highlight answers the query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Warning {
    code: &'static str,
    path: String,
    message: &'static str,
}

impl Warning {
    /// No highlight reaches the score of an answer; `place` is the path of the option `highlights` in the body.
    pub(super) fn unanswered(place: &str) -> Self {
        Self {
            code: "QUERY_UNANSWERED",
            path: format!("{place}highlights"),
            message: "no passage says it in these words; the highlights are the nearest passages",
        }
    }
}

impl ContentsOptions {
    /// Reads and checks the options; `place` is their path in the body.
    pub(super) fn read(options: Map<String, Value>, place: &str, max_query_bytes: usize) -> Result<Self, Failure> {
        let wanted: Self = body::parse_value(Value::Object(options))
            .map_err(|failure| Failure { field: failure.field.map(|field| format!("{place}{field}")), ..failure })?;
        wanted.check(place, max_query_bytes)?;
        Ok(wanted)
    }

    fn check(&self, place: &str, max_query_bytes: usize) -> Result<(), Failure> {
        let invalid = |field: &str, message: String| refused(format!("{place}{field}"), message);
        if let Some(options) = self.highlights() {
            for (name, value) in [
                ("numSentences", options.num_sentences),
                ("highlightsPerUrl", options.highlights_per_url),
                ("maxCharacters", options.max_characters),
            ] {
                if let Some(value) = value.filter(|value| *value < 1) {
                    return invalid(&format!("highlights.{name}"), format!("it must be at least 1, not {value}"));
                }
            }
            let query = options.query.as_deref().unwrap_or("?");
            if query.trim().is_empty() {
                return invalid("highlights.query", "the query is empty; leave it out, or pass a question".to_owned());
            }
            check_query(query, format!("{place}highlights.query"), max_query_bytes)?;
        }
        for (name, options) in [("text", self.text()), ("context", self.context())] {
            if options.is_some_and(|options| options.max_characters == Some(0)) {
                return invalid(&format!("{name}.maxCharacters"), "it must be at least 1, not 0".to_owned());
            }
        }
        Ok(())
    }

    /// `None` if the client asks for no text.
    pub(super) fn text(&self) -> Option<TextOptions> {
        self.text.as_ref().and_then(Switch::wanted)
    }

    /// `None` if the client asks for no string with all contents.
    pub(super) fn context(&self) -> Option<TextOptions> {
        self.context.as_ref().and_then(Switch::wanted)
    }

    /// `None` if the client asks for no highlights.
    pub(super) fn highlights(&self) -> Option<HighlightOptions> {
        self.highlights.as_ref().and_then(Switch::wanted)
    }

    /// A warning for each option that is not honoured.
    pub(super) fn warnings(&self, place: &str) -> Vec<Warning> {
        let (text, highlights) = (self.text().unwrap_or_default(), self.highlights().unwrap_or_default());
        let mut warnings = warnings(&self.rest, place, &[]);
        warnings.extend(highlights.warnings(place));
        warnings.extend(self::warnings(&text.rest, &format!("{place}text."), &[]));
        let context = self.context().unwrap_or_default();
        warnings.extend(self::warnings(&context.rest, &format!("{place}context."), &[]));
        warnings
    }
}

impl HighlightOptions {
    /// The best passage of each page alone.
    pub(super) fn one() -> Self {
        Self { highlights_per_url: Some(1), ..Self::default() }
    }

    /// The engine's options. Pages with the same query may share a budget.
    pub(super) fn options(&self, pages: usize, is_shared: bool) -> Options {
        let mut options = Options { top_k: self.highlights_per_url, ..Options::default() };
        if let Some(sentences) = self.num_sentences {
            options.highlight_length = sentences;
            options.expand = false;
        }
        let most = self.max_characters;
        if self.dynamic != Some(true) {
            options.max_chars = most;
        } else if is_shared {
            let pages = i64::try_from(pages).unwrap_or(i64::MAX);
            options.max_total_chars = Some(most.unwrap_or(SHARED_CHARACTERS).saturating_mul(pages));
        } else {
            options.max_chars = Some(most.unwrap_or(SHARED_CHARACTERS));
        }
        options
    }

    pub(super) fn warnings(&self, place: &str) -> Vec<Warning> {
        warnings(&self.rest, &format!("{place}highlights."), &[])
    }
}

/// A warning for every given option that is neither known nor in `QUIET`.
pub(super) fn warnings(rest: &Map<String, Value>, place: &str, also_quiet: &[&str]) -> Vec<Warning> {
    let is_off = |value: &Value| matches!(value, Value::Null | Value::Bool(false)) || value.as_f64() == Some(0.0);
    let is_quiet = |name: &str| QUIET.contains(&name) || also_quiet.contains(&name);
    rest.iter()
        .filter(|(name, value)| !is_off(value) && !is_quiet(name))
        .map(|(name, _)| Warning {
            code: "OPTION_IGNORED",
            path: format!("{place}{name}"),
            message: "this server ignores the option",
        })
        .collect()
}

impl<T: Clone + Default> Switch<T> {
    fn wanted(&self) -> Option<T> {
        match self {
            Self::Plain(on) => on.then(T::default),
            Self::Detailed(options) => Some(options.clone()),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}

struct SwitchVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SwitchVisitor<T> {
    type Value = Switch<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or an object of options")
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Switch<T>, E> {
        Ok(Switch::Plain(on))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Switch::Detailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(options: Value) -> Result<ContentsOptions, Failure> {
        let Value::Object(options) = options else { panic!("an object") };
        ContentsOptions::read(options, "contents.", 1000)
    }

    fn options(highlights: &Value, is_shared: bool) -> Options {
        read(json!({"highlights": highlights})).unwrap().highlights().unwrap().options(4, is_shared)
    }

    #[test]
    fn null_and_false_are_absent() {
        for nothing in
            [json!({}), json!({"text": null, "highlights": null}), json!({"text": false, "highlights": false})]
        {
            let wanted = read(nothing).unwrap();
            assert!(wanted.text().is_none() && wanted.highlights().is_none());
        }
        let nulls = json!({"query": null, "numSentences": null, "highlightsPerUrl": null, "maxCharacters": null, "dynamic": null});
        assert_eq!(format!("{:?}", options(&nulls, true)), format!("{:?}", options(&json!(true), true)));
    }

    #[test]
    fn highlights_options_are_read() {
        let few = options(&json!({"numSentences": 2, "highlightsPerUrl": 5, "maxCharacters": 300}), true);
        assert_eq!((few.highlight_length, few.expand, few.top_k, few.max_chars), (2, false, Some(5), Some(300)));
        assert_eq!(few.max_total_chars, None);
        let shared = options(&json!({"dynamic": true, "maxCharacters": 300}), true);
        assert_eq!((shared.max_chars, shared.max_total_chars), (None, Some(1200)));
        assert_eq!(options(&json!({"dynamic": true}), true).max_total_chars, Some(6000));
        let alone = options(&json!({"dynamic": true}), false);
        assert_eq!((alone.max_chars, alone.max_total_chars), (Some(1500), None));
    }

    #[test]
    fn invalid_field_is_named() {
        for (request, field) in [
            (json!({"highlights": {"numSentences": 0}}), "contents.highlights.numSentences"),
            (json!({"highlights": {"maxCharacters": -1}}), "contents.highlights.maxCharacters"),
            (json!({"highlights": {"query": " "}}), "contents.highlights.query"),
            (json!({"highlights": {"dynamic": 3}}), "contents.highlights.dynamic"),
            (json!({"highlights": "yes"}), "contents.highlights"),
            (json!({"text": {"maxCharacters": 0}}), "contents.text.maxCharacters"),
            (json!({"context": {"maxCharacters": 0}}), "contents.context.maxCharacters"),
            (json!({"context": "yes"}), "contents.context"),
        ] {
            assert_eq!(read(request.clone()).unwrap_err().field.as_deref(), Some(field), "{request}");
        }
    }

    #[test]
    fn unsupported_field_is_a_warning() {
        let request = json!({
            "summary": true, "subpages": 0, "livecrawl": "always", "context": null,
            "highlights": {"verbosity": "low", "stepSize": 1}, "text": {"includeHtmlTags": true},
        });
        let warnings = read(request).unwrap().warnings("contents.");
        let paths: Vec<&str> = warnings.iter().map(|warning| warning.path.as_str()).collect();
        assert_eq!(paths, ["contents.summary", "contents.highlights.stepSize", "contents.text.includeHtmlTags"]);
    }
}
