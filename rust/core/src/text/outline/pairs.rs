//! Pairs of paragraphs, of which the first names the data in the second: `Address`, `12 Main Street`, `Phone`, `555-0101`.

use std::ops::Range;

use super::signs::introduces;
use super::view::View;
use crate::text::page::BlockKind;

/// Pairs below each other.
const MIN_PAIRS: usize = 2;

/// Lines of data.
const MAX_LINES: usize = 6;

/// The runs of such pairs.
pub(super) fn pairs(view: &View<'_>) -> Vec<Range<usize>> {
    let paragraph = |units: &[usize]| {
        let start = units[0];
        start..start + units.len()
    };
    let paragraphs: Vec<Range<usize>> = view.paragraphs.chunk_by(PartialEq::eq).map(paragraph).collect();
    let (mut found, mut place): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
    let mut run = 0;
    while place < paragraphs.len() {
        let pair =
            paragraphs[place..].first_chunk().filter(|[title, data]| is_title(view, title) && is_data(view, data));
        if let Some([title, data]) = pair {
            found.push(title.start..data.end);
            (run, place) = (run + 1, place + 2);
            continue;
        }
        if run < MIN_PAIRS {
            found.truncate(found.len() - run);
        }
        (run, place) = (0, place + 1);
    }
    if run < MIN_PAIRS {
        found.truncate(found.len() - run);
    }
    found
}

fn is_title(view: &View<'_>, units: &Range<usize>) -> bool {
    let text = view.unit(units.start);
    units.len() == 1
        && view.is_short_line(units.start)
        && text.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase())
        && !text.contains(|c: char| c.is_ascii_digit() || c == '\n')
        && !introduces(text)
}

fn is_data(view: &View<'_>, units: &Range<usize>) -> bool {
    let first = view.unit(units.start);
    (units.len() > 1 || first.contains(|c: char| c.is_ascii_digit() || c == '@'))
        && units.len() <= MAX_LINES
        && units.clone().all(|unit| view.is_short_line(unit) && view.outline.kind(unit) == BlockKind::Prose)
        && view.fits(units.clone())
}
