//! Blocks: parts of a page that no sentence crosses, found by its layout.
//!
//! Blank lines, headings, list items, table rows, lines of code and rules bound them. Line ends do too, unless the line
//! was wrapped: every line end inside a block is such a soft one.

use super::abbreviations::{self, last_word};
use super::header_rows::mark_header_rows;
use super::items::mark_items;
use super::lines::{Line, LineShape, check_length, content, indent, lines, page_lines};
use super::list_marks::{Mark, System};
use super::marks::{has_capitals, is_terminal};
use super::org::mark_org;
use super::page_headers_footers::{RunningLines, is_numbered_head};
use super::records::Runs;
use super::terms::{introduces_literal, is_typed};
use super::titles::mark_titles;
use super::wrapping::{
    NARROWEST_PARAGRAPH, NARROWEST_WRAP, column, continues_sentence, ends_sentence, has_room, is_hyphenated, width,
};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{Block, BlockKind, ByteSpan, boundary_from, marked_level};

/// Longer lines, in characters, are not headings that only indentation shows.
const WIDEST_TERM: usize = 60;

/// Words of a term whose definition is one line.
const WORDS_OF_TERM: usize = 3;

/// Lines that end with a sentence, and so were not wrapped.
const MIN_SENTENCES: usize = 3;

/// Longer lines, in characters, were not wrapped: each is a paragraph of its own.
const WIDEST_WRAP: usize = 200;

/// Splits a text into blocks by its layout.
pub(super) fn blocks(text: &str, check: &Check) -> Result<Vec<Block>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut splitter = BlockSplitter {
        text,
        has_capitals: has_capitals(text),
        blocks: Vec::new(),
        group: Vec::new(),
        widest: 0,
        item: None,
        depth: 0,
        open_items: Vec::new(),
        fence: None,
        literal: None,
        in_table: false,
        running: RunningLines::new(text, check)?,
        begins_page: false,
        check,
    };
    check_length(text)?;
    let mut lines = page_lines(text, check)?;
    mark_org(text, &mut lines);
    // The shapes by the lines alone.
    let shapes: Vec<LineShape> = lines.iter().map(|line| line.shape).collect();
    mark_items(text, &mut lines, check)?;
    mark_titles(text, &mut lines, true, check)?;
    let lines = lines;
    let mut runs = Runs::new(text, &lines, &shapes);
    let mut number = 0;
    while let Some(line) = lines.get(number) {
        checkpoints.reach(line.start())?;
        let run = if splitter.is_in_block(line) { None } else { runs.at(number) };
        let last = run.as_ref().map_or(line, |run| &lines[run.end - 1]);
        number = run.as_ref().map_or(number + 1, |run| run.end);
        match run {
            Some(run) => {
                splitter.end_prose()?;
                splitter.blocks.extend(run.blocks);
            }
            None => splitter.add(*line, lines.get(number))?,
        }
        if last.hard {
            splitter.end_prose()?;
            splitter.begins_page = true;
        }
    }
    splitter.end_prose()?;
    mark_header_rows(text, &mut splitter.blocks);
    Ok(splitter.blocks)
}

struct BlockSplitter<'text> {
    text: &'text str,
    /// Without capitals, a lower-case letter does not show that a sentence continues.
    has_capitals: bool,
    blocks: Vec<Block>,
    /// Lines of text since the last block.
    group: Vec<Line>,
    /// Width of the widest of them.
    widest: usize,
    /// The list item that the group belongs to.
    item: Option<ItemPart>,
    /// How many lists that item is in.
    depth: u8,
    /// The indentations and depths of the items around the next line, outermost first.
    open_items: Vec<(usize, u8)>,
    /// The mark and length of the fence around the current code.
    fence: Option<(u8, u16)>,
    /// Indentation of a line that ends with `::`, as long as the lines after it are indented more: they are code.
    literal: Option<usize>,
    /// Whether the line before was a table row.
    in_table: bool,
    /// Headers and footers of pages.
    running: RunningLines,
    /// Whether the group starts a page, so that its first line may be a header.
    begins_page: bool,
    check: &'text Check<'text>,
}

