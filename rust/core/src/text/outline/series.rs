//! Paragraphs that begin alike, as entries of a series do: `::A-01:: Who may`, `km 2,3 (0:40) bridge`.

use std::ops::Range;

use super::view::View;
use crate::text::page::BlockKind;

/// Entries of the shortest series.
const MIN_ENTRIES: usize = 3;

/// Bytes of the beginning that entries share.
const LONGEST_BEGINNING: usize = 24;

/// The runs of the paragraphs of a series that fit.
pub(super) fn series(view: &View<'_>) -> Vec<Range<usize>> {
    let mut paragraphs: Vec<(Range<usize>, Option<String>)> = Vec::new();
    for unit in 0..view.spans.len() {
        match paragraphs.last_mut() {
            Some((run, _)) if view.paragraphs[unit] == run.start => run.end = unit + 1,
            _ => {
                let is_prose = view.outline.kind(unit) == BlockKind::Prose;
                paragraphs.push((unit..unit + 1, beginning(view.unit(unit)).filter(|_| is_prose)));
            }
        }
    }
    let mut found = Vec::new();
    for series in paragraphs.chunk_by(|one, next| one.1.is_some() && one.1 == next.1) {
        if series.len() >= MIN_ENTRIES {
            found.extend(series.iter().map(|(run, _)| run.clone()).filter(|run| view.fits(run.clone())));
        }
    }
    found
}

/// What a line begins with up to its first number, each of which is `9`; `None` without one.
fn beginning(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let mut found = String::new();
    for word in words.by_ref().take(3) {
        let mut last = ' ';
        for c in word.chars() {
            let c = if c.is_numeric() { '9' } else { c };
            if !(c == '9' && last == '9') {
                found.push(c);
            }
            last = c;
        }
        if found.len() > LONGEST_BEGINNING {
            return None;
        }
        if found.contains('9') {
            return Some(found);
        }
        found.push(' ');
    }
    None
}
