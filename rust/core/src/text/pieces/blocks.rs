//! Blocks: stretches of a page that no sentence leaves, found by its layout.
//!
//! Blank lines, headings, list items, rows of tables, lines of code and rules bound them. So do line ends, unless the
//! line was merely wrapped: every line end inside a block is such a soft one.

use super::abbreviations::{self, last_word};
use super::lines::{Line, Marker, Shape, content, indent, lines};
use super::marks::{has_capitals, is_closing, is_east_asian, is_terminal};
use super::page_headers_footers::Running;
use super::records::are_records;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Below this width, in characters, lines without a full stop are a menu or an address and not wrapped prose.
const NARROWEST_WRAP: usize = 30;

/// Below this width a dash at the start of a line is a list item: wrapped at 30, a paragraph is at least this wide.
const NARROWEST_DASH_WRAP: usize = 20;

/// A line of more characters than this was not wrapped: it is a paragraph of its own.
const WIDEST_WRAP: usize = 200;

/// The blocks of a text.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut cutter = Cutter {
        text,
        has_capitals: has_capitals(text),
        blocks: Vec::new(),
        group: Vec::new(),
        widest: 0,
        item: None,
        fence: None,
        in_table: false,
        running: Running::of(text),
        begins_page: false,
    };
    let mut lines = lines(text).peekable();
    while let Some(line) = lines.next() {
        cutter.add(line, lines.peek());
        if line.hard {
            cutter.end_group();
            cutter.begins_page = true;
        }
    }
    cutter.end_group();
    cutter.blocks
}

struct Cutter<'text> {
    text: &'text str,
    /// Whether the text has capital letters, so that a small one tells something.
    has_capitals: bool,
    /// What is done.
    blocks: Vec<Block>,
    /// The lines of text since the last bound.
    group: Vec<Line>,
    /// The width of the widest of them.
    widest: usize,
    /// How far the list item is indented that the group belongs to.
    item: Option<usize>,
    /// The mark and the length of the fence that code is in.
    fence: Option<(u8, usize)>,
    /// Whether the line before was a row of a table.
    in_table: bool,
    /// The lines that head or foot the pages.
    running: Running,
    /// Whether the group begins a page, so that its first line may be a head; until the group ends.
    begins_page: bool,
}

