//! What the options of a call mean: their checked form, the [`Question`]; the [`Pairing`]; a deadline.

use std::time::Duration;

pub use pullquote_wire::options::{Options, PairingOption};

use crate::engine::Pairing;
use crate::error::{Error, Result};
use crate::highlights::{Bounds, Dedupe};
use crate::ranking::Effort;
use crate::ranking::candidates::CandidateLimits;
use crate::ranking::relevance::LexicalWeight;
use crate::text::pieces::{Unit, Windows};

/// The checked parameters of a call. [`Options`] documents each.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub unit: Unit,
    pub windows: Windows,
    /// Whether passages grow from the best sentences. Otherwise passages are windows. Ignored for words and tokens.
    pub expand: bool,
    /// The weight of BM25 and coverage against the cosine.
    pub lexical_weight: LexicalWeight,
    pub effort: Effort,
    /// Units on each side of a highlight for [`Answers::contexts`](super::Answers::contexts).
    pub context: usize,
    /// Whether to fill [`Answers::matches`](super::Answers::matches).
    pub explain: bool,
    pub bounds: Bounds,
    /// The most passages of an answer that a reranker scores.
    pub rerank_top: usize,
    /// Windows of a page to encode for each query, before those that could still be among the best; `None` is by the limits.
    pub likely_windows: Option<usize>,
}

impl Question {
    /// Checks the options of a call.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) naming the option and its value.
    pub fn new(options: &Options) -> Result<Self> {
        let Ok(context) = usize::try_from(options.context) else {
            return Err(Error::of_field("context", format!("context must be 0 or more, not {}", options.context)));
        };
        let Ok(rerank_top) = usize::try_from(options.rerank_top) else {
            return Err(Error::of_field(
                "rerank_top",
                format!("rerank_top must be 0 or more, not {}", options.rerank_top),
            ));
        };
        Ok(Self {
            rerank_top,
            likely_windows: None,
            unit: options.unit,
            windows: Windows::new(options.highlight_length, options.step_size, options.allow_gaps)?,
            expand: options.expand,
            lexical_weight: LexicalWeight::new(options.lexical_weight)?,
            effort: options.effort,
            context,
            explain: options.explain,
            bounds: Bounds::new(options, options.order, Dedupe::new(options.dedupe, options))?,
        })
    }

    /// Whether passages grow from sentences. Windows with gaps between them are always returned as they are.
    pub(super) fn expands(&self) -> bool {
        self.expand && self.unit == Unit::Sentence && self.windows.step_size() <= self.windows.highlight_length()
    }

    /// Whether units are encoded in addition to windows. With a lexical weight, BM25 and coverage already tell the
    /// units of a window apart at no cost. Windows of one sentence each are the units.
    pub(super) fn encodes_units(&self) -> bool {
        self.expands()
            && self.effort != Effort::Instant
            && !self.lexical_weight.uses_terms()
            && (self.windows.highlight_length(), self.windows.step_size()) != (1, 1)
    }

    /// The longest passage: all units of the windows around one unit.
    pub(super) fn max_passage_units(&self) -> usize {
        self.windows.highlight_length().saturating_mul(2) - 1
    }

    pub(super) fn candidate_limits(&self) -> CandidateLimits {
        let budget = self.bounds.page_budget();
        CandidateLimits {
            effort: self.effort,
            passages: self.bounds.max_passages(),
            likely: self.likely_windows,
            shared_passages: self.bounds.shared_passages(),
            chars: budget.chars,
            tokens: budget.tokens,
            min_logit: self.bounds.min_logit(),
        }
    }
}

impl Pairing {
    /// Which query goes with which page.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) naming the value. Several queries and several pages need a `pairing`: equal
    /// numbers of both may be a coincidence.
    pub fn new(options: &Options, queries: usize, pages: usize) -> Result<Self> {
        match (options.pairing, options.fuse) {
            (PairingOption::Auto | PairingOption::All, true) => Ok(Self::Fused),
            (PairingOption::Each, true) => Err(Error::of_field(
                "fuse",
                "fuse=True joins all queries on every page, so it cannot be combined with pairing=\"each\"",
            )),
            (PairingOption::Auto, false) if queries > 1 && pages > 1 => Err(Error::of_field(
                "pairing",
                format!(
                    "{queries} queries and {pages} pages: pairing=\"all\" asks each query of every page, pairing=\"each\" asks query \
                     i of page i"
                ),
            )),
            (PairingOption::Auto | PairingOption::All, false) => Ok(Self::All),
            (PairingOption::Each, false) => Ok(Self::Each),
        }
    }
}

/// A timeout in seconds.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) naming the value, unless it is above 0.
pub fn seconds(timeout: f64) -> Result<Duration> {
    if timeout.is_nan() || timeout <= 0.0 {
        return Err(Error::of_field("timeout", format!("timeout must be more than 0 seconds, not {timeout}")));
    }
    Ok(Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use pullquote_wire::schema::Settings;
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::option_values::{self, OptionError};
    use crate::error::ErrorKind;

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
        let defaults = serde_json::to_value(Options::default()).unwrap();
        let fields = Options::fields();
        assert_eq!(fields.len(), defaults.as_object().unwrap().len());
        for option in &fields {
            assert!(option["description"].as_str().is_some_and(|text| text.ends_with('.')), "{option:?}");
            assert_eq!(option["default"], defaults[option["name"].as_str().unwrap()], "{option:?}");
        }
        let field = |name: &str| fields.iter().find(|field| field["name"] == name).unwrap();
        assert_eq!(field("effort")["enum"], json!(["full", "fast", "auto", "instant"]));
        assert_eq!(field("dedupe")["enum"], json!(["auto", "page", "answer", "none"]));
        assert_eq!((&field("top_k")["minimum"], &field("top_k")["maximum"]), (&json!(1), &json!(i64::MAX)));
        assert_eq!(field("priority")["minimum"], json!(i32::MIN));
    }

    #[test]
    fn several_queries_and_pages_need_a_pairing() {
        let options = Options::default();
        assert_eq!(Pairing::new(&options, 1, 3).unwrap(), Pairing::All);
        assert_eq!(Pairing::new(&options, 3, 1).unwrap(), Pairing::All);
        let refused = Pairing::new(&options, 3, 3).unwrap_err();
        assert!(["3 queries", "3 pages", "\"all\"", "\"each\""].iter().all(|part| refused.message().contains(part)));
        let each = Options { pairing: PairingOption::Each, ..Options::default() };
        assert_eq!(Pairing::new(&each, 3, 3).unwrap(), Pairing::Each);
        let fused = Options { fuse: true, ..Options::default() };
        assert_eq!(Pairing::new(&fused, 3, 3).unwrap(), Pairing::Fused);
        let wrong = Options { pairing: PairingOption::Each, ..fused };
        let refused = Pairing::new(&wrong, 3, 3).unwrap_err();
        assert!(["fuse", "pairing=\"each\""].iter().all(|part| refused.message().contains(part)), "{refused:?}");
    }
}
