//! Units of a page, and which of them stay together: what a passage takes whole or not at all.
//!
//! A heading stands for nothing without what follows it, a row for little without its header, half a list item or half a
//! short piece of code says half of what was meant. What is too long to be a passage is not kept whole: long tables and
//! code are parted by lines (code at its empty lines, where it has some), long items by sentences.

use std::ops::Range;

use super::blocks::blocks;
use super::sentences::cut_blocks;
use crate::text::page::{Block, BlockKind, ByteSpan};

/// The most characters of a table, of code or of an item that stays whole: about twice a passage of three sentences.
const WHOLE: usize = 600;

/// The most characters of headings that wait for what follows them: a menu made of headings is not one unit.
const HEADINGS: usize = 200;

/// The units of a page.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Where each lies: ordered, disjoint, trimmed, none empty.
    pub spans: Vec<ByteSpan>,
    /// The runs of units that stay together: ordered, disjoint, and each unit lies in one.
    pub groups: Vec<Range<usize>>,
    /// The runs of units without an empty line between them: ordered, disjoint, and each unit lies in one. A heading belongs
    /// to what follows it.
    pub paragraphs: Vec<Range<usize>>,
    /// The units that say nothing, whatever words they hold: rules, page numbers, running heads. In order.
    pub quiet: Vec<usize>,
}

/// Units in a row that one thing holds: a paragraph, a list item, a table, a piece of code.
struct Thing {
    kind: BlockKind,
    units: Range<usize>,
}

impl Units {
    /// Units of which none holds another.
    #[must_use]
    pub fn apart(spans: Vec<ByteSpan>) -> Self {
        let groups: Vec<Range<usize>> = (0..spans.len()).map(|unit| unit..unit + 1).collect();
        Self { paragraphs: groups.clone(), groups, spans, quiet: Vec::new() }
    }

    /// The sentences of a text that is laid out in these blocks (guessed from its lines where there are none), none of which
    /// ends inside one of the links.
    #[must_use]
    pub fn sentences(text: &str, laid_out: Option<&[Block]>, links: &[ByteSpan]) -> Self {
        let guessed;
        let laid_out = if let Some(blocks) = laid_out {
            blocks
        } else {
            guessed = blocks(text);
            &guessed
        };
        let mut spans: Vec<ByteSpan> = Vec::new();
        let mut things: Vec<Thing> = Vec::new();
        let mut links = links.iter().peekable();
        cut_blocks(text, laid_out, |block, sentences| {
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
            match things.last_mut() {
                Some(thing) if block.goes_on && thing.kind == block.kind => thing.units.end = spans.len(),
                _ => things.push(Thing { kind: block.kind, units: first..spans.len() }),
            }
        });
        let held = held(text, &spans, &things);
        let mut goes_on = held.clone();
        for (goes_on, pair) in goes_on.iter_mut().skip(1).zip(spans.windows(2)) {
            *goes_on |= !has_empty_line(&text[pair[0].end..pair[1].start]);
        }
        let quiet =
            things.iter().filter(|thing| thing.kind == BlockKind::Rule).flat_map(|thing| thing.units.clone()).collect();
        Self { groups: runs(&held), paragraphs: runs(&goes_on), quiet, spans }
    }

    /// From a run's first unit to its last.
    #[must_use]
    pub fn span(&self, run: &Range<usize>) -> ByteSpan {
        span(&self.spans, run)
    }
}

fn span(spans: &[ByteSpan], run: &Range<usize>) -> ByteSpan {
    ByteSpan { start: spans[run.start].start, end: spans[run.end - 1].end }
}

/// Runs of units of which each goes on with the one before it.
fn runs(goes_on: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (unit, goes_on) in goes_on.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if *goes_on => run.end = unit + 1,
            _ => runs.push(unit..unit + 1),
        }
    }
    runs
}

/// Whether the white space between two units holds an empty line.
fn has_empty_line(gap: &str) -> bool {
    gap.matches('\n').count() > 1 || gap.contains('\u{2029}')
}

