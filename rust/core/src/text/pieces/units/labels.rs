//! What names the text after it: speakers of turns, and the terms that paragraphs begin with.

use super::super::marks::is_terminal;
use super::super::records::turn_label;
use super::Label;
use crate::text::outline::has_blank_line;
use crate::text::page::{Block, BlockKind, ByteSpan, boundary_from};

/// Bytes of the words before a dash that name their paragraph, and the fewest such paragraphs below each other.
const LONGEST_TERM: usize = 60;
const MIN_TERMS: usize = 3;

/// Adds the words before the dash with which paragraphs below each other begin, or lines of one: `Wheat — The crop is …`.
pub(super) fn add_terms(text: &str, layout: &[Block], labels: &mut Vec<Label>) {
    let is_one = |block: &Block, next: &Block| {
        block.kind == BlockKind::Prose
            && next.kind == BlockKind::Prose
            && !has_blank_line(&text[block.span.end..next.span.start])
    };
    let term = |line: ByteSpan| {
        let begins = &text[line.start..boundary_from(text, line.end.min(line.start + LONGEST_TERM))];
        let bold = begins.strip_prefix("**").and_then(|term| term.find("**"));
        if let Some(end) =
            bold.filter(|end| begins[2..*end + 2].ends_with(':') || begins[*end + 4..].starts_with([':', ' ']))
        {
            let span = ByteSpan { start: line.start, end: line.start + end + 4 };
            return Some(Label { span, end: line.end });
        }
        let dash = [" — ", " – "].into_iter().filter_map(|dash| begins.find(dash)).min()?;
        let is_term = !begins[..dash].contains(is_terminal);
        is_term.then(|| Label { span: ByteSpan { start: line.start, end: line.start + dash }, end: line.end })
    };
    let of_paragraph = |paragraph: &[Block]| -> Vec<Option<Label>> {
        let all = ByteSpan { end: paragraph[paragraph.len() - 1].span.end, ..paragraph[0].span };
        if paragraph[0].kind != BlockKind::Prose {
            return vec![None];
        }
        let mut start = all.start;
        let lines = all.of(text).split_inclusive('\n').map(|line| {
            let span = ByteSpan { start, end: start + line.trim_end().len() };
            start += line.len();
            term(span)
        });
        let lines: Vec<Option<Label>> = lines.collect();
        let are_terms = lines.len() >= MIN_TERMS && lines.iter().all(Option::is_some);
        if are_terms { lines } else { vec![term(all)] }
    };
    let terms: Vec<Option<Label>> = layout.chunk_by(is_one).flat_map(of_paragraph).collect();
    for series in terms.split(Option::is_none).filter(|series| series.len() >= MIN_TERMS) {
        labels.extend(series.iter().flatten().cloned());
    }
    labels.sort_by_key(|label| label.span.start);
}

/// Adds the speaker of a turn.
pub(super) fn add_labels(text: &str, block: &Block, labels: &mut Vec<Label>) {
    let ByteSpan { start, end } = block.span;
    match block.kind {
        BlockKind::Turn if block.continues => {
            if let Some(last) = labels.last_mut() {
                last.end = end;
            }
        }
        // Without a speaker, an empty one, so that the rest of the turn does not go on with the last.
        BlockKind::Turn => {
            let length = turn_label(block.span.of(text)).unwrap_or(0);
            labels.push(Label { span: ByteSpan { start, end: start + length }.trimmed(text), end });
        }
        _ => {}
    }
}
