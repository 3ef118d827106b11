//! Units of a page, and windows over them.
//!
//! A *unit* is a sentence, a word or a token. The units of a page are sorted, disjoint, trimmed and not empty, and they
//! cover every character that is not white space. Windows run from the start of their first unit to the end of their
//! last; they are spans, never copies. Everything here takes time linear in the text. [`crate::tokens`] finds the
//! tokens.
//!
//! Sentences are found in three steps: `blocks` splits the text at its layout, `sentences` splits a block at its
//! `sentence_ends`, `long` splits what is too long for one unit. No step cuts inside `links`.
//! [`crate::text::outline`] says which units stay together.

pub(crate) mod abbreviations;
mod amounts;
mod blocks;
mod captions;
mod card_ends;
pub(crate) mod graphemes;
mod header_rows;
mod inline_items;
mod item_code;
mod items;
mod joints;
mod labels;
mod line_numbers;
mod lines;
mod links;
pub(crate) mod list_marks;
mod lone_marks;
pub(crate) mod long;
pub(crate) mod marks;
mod org;
mod page_headers_footers;
pub(crate) mod records;
mod references;
mod sentence_ends;
mod sentence_numbers;
mod sentence_quotes;
mod sentence_tails;
mod sentences;
pub(crate) mod table_captions;
mod terms;
mod titles;
mod units;
mod windows;
mod words;
pub(crate) mod wrapping;

pub use pullquote_wire::options::Unit;
pub(crate) use references::is_reference;
pub use sentences::sentences;
pub use units::{NamedTable, Units};
pub use windows::Windows;
pub use words::{words, words_checked};

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Check;
use crate::text::page::ByteSpan;

/// The windows over the sentences or words of a text, in its sections.
///
/// # Errors
///
/// [`ErrorKind::Internal`] for [`Unit::Token`], which needs [`crate::tokens`]; those of `check`.
pub fn parse_pieces(text: &str, unit: Unit, windows: Windows, check: &Check) -> Result<Vec<ByteSpan>> {
    let units = match unit {
        Unit::Sentence => Units::sentences(text, None, &[], check)?,
        Unit::Word => Units::independent(words_checked(text, check)?),
        Unit::Token => return Err(Error::new(ErrorKind::Internal, "parse_pieces() has no tokenizer for tokens")),
    };
    Ok(units.windows(windows).iter().map(|window| units.span(window)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;

    #[test]
    fn pieces_are_windows_over_units() {
        let windows = Windows::new(2, 1, false).expect("the windows overlap");
        let pieces = |unit| -> Vec<&str> {
            let text = "One two. Three!\n\nFour.";
            parse_pieces(text, unit, windows, &unstopped)
                .expect("no tokens")
                .into_iter()
                .map(|window| window.of(text))
                .collect()
        };
        assert_eq!(pieces(Unit::Sentence), ["One two. Three!", "Three!\n\nFour."]);
        assert_eq!(pieces(Unit::Word), ["One two.", "two. Three!", "Three!\n\nFour."]);
        assert_eq!(
            parse_pieces("a", Unit::Token, windows, &unstopped).expect_err("no tokenizer").kind(),
            ErrorKind::Internal
        );
    }
}
