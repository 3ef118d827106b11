//! Limits of requests: their names in schemas, and the checks of lists and texts.
//!
//! `openapi::Facts` replaces the names by the settings of a server.

use crate::http::failure::{Amount, Failure};

pub(crate) const MAX_DOCUMENTS: &str = "{max_documents}";
pub(crate) const MAX_DOCUMENT_BYTES: &str = "{max_document_bytes}";
pub(crate) const MAX_QUERIES: &str = "{max_queries}";
pub(crate) const MAX_INPUTS: &str = "{max_inputs}";
pub(crate) const DIMENSION: &str = "{dimension}";
/// The purposes of texts.
pub(crate) const PURPOSES: &str = "{purposes}";
pub(crate) const MODEL_NAMES: &str = "{model_names}";

pub(crate) fn check_lengths<'text>(
    texts: impl IntoIterator<Item = &'text str>,
    field: &str,
    limit: usize,
) -> Result<(), Failure> {
    match texts.into_iter().enumerate().find(|(_, text)| text.len() > limit) {
        None => Ok(()),
        Some((index, text)) => Err(Failure::of_amount(
            Amount::TooMuch,
            format!("{field}[{index}]"),
            format!("a text has {} bytes; the maximum is {limit}", text.len()),
        )),
    }
}

pub(crate) fn check_count(count: usize, field: &str, limit: usize) -> Result<(), Failure> {
    let refused = |amount, message: String| Err(Failure::of_amount(amount, field, message));
    match count {
        0 => refused(Amount::Nothing, "the list is empty; it must have at least one entry".to_owned()),
        _ if count > limit => refused(Amount::TooMuch, format!("there are {count} entries; the maximum is {limit}")),
        _ => Ok(()),
    }
}
