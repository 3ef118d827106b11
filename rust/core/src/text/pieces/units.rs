//! Units of a page, with its paragraphs, tables and boilerplate. [`crate::text::outline`] decides which units stay together.

mod labels;

use std::borrow::Cow;
use std::ops::Range;

use super::blocks::blocks;
use super::card_ends::with_card_ends;
use super::item_code::with_item_code;
use super::items::with_items;
use super::line_numbers::{with_line_numbers, without_line_numbers};
use super::lone_marks::with_lone_marks;
use super::records::{CueMarks, with_records, with_turns};
use super::sentences::for_each_block;
use super::titles::with_titles;
use super::windows::Windows;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::outline::{Breadcrumbs, Leaf, MIN_NAMED_ROWS, Outline, has_blank_line, joins, short_paragraphs, span};
use crate::text::page::{Block, BlockKind, ByteSpan};
use labels::{add_labels, add_terms};

/// Links in a row that are a menu.
const MIN_MENU: usize = 4;

/// Sections, or else paragraphs, of a page that may have an introduction.
const MIN_SECTIONS: usize = 3;
const MIN_PARAGRAPHS: usize = 5;

/// Dots between an entry of a table of contents and its page number.
const MIN_LEADER_DOTS: usize = 3;

/// The units of a page and how they relate.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Sorted, disjoint, trimmed and not empty. The row of a table may start with the tabs of empty cells.
    pub spans: Vec<ByteSpan>,
    /// Runs of units that stay together: sorted, disjoint, and covering all units.
    pub groups: Vec<Range<usize>>,
    /// Runs of units without a blank line between them: sorted, disjoint, and covering all units. A heading is in the
    /// run of the text after it.
    pub paragraphs: Vec<Range<usize>>,
    /// Units without content of their own: rules, page numbers, headers, footers, the names of a plain table's columns,
    /// entries of menus and of tables of contents, and code and paragraphs without a letter or digit. Sorted.
    pub boilerplate: Vec<usize>,
    /// The units of each table, whether its columns have names or not. Sorted.
    pub rows: Vec<Range<usize>>,
    /// Tables whose columns have names. Sorted.
    pub tables: Vec<NamedTable>,
    /// Paragraphs of several sentences and few characters, which a passage in them goes on to the end of. Sorted.
    pub(crate) short_paragraphs: Vec<Range<usize>>,
    /// The units of each heading. Sorted.
    pub headings: Vec<Range<usize>>,
    /// The units before which sections end although no heading follows. Sorted.
    pub(crate) section_ends: Vec<usize>,
    /// What names the subject of each unit.
    pub(crate) names: Breadcrumbs,
    /// Speakers and times of turns and subtitles. Sorted.
    pub(crate) labels: Vec<Label>,
}

/// What names the speaker or time of the text after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    span: ByteSpan,
    /// The end of that text.
    end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTable {
    /// The units with the names.
    pub header: Range<usize>,
    /// The units below them.
    pub rows: Range<usize>,
}

impl NamedTable {
    /// Whether its header only names the columns, of rows that are looked up.
    pub(crate) fn is_long(&self) -> bool {
        self.rows.len() >= MIN_NAMED_ROWS
    }
}

