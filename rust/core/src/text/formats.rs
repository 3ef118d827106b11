//! Formats of sources: their text, blocks, links and title.
//!
//! A *source* is the caller's input: plain text, Markdown or HTML. A [`Document`] is a parsed source: its text, the
//! blocks of its markup, and a map from positions in the text to positions in the source. Parsing never fails and takes
//! time linear in the source. [`crate::text::pieces`] splits blocks into units, and finds the layout of plain text,
//! which has no markup.

mod detect;
mod html;
mod map;
mod markdown;

use std::borrow::Cow;

pub use pullquote_wire::options::Format;

use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::page::{Block, ByteSpan};
pub use html::runs::html_runs;
use map::SourceMap;
pub use markdown::shown::{ShownRun, shown};

#[derive(Clone, Debug)]
pub struct Document<'source> {
    /// Borrowed if the text is the source.
    text: Cow<'source, str>,
    /// Never [`Format::Auto`].
    format: Format,
    /// `None` for plain text.
    blocks: Option<Vec<Block>>,
    /// Sorted and disjoint, each within one block.
    links: Vec<ByteSpan>,
    title: Option<String>,
    /// `None` if the text is the source.
    map: Option<SourceMap>,
}

/// The format that a source is read as: never [`Format::Auto`].
pub fn detected(format: Format, source: &str) -> Format {
    if format == Format::Auto { detect::format(source) } else { format }
}

impl<'source> Document<'source> {
    /// Parses a source, which never fails, unless the call ends.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn read(source: &'source str, format: Format, check: &Check) -> Result<Self> {
        check()?;
        let format = detected(format, source);
        Ok(match format {
            Format::Text | Format::Auto => Self {
                text: Cow::Borrowed(source),
                format: Format::Text,
                blocks: None,
                links: Vec::new(),
                title: None,
                map: None,
            },
            Format::Markdown => {
                let markdown::Layout { blocks, links, title } = markdown::layout(source, check)?;
                Self { text: Cow::Borrowed(source), format, blocks: Some(blocks), links, title, map: None }
            }
            Format::Html => {
                let html::Reading { text, blocks, links, title, map } = html::read(source, check)?;
                Self { text: Cow::Owned(text), format, blocks: Some(blocks), links, title, map: Some(map) }
            }
        })
    }

    /// The text that windows are taken from: for plain text and Markdown, the source.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text if it differs from the source, that is for HTML.
    pub fn into_extracted(self) -> Option<String> {
        match self.text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
        }
    }

    /// The given or detected format; never [`Format::Auto`].
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Sorted, disjoint and trimmed blocks, none empty, which cover all that is not white space. `None` for plain text.
    pub fn blocks(&self) -> Option<&[Block]> {
        self.blocks.as_deref()
    }

    /// Spans that no unit boundary may split, sorted and disjoint, each within one block: links, images and inline code
    /// of Markdown, short links of HTML.
    pub fn links(&self) -> &[ByteSpan] {
        &self.links
    }

    /// The title of an HTML page or of Markdown's front matter, else the first heading of level one. `None` for plain
    /// text.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The part of the source that a span of the text comes from: from the start of its first character to the end of
    /// its last one, including the markup between them. The span is empty for white space that the source does not
    /// contain.
    ///
    /// # Panics
    ///
    /// If the span is not on character boundaries of the text.
    pub fn source_span(&self, span: ByteSpan) -> ByteSpan {
        self.map.as_ref().map_or(span, |map| map.source_span(span))
    }
}

#[cfg(test)]
mod tests;
