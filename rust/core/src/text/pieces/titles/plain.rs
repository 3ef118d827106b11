//! Titles without marks, of which the page says more than the lines around each.

use super::super::lines::{Line, LineShape};
use super::super::wrapping::{column, ends_sentence, width};
use super::Candidates;
use super::look::{Candidate, Look, look};
use crate::text::outline::is_admonition;

/// Bytes of the longest abbreviation in capitals that may be a title among others.
const LONGEST_ACRONYM: usize = 5;

/// Lines of a paragraph of a title and lines that are no sentences, and characters of the widest one.
const LINES_OF_CARD: usize = 8;
pub(in crate::text::pieces) const WIDEST_OF_CARD: usize = 60;

/// What the titles of a page without marks have in common.
#[derive(Clone, Copy, Default)]
pub(super) struct PlainTitles {
    /// Whether some stand right above their text.
    are_close: bool,
    /// Whether the first line alone has a blank one below it.
    are_below_first: bool,
    /// Whether one in capitals is no abbreviation.
    has_capitals: bool,
}

/// Adds the titles of short lines that are no sentences, `Location` above `Town Hall`, on a page with such titles right above
/// sentences, and questions among titles.
pub(super) fn add_plain<'text>(text: &'text str, lines: &[Line], found: &mut Candidates<'text>) -> PlainTitles {
    let is_text = |line: usize| lines.get(line).is_some_and(|line| line.shape == LineShape::Text);
    let is_blank = |line: usize| lines.get(line).is_none_or(|line| line.shape == LineShape::Blank);
    let own = |line: usize| lines[line].span().of(text);
    let of_look = |look: Look| -> Vec<usize> {
        (0..lines.len()).filter(|line| found.get(*line).is_some_and(|one| one.look == look)).collect()
    };
    let titles = PlainTitles {
        are_below_first: of_look(Look::Plain).iter().skip(1).all(|line| !is_blank(line + 1)),
        are_close: of_look(Look::Plain).iter().any(|line| !is_blank(line + 1)),
        has_capitals: of_look(Look::Capitals)
            .iter()
            .any(|line| own(*line).len() > LONGEST_ACRONYM && !is_admonition(own(*line))),
    };
    let plain = of_look(Look::Plain).len();
    if plain == 0 {
        return titles;
    }
    let is_alone = |line: usize| line > 0 && is_blank(line - 1);
    let is_question = |line: &usize| {
        is_text(*line)
            && is_alone(*line)
            && own(*line).ends_with(['?', '？'])
            && width(own(*line)) <= WIDEST_OF_CARD
            && own(*line).starts_with(|c: char| !c.is_lowercase() && c.is_alphabetic() || c == '¿')
            && (is_text(line + 1) || is_blank(line + 1) && is_text(line + 2))
    };
    let questions: Vec<usize> = (0..lines.len()).filter(is_question).collect();
    if questions.len() < plain {
        for line in questions {
            found.insert(line, Some(Candidate { look: Look::Plain, mark: None }));
        }
    }
    if !titles.are_close {
        return titles;
    }
    let is_short = |line: usize| is_text(line) && !ends_sentence(own(line)) && width(own(line)) <= WIDEST_OF_CARD;
    let mut start = 0;
    for paragraph in lines.chunk_by(|_, next| next.shape != LineShape::Blank) {
        // All but the first begin with a blank line.
        let first = start + usize::from(paragraph[0].shape == LineShape::Blank);
        let end = start + paragraph.len();
        start = end;
        let is_card = (2..=LINES_OF_CARD).contains(&(end - first)) && (first..end).all(is_short);
        if !is_card || own(first).contains(|c: char| c.is_ascii_digit()) || found.get(first).is_some() {
            continue;
        }
        let candidate = look(own(first)).filter(|one| one.look == Look::Plain);
        let begins =
            own(first + 1).starts_with(|c: char| !c.is_lowercase()) && column(own(first)) == column(own(first + 1));
        found.insert(first, candidate.filter(|_| begins));
    }
    titles
}

impl PlainTitles {
    /// The look of a title, from that of its line: an abbreviation among others is no outer one, and the first line of a page, which
    /// alone has a blank line below it, names all of it.
    pub(super) fn look(self, look: Look, line: &str, names_all: bool) -> Look {
        match look {
            Look::Capitals if !self.has_capitals && line.len() <= LONGEST_ACRONYM && self.are_close => Look::Plain,
            Look::Capitals if is_admonition(line) => Look::Plain,
            Look::Plain if names_all && self.are_close && self.are_below_first => Look::Page,
            look => look,
        }
    }
}