impl Units {
    /// The units that each speaker says, and of each time of subtitles.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Range<usize>> {
        let unit_at = |byte: usize| self.spans.partition_point(|unit| unit.start < byte);
        let next = self.labels.iter().skip(1).map(|next| next.span.start).chain([usize::MAX]);
        self.labels.iter().zip(next).map(move |(label, next)| unit_at(label.span.start)..unit_at(label.end.min(next)))
    }

    /// The number of speakers, times and terms in a run.
    pub(crate) fn labels_in(&self, run: &Range<usize>) -> usize {
        let ByteSpan { start, end } = self.span(run);
        let before = |byte: usize| self.labels.partition_point(|label| label.span.start < byte);
        before(end) - before(start)
    }

    /// Units without groups or paragraphs.
    pub fn independent(spans: Vec<ByteSpan>) -> Self {
        let groups: Vec<Range<usize>> = (0..spans.len()).map(|unit| unit..unit + 1).collect();
        Self { paragraphs: groups.clone(), groups, spans, ..Self::default() }
    }

    /// The sentences of a text. `layout` has its blocks; `None` finds them by lines. No sentence ends inside one of
    /// `links`.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn sentences(text: &str, layout: Option<&[Block]>, links: &[ByteSpan], check: &Check) -> Result<Self> {
        let has_markup = layout.is_some();
        let masked = if has_markup { None } else { without_line_numbers(text) };
        let (page, text) = (text, masked.as_deref().unwrap_or(text));
        let Parts { mut spans, leaves, labels } = Parts::new(text, layout, links, check)?;
        let outline = Outline::new(&leaves);
        let (joins_group, mut names) = joins(text, &spans, &outline, has_markup, check)?;
        names.extend(outline.names());
        let names = Breadcrumbs::new(names, spans.len());
        let mut joins_paragraph = joins_group.clone();
        for (joins, pair) in joins_paragraph.iter_mut().skip(1).zip(spans.windows(2)) {
            *joins |= !has_blank_line(&text[pair[0].end..pair[1].start]);
        }
        let (groups, paragraphs) = (runs(&joins_group), runs(&joins_paragraph));
        let of_kind = |kind: BlockKind| -> Vec<Range<usize>> {
            leaves.iter().filter(|leaf| leaf.kind == kind).map(|leaf| leaf.units.clone()).collect()
        };
        let tables = leaves.iter().filter(|leaf| leaf.header_end > leaf.units.start);
        let tables: Vec<NamedTable> = tables
            .map(|table| NamedTable {
                header: table.units.start..table.header_end,
                rows: table.header_end..table.units.end,
            })
            .collect();
        // In markup, the first row of a table may be more than names: of a long table it is not.
        let headers = tables.iter().filter(|table| !has_markup || table.is_long()).map(|table| table.header.clone());
        // A bracket of code, or a tick of its own.
        let has_words = |unit: usize| spans[unit].of(text).contains(char::is_alphanumeric);
        let alone = paragraphs.iter().filter(|run| !(*run).clone().any(has_words)).cloned();
        let wordless = of_kind(BlockKind::Code).into_iter().chain(alone).flatten().filter(|unit| !has_words(*unit));
        let is_wordless = !(0..spans.len()).any(has_words);
        let mut boilerplate = contents_entries(text, &spans, &leaves, links, check)?;
        boilerplate.extend(of_kind(BlockKind::Rule).into_iter().chain(headers).flatten());
        boilerplate.extend(wordless.filter(|_| !is_wordless));
        boilerplate.sort_unstable();
        boilerplate.dedup();
        let (rows, headings) = (of_kind(BlockKind::Row), of_kind(BlockKind::Heading));
        let section_ends = leaves.iter().filter(|leaf| leaf.ends > 0).map(|leaf| leaf.units.start).collect();
        let short_paragraphs = short_paragraphs(text, &spans, &leaves);
        if masked.is_some() {
            with_line_numbers(page, &mut spans);
        }
        Ok(Self {
            spans,
            groups,
            paragraphs,
            boilerplate,
            rows,
            tables,
            short_paragraphs,
            headings,
            section_ends,
            names,
            labels,
        })
    }

    /// The sections: from a heading, or headings in a row, to the next one, or to where its element ends.
    pub(crate) fn sections(&self) -> Vec<Range<usize>> {
        let headings = self.headings.iter().filter(|heading| !heading.is_empty()).cloned();
        let mut borders: Vec<Range<usize>> = headings.chain(self.section_ends.iter().map(|end| *end..*end)).collect();
        borders.sort_unstable_by_key(|border| border.start);
        let (mut sections, mut start, mut end) = (Vec::new(), 0, 0);
        for border in borders {
            if border.start > end {
                sections.push(start..border.start);
                start = border.start;
            }
            end = end.max(border.end);
        }
        sections.extend((start < self.spans.len()).then_some(start..self.spans.len()));
        sections
    }

    /// The end of the page's introduction: the text before its first section, or the first paragraph. 0 for short pages.
    pub(crate) fn introduction(&self) -> usize {
        let Some(last) = self.spans.len().checked_sub(1) else { return 0 };
        // It names all of the page.
        let title = self.names.above(last).find(|name| name.start == 0);
        let begins_with_section = title.is_none() && self.headings.first().is_some_and(|heading| heading.start == 0);
        let sections = self.sections();
        if sections.len() >= MIN_SECTIONS && !begins_with_section {
            return sections[0].end;
        }
        let title_end = title.map_or(0, |title| title.end);
        let first = self.paragraphs.iter().find(|paragraph| paragraph.end > title_end);
        first.filter(|_| self.paragraphs.len() >= MIN_PARAGRAPHS).map_or(0, |paragraph| paragraph.end)
    }

    /// The windows of each section: one over the border of two would say of the one what only the other says.
    pub(crate) fn windows(&self, windows: Windows) -> Vec<Range<usize>> {
        let in_section = |section: Range<usize>| {
            let windows = windows.ranges(section.len());
            windows.map(move |window| section.start + window.start..section.start + window.end)
        };
        self.sections().into_iter().flat_map(in_section).collect()
    }

    /// The names of the columns of a run that begins in the rows of a table.
    pub fn header(&self, run: &Range<usize>) -> Option<ByteSpan> {
        let after = self.tables.partition_point(|table| table.rows.start <= run.start);
        let table = self.tables[..after].last().filter(|table| table.rows.contains(&run.start))?;
        Some(self.span(&table.header))
    }

    /// The units of the first table that ends after a unit.
    pub(crate) fn next_table(&self, unit: usize) -> Option<&Range<usize>> {
        self.rows.get(self.rows.partition_point(|table| table.end <= unit))
    }

    /// The table of which a unit is one of many rows.
    pub(crate) fn looked_up(&self, unit: usize) -> Option<Range<usize>> {
        let after = self.tables.partition_point(|table| table.header.start <= unit);
        let table = self.tables[..after].last().filter(|table| unit < table.rows.end && table.is_long())?;
        Some(table.header.start..table.rows.end)
    }

    /// What names the subject of a run, outermost first: headings, items around it, the question that it answers, the line
    /// that introduces it, the speaker and time of its turn, then the header of its table. None is a part of the run.
    pub fn breadcrumbs(&self, run: &Range<usize>) -> Vec<ByteSpan> {
        let start = self.spans[run.start].start;
        let label = self.labels.partition_point(|label| label.span.end <= start);
        let label = self.labels[..label].last().filter(|label| start < label.end && !label.span.is_empty());
        let label = label.map(|label| label.span);
        let names = self.names.of(run);
        names.iter().map(|name| self.span(name)).chain(label).chain(self.header(run)).collect()
    }

    /// From the start of a run's first unit to the end of its last.
    pub fn span(&self, run: &Range<usize>) -> ByteSpan {
        span(&self.spans, run)
    }
}

