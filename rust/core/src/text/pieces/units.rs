//! Units of a page, and the groups of them that stay together in a passage.
//!
//! A heading needs the text after it, a table row needs its header, and half of a list item or code block misleads.
//! Groups that are too long for a passage are split: tables and code by lines (code at blank lines, if there are any),
//! list items by sentences.

use std::ops::Range;

use super::blocks::blocks;
use super::lines::is_separator_row;
use super::marks::{is_closing, is_emphasis};
use super::sentences::for_each_block;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// Characters of a table, code block or list item that stays whole: about two passages of three sentences.
const MAX_GROUP_CHARS: usize = 600;

/// Characters of consecutive headings that stay with the text after them: a menu of headings is not one group.
const MAX_HEADING_CHARS: usize = 200;

/// Bytes of an answer that stands alone.
const SHORTEST_ANSWER: usize = 25;

/// Links in a row that are a menu.
const MIN_MENU: usize = 4;

/// Dots between an entry of a table of contents and its page number.
const MIN_LEADER_DOTS: usize = 3;

/// The units of a page and how they relate.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Sorted, disjoint, trimmed and not empty.
    pub spans: Vec<ByteSpan>,
    /// Runs of units that stay together: sorted, disjoint, and covering all units.
    pub groups: Vec<Range<usize>>,
    /// Runs of units without a blank line between them: sorted, disjoint, and covering all units. A heading is in the run of
    /// the text after it.
    pub paragraphs: Vec<Range<usize>>,
    /// Units without content of their own: rules, page numbers, headers, footers, the names of a plain table's columns, and
    /// entries of menus and of tables of contents. Sorted.
    pub boilerplate: Vec<usize>,
    /// Tables whose columns have names. Sorted.
    pub tables: Vec<NamedTable>,
    /// The units of each heading. Sorted.
    pub headings: Vec<Range<usize>>,
}

/// A table whose columns have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTable {
    /// The units with the names.
    pub header: Range<usize>,
    /// The units below them.
    pub rows: Range<usize>,
}

/// Units of consecutive blocks that form one paragraph, list item, table or code block.
struct Element {
    /// Of a table, [`BlockKind::Row`].
    kind: BlockKind,
    units: Range<usize>,
    /// The end of a table's header, which is empty if the columns have no names.
    header_end: usize,
}

impl Units {
    /// Units without groups or paragraphs.
    pub fn independent(spans: Vec<ByteSpan>) -> Self {
        let groups: Vec<Range<usize>> = (0..spans.len()).map(|unit| unit..unit + 1).collect();
        Self { paragraphs: groups.clone(), groups, spans, ..Self::default() }
    }

    /// The sentences of a text. `layout` has its blocks; `None` finds them by lines. No sentence ends inside one of
    /// `links`.
    pub fn sentences(text: &str, layout: Option<&[Block]>, links: &[ByteSpan]) -> Self {
        let from_lines = layout.is_none().then(|| blocks(text));
        let layout = layout.or(from_lines.as_deref()).unwrap_or_default();
        let mut spans: Vec<ByteSpan> = Vec::new();
        let mut elements: Vec<Element> = Vec::new();
        let all_links = links;
        let mut links = links.iter().peekable();
        for_each_block(text, layout, |block, sentences| {
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
            let is_header = block.kind == BlockKind::Header;
            let kind = if is_header { BlockKind::Row } else { block.kind };
            match elements.last_mut() {
                Some(element) if block.continues && element.kind == kind => element.units.end = spans.len(),
                _ => elements.push(Element { kind, units: first..spans.len(), header_end: first }),
            }
            if is_header && let Some(table) = elements.last_mut() {
                table.header_end = spans.len();
            }
        });
        let mut joins_group = joins_group(text, &spans, &elements);
        join_introduced(text, &spans, &elements, &mut joins_group);
        let mut joins_paragraph = joins_group.clone();
        for (joins, pair) in joins_paragraph.iter_mut().skip(1).zip(spans.windows(2)) {
            *joins |= !has_blank_line(&text[pair[0].end..pair[1].start]);
        }
        let rules = elements.iter().filter(|element| element.kind == BlockKind::Rule);
        let mut boilerplate: Vec<usize> = rules.flat_map(|element| element.units.clone()).collect();
        boilerplate.extend(contents_entries(text, &spans, &elements, all_links));
        let tables = elements.iter().filter(|element| element.header_end > element.units.start);
        let tables: Vec<NamedTable> = tables
            .map(|table| NamedTable {
                header: table.units.start..table.header_end,
                rows: table.header_end..table.units.end,
            })
            .collect();
        // In markup, the first row of a table may be more than names.
        if from_lines.is_some() {
            boilerplate.extend(tables.iter().flat_map(|table| table.header.clone()));
        }
        boilerplate.sort_unstable();
        boilerplate.dedup();
        let headings = elements.iter().filter(|element| element.kind == BlockKind::Heading);
        let headings = headings.map(|heading| heading.units.clone()).collect();
        Self { groups: runs(&joins_group), paragraphs: runs(&joins_paragraph), boilerplate, tables, headings, spans }
    }

