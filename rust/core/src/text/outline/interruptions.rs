//! Sentences that the end of a page interrupts with headers, footers and page numbers, or subtitles with their times.

use std::ops::Range;

use super::signs::voice;
use super::view::View;
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::BlockKind;
use crate::text::pieces::records::turn_label;

/// Units of headers, footers and times that may interrupt a sentence.
const MAX_INTERRUPTION: usize = 10;

/// The runs of the parts of a sentence and what interrupts it, if they fit.
pub(super) fn interrupted(view: &View<'_>, check: &Check) -> Result<Vec<Range<usize>>> {
    let mut checkpoints = Checkpoints::new(check);
    let mut found = Vec::new();
    let mut unit = 0;
    while unit < view.spans.len() {
        checkpoints.reach(view.spans[unit].start)?;
        let rest = view.after_interruption(unit);
        let is_cut = (2..=MAX_INTERRUPTION + 1).contains(&(rest - unit))
            && rest < view.spans.len()
            && match (view.outline.kind(unit), view.outline.kind(rest)) {
                (BlockKind::Prose, BlockKind::Prose) => view.goes_on(unit, rest),
                // The rest of an item looks like a paragraph.
                (BlockKind::Item, BlockKind::Prose) => {
                    !view.unit(rest).starts_with(char::is_uppercase) && view.goes_on(unit, rest)
                }
                (BlockKind::Captions, BlockKind::Captions) => is_answered(view, unit, rest),
                _ => false,
            };
        if is_cut && view.fits(unit..rest + 1) {
            found.push(unit..rest + 1);
        }
        unit = if is_cut { rest } else { view.after_rules(unit + 1) };
    }
    Ok(found)
}

/// Whether the second of two people answers the first.
fn is_answered(view: &View<'_>, unit: usize, rest: usize) -> bool {
    let (question, answer) = (view.unit(unit), view.unit(rest));
    let is_other = || voice(answer).is_some_and(|other| voice(question) != Some(other));
    view.is_question(unit) && (answer.starts_with(['-', '–']) || turn_label(answer).is_some() || is_other())
}
