//! Items of lists: which lines start one, and how deep it stands.
//!
//! A mark that is not sure counts in a sequence with the next one of its style (`A.`, `B.`). An item is nested by its
//! indentation; and by its mark, if the list around it goes on after it (`1.`, `-`, `-`, `2.`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::lines::{Line, LineShape, bold_line_end, content, line_above, page_lines};
use super::list_marks::{Mark, PICTURE, Style, System};
use super::references::is_entry;
use super::titles::is_open;
use super::wrapping::{column, ends_sentence};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Lines between two marks of one list.
const MAX_LINES: usize = 40;

/// The same for marks that many lines of prose start with: `3 men`, `o`.
const MAX_LINES_OF_BARE: usize = 3;

/// The lines of one paragraph that start items, if it is a list.
const MIN_ITEMS: usize = 2;

/// The marks of one list: their style, and whether they are Roman numbers.
type Sequence<'text> = (Style<'text>, bool);

/// The blocks of a page with markup, with the items that its markup does not say: paragraphs and lines with numbers.
pub(super) fn with_items<'page>(text: &str, blocks: Cow<'page, [Block]>, check: &Check) -> Result<Cow<'page, [Block]>> {
    let mut lines: Vec<Line> = Vec::with_capacity(blocks.len());
    let mut numbers: Vec<usize> = Vec::with_capacity(blocks.len());
    // The lines below a bold one.
    let mut titles: Vec<usize> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        if block.kind != BlockKind::Prose || block.level > 0 {
            lines.push(Line::new(block.span, LineShape::Rule { underlines: false }));
            numbers.push(number);
            continue;
        }
        let before = lines.last().map_or(0, Line::end);
        if !lines.is_empty() && has_blank_line(&text[before..block.span.start]) {
            lines.push(Line::new(ByteSpan { start: block.span.start, end: block.span.start }, LineShape::Blank));
            numbers.push(number);
        }
        let paragraph = block.span.of(text);
        // Most are one line without a mark.
        let may_be_list = paragraph.contains(['\n', '\r', '\x0c', '\u{85}', '\u{2028}', '\u{2029}'])
            || Mark::at_start(content(paragraph)).is_some_and(|mark| mark.is_sure);
        let own = if may_be_list { page_lines(paragraph, check)? } else { Vec::new() };
        let is_item = |line: &&Line| line.shape == LineShape::Item;
        // The title above the other lines.
        let is_bold = own.len() > 1 && bold_line_end(paragraph).is_some();
        // Wrapping may move one mark to the start of a line.
        if own.iter().filter(is_item).count() >= MIN_ITEMS || is_bold {
            lines.extend(own.iter().map(|line| line.moved(block.span.start)));
            numbers.resize(lines.len(), number);
            titles.extend(is_bold.then_some(lines.len() - own.len() + 1));
        } else {
            let shape = own.first().map_or(LineShape::Text, |first| first.shape);
            let shape = if shape == LineShape::Item { shape } else { LineShape::Text };
            lines.push(Line::new(block.span, shape));
            numbers.push(number);
        }
    }
    mark_items(text, &mut lines, check)?;
    if titles.is_empty() && !lines.iter().any(|line| line.shape == LineShape::Item) {
        return Ok(blocks);
    }
    let mut found: Vec<Block> = Vec::with_capacity(lines.len());
    let mut last: Option<usize> = None;
    for (place, (line, number)) in lines.iter().zip(numbers).enumerate() {
        let block = blocks[number];
        let is_first = last.replace(number) != Some(number);
        let is_below_title = titles.binary_search(&place).is_ok();
        match line.shape {
            LineShape::Blank => last = None,
            LineShape::Item => {
                let ends = if is_first { block.ends } else { 0 };
                found.push(Block {
                    span: line.span(),
                    kind: BlockKind::Item,
                    continues: false,
                    level: line.depth,
                    ends,
                });
            }
            _ if is_first || is_below_title => {
                found.push(Block { span: line.span(), ends: if is_first { block.ends } else { 0 }, ..block });
            }
            _ => {
                if let Some(last) = found.last_mut() {
                    last.span.end = line.end();
                }
            }
        }
    }
    Ok(Cow::Owned(found))
}

