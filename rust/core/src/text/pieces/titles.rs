//! Headings of plain text: short lines above text, a list or a table that are no sentences.
//!
//! Capitals, numbers (`1.2 Scope`) and labels (`Chapter 3`) show a heading also between lines of text; other titles need a
//! blank line or the start of a list. A line is read with the lines next to it only, so that the time is linear.

mod front_matter;
mod levels;
mod look;
mod neighbours;
mod plain;
mod shapes;

use std::collections::HashMap;

use super::lines::{Line, LineShape, content};
use super::list_marks::{Mark, Number, Style};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind, ByteSpan};
use front_matter::FrontMatter;
use levels::Levels;
pub(super) use look::is_open;
use look::{Candidate, Look, look};
use neighbours::{Neighbours, next_title};
pub(super) use plain::WIDEST_OF_CARD;
use plain::{PlainTitles, add_plain};

/// Levels of the headings that have marks.
const MARKED_LEVELS: u8 = 6;

/// Bytes of what readers may do with a section.
const LONGEST_BUTTON: usize = 48;

/// The sections of a page that have numbers or labels: their look, and the lines at which the first and the last one begin.
#[derive(Clone, Copy)]
struct MainSections {
    look: Look,
    first: usize,
    last: usize,
}

/// The lines of a page that may be headings: few of all.
struct Candidates<'text> {
    /// For each line, one more than the place of its candidate; 0 for none.
    of_lines: Vec<u32>,
    found: Vec<Candidate<'text>>,
}

impl<'text> Candidates<'text> {
    fn get(&self, line: usize) -> Option<Candidate<'text>> {
        let place = (self.of_lines[line] as usize).checked_sub(1)?;
        Some(self.found[place])
    }

    fn insert(&mut self, line: usize, candidate: Option<Candidate<'text>>) {
        self.found.extend(candidate);
        self.of_lines[line] = candidate.map_or(0, |_| u32::try_from(self.found.len()).unwrap_or(0));
    }
}

/// The blocks of a page with markup, with those that are headings although their markup does not say so. No plain title
/// is one.
pub(super) fn with_titles(text: &str, blocks: &[Block], check: &Check) -> Result<Vec<Block>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let start = block.span.start;
        let shape = match block.kind {
            BlockKind::Prose => LineShape::Text,
            BlockKind::Item => LineShape::Item,
            BlockKind::Heading | BlockKind::Term | BlockKind::Caption | BlockKind::Source => LineShape::Heading,
            BlockKind::HeaderRow | BlockKind::Row => LineShape::Row,
            BlockKind::Code | BlockKind::Record | BlockKind::Turn | BlockKind::Captions => {
                LineShape::Fence { mark: b'`', length: 3, bare: false }
            }
            BlockKind::Rule => LineShape::Rule { underlines: false },
        };
        let before = lines.last().map_or(0, Line::end);
        if !lines.is_empty() && has_blank_line(&text[before..start]) {
            lines.push(Line::new(ByteSpan { start, end: start }, LineShape::Blank));
            numbers.push(number);
        }
        let mut line = Line::new(block.span, shape);
        line.depth = block.level;
        lines.push(line);
        numbers.push(number);
    }
    mark_titles(text, &mut lines, false, check)?;
    let mut blocks = blocks.to_vec();
    for (line, number) in lines.iter().zip(numbers) {
        if let LineShape::Title(level) = line.shape {
            blocks[number] = Block { kind: BlockKind::Heading, level, continues: false, ..blocks[number] };
        }
    }
    // `[edit]` below a heading.
    let is_button = |own: &str| own.len() <= LONGEST_BUTTON && own.starts_with('[') && own.ends_with(']');
    for place in 1..blocks.len() {
        let block = blocks[place];
        if blocks[place - 1].kind == BlockKind::Heading
            && block.kind == BlockKind::Prose
            && is_button(block.span.of(text))
        {
            blocks[place].kind = BlockKind::Rule;
        }
    }
    Ok(blocks)
}

