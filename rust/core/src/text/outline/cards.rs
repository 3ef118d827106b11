//! Short paragraphs most of whose lines are no sentences: an address, ingredients, a stanza, an offer.

use std::ops::Range;

use super::signs::{is_field, is_open, is_symbol};
use super::view::View;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::BlockKind;
use crate::text::pieces::wrapping::ends_sentence;

/// Bytes of each of two lines that are a paragraph.
const LONGEST_OF_PAIR: usize = 60;

/// Lines of the smallest one, if it is no pair.
const MIN_LINES: usize = 3;

/// The runs of such paragraphs that fit.
pub(super) fn cards(view: &View<'_>, check: &Check) -> Result<Vec<Range<usize>>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut found = Vec::new();
    let mut start = 0;
    while start < view.spans.len() {
        checkpoints.reach(view.spans[start].start)?;
        let begins_line = |unit: usize| unit == start || view.gap(unit).contains('\n');
        // Some of the lines may look like a table or a record.
        let is_part = |unit: &usize| {
            let is_line = match view.outline.kind(*unit) {
                BlockKind::Prose => !begins_line(*unit) || !view.unit(*unit).starts_with(is_symbol),
                BlockKind::Row | BlockKind::Record => !view.is_looked_up(*unit),
                _ => false,
            };
            is_line && (*unit == start || view.paragraphs[*unit] < *unit)
        };
        let end = start + (start..view.spans.len()).take_while(is_part).count();
        found.extend(Some(start..end).filter(|units| is_card(view, units)));
        start = end.max(start + 1);
    }
    Ok(found)
}

/// Whether two short lines are all of a paragraph: `Kind regards,`, `Jane Smith`.
fn is_pair(view: &View<'_>, units: &Range<usize>) -> bool {
    let is_line = |unit: usize| {
        view.outline.kind(unit) == BlockKind::Prose
            && view.unit(unit).len() <= LONGEST_OF_PAIR
            && is_open_line(view.unit(unit))
            && !is_field(view.unit(unit))
            && !view.unit(unit).contains('\n')
    };
    let ends = |last: usize| view.unit(last).ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '.'));
    units.len() == 2 && ends(units.end - 1) && view.gap(units.start + 1).contains('\n') && units.clone().all(is_line)
}

/// Whether units are a whole paragraph, most of its lines are no sentences, and it is neither a table nor records.
fn is_card(view: &View<'_>, units: &Range<usize>) -> bool {
    let is_whole = units.end == view.spans.len() || view.paragraphs[units.end] == units.end;
    if units.len() < MIN_LINES && !is_pair(view, units) || !is_whole || !view.fits(units.clone()) {
        return false;
    }
    let kind = |unit: usize| view.outline.kind(unit);
    let ends = units.clone().filter(|unit| unit + 1 == units.end || view.gap(unit + 1).contains('\n'));
    let (mut lines, mut open) = (0, 0);
    for end in ends {
        lines += 1;
        open += usize::from(is_open_line(view.unit(end)));
    }
    let is_one = kind(units.start) != BlockKind::Prose && units.clone().all(|unit| kind(unit) == kind(units.start));
    let begins_record = |unit: &usize| kind(*unit) == BlockKind::Record && view.leaf(*unit).units.start == *unit;
    let records = units.clone().filter(begins_record).count();
    lines >= MIN_LINES.min(units.len()) && 3 * open >= 2 * lines && !is_one && records < 2
}

/// Whether no sentence ends with a line: `Acme Corp.`, `12 High St.`
fn is_open_line(line: &str) -> bool {
    is_open(line) || line.ends_with('.') && !ends_sentence(line)
}
