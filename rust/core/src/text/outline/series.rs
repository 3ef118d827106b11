//! Paragraphs or lines of one that begin alike, as entries of a series do: `::A-01:: Who may`, `km 2,3 (0:40) bridge`, `GRAFT n. 1. Part`.

use std::ops::Range;

use super::view::View;
use crate::text::page::{BlockKind, boundary_from};

/// Entries of the shortest series.
const MIN_ENTRIES: usize = 3;

/// Bytes of the beginning that entries share.
const LONGEST_BEGINNING: usize = 24;

/// What an entry of a dictionary begins with.
const CLASS: &str = "n.";

/// Words of a term.
const MAX_TERM_WORDS: usize = 4;

/// Bytes of the abbreviation of a word class: `adj`, `v.t`.
const LONGEST_CLASS: usize = 8;

/// The runs of the paragraphs of a series that fit.
pub(super) fn series(view: &View<'_>) -> Vec<Range<usize>> {
    let mut paragraphs: Vec<(Range<usize>, Option<String>)> = Vec::new();
    for units in view.paragraph_runs() {
        let is_prose = view.outline.kind(units.start) == BlockKind::Prose;
        let begins = if is_prose { beginning(view.unit(units.start)) } else { None };
        match begins.as_deref().and_then(|begins| lines(view, units.clone(), begins)) {
            Some(lines) => paragraphs.extend(lines.into_iter().map(|line| (line, begins.clone()))),
            None => paragraphs.push((units, begins)),
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

/// The lines of a paragraph, if several begin like this. A dictionary's entry has several lines.
fn lines(view: &View<'_>, units: Range<usize>, begins: &str) -> Option<Vec<Range<usize>>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for unit in units {
        match found.last_mut() {
            Some(line) if !view.gap(unit).contains('\n') => line.end = unit + 1,
            None => found.push(unit..unit + 1),
            _ if beginning(view.unit(unit)).as_deref() == Some(begins) => found.push(unit..unit + 1),
            _ => return None,
        }
    }
    (begins != CLASS && found.len() >= MIN_ENTRIES).then_some(found)
}

/// Whether this may be a term before a dash: a few words without marks.
fn is_term(term: &str) -> bool {
    term.len() <= 2 * LONGEST_BEGINNING
        && term.split(' ').count() <= MAX_TERM_WORDS
        && term.starts_with(char::is_uppercase)
        && !term.contains(['.', '!', '?', ',', ':', ';'])
}

/// What a line begins with up to its first number, each of which is `9`, the word class of a dictionary's entry, or a term
/// before a dash; `None` without one.
fn beginning(line: &str) -> Option<String> {
    let is_class = |word: &str| {
        let letters = word.strip_suffix('.').unwrap_or_default();
        (1..=LONGEST_CLASS).contains(&letters.len()) && letters.chars().all(|c| c.is_lowercase() || c == '.')
    };
    let mut words = line.split_whitespace();
    if words.next().is_some_and(|word| !word.contains(char::is_numeric)) && words.take(2).any(is_class) {
        return Some(CLASS.to_owned());
    }
    // Most lines have no dash near their start.
    let start = &line[..boundary_from(line, line.len().min(3 * LONGEST_BEGINNING))];
    let term = [" - ", " – ", " — "].into_iter().find_map(|dash| start.split_once(dash));
    // A meaning after `=` may begin in lower case.
    let equal = || start.split_once(" = ").filter(|(_, meaning)| meaning.starts_with(char::is_alphabetic));
    if term
        .filter(|(_, meaning)| meaning.starts_with(char::is_uppercase))
        .or_else(equal)
        .is_some_and(|(term, _)| is_term(term))
    {
        return Some("term".to_owned());
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