    /// For each unit the heading of its section; empty before the first one, and for the units of headings.
    pub fn section_headings(&self) -> Vec<Range<usize>> {
        let mut of_units = vec![0..0; self.spans.len()];
        let ends = self.headings.iter().skip(1).map(|next| next.start).chain([self.spans.len()]);
        for (heading, end) in self.headings.iter().zip(ends) {
            of_units[heading.end..end].fill(heading.clone());
        }
        of_units
    }

    /// The names of the columns of a run that begins in the rows of a table.
    pub fn header(&self, run: &Range<usize>) -> Option<ByteSpan> {
        let after = self.tables.partition_point(|table| table.rows.start <= run.start);
        let table = self.tables[..after].last().filter(|table| table.rows.contains(&run.start))?;
        Some(self.span(&table.header))
    }

    /// From the start of a run's first unit to the end of its last.
    pub fn span(&self, run: &Range<usize>) -> ByteSpan {
        span(&self.spans, run)
    }
}

fn span(spans: &[ByteSpan], run: &Range<usize>) -> ByteSpan {
    ByteSpan { start: spans[run.start].start, end: spans[run.end - 1].end }
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

/// Whether the white space between two units has a blank line.
fn has_blank_line(gap: &str) -> bool {
    gap.matches('\n').count() > 1 || gap.contains('\u{2029}')
}

/// For each unit, whether it is in the group of the one before it.
fn joins_group(text: &str, spans: &[ByteSpan], elements: &[Element]) -> Vec<bool> {
    let mut joins = vec![false; spans.len()];
    let fits = |run: &Range<usize>| bytecount::num_chars(span(spans, run).of(text).as_bytes()) <= MAX_GROUP_CHARS;
    let mut join = |run: Range<usize>| joins[run].iter_mut().skip(1).for_each(|joins| *joins = true);
    for Element { kind, units, .. } in elements.iter().filter(|element| !element.units.is_empty()) {
        match kind {
            BlockKind::Prose | BlockKind::Rule => {}
            BlockKind::Heading => join(units.clone()),
            _ if fits(units) => join(units.clone()),
            BlockKind::Item => {}
            BlockKind::Header | BlockKind::Row => {
                let first_row = (units.start + 1..units.end).find(|unit| !is_separator_row(spans[*unit].of(text)));
                join(units.start..first_row.map_or(units.end, |unit| unit + 1));
            }
            BlockKind::Code => {
                // The fences stay with the first and the last line.
                join(units.start..units.end.min(units.start + 2));
                join(units.start.max(units.end.saturating_sub(2))..units.end);
                let starts_part = |unit: usize| has_blank_line(&text[spans[unit - 1].end..spans[unit].start]);
                let mut start = units.start;
                for end in (units.start + 1..units.end).filter(|unit| starts_part(*unit)).chain([units.end]) {
                    if fits(&(start..end)) {
                        join(start..end);
                    }
                    start = end;
                }
            }
        }
    }
    let mut heading_chars = 0;
    for (element, next) in elements.iter().zip(elements.iter().skip(1)) {
        if element.kind != BlockKind::Heading || element.units.is_empty() {
            heading_chars = 0;
            continue;
        }
        heading_chars += bytecount::num_chars(span(spans, &element.units).of(text).as_bytes());
        if heading_chars > MAX_HEADING_CHARS && next.kind == BlockKind::Heading {
            heading_chars = 0;
        } else if let Some(joins) = joins.get_mut(next.units.start) {
            *joins = true;
        }
    }
    joins
}

/// Joins a title or what ends with a colon to what it introduces: the sentence, code, quotation or first item after it, and
/// the whole list or verse if that is short.
fn join_introduced(text: &str, spans: &[ByteSpan], elements: &[Element], joins: &mut [bool]) {
    let mut kinds = vec![BlockKind::Prose; spans.len()];
    for element in elements {
        kinds[element.units.clone()].fill(element.kind);
    }
    let fits = |run: Range<usize>| bytecount::num_chars(span(spans, &run).of(text).as_bytes()) <= MAX_GROUP_CHARS;
    let end_of = |joins: &[bool], first: usize| {
        joins.iter().skip(first + 1).position(|joins| !joins).map_or(spans.len(), |length| first + 1 + length)
    };
    let (mut start, mut paragraph) = (0, 0);
    for next in 1..spans.len() {
        let ends_paragraph = has_blank_line(&text[spans[next - 1].end..spans[next].start]);
        let paragraph_start = paragraph;
        if ends_paragraph {
            paragraph = next;
        }
        if joins[next] {
            continue;
        }
        let mut group = std::mem::replace(&mut start, next);
        if continues(spans[next].of(text), (kinds[next - 1], kinds[next]), ends_paragraph)
            && fits(group..end_of(joins, next))
        {
            joins[next] = true;
            start = group;
            continue;
        }
        if matches!(kinds[next - 1], BlockKind::Code | BlockKind::Row) {
            continue;
        }
        let title = span(spans, &(paragraph_start..next)).of(text);
        let is_entry = ends_paragraph && is_numbered_title(title) && numbered(spans[next].of(text)).is_none();
        let is_alone = ends_paragraph && paragraph_start + 1 == next;
        if is_entry {
            group = group.min(paragraph_start);
            joins[paragraph_start + 1..next].fill(true);
        } else if !introduces(spans[next - 1].of(text), is_alone, kinds[next]) {
            continue;
        }
        let mut end = end_of(joins, next);
        // "No." alone is half of an answer.
        let is_short = end < spans.len() && span(spans, &(next..end)).len() < SHORTEST_ANSWER;
        if ends_paragraph && is_question(title) && is_short {
            joins[end] = true;
            end = end_of(joins, end);
        }
        if !fits(group..end) {
            continue;
        }
        joins[next] = true;
        start = group;
        let is_more = |unit: usize| {
            let gap = &text[spans[unit - 1].end..spans[unit].start];
            let is_verse = || gap.contains('\n') && !has_blank_line(gap);
            kinds[unit] == kinds[next] && (kinds[unit] == BlockKind::Item || is_verse())
        };
        let mut last = end;
        while last < spans.len() && is_more(last) && fits(group..end_of(joins, last)) {
            last = end_of(joins, last);
        }
        if last == spans.len() || !is_more(last) {
            joins[end.min(last)..last].fill(true);
        }
    }
}

/// Whether a unit means little without the one before it: it is in parentheses, or it continues a sentence after code.
fn continues(unit: &str, (before, kind): (BlockKind, BlockKind), begins_paragraph: bool) -> bool {
    match before {
        BlockKind::Prose | BlockKind::Item if kind == before && !begins_paragraph => {
            unit.starts_with('(') && unit.trim_end_matches(['.', '!', '?', '。']).ends_with(')')
        }
        BlockKind::Code => kind == BlockKind::Prose && unit.starts_with(char::is_lowercase),
        _ => false,
    }
}

/// Whether a unit means little without what follows: it ends with a colon, or before code in the middle of a sentence; it is
/// bold as a title is; or it is a question that stands alone.
fn introduces(unit: &str, is_alone: bool, next: BlockKind) -> bool {
    let bold = unit.strip_prefix("**").and_then(|unit| unit.strip_suffix("**"));
    let is_title = bold.is_some_and(|title| !title.contains("**"));
    let is_cut = next == BlockKind::Code && unit.ends_with(char::is_alphanumeric);
    is_cut || without_closing(unit).ends_with([':', '：']) || is_title || (is_alone && is_question(unit))
}

fn is_question(text: &str) -> bool {
    without_closing(text).ends_with(['?', '？', '؟'])
}

fn without_closing(text: &str) -> &str {
    text.trim_end_matches(|c| is_closing(c) || is_emphasis(c))
}

/// What follows the number at the start of a paragraph: `12. `, `(12) `.
fn numbered(text: &str) -> Option<&str> {
    let number = text.strip_prefix('(').unwrap_or(text);
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = rest.strip_prefix(['.', ')']).filter(|_| rest.len() < number.len())?;
    rest.starts_with(' ').then(|| rest.trim_start())
}

/// Whether this is a short paragraph with a number, as questions of a list of questions have.
fn is_numbered_title(paragraph: &str) -> bool {
    paragraph.len() <= MAX_HEADING_CHARS && numbered(paragraph).is_some_and(|title| !title.is_empty())
}

/// Units of menus and of tables of contents: lines with leader dots and a page number, and runs of elements that are nothing but
/// a link. A link of Markdown counts only if it leads to a place on the page.
fn contents_entries(text: &str, spans: &[ByteSpan], elements: &[Element], links: &[ByteSpan]) -> Vec<usize> {
    let is_link = |unit: usize| {
        let (span, unit) = (spans[unit], spans[unit].of(text));
        let label = unit.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace() || "-*+.".contains(c));
        let start = span.end - label.len();
        let link = links.partition_point(|link| link.end < span.end);
        let is_whole = links.get(link).is_some_and(|link| link.start <= start && !label.is_empty());
        is_whole && (!label.starts_with('[') || !label.contains("](") || label.contains("](#"))
    };
    let mut entries: Vec<usize> = (0..spans.len()).filter(|unit| has_leader_dots(spans[*unit].of(text))).collect();
    let is_entry = |element: &Element| {
        matches!(element.kind, BlockKind::Item | BlockKind::Prose) && element.units.clone().all(is_link)
    };
    for run in elements.chunk_by(|one, next| is_entry(one) == is_entry(next)) {
        if run.len() >= MIN_MENU && is_entry(&run[0]) {
            entries.extend(run.iter().flat_map(|element| element.units.clone()));
        }
    }
    entries
}