/// Gives the lines that start items their shape and depth.
pub(super) fn mark_items(text: &str, lines: &mut [Line], check: &Check) -> Result<()> {
    let mut checkpoints = Checkpoints::new(check);
    for number in 0..lines.len() {
        if is_above_other_list(text, lines, number) {
            lines[number].shape = LineShape::Text;
        }
    }
    let mut last: HashMap<Sequence, (usize, Mark, bool)> = HashMap::new();
    let mut items: Vec<(usize, usize, Sequence)> = Vec::new();
    for number in 0..lines.len() {
        let Line { shape, .. } = lines[number];
        let line = lines[number].span();
        checkpoints.reach(line.start)?;
        if !matches!(shape, LineShape::Text | LineShape::Item) {
            continue;
        }
        if is_entry(content(line.of(text))) {
            lines[number].shape = LineShape::Item;
            lines[number].depth = 1;
            continue;
        }
        // The first field of a record may look like a mark that is not sure.
        let is_record = line.of(text).trim_start().contains('\t');
        let mark = Mark::at_start(content(line.of(text))).filter(|mark| mark.is_sure || !is_record);
        let Some(mark) = mark else { continue };
        // Quantities: `500 g peas` above `1 lb bacon`.
        let above = number.checked_sub(1).and_then(|above| Mark::at_start(content(lines[above].span().of(text))));
        if mark.is_bare()
            && !mark.is_sure
            && above.is_some_and(|above| above.is_bare() && !mark.number.follows(above.number))
        {
            continue;
        }
        if mark.is_bare() && mark.style.system == System::Decimal && is_inside_paragraph(text, lines, number) {
            continue;
        }
        let is_bullet = mark.style.system == System::Bullet;
        let is_bare = is_bullet || mark.is_bare();
        let before = |sequence: Sequence| {
            let before = last.get(&sequence).copied();
            let most = match is_bare {
                // Titles may have pictures, too.
                true if mark.style.label == PICTURE => 1,
                true => MAX_LINES_OF_BARE,
                false => MAX_LINES,
            };
            let before = before.filter(|(before, ..)| number - before <= most);
            before.filter(|(_, before, has_first)| {
                is_bullet || (mark.number.follows(before.number) && (*has_first || mark.counts_from_anywhere()))
            })
        };
        // `i.` comes after `h.` or begins Roman numbers.
        let (letters, roman) = ((mark.style, false), (mark.style, true));
        let is_roman = mark.number.is_roman() && before(letters).is_none();
        let sequence = if is_roman { roman } else { letters };
        let is_next = before(sequence);
        // The only part of its parent, where others have several: `2. Paint`, `a. Mix`.
        let is_again = is_next.is_none()
            && mark.number.is_first()
            && !is_bare
            && last
                .get(&sequence)
                .is_some_and(|(before, ..)| number - before <= MAX_LINES && lines[*before].shape == LineShape::Item)
            && line_above(lines, number).is_some_and(|above| {
                above.shape == LineShape::Item
                    && Mark::at_start(content(above.span().of(text))).is_some_and(|above| above.style != mark.style)
            });
        if is_again {
            lines[number].shape = LineShape::Item;
        }
        if let Some((first, ..)) = is_next {
            lines[first].shape = LineShape::Item;
            lines[number].shape = LineShape::Item;
        }
        last.insert(sequence, (number, mark, is_next.is_some() || mark.number.is_first()));
        items.push((number, column(line.of(text)), sequence));
    }
    items.retain(|(number, ..)| lines[*number].shape == LineShape::Item);
    nest(text, lines, &items);
    Ok(())
}

/// Whether a picture begins the title of a list with other marks: `✅ Pros` above `- Fast`.
fn is_above_other_list(text: &str, lines: &[Line], number: usize) -> bool {
    let bullet = |number: usize| {
        let line = lines.get(number).filter(|line| line.shape == LineShape::Item)?;
        let mark = Mark::at_start(content(line.span().of(text)))?;
        (mark.style.system == System::Bullet).then_some(mark.style.label)
    };
    let is_picture = |label: &&str| label.chars().next().is_some_and(|c| c >= '\u{2600}');
    let Some(own) = bullet(number).filter(is_picture) else { return false };
    let above = number.checked_sub(1).and_then(bullet);
    above != Some(own) && bullet(number + 1).is_some_and(|below| below != own && !is_picture(&below))
}