impl Cutter<'_> {
    fn of(&self, line: &Line) -> &str {
        &self.text[line.start..line.end]
    }

    fn add(&mut self, line: Line, next: Option<&Line>) {
        if let Some((mark, length)) = self.fence {
            if line.end > line.start {
                self.push(line.start, line.end, BlockKind::Code, true);
            }
            let closes =
                |shape| matches!(shape, Shape::Fence { mark: m, length: l, bare: true } if m == mark && l >= length);
            if closes(line.shape) {
                self.fence = None;
            }
            return;
        }
        let in_table = std::mem::replace(&mut self.in_table, line.shape == Shape::Row);
        match line.shape {
            Shape::Text if self.running.holds(self.of(&line)) => self.push_furniture(&line),
            Shape::PageNumber => self.push_furniture(&line),
            Shape::Text => self.gather(line),
            Shape::Item(marker) if self.is_wrapped_dash(&line, marker, next) => self.gather(line),
            Shape::Item(_) => {
                self.end_group();
                self.item = Some(indent(self.of(&line)));
                self.gather(line);
            }
            Shape::Rule { underlines: true } if self.is_title() => {
                let title = self.group.pop().map_or(line.start, |title| title.start);
                self.end_group();
                self.push(title, line.end, BlockKind::Heading, false);
            }
            Shape::Blank => {
                self.end_group();
                // Nothing but the `>` of a quote.
                if line.end > line.start {
                    self.push(line.start, line.end, BlockKind::Rule, false);
                }
            }
            Shape::Heading | Shape::Row | Shape::Rule { .. } | Shape::Fence { .. } => {
                self.end_group();
                let kind = match line.shape {
                    Shape::Heading => BlockKind::Heading,
                    Shape::Row => BlockKind::Row,
                    Shape::Fence { .. } => BlockKind::Code,
                    _ => BlockKind::Rule,
                };
                self.push(line.start, line.end, kind, in_table && kind == BlockKind::Row);
                if let Shape::Fence { mark, length, .. } = line.shape {
                    self.fence = Some((mark, length));
                }
            }
        }
    }

    /// Whether the last line of the group can be a title, so that a rule below underlines it.
    fn is_title(&self) -> bool {
        let title = |line: &Line| line.end - line.start <= WIDEST_WRAP && !self.of(line).ends_with('.');
        self.item.is_none() && self.group.last().is_some_and(title)
    }

    /// Whether what looks like a list item is a dash or a number that wrapping brought to the start of a line.
    ///
    /// In wrapped prose every line is full, so a line with room for the next one's first word speaks for a list.
    fn is_wrapped_dash(&self, line: &Line, marker: Marker, next: Option<&Line>) -> bool {
        let Some(last) = self.group.last() else { return false };
        let (last, text) = (self.of(last), self.of(line));
        if self.item.is_some() || ends_sentence(last) || self.widest < NARROWEST_DASH_WRAP {
            return false;
        }
        let starts_list = next.is_some_and(|next| {
            next.shape == Shape::Item(marker) && has_room(text, self.of(next), self.widest.max(width(text)))
        });
        !starts_list && !has_room(last, text, self.widest)
    }

    fn gather(&mut self, line: Line) {
        self.widest = self.widest.max(width(self.of(&line)));
        self.group.push(line);
    }

    fn push_furniture(&mut self, line: &Line) {
        self.end_group();
        self.push(line.start, line.end, BlockKind::Rule, false);
        self.begins_page = true;
    }

    fn push(&mut self, start: usize, end: usize, kind: BlockKind, goes_on: bool) {
        self.blocks.push(Block { span: ByteSpan { start, end }, kind, goes_on });
    }

    /// Cuts the group at its hard line ends.
    fn end_group(&mut self) {
        let group = std::mem::take(&mut self.group);
        self.widest = 0;
        let item = self.item.take();
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let begins_page = std::mem::take(&mut self.begins_page);
        let kind = if item.is_some() { BlockKind::Item } else { BlockKind::Prose };
        let (mut start, mut goes_on) = (first.start, false);
        if group.len() > 1 {
            let mut soft = self.soft_ends(&group, item);
            // A head: there was room for more, and what goes on is the sentence of the page before.
            if begins_page {
                let widest = group.iter().map(|line| width(self.of(line))).filter(|&width| width <= WIDEST_WRAP).max();
                soft[0] &= !has_room(self.of(first), self.of(&group[1]), widest.unwrap_or(0));
            }
            for ((line, next), soft) in group.iter().zip(&group[1..]).zip(soft) {
                if !soft {
                    self.push(start, line.end, kind, goes_on);
                    (start, goes_on) = (next.start, item.is_some());
                }
            }
        }
        self.push(start, last.end, kind, goes_on);
    }

    /// For each line of the group but the last: whether its end is only wrapping.
    ///
    /// A line was wrapped where the next line's first word would not have fit on it. The widest line stands for the
    /// width that the writer wrapped at, so this finds every wrapped line; it also finds the widest of lines that were
    /// never wrapped, and so it counts only where such ends are at least as many as the plainly hard ones.
    fn soft_ends(&self, group: &[Line], item: Option<usize>) -> Vec<bool> {
        let widths: Vec<usize> = group.iter().map(|line| width(self.of(line))).collect();
        let within_limits = || widths.iter().copied().filter(|&width| width <= WIDEST_WRAP);
        let widest = within_limits().max().unwrap_or(0);
        let wraps = widest >= NARROWEST_WRAP || group.iter().any(|line| self.of(line).contains(is_terminal));
        let ends: Vec<LineEnd> = group
            .iter()
            .zip(&group[1..])
            .zip(&widths)
            .map(|((line, next), &width)| {
                let (line, next) = (self.of(line), self.of(next));
                let goes_on = is_hyphenated(line, next) || (self.has_capitals && goes_on(line, next));
                if item.is_some_and(|item| indent(next) > item) || goes_on {
                    LineEnd::Soft
                } else if width <= WIDEST_WRAP && wraps && !has_room(line, next, widest) {
                    if are_records(line, next) { LineEnd::Record } else { LineEnd::Full }
                } else if ends_sentence(line) {
                    LineEnd::Sentence
                } else {
                    LineEnd::Hard
                }
            })
            .collect();
        let count = |end| ends.iter().filter(|&&other| other == end).count();
        let wrapped = count(LineEnd::Full) >= count(LineEnd::Hard);
        ends.into_iter().map(|end| end == LineEnd::Soft || (end == LineEnd::Full && wrapped)).collect()
    }
}

/// How a line ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    /// The next line plainly continues it.
    Soft,
    /// The next line's first word would not have fit.
    Full,
    /// There was room for more, but a sentence ended.
    Sentence,
    /// The next line's first word would not have fit, but it begins another thing of the same kind.
    Record,
    /// There was room for more.
    Hard,
}

/// Whether the next line starts in the middle of a sentence: with a small letter, and not behind a line of code.
fn goes_on(line: &str, next: &str) -> bool {
    let starts_small = content(next).chars().next().is_some_and(char::is_lowercase);
    starts_small && !line.ends_with([';', ':', '{', '}', '[', '>'])
}

