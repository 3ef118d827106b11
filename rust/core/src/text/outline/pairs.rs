//! Pairs of paragraphs, of which the first names the data in the second: `Address`, `12 Main Street`, `Phone`, `555-0101`.

use std::ops::Range;

use super::signs::introduces;
use super::view::View;

/// Pairs below each other.
const MIN_PAIRS: usize = 2;

/// Lines of data.
const MAX_LINES: usize = 6;

/// The runs of such pairs.
pub(super) fn pairs(view: &View<'_>) -> Vec<Range<usize>> {
    let paragraphs: Vec<Range<usize>> = view.paragraph_runs().collect();
    let (mut found, mut place): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
    while let Some([title, data]) = paragraphs[place..].first_chunk() {
        let is_pair = is_title(view, title) && is_data(view, data);
        found.extend(is_pair.then_some(title.start..data.end));
        place += if is_pair { 2 } else { 1 };
    }
    let several = found.chunk_by(|one, next| one.end == next.start).filter(|run| run.len() >= MIN_PAIRS);
    several.flatten().cloned().collect()
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
        && units.clone().all(|unit| view.is_short_line(unit))
        && view.fits(units.clone())
}