/// Whether two lines of text stand directly above that end no sentence: what begins with a number is one of them, not the
/// start of a list.
fn is_inside_paragraph(text: &str, lines: &[Line], number: usize) -> bool {
    let is_open = |line: &Line| {
        let own = line.span().of(text);
        line.shape == LineShape::Text && !ends_sentence(own) && !own.ends_with([':', '：', ',', ';'])
    };
    number.checked_sub(2).is_some_and(|first| lines[first..number].iter().all(is_open))
}

/// Sets how deep each item stands.
fn nest(text: &str, lines: &mut [Line], items: &[(usize, usize, Sequence)]) {
    let goes_on = returning(text, lines, items);
    // The columns and marks of open lists, and whether lists of other marks at their column are in their items.
    let mut open: Vec<(usize, Sequence, bool)> = Vec::new();
    let mut line = 0;
    for ((number, column, style), goes_on) in items.iter().zip(goes_on) {
        if (line..*number).any(|number| ends_list(text, lines, number)) {
            open.clear();
        }
        line = number + 1;
        while open.pop_if(|(other, ..)| *other > *column).is_some() {}
        let same = open.iter().rposition(|(other, mark, _)| other == column && mark == style);
        let mut nests = goes_on;
        match same {
            Some(place) => {
                // The last item of a list nests as those before it did.
                nests |= place + 1 < open.len();
                open.truncate(place);
            }
            // Another list follows at the same column, unless the one before goes on or introduces it.
            None if introduces(text, lines, *number) => {}
            None => drop(open.pop_if(|(other, _, nests)| other == column && !*nests)),
        }
        open.push((*column, *style, nests));
        lines[*number].depth = u8::try_from(open.len()).unwrap_or(u8::MAX);
    }
}

/// Whether the text above a line ends with a colon, or in the middle of a sentence: `The contract ends if`.
fn introduces(text: &str, lines: &[Line], number: usize) -> bool {
    line_above(lines, number).is_some_and(|above| {
        let own = above.span().of(text);
        own.ends_with([':', '：']) || is_open(own)
    })
}

/// For each item whether another one with its column and style follows in the same run of lists.
fn returning(text: &str, lines: &[Line], items: &[(usize, usize, Sequence)]) -> Vec<bool> {
    let mut found = vec![false; items.len()];
    let mut seen: HashSet<(usize, Sequence)> = HashSet::new();
    let mut line = lines.len();
    for (place, (number, column, style)) in items.iter().enumerate().rev() {
        if (number + 1..line).any(|number| ends_list(text, lines, number)) {
            seen.clear();
        }
        line = number + 1;
        found[place] = !seen.insert((*column, *style));
    }
    found
}

/// Whether a line is no part of a list: a heading, a rule, or text without indentation after a blank line.
fn ends_list(text: &str, lines: &[Line], number: usize) -> bool {
    let line = &lines[number];
    match line.shape {
        LineShape::Heading | LineShape::Rule { .. } | LineShape::PageNumber => true,
        LineShape::Text => {
            let is_blank = number.checked_sub(1).is_some_and(|before| lines[before].shape == LineShape::Blank);
            is_blank && column(line.span().of(text)) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::call::unstopped;
    use crate::text::page::BlockKind;
    use crate::text::pieces::blocks::blocks;

    #[test]
    fn items_are_nested_by_indentation_and_mark() {
        let depths = |text: &str| -> Vec<u8> {
            let blocks = blocks(text, &unstopped).unwrap();
            blocks.iter().filter(|block| block.kind == BlockKind::Item).map(|block| block.level).collect()
        };
        for (text, expected) in [
            ("- a\n- b\n", [1, 1].as_slice()),
            ("- a\n  - b\n    - c\n- d\n", &[1, 2, 3, 1]),
            ("1. a\n- b\n- c\n2. d\n- e\n", &[1, 2, 2, 1, 2]),
            ("- a\n- b\n1. c\n2. d\n", &[1, 1, 1, 1]),
            ("A. One thing\n   1) b\n   2) c\nB. Another\n", &[1, 2, 2, 1]),
            ("o One thing\no Another\n", &[1, 1]),
            ("A. Smith wrote it.\n", &[]),
            (" 9. a\n10. b\n", &[1, 1]),
            ("500 g peas\n1 lb bacon\n2 qt water\n", &[]),
        ] {
            assert_eq!(depths(text), expected, "{text:?}");
        }
    }
}
