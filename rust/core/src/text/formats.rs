//! Formats: what a source says in words, and how it lays that out.
//!
//! A *source* is what the caller has: plain text, Markdown or HTML. A [`Document`] is that source read: the text that
//! pieces are cut from, the blocks that the source's own markup lays it out in, and the way back from a place of the
//! text to the place of the source it was read from. Reading never fails and takes time linear in the source. What a
//! piece of a block is, is for [`crate::text::pieces`] to say, and so is the layout of plain text, which has no markup.

mod detect;
mod html;
mod map;
mod markdown;

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::page::{Block, ByteSpan};
use map::SourceMap;

/// What a source is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Format {
    /// Text without markup: its layout is guessed.
    #[default]
    Text,
    /// `CommonMark` with tables, strikethrough, footnotes and front matter. Its text is the source itself.
    Markdown,
    /// HTML as browsers read it. Its text is what they show to a reader.
    Html,
    /// One of the others, found out by looking at the start of the source.
    Auto,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A source that was read.
#[derive(Clone, Debug)]
pub struct Document<'source> {
    /// Borrowed where the text is the source.
    text: Cow<'source, str>,
    /// Never [`Format::Auto`].
    format: Format,
    /// `None` for plain text.
    blocks: Option<Vec<Block>>,
    /// Ordered and disjoint; none leaves its block.
    links: Vec<ByteSpan>,
    title: Option<String>,
    /// `None` where the text is the source.
    map: Option<SourceMap>,
}

impl<'source> Document<'source> {
    /// Reads a source. Whatever it holds, something comes of it.
    #[must_use]
    pub fn read(source: &'source str, format: Format) -> Self {
        let format = if format == Format::Auto { detect::format(source) } else { format };
        match format {
            Format::Text | Format::Auto => Self {
                text: Cow::Borrowed(source),
                format: Format::Text,
                blocks: None,
                links: Vec::new(),
                title: None,
                map: None,
            },
            Format::Markdown => {
                let markdown::Layout { blocks, links, title } = markdown::layout(source);
                Self { text: Cow::Borrowed(source), format, blocks: Some(blocks), links, title, map: None }
            }
            Format::Html => {
                let html::Reading { text, blocks, links, title, map } = html::read(source);
                Self { text: Cow::Owned(text), format, blocks: Some(blocks), links, title, map: Some(map) }
            }
        }
    }

    /// The text that pieces are cut from. For plain text and Markdown it is the source.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, where it is not the source.
    #[must_use]
    pub fn into_extracted(self) -> Option<String> {
        match self.text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        }
    }

    /// What the source was read as; never [`Format::Auto`].
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The blocks the source lays its text out in: ordered, disjoint, trimmed, none empty, and together they cover all
    /// that is not white space. `None` for plain text.
    #[must_use]
    pub fn blocks(&self) -> Option<&[Block]> {
        self.blocks.as_deref()
    }

    /// Stretches of the text that must not be cut, ordered and disjoint: links, images and inline code of Markdown,
    /// short links of HTML. None leaves its block.
    #[must_use]
    pub fn links(&self) -> &[ByteSpan] {
        &self.links
    }

    /// What the source calls itself: the title of an HTML page or of Markdown's front matter, or else the first heading
    /// of the first level. `None` for plain text.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The stretch of the source that a span of the text was read from: from the start of what became the span's first
    /// character to the end of what became its last one, with the markup between them. A span of white space that the
    /// source does not have gives an empty span.
    ///
    /// # Panics
    ///
    /// When the span does not lie on character boundaries of the text.
    #[must_use]
    pub fn source_span(&self, span: ByteSpan) -> ByteSpan {
        self.map.as_ref().map_or(span, |map| map.source_span(span))
    }
}

#[cfg(test)]
mod tests;
