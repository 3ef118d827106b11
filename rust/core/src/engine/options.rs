//! Options: what a caller may say about a call, by the names that Python, HTTP and the documentation use.
//!
//! `Highlighter.highlights` in `python/pullquote/highlighter.py` says what each means. They are checked here and become the
//! engine's [`Question`], [`Pairing`] and [`Format`]; what is left out has the default that is written here.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::engine::{Effort, Pairing, Question};
use crate::error::{Error, ErrorKind, Result};
use crate::highlights::{Bounds, Dedupe, Limits, Order};
use crate::ranking::relevance::LexicalWeight;
use crate::text::formats::Format;
use crate::text::pieces::{Unit, Windows};

/// The options of a call that are not texts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "each is documented where people score_candidates for it, in highlighter.py")]
#[expect(clippy::struct_excessive_bools, reason = "they are four independent options")]
pub struct Options {
    pub highlight_length: i64,
    pub step_size: i64,
    pub unit: String,
    pub format: String,
    pub pairing: String,
    pub fuse: bool,
    pub top_k: Option<i64>,
    pub max_chars: Option<i64>,
    pub max_tokens: Option<i64>,
    pub max_total_chars: Option<i64>,
    pub max_total_tokens: Option<i64>,
    pub min_score: Option<f64>,
    pub order: String,
    pub dedupe: String,
    pub context: i64,
    pub explain: bool,
    pub allow_gaps: bool,
    pub expand: bool,
    /// None is `"auto"`.
    #[serde(deserialize_with = "weight", serialize_with = "weight_or_auto")]
    pub lexical_weight: Option<f64>,
    pub effort: String,
    /// In seconds.
    pub timeout: Option<f64>,
    /// Lower is more urgent.
    pub priority: i32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            highlight_length: 3,
            step_size: 1,
            unit: "sentence".to_owned(),
            format: "text".to_owned(),
            pairing: "auto".to_owned(),
            fuse: false,
            top_k: None,
            max_chars: None,
            max_tokens: None,
            max_total_chars: None,
            max_total_tokens: None,
            min_score: None,
            order: "score".to_owned(),
            dedupe: "auto".to_owned(),
            context: 0,
            explain: false,
            allow_gaps: false,
            expand: true,
            lexical_weight: None,
            effort: "auto".to_owned(),
            timeout: None,
            priority: 0,
        }
    }
}

impl Options {
    /// What is asked about the pages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value.
    pub fn question(&self) -> Result<Question> {
        let limits = Limits {
            top_k: self.top_k,
            max_chars: self.max_chars,
            max_tokens: self.max_tokens,
            max_total_chars: self.max_total_chars,
            max_total_tokens: self.max_total_tokens,
            min_score: self.min_score,
        };
        let Ok(context) = usize::try_from(self.context) else {
            return invalid(format!("context must be 0 or more, not {}", self.context));
        };
        Ok(Question {
            unit: Unit::parse(&self.unit)?,
            windows: Windows::new(self.highlight_length, self.step_size, self.allow_gaps)?,
            expand: self.expand,
            lexical_weight: LexicalWeight::new(self.lexical_weight)?,
            effort: Effort::parse(&self.effort)?,
            context,
            explain: self.explain,
            bounds: Bounds::new(&limits, Order::parse(&self.order)?, Dedupe::parse(&self.dedupe, &limits)?)?,
        })
    }

    /// The name of each pairing that may be asked for.
    pub const PAIRINGS: [&'static str; 3] = ["auto", "each", "all"];

    /// Which query goes with which page; `listed` says whether there is a list of queries, or one that stands alone.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value.
    pub fn pairing(&self, listed: bool, pages: usize) -> Result<Pairing> {
        match (self.pairing.as_str(), self.fuse) {
            ("auto" | "all", true) => Ok(Pairing::Fused),
            ("each", true) => {
                invalid("fuse=True joins all queries on every page, so it does not go with pairing=\"each\"".to_owned())
            }
            ("auto", false) if listed && pages != 1 => Ok(Pairing::Each),
            ("auto" | "all", false) => Ok(Pairing::All),
            ("each", false) => Ok(Pairing::Each),
            (other, _) => {
                let [auto, each, all] = Self::PAIRINGS;
                invalid(format!("pairing must be {auto:?}, {each:?} or {all:?}, not {other:?}"))
            }
        }
    }

    /// What the pages are written in.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value.
    pub fn format(&self) -> Result<Format> {
        Format::parse(&self.format)
    }

    /// How long the call may take.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] naming the value.
    pub fn timeout(&self) -> Result<Option<Duration>> {
        self.timeout.map(seconds).transpose()
    }
}

/// A timeout as people say it.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] naming the value, where it is not more than nothing.
pub fn seconds(timeout: f64) -> Result<Duration> {
    if timeout.is_nan() || timeout <= 0.0 {
        return invalid(format!("timeout must be more than 0 seconds, not {timeout}"));
    }
    Ok(Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX))
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

/// `"auto"`, or a number.
fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    struct Weight;
    impl Visitor<'_> for Weight {
        type Value = Option<f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"auto\" or a number from 0.0 (meaning alone) to 1.0 (words alone)")
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
    deserializer.deserialize_any(Weight)
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

    fn read(json: &str) -> Result<Options, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_unknown_is_named() {
        assert_eq!(format!("{:?}", read("{}").unwrap()), format!("{:?}", Options::default()));
        assert!(read(r#"{"topk": 3}"#).unwrap_err().starts_with("unknown field `topk`, expected one of"));
        assert!(read(r#"{"top_k": "3"}"#).unwrap_err().starts_with("invalid type: string \"3\""));
    }

    #[test]
    fn words_count_by_a_number_or_as_is_best() {
        assert_eq!(read(r#"{"lexical_weight": "auto"}"#).unwrap().lexical_weight, None);
        assert_eq!(read(r#"{"lexical_weight": 1}"#).unwrap().lexical_weight, Some(1.0));
        assert!(read(r#"{"lexical_weight": "some"}"#).unwrap_err().contains("expected \"auto\" or a number"));
    }

    #[test]
    fn lists_of_queries_and_pages_go_together_one_by_one() {
        let options = Options::default();
        assert_eq!(options.pairing(false, 3).unwrap(), Pairing::All);
        assert_eq!(options.pairing(true, 3).unwrap(), Pairing::Each);
        assert_eq!(options.pairing(true, 1).unwrap(), Pairing::All);
        let fused = Options { fuse: true, ..Options::default() };
        assert_eq!(fused.pairing(true, 3).unwrap(), Pairing::Fused);
        let wrong = Options { pairing: "each".to_owned(), ..fused };
        assert!(wrong.pairing(true, 3).unwrap_err().message().contains("does not go with pairing=\"each\""));
    }
}
