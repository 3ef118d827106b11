//! HTML: its visible text, and the blocks of its elements.
//!
//! Three steps: `tokens` splits the source into markup and text with a tokenizer that follows the standard, `tree`
//! tracks the open elements and hides the invisible ones, `text` writes the visible text. Only white space is written
//! that is not in the source. Nothing recurses with the depth of the source, and every step takes linear time.
//!
//! Text stays in its order, but for the readings of a word (`text::ruby`).

mod attributes;
mod copies;
mod display;
mod elements;
mod events;
pub(super) mod runs;
mod tables;
mod text;
mod tokens;
mod tree;

use super::map::SourceMap;
use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::page::{Block, ByteSpan};

pub(super) struct Reading {
    pub(super) text: String,
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<ByteSpan>,
    pub(super) title: Option<String>,
    pub(super) map: SourceMap,
}

/// Parses a page or a fragment.
pub(super) fn read(source: &str, check: &Check) -> Result<Reading> {
    text::write(source, &tokens::read(source, check)?, check)
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