/// Gives the lines that are headings their shape and level. Some may be `plain` unless others have marks.
pub(super) fn mark_titles(text: &str, lines: &mut [Line], plain: bool, check: &Check) -> Result<()> {
    let mut checkpoints = Checkpoints::new(check);
    let has_marked = lines.iter().any(|line| matches!(line.shape, LineShape::Heading | LineShape::Title(_)));
    let labels = lines.windows(2).filter(|pair| is_bold_label(&pair[0], text) && pair[1].shape == LineShape::Blank);
    let has_bold = lines.iter().any(|line| is_bold_title(line, text)) || labels.count() > 1;
    let mut found = Candidates { of_lines: vec![0; lines.len()], found: Vec::new() };
    let mut below = None;
    let first = lines.iter().position(|line| line.shape != LineShape::Blank);
    for number in (0..lines.len()).rev() {
        checkpoints.reach(text.len() - lines[number].start())?;
        if lines[number].shape == LineShape::Blank {
            continue;
        }
        let page = Neighbours {
            text,
            lines,
            found: &found,
            has_markup: !plain,
            has_bold,
            number,
            below,
            is_first: first == Some(number),
        };
        let candidate = page.candidate();
        let candidate = candidate
            .filter(|one| (plain && !has_marked) || one.look != Look::Plain || !plain && page.is_below_label());
        found.insert(number, candidate);
        below = Some(number);
    }
    let titles = if plain && !has_marked { add_plain(text, lines, &mut found) } else { PlainTitles::default() };
    let main = main_sections(&found);
    let front = main.and_then(|main| FrontMatter::of(text, lines, &found, first, main));
    let mut seen: Vec<Look> = Vec::new();
    let base = if has_marked { MARKED_LEVELS } else { 0 };
    let mut levels = Levels::default();
    let mut siblings: HashMap<(Style, usize, bool), (Number, bool)> = HashMap::new();
    for number in 0..lines.len() {
        let (line, candidate) = (lines[number], found.get(number));
        let own = match candidate {
            Some(Candidate { mark, .. }) => mark,
            None if line.shape == LineShape::Item => Mark::at_start(content(line.span().of(text))),
            None => None,
        };
        // `i.` comes after `h.` or begins Roman numbers.
        let key = own.map(|Mark { style, number, .. }| {
            let letters = (style, number.depth(), false);
            let is_next = siblings.get(&letters).is_some_and(|(before, _)| number.follows(*before));
            (style, number.depth(), number.is_roman() && !is_next)
        });
        let sibling = own.zip(key.and_then(|key| siblings.get(&key).copied()));
        let follows = sibling.is_some_and(|(mark, (before, _))| mark.number.follows(before));
        let is_title = sibling.map(|(_, (_, is_title))| is_title);
        // The last one of a list has text below it, too.
        let candidate = match is_title.filter(|_| follows) {
            None => candidate,
            Some(false) => None,
            Some(true) => candidate.or_else(|| next_title(text, lines, number)),
        };
        // A list in a section: its numbers are not those of the titles.
        let is_inside = candidate.is_none() && is_title == Some(true) && !follows;
        if let Some((mark, key)) = own.zip(key).filter(|_| !is_inside) {
            siblings.insert(key, (mark.number, candidate.is_some()));
        }
        if let Some(Candidate { look, .. }) = candidate {
            let below = (number + 1..lines.len()).find(|line| lines[*line].shape != LineShape::Blank);
            let below = below.and_then(|below| Some((found.get(below)?.look, lines.get(below + 1)?.shape)));
            let is_gap = lines.get(number + 1).is_none_or(|line| line.shape == LineShape::Blank);
            let is_first = first == Some(number);
            // Sections with numbers may have one without above them.
            let names_all = is_first && is_gap && main.is_none();
            let look = titles.look(look, line.span().of(text), names_all).above(below, is_first);
            let is_page = is_first && front.is_some_and(|front| front.is_below_first);
            let look = if is_page { Look::Page } else { look };
            // The look of the sections that end here, if no other title looks like this one.
            let ends = main.filter(|main| number > main.last && !seen.contains(&look)).map(|main| main.look);
            // A title above the first of them may look like those below the last one.
            if main.is_none_or(|main| main.look == look || seen.contains(&main.look)) {
                seen.push(look);
            }
            if let Some(front) = front.filter(|front| front.end == number) {
                levels.close(front.look);
            }
            let level = levels.next(look, ends.filter(|main| *main != look));
            lines[number].shape = LineShape::Title(base + level);
        }
    }
    Ok(())
}

/// The sections with numbers or labels, if there are several.
fn main_sections(found: &Candidates<'_>) -> Option<MainSections> {
    let titles = || (0..found.of_lines.len()).filter_map(|line| found.get(line).map(|one| (one.look, line)));
    let (look, first) = titles().find(|(look, _)| matches!(look, Look::Numbered(..) | Look::Label(_)))?;
    let (_, last) = titles().rfind(|(other, line)| *other == look && *line > first)?;
    Some(MainSections { look, first, last })
}

/// Whether a line is bold and ends with a colon.
fn is_bold_label(line: &Line, text: &str) -> bool {
    let own = line.span().of(text);
    line.shape == LineShape::Text && own.starts_with("**") && (own.ends_with(":**") || own.ends_with("：**"))
}

/// Whether a line is bold, as a title is, and does not end with a colon.
fn is_bold_title(line: &Line, text: &str) -> bool {
    let own = line.span().of(text);
    matches!(line.shape, LineShape::Text)
        && own.starts_with("**")
        && look(own).is_some_and(|one| one.look == Look::Capitals)
}

#[cfg(test)]
mod tests;
