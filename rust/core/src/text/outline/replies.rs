//! Answers in mail that stand above the question which they quote: `Nine euros.`, then `> What is the toll?`

use std::ops::Range;

use super::signs::{is_field, is_question};
use super::view::View;
use crate::text::page::BlockKind;

/// Units of a quotation in which its question is looked for, and of an answer above it.
const MAX_UNITS: usize = 12;

/// The runs of an answer and the question quoted below it, for quotations that no further answer follows.
pub(super) fn replies(view: &View<'_>) -> Vec<Range<usize>> {
    if !view.text.contains("\n>") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut is_answered_below = false;
    for unit in (1..view.spans.len()).rev() {
        let text = view.unit(unit);
        let begins =
            text.contains("\n>") && !text.starts_with('>') || text.starts_with('>') && !is_quoted(view.unit(unit - 1));
        if !begins {
            // What is not quoted answers the quotation above it.
            is_answered_below = !is_quoted(text) && (is_answered_below || is_said(view, unit));
            continue;
        }
        found.extend(if is_answered_below { None } else { reply(view, unit) });
        is_answered_below = false;
    }
    found
}

fn is_quoted(text: &str) -> bool {
    text.starts_with('>') || text.contains("\n>")
}

/// Whether somebody says this: it is no line of a header.
fn is_said(view: &View<'_>, unit: usize) -> bool {
    let text = view.unit(unit);
    matches!(view.outline.kind(unit), BlockKind::Prose | BlockKind::Item | BlockKind::Turn)
        && !is_field(text)
        && !text.starts_with("--")
}

/// The run of the answer above a quotation that begins with a unit, and of its question.
fn reply(view: &View<'_>, quotation: usize) -> Option<Range<usize>> {
    let is_first_level = |unit: &usize| {
        let text = view.unit(*unit);
        let is_deeper = text.starts_with(">>") || text.starts_with("> >") || text.ends_with(':');
        *unit == quotation || text.starts_with('>') && !is_deeper || !view.gap(*unit).contains('\n')
    };
    let units = (quotation..view.spans.len()).take(MAX_UNITS).take_while(is_first_level);
    let last = units.clone().last()?;
    let question = units.filter(|unit| is_question(view.unit(*unit))).last()?;
    // The line that says who wrote it. Without one, the quotation may answer its question itself.
    let is_attributed = view.unit(quotation - 1).ends_with(':');
    let answer = question + 1;
    if !is_attributed && answer <= last && view.gap(answer).contains('\n') && view.unit(answer) != ">" {
        return None;
    }
    let end = if is_attributed { quotation - 1 } else { quotation };
    let is_answer = |unit: &usize| is_said(view, *unit) && !is_quoted(view.unit(*unit));
    let fits = |unit: &usize| view.fits(*unit..question + 1);
    let start = (0..end).rev().take(MAX_UNITS).take_while(|unit| is_answer(unit) && fits(unit)).last()?;
    Some(start..question + 1)
}
