//! The blocks of a page, for clients that show it as it was laid out.

use pullquote_core::error::Result;
use pullquote_core::runtime::call::Check;
use pullquote_core::text::formats::{Document, Format};
use pullquote_core::text::page::{Block, BlockKind, CharSpan, PageText};
use pullquote_core::text::positions::Positions;
use pullquote_wire::result::{OffsetUnit, PageBlock};

/// The blocks of a source; none of plain text, which has no markup.
pub(super) fn blocks(
    source: &str,
    format: Format,
    offsets: OffsetUnit,
    check: &Check,
) -> Result<Vec<PageBlock<'static>>> {
    let document = Document::read(source, format, check)?;
    let page = PageText::new(document.text());
    let blocks = document.blocks().unwrap_or_default();
    let spans: Vec<_> = blocks.iter().map(|block| page.chars(block.span)).collect();
    let positions = Positions::of(document.text(), spans.iter().flat_map(|span| [span.start, span.end]).collect());
    let of_span = |(block, span): (&Block, &CharSpan)| PageBlock {
        kind: name(block.kind).into(),
        start: positions.count(span.start, offsets),
        end: positions.count(span.end, offsets),
    };
    Ok(blocks.iter().zip(&spans).map(of_span).collect())
}

const fn name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Prose
        | BlockKind::Caption
        | BlockKind::Source
        | BlockKind::Record
        | BlockKind::Turn
        | BlockKind::Captions => "prose",
        BlockKind::Item | BlockKind::Term => "item",
        BlockKind::Heading => "heading",
        BlockKind::HeaderRow | BlockKind::Row => "row",
        BlockKind::Code => "code",
        BlockKind::Rule => "rule",
    }
}

#[cfg(test)]
mod tests {
    use pullquote_core::runtime::call::unstopped;

    use super::*;

    #[test]
    fn return_blocks_counts_in_the_offsets_unit() {
        let block = |kind: &'static str, start, end| PageBlock { kind: kind.into(), start, end };
        let source = "# 🍞\n\nBrot.";
        assert_eq!(
            blocks(source, Format::Markdown, OffsetUnit::Codepoint, &unstopped).expect("nothing ends it"),
            [block("heading", 0, 3), block("prose", 5, 10)]
        );
        assert_eq!(
            blocks(source, Format::Markdown, OffsetUnit::Utf16, &unstopped).expect("nothing ends it"),
            [block("heading", 0, 4), block("prose", 6, 11)]
        );
        assert_eq!(blocks(source, Format::Text, OffsetUnit::Byte, &unstopped).expect("nothing ends it"), []);
        assert_eq!(
            blocks("<h1>A</h1><p>B", Format::Html, OffsetUnit::Byte, &unstopped).expect("nothing ends it")[0],
            block("heading", 0, 1)
        );
    }
}
