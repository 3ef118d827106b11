//! Paragraphs that begin alike, as entries of a series do: `::A-01:: Who may`, `km 2,3 (0:40) bridge`, `GRAFT n. 1. Part`.

use std::ops::Range;

use super::view::View;
use crate::text::page::BlockKind;

/// Entries of the shortest series.
const MIN_ENTRIES: usize = 3;

/// Bytes of the beginning that entries share.
const LONGEST_BEGINNING: usize = 24;

/// Bytes of the abbreviation of a word class: `adj`, `v.t`.
const LONGEST_CLASS: usize = 8;

/// The runs of the paragraphs of a series that fit.
pub(super) fn series(view: &View<'_>) -> Vec<Range<usize>> {
    let paragraph = |units: &[usize]| {
        let (start, end) = (units[0], units[0] + units.len());
        let is_prose = view.outline.kind(start) == BlockKind::Prose;
        (start..end, if is_prose { beginning(view.unit(start)) } else { None })
    };
    let paragraphs: Vec<(Range<usize>, Option<String>)> =
        view.paragraphs.chunk_by(PartialEq::eq).map(paragraph).collect();
    let mut found = Vec::new();
    for series in paragraphs.chunk_by(|one, next| one.1.is_some() && one.1 == next.1) {
        if series.len() >= MIN_ENTRIES {
            found.extend(series.iter().map(|(run, _)| run.clone()).filter(|run| view.fits(run.clone())));
        }
    }
    found
}

/// What a line begins with up to its first number, each of which is `9`, or the word class of a dictionary's entry; `None`
/// without one.
fn beginning(line: &str) -> Option<String> {
    let is_class = |word: &str| {
        let letters = word.strip_suffix('.').unwrap_or_default();
        (1..=LONGEST_CLASS).contains(&letters.len()) && letters.chars().all(|c| c.is_lowercase() || c == '.')
    };
    let mut words = line.split_whitespace();
    if words.next().is_some_and(|word| !word.contains(char::is_numeric)) && words.take(2).any(is_class) {
        return Some("n.".to_owned());
    }
    let mut found = String::new();
    for word in line.split_whitespace().take(3) {
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