/// For each unit whether it stays with the one before it.
fn held(text: &str, spans: &[ByteSpan], things: &[Thing]) -> Vec<bool> {
    let mut held = vec![false; spans.len()];
    let fits = |run: &Range<usize>| bytecount::num_chars(span(spans, run).of(text).as_bytes()) <= WHOLE;
    let mut stay = |run: Range<usize>| held[run].iter_mut().skip(1).for_each(|held| *held = true);
    for Thing { kind, units } in things.iter().filter(|thing| !thing.units.is_empty()) {
        match kind {
            BlockKind::Prose | BlockKind::Rule => {}
            BlockKind::Heading => stay(units.clone()),
            _ if fits(units) => stay(units.clone()),
            BlockKind::Item => {}
            BlockKind::Row => {
                let first_row = (units.start + 1..units.end).find(|unit| !is_underline(spans[*unit].of(text)));
                stay(units.start..first_row.map_or(units.end, |unit| unit + 1));
            }
            BlockKind::Code => {
                // What opens and closes a fence stays with the line inside.
                stay(units.start..units.end.min(units.start + 2));
                stay(units.start.max(units.end.saturating_sub(2))..units.end);
                let is_parted = |unit: usize| has_empty_line(&text[spans[unit - 1].end..spans[unit].start]);
                let mut start = units.start;
                for end in (units.start + 1..units.end).filter(|unit| is_parted(*unit)).chain([units.end]) {
                    if fits(&(start..end)) {
                        stay(start..end);
                    }
                    start = end;
                }
            }
        }
    }
    let mut waiting = 0;
    for (thing, next) in things.iter().zip(things.iter().skip(1)) {
        if thing.kind != BlockKind::Heading || thing.units.is_empty() {
            waiting = 0;
            continue;
        }
        waiting += bytecount::num_chars(span(spans, &thing.units).of(text).as_bytes());
        if waiting > HEADINGS && next.kind == BlockKind::Heading {
            waiting = 0;
        } else if let Some(held) = held.get_mut(next.units.start) {
            *held = true;
        }
    }
    held
}

/// Whether a row only parts a table's header from its rows: `|---|:-:|`.
fn is_underline(row: &str) -> bool {
    row.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b'+' | b'=' | b' '))
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
    fn what_means_nothing_alone_stays_together() {
        let cases: [(&str, &[&str]); 5] = [
            ("# One\n\nFirst. Second.", &["# One\n\nFirst.", "Second."]),
            ("# One\n## Two\nFirst. Second.", &["# One\n## Two\nFirst.", "Second."]),
            ("Intro.\n- A thing. And more.\n- Another.", &["Intro.", "- A thing. And more.", "- Another."]),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n\nText.", &["| a | b |\n|---|---|\n| 1 | 2 |", "Text."]),
            ("Run:\n\n```\nls\n\nps\n```\n\nDone.", &["Run:", "```\nls\n\nps\n```", "Done."]),
        ];
        for (text, expected) in cases {
            assert_eq!(groups(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_parted() {
        let rows = "| 12345 | 67890 |\n".repeat(60);
        let table = format!("| a | b |\n|---|---|\n{rows}");
        let found = groups(&table);
        assert_eq!((found[0], found.len()), ("| a | b |\n|---|---|\n| 12345 | 67890 |", 60));
        let part = "let total = one + two;\n".repeat(10);
        let code = format!("```\n{part}\n{part}\n{part}\n{part}```");
        let found = groups(&code);
        assert_eq!(found.len(), 4);
        assert!(found[0].starts_with("```\nlet") && found[3].ends_with("two;\n```"), "{found:?}");
        let item = format!("- {}", "This is one more sentence of it. ".repeat(30));
        assert_eq!(groups(&item).len(), 30);
        assert_eq!(groups(&format!("```\n{}\n```", "x".repeat(5000))).len(), 5);
        assert!(groups(&"# A menu entry\n".repeat(1000)).len() > 50);
    }

    #[test]
    fn rules_and_page_numbers_are_quiet() {
        let text = "One.\n\n---\n\nTwo goes on\n\nPage 3 of 10\n\nand ends.";
        let units = Units::sentences(text, None, &[]);
        let quiet: Vec<&str> = units.quiet.iter().map(|unit| units.spans[*unit].of(text)).collect();
        assert_eq!(quiet, ["---", "Page 3 of 10"]);
    }

    #[test]
    fn empty_lines_part_paragraphs() {
        let text = "# One\n\nFirst. Second.\nThird\n\n- a\n- b\n \nLast.";
        let units = Units::sentences(text, None, &[]);
        let found: Vec<&str> = units.paragraphs.iter().map(|run| units.span(run).of(text)).collect();
        assert_eq!(found, ["# One\n\nFirst. Second.\nThird", "- a\n- b", "Last."]);
    }

    #[test]
    fn no_sentence_ends_inside_a_link() {
        let text = "See One. Two. Three here. Four.";
        let links = [ByteSpan { start: 4, end: 19 }];
        let units = Units::sentences(text, None, &links);
        let found: Vec<&str> = units.spans.iter().map(|unit| unit.of(text)).collect();
        assert_eq!(found, ["See One. Two. Three here.", "Four."]);
    }

    proptest! {
        #[test]
        fn every_unit_lies_in_one_group(text in "(\\PC{0,12}|# |\n|- |\\| a |```|\\. ){0,60}") {
            let units = Units::sentences(&text, None, &[]);
            for runs in [&units.groups, &units.paragraphs] {
                let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
                prop_assert_eq!(covered, (0..units.spans.len()).collect::<Vec<_>>());
            }
            prop_assert_eq!(&units.spans, &super::super::sentences(&text));
        }
    }
}