/// The first paragraph of an item, or a further one.
#[derive(Clone, Copy)]
struct ItemPart {
    indent: usize,
    continues: bool,
}

impl BlockSplitter<'_> {
    fn text_of(&self, line: &Line) -> &str {
        line.span().of(self.text)
    }

    /// Whether a line is in a fence, in indented code, or in a list item.
    fn is_in_block(&self, line: &Line) -> bool {
        let is_deeper = |outer: usize| indent(self.text_of(line)) > outer;
        self.fence.is_some()
            || self.literal.is_some_and(is_deeper)
            || self.item.is_some_and(|item| is_deeper(item.indent))
    }

    fn add(&mut self, line: Line, next: Option<&Line>) -> Result<()> {
        if let Some((mark, length)) = self.fence {
            if line.end() > line.start() {
                self.push(line.start(), line.end(), BlockKind::Code, true);
            }
            let closes = |shape| matches!(shape, LineShape::Fence { mark: m, length: l, bare: true } if m == mark && l >= length);
            if closes(line.shape) {
                self.fence = None;
            }
            return Ok(());
        }
        if let Some(outer) = self.literal
            && line.shape != LineShape::Blank
        {
            if indent(self.text_of(&line)) > outer {
                self.end_prose()?;
                let continues = self.blocks.last().is_some_and(|block| block.kind == BlockKind::Code);
                self.push(line.start(), line.end(), BlockKind::Code, continues);
                return Ok(());
            }
            self.literal = None;
        }
        if introduces_literal(self.text_of(&line)) {
            self.literal = Some(indent(self.text_of(&line)));
            if content(self.text_of(&line)).starts_with("..") {
                self.end_prose()?;
                self.push(line.start(), line.end(), BlockKind::Code, false);
                return Ok(());
            }
        }
        let in_table = std::mem::replace(&mut self.in_table, line.shape == LineShape::Row);
        match line.shape {
            LineShape::Text | LineShape::Title(_) if self.running.contains(self.text_of(&line)) => {
                self.push_header_or_footer(&line)?;
            }
            LineShape::Title(_) | LineShape::Item if self.is_underlined(&line, next) => {
                self.end_prose()?;
                self.gather(line);
            }
            LineShape::Title(level) => {
                self.end_prose()?;
                self.open_items.clear();
                let (span, kind) = (line.span(), BlockKind::Heading);
                self.blocks.push(Block { span, kind, continues: false, level, ends: 0 });
            }
            LineShape::PageNumber => self.push_header_or_footer(&line)?,
            LineShape::Text if self.is_lone_head(&line, next) => self.push_header_or_footer(&line)?,
            LineShape::Text if self.is_term(&line) => {
                self.end_prose()?;
                self.push(line.start(), line.end(), BlockKind::Heading, false);
            }
            LineShape::Text => {
                self.continue_item(&line);
                self.gather(line);
            }
            LineShape::Item if self.is_wrapped_dash(&line, next) => self.gather(line),
            LineShape::Item => {
                self.end_prose()?;
                let indent = indent(self.text_of(&line));
                self.open_items.retain(|(other, _)| *other < indent);
                self.open_items.push((indent, line.depth));
                self.item = Some(ItemPart { indent, continues: false });
                self.depth = line.depth;
                self.gather(line);
            }
            LineShape::Rule { underlines: true } if self.is_title() => self.push_underlined(&line)?,
            LineShape::Rule { .. } if self.is_title() && self.is_underscored(&line) => self.push_underlined(&line)?,
            // In reStructuredText this is a title; in Markdown no fence is as long as the text above it.
            LineShape::Fence { mark: b'~', length, bare: true }
                if self.is_title() && self.title_width() <= usize::from(length) =>
            {
                self.push_underlined(&line)?;
            }
            LineShape::Blank => {
                self.end_prose()?;
                // Only the `>` of a quote.
                if line.end() > line.start() {
                    self.push(line.start(), line.end(), BlockKind::Rule, false);
                }
            }
            LineShape::Heading | LineShape::Row | LineShape::Rule { .. } | LineShape::Fence { .. } => {
                self.end_prose()?;
                self.open_items.clear();
                let kind = match line.shape {
                    LineShape::Heading => BlockKind::Heading,
                    LineShape::Row => BlockKind::Row,
                    LineShape::Fence { .. } => BlockKind::Code,
                    _ => BlockKind::Rule,
                };
                self.push(line.start(), line.end(), kind, in_table && kind == BlockKind::Row);
                if let LineShape::Fence { mark, length, .. } = line.shape {
                    self.fence = Some((mark, length));
                }
            }
        }
        Ok(())
    }

    /// A paragraph below a blank line belongs to the innermost item whose mark all of it stands deeper than.
    fn continue_item(&mut self, line: &Line) {
        let indent = indent(self.text_of(line));
        if !self.group.is_empty() {
            // Only its first line is indented.
            if self.item.is_some_and(|item| item.continues && indent < item.indent) {
                self.item = None;
                self.open_items.clear();
            }
            return;
        }
        self.open_items.retain(|(other, _)| *other + 1 < indent);
        if let Some((_, depth)) = self.open_items.last() {
            (self.item, self.depth) = (Some(ItemPart { indent, continues: true }), *depth);
        }
    }

    /// Whether a line alone has a page number far from the words next to it.
    fn is_lone_head(&self, line: &Line, next: Option<&Line>) -> bool {
        self.group.is_empty()
            && next.is_none_or(|next| next.shape == LineShape::Blank)
            && is_numbered_head(self.text_of(line).trim())
    }

    /// Whether the last line of the group can be a title that the rule below underlines.
    fn is_title(&self) -> bool {
        let is_title = |line: &Line| line.end() - line.start() <= WIDEST_WRAP && !self.text_of(line).ends_with('.');
        self.item.is_none() && self.group.last().is_some_and(is_title)
    }

    /// Whether a title with or without a number is as long as the rule below it.
    fn is_underlined(&self, line: &Line, next: Option<&Line>) -> bool {
        let title = self.text_of(line).trim();
        let is_bullet = Mark::at_start(title).is_some_and(|mark| mark.style.system == System::Bullet);
        let rule = next.filter(|next| next.shape == LineShape::Rule { underlines: true });
        !is_bullet && rule.is_some_and(|rule| width(title).abs_diff(width(self.text_of(rule).trim())) <= 2)
    }

    /// Whether a rule of `_` is as long as the group's last line: a longer one is to be filled in, or separates.
    fn is_underscored(&self, rule: &Line) -> bool {
        let rule = rule.span().of(self.text);
        rule.bytes().all(|byte| byte == b'_') && rule.len().abs_diff(self.title_width()) <= 2
    }

    /// Characters of the group's last line.
    fn title_width(&self) -> usize {
        self.group.last().map_or(0, |title| bytecount::num_chars(self.text_of(title).trim().as_bytes()))
    }

    /// The group's last line and the rule below it as a heading.
    fn push_underlined(&mut self, rule: &Line) -> Result<()> {
        let title = self.group.pop().map_or(rule.start(), |title| title.start());
        self.end_prose()?;
        self.push(title, rule.end(), BlockKind::Heading, false);
        Ok(())
    }

    /// Whether a line is a heading or an option that only its indentation shows, as in manual pages: a short paragraph
    /// of its own that is not a sentence, and the text below it stands deeper.
    fn is_term(&self, line: &Line) -> bool {
        let text = self.text_of(line);
        // Most lines of prose are too long, and end here: the lines below are read twice otherwise.
        if width(text) >= WIDEST_TERM {
            return false;
        }
        let is_option = content(text).starts_with('-') || is_typed(content(text));
        // Options follow each other without a blank line.
        let is_outer = |above: &Line| column(self.text_of(above)) > column(text) + 1;
        let follows_definition = || self.group.last().is_some_and(is_outer);
        let is_alone = self.group.is_empty() || self.item.is_none() && (is_option || follows_definition());
        let begins = is_option || content(text).starts_with(char::is_alphanumeric);
        if !is_alone || !begins || !text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | ']' | '>')) {
            return false;
        }
        let below = &self.text[line.end()..];
        // The first of them is the rest of this line.
        let is_blank = |line: &Line| line.shape == LineShape::Blank;
        let mut lines = lines(below).skip(1).take(3).peekable();
        lines.next_if(is_blank);
        let Some(next) = lines.next().filter(|next| next.shape == LineShape::Text) else { return false };
        let is_deeper = |line: &Line| column(line.span().of(below)) > column(text) + 1;
        let next_text = next.span().of(below);
        let is_definition = || {
            ends_sentence(next_text)
                && content(next_text).starts_with(char::is_uppercase)
                && text.split_whitespace().count() <= WORDS_OF_TERM
        };
        // A line that returns to the first one's depth is verse.
        is_deeper(&next)
            && (is_option || lines.next().is_none_or(|third| is_blank(&third) || is_deeper(&third)) || is_definition())
            && has_room(text, next_text, WIDEST_TERM)
            && (is_option || !continues_sentence(text, next_text))
    }

    /// Whether an apparent list item is a dash or number that wrapping moved to the start of a line.
    ///
    /// In wrapped prose every line is full. So a line with room for the next one's first word indicates a list.
    fn is_wrapped_dash(&self, line: &Line, next: Option<&Line>) -> bool {
        let Some(last) = self.group.last() else { return false };
        let (last, text) = (self.text_of(last), self.text_of(line));
        let is_deeper = indent(text) > indent(last);
        if self.item.is_some() || is_deeper || ends_sentence(last) || self.widest < NARROWEST_PARAGRAPH {
            return false;
        }
        let widest = self.widest.max(width(text));
        let starts_list = next.is_some_and(|next| {
            let styles = [self.text_of(next), text].map(|line| Mark::at_start(content(line)).map(|mark| mark.style));
            next.shape == LineShape::Item
                && styles[0] == styles[1]
                && (self.group.len() == 1 || has_room(text, self.text_of(next), widest))
        });
        !starts_list && !has_room(last, text, widest)
    }

    fn gather(&mut self, line: Line) {
        self.widest = self.widest.max(width(self.text_of(&line)));
        self.group.push(line);
    }

    fn push_header_or_footer(&mut self, line: &Line) -> Result<()> {
        self.end_prose()?;
        self.push(line.start(), line.end(), BlockKind::Rule, false);
        self.open_items.clear();
        self.begins_page = true;
        Ok(())
    }

    fn push(&mut self, start: usize, end: usize, kind: BlockKind, continues: bool) {
        let span = ByteSpan { start, end };
        let level = match kind {
            BlockKind::Heading => marked_level(span.of(self.text)),
            BlockKind::Item => self.depth,
            _ => 0,
        };
        self.blocks.push(Block { span, kind, continues, level, ends: 0 });
    }

    /// Splits the group at its hard line ends.
    fn end_prose(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        self.widest = 0;
        let item = self.item.take();
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(()) };
        let begins_page = std::mem::take(&mut self.begins_page);
        let kind = if item.is_some() { BlockKind::Item } else { BlockKind::Prose };
        let (mut start, mut continues) = (first.start(), item.is_some_and(|item| item.continues));
        if group.len() > 1 {
            let mut soft = self.soft_ends(&group, item.map(|item| item.indent))?;
            // A short first line is a header; the sentence of the page before continues after it.
            if begins_page {
                let widths = group.iter().map(|line| width(self.text_of(line)));
                let widest = widths.filter(|&width| width <= WIDEST_WRAP).max();
                soft[0] &= !has_room(self.text_of(first), self.text_of(&group[1]), widest.unwrap_or(0));
            }
            for ((line, next), soft) in group.iter().zip(&group[1..]).zip(soft) {
                if !soft {
                    self.push(start, line.end(), kind, continues);
                    (start, continues) = (next.start(), item.is_some());
                }
            }
        }
        self.push(start, last.end(), kind, continues);
        Ok(())
    }

    /// For each line of the group but the last, whether its end is only wrapping.
    ///
    /// A line was wrapped if the next line's first word would not have fit. The widest line gives the width of the
    /// wrapping, so this finds every wrapped line. It also matches the widest of unwrapped lines, so it counts only if
    /// such ends are at least as many as the clearly hard ones.
    fn soft_ends(&self, group: &[Line], item_indent: Option<usize>) -> Result<Vec<bool>> {
        let mut checkpoints = Checkpoints::new(self.check);
        let widths: Vec<usize> = group.iter().map(|line| width(self.text_of(line))).collect();
        let within_limits = || widths.iter().copied().filter(|&width| width <= WIDEST_WRAP);
        let widest = within_limits().max().unwrap_or(0);
        let wraps = widest >= NARROWEST_WRAP || group.iter().any(|line| has_sentence_end(self.text_of(line)));
        let ends: Vec<LineEnd> = group
            .iter()
            .zip(&group[1..])
            .zip(&widths)
            .map(|((line, next), &width)| {
                checkpoints.reach(line.start())?;
                let (line, next) = (self.text_of(line), self.text_of(next));
                // A list of terms may have no capitals.
                let is_ended = || ends_sentence(line) && (has_room(line, next, widest) || begins_entry(next));
                let continues =
                    is_hyphenated(line, next) || (self.has_capitals && continues_sentence(line, next) && !is_ended());
                Ok(if item_indent.is_some_and(|item| indent(next) > item) || continues {
                    LineEnd::Soft
                } else if width <= WIDEST_WRAP && wraps && !has_room(line, next, widest) {
                    LineEnd::Full
                } else if ends_sentence(line) {
                    LineEnd::Sentence
                } else {
                    LineEnd::Hard
                })
            })
            .collect::<Result<_>>()?;
        let count = |end| ends.iter().filter(|&&other| other == end).count();
        // Wrapping does not end each of several lines where a sentence ends.
        let is_ended = || group.len() >= MIN_SENTENCES && group.iter().all(|line| ends_sentence(self.text_of(line)));
        let wrapped = count(LineEnd::Full) >= count(LineEnd::Hard) && !(count(LineEnd::Full) > 0 && is_ended());
        Ok(ends.into_iter().map(|end| end == LineEnd::Soft || (end == LineEnd::Full && wrapped)).collect())
    }
}

/// Whether a line has a mark that ends a sentence, not only abbreviations: `Acme Corp.`
fn has_sentence_end(line: &str) -> bool {
    line.match_indices(is_terminal)
        .any(|(at, mark)| mark != "." || abbreviations::rule_of(last_word(&line[..at])).is_none())
}

/// Whether a line begins with a term and what it means, or a dash: `git add - stages a file`.
fn begins_entry(line: &str) -> bool {
    let begins = &line[..boundary_from(line, line.len().min(WIDEST_TERM))];
    let term = [" - ", " – ", " — "].into_iter().find_map(|dash| begins.split_once(dash)).map(|(term, _)| term);
    term.is_some_and(|term| term.split(' ').count() <= WORDS_OF_TERM)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    /// The next line clearly continues it.
    Soft,
    /// The next line's first word would not have fit.
    Full,
    /// There was room for more, but a sentence ended.
    Sentence,
    /// There was room for more.
    Hard,
}

#[cfg(test)]
mod tests;
