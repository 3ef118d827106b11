//! What a request must be before anything is done for it, and which of its parts belong together; needs no model, so that who
//! sends it to another engine can ask too.

use std::ops::Range;

use super::{MAX_TEXT_BYTES, Pairing, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::Format;

impl Request<'_> {
    /// Checks what goes together.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::InvalidText`], saying what does not go together.
    pub fn check(&self) -> Result<()> {
        let Self { queries, pages, formats, titles, pairing } = self;
        let invalid = |message| Err(Error::new(ErrorKind::InvalidArgument, message));
        queries.iter().chain(*pages).chain(titles.iter().flatten()).try_for_each(|text| check_length(text))?;
        if let Some(empty) = queries.iter().position(|query| query.trim().is_empty()) {
            return invalid(format!(
                "query {empty} is empty; a query needs at least one character that is not white space"
            ));
        }
        if queries.is_empty() || (*pairing == Pairing::Each && queries.len() != pages.len()) {
            return invalid(format!(
                "{} queries do not go with {} pages; pass one query, or one for each page, or many for one page",
                queries.len(),
                pages.len()
            ));
        }
        if formats.len() != 1 && formats.len() != pages.len() {
            return invalid(format!(
                "{} formats do not go with {} pages; pass one for all, or one for each page",
                formats.len(),
                pages.len()
            ));
        }
        if !titles.is_empty() && titles.len() != pages.len() {
            return invalid(format!(
                "{} titles do not go with {} pages; pass one for each page, None where it has none",
                titles.len(),
                pages.len()
            ));
        }
        Ok(())
    }

    /// What a page is written in.
    pub(super) fn format(&self, page: usize) -> Format {
        // One stands for all; how many there are was checked.
        self.formats.get(page).or(self.formats.first()).copied().unwrap_or_default()
    }

    /// The pages that a query is asked of together.
    pub(super) fn pages_of(&self, query: usize) -> Range<usize> {
        if self.pairing == Pairing::Each { query..query + 1 } else { 0..self.pages.len() }
    }
}

pub(super) fn check_length(text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidText,
        format!("a text of {} bytes is too long; at most {MAX_TEXT_BYTES} bytes of UTF-8 fit", text.len()),
    ))
}