/// The units of a page and the leaves of its outline.
struct Parts {
    spans: Vec<ByteSpan>,
    leaves: Vec<Leaf>,
    labels: Vec<Label>,
}

impl Parts {
    /// See [`Units::sentences`].
    fn new(text: &str, layout: Option<&[Block]>, links: &[ByteSpan], check: &Check) -> Result<Self> {
        let has_markup = layout.is_some();
        let layout = &match layout {
            Some(layout) => {
                let layout = with_turns(text, with_lone_marks(text, Cow::Borrowed(layout)));
                let layout = with_items(text, Cow::Owned(with_records(text, &layout, check)?), check)?;
                Cow::Owned(with_titles(text, &layout, check)?)
            }
            None => with_turns(text, Cow::Owned(blocks(text, check)?)),
        };
        let layout = &with_item_code(text, layout);
        let layout = &with_card_ends(text, layout, has_markup);
        let mut spans: Vec<ByteSpan> = Vec::new();
        let mut leaves: Vec<Leaf> = Vec::new();
        let mut labels: Vec<Label> = Vec::new();
        let mut links = links.iter().peekable();
        for_each_block(text, layout, check, |block, sentences, marks| {
            let first = spans.len();
            for sentence in sentences.iter() {
                let here = spans.len();
                let last = spans.last_mut().filter(|_| here > first);
                while links.next_if(|link| last.as_ref().is_some_and(|last| link.end <= last.end)).is_some() {}
                match (last, links.peek()) {
                    (Some(last), Some(link)) if link.start < last.end => last.end = sentence.end,
                    _ => spans.push(*sentence),
                }
            }
            // The empty cells of markup before the first one with text.
            if has_markup
                && matches!(block.kind, BlockKind::Row | BlockKind::HeaderRow)
                && let Some(row) = spans.get_mut(first)
            {
                row.start = block.span.start;
            }
            let is_header = block.kind == BlockKind::HeaderRow;
            let kind = if is_header { BlockKind::Row } else { block.kind };
            add_labels(text, block, &mut labels);
            if let Some(marks) = marks {
                labels.extend(marks.labels.iter().map(|span| Label { span: *span, end: block.span.end }));
                add_captions(marks, &spans[first..], first, &mut leaves);
                return;
            }
            match leaves.last_mut() {
                Some(leaf) if block.continues && leaf.kind == kind => leaf.units.end = spans.len(),
                _ => {
                    let Block { continues, level, ends, .. } = *block;
                    leaves.push(Leaf { kind, level, units: first..spans.len(), header_end: first, continues, ends });
                }
            }
            if is_header && let Some(table) = leaves.last_mut() {
                table.header_end = spans.len();
            }
        })?;
        add_terms(text, layout, &mut labels);
        Ok(Self { spans, leaves, labels })
    }
}

