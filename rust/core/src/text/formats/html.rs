//! HTML: the text that a browser shows to a reader, and the blocks its elements lay it out in.
//!
//! Three steps: `tokens` tells markup from text with a tokenizer that follows the standard, `tree` decides which elements
//! are open and what is hidden, `text` writes down what is left. Only white space is written that is not in the source.
//! Nothing here goes deeper with the depth of the source, and every step takes time linear in it.

mod elements;
mod text;
mod tokens;
mod tree;

use super::map::SourceMap;
use crate::text::page::{Block, ByteSpan};

/// A page of HTML that was read.
pub(super) struct Reading {
    pub(super) text: String,
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<ByteSpan>,
    pub(super) title: Option<String>,
    pub(super) map: SourceMap,
}

/// Reads a page, or a fragment of one.
pub(super) fn read(source: &str) -> Reading {
    text::write(source, &tokens::read(source))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
