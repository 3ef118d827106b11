//! Groups: units that stay together in a passage.
//!
//! A heading needs the text after it, a table row needs its header, and half of a list item or code block misleads. So
//! a passage never ends between a heading and its text. Groups that are too long for a passage are split: tables and
//! code by lines (code at blank lines, if there are any), list items by sentences.

use std::ops::Range;

use super::lines::is_separator_row;
use super::marks::{is_closing, is_emphasis};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::{BlockKind, ByteSpan};

/// Characters of a table, code block or list item that stays whole: about two passages of three sentences.
const MAX_GROUP_CHARS: usize = 600;

/// Characters of consecutive headings that stay with the text after them: a menu of headings is not one group.
const MAX_HEADING_CHARS: usize = 200;

/// Bytes of an answer that stands alone.
const SHORTEST_ANSWER: usize = 25;

/// Units of consecutive blocks that form one paragraph, list item, table or code block.
pub(super) struct Element {
    /// Of a table, [`BlockKind::Row`].
    pub(super) kind: BlockKind,
    pub(super) units: Range<usize>,
    /// The end of a table's header, which is empty if the columns have no names.
    pub(super) header_end: usize,
}

/// For each unit, whether it is in the group of the one before it.
pub(super) fn joins_group(text: &str, spans: &[ByteSpan], elements: &[Element], check: &Check) -> Result<Vec<bool>> {
    let mut groups = Groups { text, spans, elements, joins: vec![false; spans.len()], check };
    groups.join_elements()?;
    groups.join_headings()?;
    groups.join_introduced()?;
    Ok(groups.joins)
}

struct Groups<'page> {
    text: &'page str,
    spans: &'page [ByteSpan],
    elements: &'page [Element],
    joins: Vec<bool>,
    check: &'page Check<'page>,
}

impl Groups<'_> {
    /// Joins the parts of a table, code block or list item that fits, and those of a heading.
    fn join_elements(&mut self) -> Result<()> {
        let Self { text, spans, elements, joins, check } = self;
        let mut checkpoints = Checkpoints::new(*check);
        let fits = |run: &Range<usize>| bytecount::num_chars(span(spans, run).of(text).as_bytes()) <= MAX_GROUP_CHARS;
        let mut join = |run: Range<usize>| joins[run].iter_mut().skip(1).for_each(|joins| *joins = true);
        for Element { kind, units, .. } in elements.iter().filter(|element| !element.units.is_empty()) {
            checkpoints.reach(spans[units.start].start)?;
            match kind {
                BlockKind::Prose | BlockKind::Rule => {}
                BlockKind::Heading => join(units.clone()),
                _ if fits(units) => join(units.clone()),
                BlockKind::Item => {}
                BlockKind::HeaderRow | BlockKind::Row => {
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
                        checkpoints.reach(spans[start].start)?;
                        if fits(&(start..end)) {
                            join(start..end);
                        }
                        start = end;
                    }
                }
            }
        }
        Ok(())
    }

    fn join_headings(&mut self) -> Result<()> {
        let Self { text, spans, elements, joins, check } = self;
        let mut checkpoints = Checkpoints::new(*check);
        let mut heading_chars = 0;
        for (element, next) in elements.iter().zip(elements.iter().skip(1)) {
            if element.kind != BlockKind::Heading || element.units.is_empty() {
                heading_chars = 0;
                continue;
            }
            checkpoints.reach(spans[element.units.start].start)?;
            heading_chars += bytecount::num_chars(span(spans, &element.units).of(text).as_bytes());
            if heading_chars > MAX_HEADING_CHARS && next.kind == BlockKind::Heading {
                heading_chars = 0;
            } else if let Some(joins) = joins.get_mut(next.units.start) {
                *joins = true;
            }
        }
        Ok(())
    }

    /// Joins a title or what ends with a colon to what it introduces: the sentence, code, quotation or first item after it,
    /// and the whole list or verse if that is short.
    fn join_introduced(&mut self) -> Result<()> {
        let Self { text, spans, elements, joins, check } = self;
        let mut checkpoints = Checkpoints::new(*check);
        let mut kinds = vec![BlockKind::Prose; spans.len()];
        for element in *elements {
            kinds[element.units.clone()].fill(element.kind);
        }
        let fits = |run: Range<usize>| bytecount::num_chars(span(spans, &run).of(text).as_bytes()) <= MAX_GROUP_CHARS;
        let end_of = |joins: &[bool], first: usize| {
            joins.iter().skip(first + 1).position(|joins| !joins).map_or(spans.len(), |length| first + 1 + length)
        };
        let (mut start, mut paragraph) = (0, 0);
        for next in 1..spans.len() {
            checkpoints.reach(spans[next].start)?;
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
        Ok(())
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

/// Whether a unit means little without what follows: it ends with a colon, or before code in the middle of a sentence;
/// it is bold as a title is; or it is a question that stands alone.
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

/// From the start of a run's first unit to the end of its last.
pub(super) fn span(spans: &[ByteSpan], run: &Range<usize>) -> ByteSpan {
    ByteSpan { start: spans[run.start].start, end: spans[run.end - 1].end }
}

/// Whether the white space between two units has a blank line.
pub(super) fn has_blank_line(gap: &str) -> bool {
    gap.matches('\n').count() > 1 || gap.contains('\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::super::Units;

    fn groups(text: &str) -> Vec<&str> {
        let units = Units::sentences(text, None, &[], &crate::runtime::call::unstopped).unwrap();
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
}