/// Whether a word goes on in the next line behind its hyphen.
fn is_hyphenated(line: &str, next: &str) -> bool {
    let word = line.strip_suffix(['-', '\u{2010}', '\u{ad}']);
    word.is_some_and(|word| word.ends_with(char::is_alphabetic)) && content(next).starts_with(char::is_alphabetic)
}

/// Whether a sentence may end with this line, or introduce what follows it.
fn ends_sentence(line: &str) -> bool {
    let line = line.trim_end_matches(is_closing);
    match line.strip_suffix('.') {
        Some(sentence) => abbreviations::ends(last_word(sentence)).is_none(),
        None => line.ends_with(|c| is_terminal(c) || c == ':'),
    }
}

/// Whether the next line's first word would have fit on a line of this width.
fn has_room(line: &str, next: &str, widest: usize) -> bool {
    width(line) + 1 + first_word_width(next) <= widest
}

/// How many characters a line has.
fn width(line: &str) -> usize {
    bytecount::num_chars(line.as_bytes())
}

/// How many characters have to stay together at the start of a line: a word, a link, some code.
fn first_word_width(line: &str) -> usize {
    let content = content(line);
    let Some(first) = content.chars().next() else { return 0 };
    let whole = match first {
        '[' => content.find("](").and_then(|text_end| content[text_end..].find(')').map(|end| text_end + end)),
        '`' => content[1..].find('`').map(|end| end + 1),
        _ if is_east_asian(first) => return 1,
        _ => None,
    };
    let rest = whole.unwrap_or(0);
    let word_end = content[rest..].find(char::is_whitespace).map_or(content.len(), |end| rest + end);
    width(&content[..word_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(&str, BlockKind, bool)> {
        blocks(text).iter().map(|block| (block.span.of(text), block.kind, block.goes_on)).collect()
    }

    #[test]
    #[expect(clippy::type_complexity, reason = "a table of cases")]
    fn layout_bounds_blocks() {
        use BlockKind::{Code, Heading, Item, Prose, Row, Rule};
        let cases: [(&str, &[(&str, BlockKind, bool)]); 12] = [
            ("One\n\n \nTwo", &[("One", Prose, false), ("Two", Prose, false)]),
            ("# Title\nText", &[("# Title", Heading, false), ("Text", Prose, false)]),
            (
                "Intro.\nTitle\n===\nText",
                &[("Intro.", Prose, false), ("Title\n===", Heading, false), ("Text", Prose, false)],
            ),
            ("---\nText", &[("---", Rule, false), ("Text", Prose, false)]),
            (
                "```sh\nls\n\n# x\n```\nText",
                &[
                    ("```sh", Code, false),
                    ("ls", Code, true),
                    ("# x", Code, true),
                    ("```", Code, true),
                    ("Text", Prose, false),
                ],
            ),
            (
                "| a |\n|---|\nx | y | z\n\n| b |",
                &[("| a |", Row, false), ("|---|", Row, true), ("x | y | z", Row, true), ("| b |", Row, false)],
            ),
            (
                "We need:\n- Apples\n  or Pears\n- Plums",
                &[("We need:", Prose, false), ("- Apples\n  or Pears", Item, false), ("- Plums", Item, false)],
            ),
            ("- One.\n\n  Two.\n", &[("- One.", Item, false), ("  Two.", Prose, false)]),
            ("1. One\r\n2. Two\r\n   More", &[("1. One", Item, false), ("2. Two\r\n   More", Item, false)]),
            (
                "John Smith\n12 Main Street\nSpringfield",
                &[("John Smith", Prose, false), ("12 Main Street", Prose, false), ("Springfield", Prose, false)],
            ),
            ("One\x0ctwo\u{2028}three", &[("One", Prose, false), ("two", Prose, false), ("three", Prose, false)]),
            ("> Quoted\n>\n> Again", &[("> Quoted", Prose, false), (">", Rule, false), ("> Again", Prose, false)]),
        ];
        for (text, expected) in cases {
            assert_eq!(cut(text), expected, "{text:?}");
        }
    }

    #[test]
    fn wrapped_lines_stay_together() {
        for text in [
            "The quick brown fox jumps over\nThe lazy dog.",
            "It was built in the last years of\n1984. Then it was sold to the man\n- or the woman - who had it.",
            "On the first day he went\nto town.",
            "东西南北中发白东西南北中发白东西南北中发白东西南北中发白东西\n东西南北",
        ] {
            assert_eq!(cut(text), [(text, BlockKind::Prose, false)]);
        }
    }

    #[test]
    fn a_menu_is_not_wrapped_however_wide() {
        let text = "Download the latest version of Python\nDocumentation\nCommunity\nSuccess Stories";
        assert_eq!(cut(text).len(), 4);
    }
}