/// Adds the sentences of subtitles as leaves, and the marks between them as rules.
fn add_captions(marks: &CueMarks, units: &[ByteSpan], first: usize, leaves: &mut Vec<Leaf>) {
    for (place, unit) in units.iter().enumerate() {
        let is_mark = marks.after(unit.start).first().is_some_and(|mark| mark.start <= unit.start);
        let kind = if is_mark { BlockKind::Rule } else { BlockKind::Captions };
        let units = first + place..first + place + 1;
        leaves.push(Leaf { kind, level: 0, header_end: units.start, units, continues: false, ends: 0 });
    }
}

fn runs(joins: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (unit, joins) in joins.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if *joins => run.end = unit + 1,
            _ => runs.push(unit..unit + 1),
        }
    }
    runs
}

/// Units of menus and of tables of contents: lines with leader dots and a page number, and runs of leaves that are
/// nothing but a link. A link of Markdown counts only if it leads to a place on the page.
fn contents_entries(
    text: &str,
    spans: &[ByteSpan],
    leaves: &[Leaf],
    links: &[ByteSpan],
    check: &Check,
) -> Result<Vec<usize>> {
    let is_link = |unit: usize| {
        let (span, unit) = (spans[unit], spans[unit].of(text));
        let label = unit.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace() || "-*+.".contains(c));
        let start = span.end - label.len();
        let link = links.partition_point(|link| link.end < span.end);
        let is_whole = links.get(link).is_some_and(|link| link.start <= start && !label.is_empty());
        is_whole && (!label.starts_with('[') || !label.contains("](") || label.contains("](#"))
    };
    let mut entries: Vec<usize> = Vec::new();
    let mut checkpoints = Checkpoints::new(check);
    for (unit, span) in spans.iter().enumerate() {
        checkpoints.reach(span.start)?;
        entries.extend(has_leader_dots(span.of(text)).then_some(unit));
    }
    let is_entry =
        |leaf: &Leaf| matches!(leaf.kind, BlockKind::Item | BlockKind::Prose) && leaf.units.clone().all(is_link);
    for run in leaves.chunk_by(|one, next| is_entry(one) == is_entry(next)) {
        check()?;
        if run.len() >= MIN_MENU && is_entry(&run[0]) {
            entries.extend(run.iter().flat_map(|leaf| leaf.units.clone()));
        }
    }
    Ok(entries)
}

/// Whether this is a line of a table of contents: `2.1. Install ........ 7`.
fn has_leader_dots(line: &str) -> bool {
    let before = line.trim_end_matches(|c: char| c.is_ascii_digit());
    let title = before.trim_end_matches(['.', ' ', '…']);
    before.len() < line.len() && bytecount::count(&before.as_bytes()[title.len()..], b'.') >= MIN_LEADER_DOTS
}

#[cfg(test)]
mod tests;
