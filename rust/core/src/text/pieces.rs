//! Pieces: sliding windows over the units of a page, as spans, never as copies.
//!
//! A *unit* is a sentence, a word or a token; the units of a page are ordered, disjoint, trimmed, none is empty, and
//! together they cover every character that is not white space. A *piece* runs from the first unit of a window to its
//! last. Everything here takes time linear in the text. What a token is, is for [`crate::tokens`] to say.
//!
//! Sentences are found in three steps: `blocks` cuts the text where its layout does, `sentences` cuts a
//! block at the ends of its sentences, `long` cuts what is too long to be one unit; neither cuts inside `links`.

mod abbreviations;
mod attached;
mod blocks;
mod graphemes;
mod lines;
mod links;
mod long;
pub(crate) mod marks;
mod page_headers_footers;
mod records;
mod sentences;
mod units;
mod windows;
mod words;

use schemars::JsonSchema;
pub use sentences::sentences;
use serde::{Deserialize, Serialize};
pub use units::Units;
pub use windows::Windows;
pub use words::words;

use crate::error::{Error, ErrorKind, Result};
use crate::text::page::ByteSpan;

/// What windows count in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Unit {
    /// A sentence, a heading, an item of a list, a line of code or of a table: see [`sentences()`].
    #[default]
    Sentence,
    /// A word with the punctuation attached to it: see [`words()`].
    Word,
    /// A token of the model's tokenizer.
    Token,
}

/// The pieces of a text: `windows` over its sentences or its words.
///
/// # Errors
///
/// [`ErrorKind::Internal`] for [`Unit::Token`]: only a tokenizer knows tokens, so [`crate::tokens`] makes those.
pub fn parse_pieces(text: &str, unit: Unit, windows: Windows) -> Result<Vec<ByteSpan>> {
    let units = match unit {
        Unit::Sentence => sentences(text),
        Unit::Word => words(text),
        Unit::Token => return Err(Error::new(ErrorKind::Internal, "windows of tokens were asked of the pieces stage")),
    };
    Ok(windows.over(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_windows_over_units() {
        let windows = Windows::new(2, 1, false).expect("the windows overlap");
        let pieces = |unit| -> Vec<&str> {
            let text = "One two. Three!\n\nFour.";
            parse_pieces(text, unit, windows).expect("no tokens").into_iter().map(|piece| piece.of(text)).collect()
        };
        assert_eq!(pieces(Unit::Sentence), ["One two. Three!", "Three!\n\nFour."]);
        assert_eq!(pieces(Unit::Word), ["One two.", "two. Three!", "Three!\n\nFour."]);
        assert_eq!(parse_pieces("a", Unit::Token, windows).expect_err("no tokenizer").kind(), ErrorKind::Internal);
    }
}
