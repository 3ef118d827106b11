//! Paragraphs or lines of one that begin alike, as entries of a series do: `::A-01:: Who may`, `km 2,3 (0:40) bridge`, `GRAFT n. 1. Part`.

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
    let mut paragraphs: Vec<(Range<usize>, Option<String>)> = Vec::new();
    for units in view.paragraphs.chunk_by(PartialEq::eq) {
        let of_lines = lines(view, units[0]..units[0] + units.len());
        match of_lines {
            Some(lines) => paragraphs.extend(lines),
            None => paragraphs.push(paragraph(units)),
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

/// The lines of a paragraph, if all of several begin with a year.
fn lines(view: &View<'_>, units: Range<usize>) -> Option<Vec<(Range<usize>, Option<String>)>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for unit in units {
        match found.last_mut() {
            Some(line) if !view.gap(unit).contains('\n') => line.end = unit + 1,
            _ if begins_with_year(view.unit(unit)) => found.push(unit..unit + 1),
            _ => return None,
        }
    }
    (found.len() >= MIN_ENTRIES).then(|| found.into_iter().map(|line| (line, Some("9".to_owned()))).collect())
}

fn begins_with_year(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    digits == 4 && line.starts_with(['1', '2']) && !line[digits..].starts_with(char::is_alphanumeric)
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
