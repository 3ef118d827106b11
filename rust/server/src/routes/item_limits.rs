//! Checks of lists and texts against the limits of a server.

use crate::http::failure::{Amount, Failure};

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

/// Checks the length of a query, whose words are all compared with those of every page.
pub(crate) fn check_query(query: &str, field: impl Into<String>, limit: usize) -> Result<(), Failure> {
    if query.len() <= limit {
        return Ok(());
    }
    let message = format!("the query has {} bytes; the maximum is {limit} (--max-query-bytes)", query.len());
    Err(Failure::of_amount(Amount::TooMuch, field, message))
}