/// Whether this is a line of a table of contents: `2.1. Install ........ 7`.
fn has_leader_dots(line: &str) -> bool {
    let before = line.trim_end_matches(|c: char| c.is_ascii_digit());
    let title = before.trim_end_matches(['.', ' ', '…']);
    before.len() < line.len() && bytecount::count(&before.as_bytes()[title.len()..], b'.') >= MIN_LEADER_DOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(text: &str) -> Vec<&str> {
        let units = Units::sentences(text, None, &[]);
        units.groups.iter().map(|group| units.span(group).of(text)).collect()
    }

    #[test]
    fn headings_items_tables_and_code_stay_together() {
        let cases: [(&str, &[&str]); 8] = [
            ("# One\n\nFirst. Second.", &["# One\n\nFirst.", "Second."]),
            ("# One\n## Two\nFirst. Second.", &["# One\n## Two\nFirst.", "Second."]),
            ("Intro.\n- A thing. And more.\n- Another.", &["Intro.", "- A thing. And more.", "- Another."]),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", &["| a | b |\n|---|---|\n| 1 | 2 |", "Text."]),
            ("Run:\n\n```\nls\n\nps\n```\n\nDone.", &["Run:\n\n```\nls\n\nps\n```", "Done."]),
            (
                "It runs. It locks nothing. (But ALTER does.) More.",
                &["It runs.", "It locks nothing. (But ALTER does.)", "More."],
            ),
            (
                "To build, run\n\n```\nmake\n```\n\nfrom here. Done.",
                &["To build, run\n\n```\nmake\n```\n\nfrom here.", "Done."],
            ),
            ("EXIT STATUS\n   It is 0. Errors are 1.\n", &["EXIT STATUS\n   It is 0.", "Errors are 1."]),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_with_a_colon_groups_with_the_text_after_it() {
        let cases: [(&str, &[&str]); 10] = [
            ("We need:\n- Apples\n- Pears\n\nDone.", &["We need:\n- Apples\n- Pears", "Done."]),
            (
                "Nothing here. It appears::\n\nMy name is one\nTwo is my name\n\nDone.",
                &["Nothing here.", "It appears::\n\nMy name is one\nTwo is my name", "Done."],
            ),
            ("Note:", &["Note:"]),
            (
                "**Which potatoes.** Old ones. New ones are wet.",
                &["**Which potatoes.** Old ones.", "New ones are wet."],
            ),
            ("7. Is it free?\n\nYes, it is. More. And more.", &["7. Is it free?\n\nYes, it is. More.", "And more."]),
            ("Who knows? Nobody does.", &["Who knows?", "Nobody does."]),
            (
                "Text.\n\n(12) It got no smaller. Is this a bug?\n\nNo, this is how it works. More.",
                &["Text.", "(12) It got no smaller. Is this a bug?\n\nNo, this is how it works.", "More."],
            ),
            ("8. It is slow\n\nIndexes make it fast. More.", &["8. It is slow\n\nIndexes make it fast.", "More."]),
            ("1. One thing.\n\n2. Another.", &["1. One thing.", "2. Another."]),
            ("One: two.\n\nThree.", &["One: two.", "Three."]),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
        let list = format!("We need:\n{}", "- One thing of about fifty characters for this list.\n".repeat(30));
        assert_eq!(groups(&list).len(), 30, "the first item comes along");
    }

    #[test]
    fn units_have_the_heading_of_their_section() {
        let text = "Intro.\n\n# One\n\nFirst. Second.\n\n# Two\n\n## Three\n\nThird.";
        let units = Units::sentences(text, None, &[]);
        let headings = units.section_headings();
        let of = |heading: &Range<usize>| if heading.is_empty() { "" } else { units.span(heading).of(text) };
        let pairs: Vec<(&str, &str)> =
            units.spans.iter().zip(&headings).map(|(unit, heading)| (unit.of(text), of(heading))).collect();
        let expected = [
            ("Intro.", ""),
            ("# One", ""),
            ("First.", "# One"),
            ("Second.", "# One"),
            ("# Two", ""),
            ("## Three", ""),
            ("Third.", "## Three"),
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn entries_of_contents_are_boilerplate() {
        let boilerplate = |text: &str, links: &[ByteSpan]| -> Vec<String> {
            let units = Units::sentences(text, None, links);
            units.boilerplate.iter().map(|unit| units.spans[*unit].of(text).to_owned()).collect()
        };
        let text = "1. Install ........ 7\n2. Use . . . . . . 12\n\nThe rest is history ... 1999 was a year.";
        assert_eq!(boilerplate(text, &[]), ["1. Install ........ 7", "2. Use . . . . . . 12"]);
        let table = "version,name,series,date\n1.0,Otter,otter,2019\n2.0,Heron,heron,2021\n3.0,Stoat,stoat,2023";
        assert_eq!(boilerplate(table, &[]), ["version,name,series,date"]);
        let menu = "- [One](#one)\n- [Two](#two)\n- [Three](#three)\n- [Four](#four)\n\nText with [a link](#one).";
        let links = |text: &str| -> Vec<ByteSpan> {
            let starts = text.match_indices('[').map(|(start, _)| start);
            starts.map(|start| ByteSpan { start, end: start + text[start..].find(')').unwrap() + 1 }).collect()
        };
        assert_eq!(boilerplate(menu, &links(menu)).len(), 4);
        let outside = menu.replace("(#", "(https://example.com/");
        assert_eq!(boilerplate(&outside, &links(&outside)).len(), 0, "places elsewhere may be what is asked for");
    }

    #[test]
    fn long_tables_code_and_items_are_split() {
        let rows = "| 12345 | 67890 |\n".repeat(60);
        let table = format!("| a | b |\n|---|---|\n{rows}");
        let parts = groups(&table);
        assert_eq!((parts[0], parts.len()), ("| a | b |\n|---|---|\n| 12345 | 67890 |", 60));
        let part = "let total = one + two;\n".repeat(10);
        let code = format!("```\n{part}\n{part}\n{part}\n{part}```");
        let parts = groups(&code);
        assert_eq!(parts.len(), 4);
        assert!(parts[0].starts_with("```\nlet") && parts[3].ends_with("two;\n```"), "{parts:?}");
        let item = format!("- {}", "This is one more sentence of it. ".repeat(30));
        assert_eq!(groups(&item).len(), 30);
        assert_eq!(groups(&format!("```\n{}\n```", "x".repeat(5000))).len(), 5);
        assert!(groups(&"# A menu entry\n".repeat(1000)).len() > 50);
    }

    #[test]
    fn rules_and_page_numbers_are_boilerplate() {
        let text = "One.\n\n---\n\nTwo goes on\n\nPage 3 of 10\n\nand ends.";
        let units = Units::sentences(text, None, &[]);
        let boilerplate: Vec<&str> = units.boilerplate.iter().map(|unit| units.spans[*unit].of(text)).collect();
        assert_eq!(boilerplate, ["---", "Page 3 of 10"]);
    }

    #[test]
    fn blank_lines_separate_paragraphs() {
        let text = "# One\n\nFirst. Second.\nThird\n\n- a\n- b\n \nLast.";
        let units = Units::sentences(text, None, &[]);
        let paragraphs: Vec<&str> = units.paragraphs.iter().map(|run| units.span(run).of(text)).collect();
        assert_eq!(paragraphs, ["# One\n\nFirst. Second.\nThird", "- a\n- b", "Last."]);
    }

    #[test]
    fn no_sentence_ends_inside_a_link() {
        let text = "See One. Two. Three here. Four.";
        let links = [ByteSpan { start: 4, end: 19 }];
        let units = Units::sentences(text, None, &links);
        let sentences: Vec<&str> = units.spans.iter().map(|unit| unit.of(text)).collect();
        assert_eq!(sentences, ["See One. Two. Three here.", "Four."]);
    }

    proptest! {
        #[test]
        fn groups_and_paragraphs_cover_every_unit_once(text in "(\\PC{0,12}|# |\n|- |\\| a |```|\\. ){0,60}") {
            let units = Units::sentences(&text, None, &[]);
            for runs in [&units.groups, &units.paragraphs] {
                let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
                prop_assert_eq!(covered, (0..units.spans.len()).collect::<Vec<_>>());
            }
            prop_assert_eq!(&units.spans, &super::super::sentences(&text));
        }
    }
}
