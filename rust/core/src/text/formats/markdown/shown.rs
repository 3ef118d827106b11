//! The text of Markdown that a browser shows: without marks, addresses of links, images and raw HTML.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::nesting::limited;
use super::{EXTENSIONS, front_matter};
use crate::text::page::ByteSpan;

/// A run of shown text, and its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownRun {
    /// As a browser shows it; white space between blocks.
    pub text: String,
    /// Its source. Empty between blocks.
    pub source: ByteSpan,
    /// Whether HTML or Markdown may be put around it: not within a block of code.
    pub is_prose: bool,
}

/// The runs of a source in their order. A block ends with a blank line, a row of a table with a line.
pub fn shown(source: &str) -> Vec<ShownRun> {
    let body = front_matter::find(source).map_or(0, |front_matter| front_matter.span.end);
    let mut runs: Vec<ShownRun> = Vec::new();
    let (mut images, mut is_code) = (0_usize, false);
    for (event, range) in Parser::new_ext(&limited(&source[body..]), EXTENSIONS).into_offset_iter() {
        let span = ByteSpan { start: body + range.start, end: body + range.end };
        let between = |text: &str| ShownRun {
            text: text.to_owned(),
            source: ByteSpan { start: span.end, end: span.end },
            is_prose: false,
        };
        match event {
            Event::Start(Tag::Image { .. }) => images += 1,
            Event::End(TagEnd::Image) => images -= 1,
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::Text(text) | Event::Code(text) if images == 0 => {
                runs.push(ShownRun { text: text.into_string(), source: span, is_prose: !is_code });
            }
            Event::SoftBreak | Event::End(TagEnd::TableCell) => runs.push(between(" ")),
            Event::HardBreak | Event::End(TagEnd::TableRow | TagEnd::TableHead) => runs.push(between("\n")),
            Event::End(TagEnd::CodeBlock) => {
                is_code = false;
                runs.push(between("\n\n"));
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::Table) => {
                runs.push(between("\n\n"));
            }
            _ => {}
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> String {
        shown(source).into_iter().map(|run| run.text).collect()
    }

    #[test]
    fn marks_addresses_images_and_front_matter_are_not_shown() {
        let source =
            "---\ntitle: x\n---\n# The *Moon*\n\nIt is [far & wide](https://moon.example) `away`.\n![a map](m.png)";
        assert_eq!(text(source).trim_end(), "The Moon\n\nIt is far & wide away.");
        assert_eq!(text("AT&amp;T \\*is\\*\nhere"), "AT&T *is* here\n\n");
    }

    #[test]
    fn runs_name_their_source() {
        let source = "a **b** `c`";
        let of = |run: &ShownRun| (run.text.clone(), run.source.of(source).to_owned());
        let runs: Vec<_> = shown(source).iter().filter(|run| !run.source.is_empty()).map(of).collect();
        let expected = [("a ", "a "), ("b", "b"), (" ", " "), ("c", "`c`")];
        assert_eq!(runs, expected.map(|(text, source)| (text.to_owned(), source.to_owned())));
    }

    #[test]
    fn cells_lines_and_blocks_stay_apart() {
        assert_eq!(text("| a | b |\n|---|---|\n| c | d |\n\n- e\n- f\n"), "a b \nc d \n\n\ne\n\nf\n\n");
    }
}
