//! How a line looks like a heading, whatever stands around it.

use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;

use super::super::abbreviations::is_opener;
use super::super::lines::content;
use super::super::list_marks::{Mark, System};
use super::super::marks::{is_closing, is_pictograph, is_terminal};
use super::super::records::is_day;
use super::super::table_captions::is_caption;
use super::super::wrapping::width;

/// Characters of the longest heading, and of one without capitals, number or label.
const WIDEST: usize = 80;
const WIDEST_LABELLED: usize = 120;
const WIDEST_PLAIN: usize = 60;

/// Bytes of the longest line with a heading.
pub(super) const LONGEST: usize = 4 * WIDEST;

/// Letters of words that have capitals in titles, unless they are shorter: `Discussion and Analysis of Results`.
const SHORTEST_CAPITAL: usize = 5;

/// Words of the longest heading, and of one without capitals, number or label.
const MOST_WORDS: usize = 12;
const MOST_PLAIN_WORDS: usize = 7;

/// Last words of lines that introduce a list, and so are no title of it.
const OPEN_WORDS: [&str; 26] = [
    "if", "unless", "when", "where", "that", "following", "and", "or", "by", "to", "with", "for", "of", "in", "at",
    "the", "are", "is", "must", "can", "may", "include", "includes", "wenn", "folgende", "si",
];

/// How a line looks like a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// `Chapter 3`, `§ 5 Title`: a hash of the label.
    Label(u64),
    /// The depth of its number, 2 for `1.2 Scope`, and its form.
    Numbered(usize, Form),
    /// Or bold.
    Capitals,
    Plain,
    /// The first line of the page, above another heading.
    Page,
    /// A plain title above that of a list.
    Outer,
}

/// How a number is written: titles of one form are parts of those of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Decimal,
    Roman,
    Letter,
    Other,
    Bracketed,
}

impl Form {
    fn of(mark: &Mark, line: &str) -> Self {
        match mark.style.system {
            _ if line.starts_with(['(', '（', '[']) => Self::Bracketed,
            System::Upper | System::Lower if mark.number.is_roman() => Self::Roman,
            System::Upper | System::Lower => Self::Letter,
            System::Decimal => Self::Decimal,
            System::Other | System::Bullet => Self::Other,
        }
    }
}

/// A line that may be a heading.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'text> {
    pub(super) look: Look,
    pub(super) mark: Option<Mark<'text>>,
}

/// How a line looks like a heading, whatever stands around it.
pub(super) fn look(line: &str) -> Option<Candidate<'_>> {
    let line = content(line);
    let bold = line.strip_prefix("**").and_then(|line| line.strip_suffix("**")).filter(|line| !line.contains("**"));
    let line = bold.unwrap_or(line);
    if line.len() > LONGEST
        || width(line) > WIDEST_LABELLED
        || line.contains('\n')
        || line.contains(['|', '=', '{', '}', '<', '>', ';', '\\', '\t', '@', '_'])
    {
        return None;
    }
    let line = without_button(without_pictograph(line));
    // `5 July 2024` begins with a day, not with the number of a part.
    if is_day(line) || begins_with_day(line) {
        return None;
    }
    let mark = Mark::at_start(line).filter(|mark| mark.style.system != System::Bullet);
    // `Published 3 April 2024`
    let is_dated =
        |mark: &Mark| !mark.style.label.is_empty() && begins_with_day(line[mark.style.label.len()..].trim_start());
    if mark.as_ref().is_some_and(is_dated) {
        return None;
    }
    let title = line[mark.map_or(0, |mark| mark.end)..].trim_start_matches([' ', '\u{3000}', '–', '—', '-', ':']);
    if title.contains("  ") || mark.is_none() && line.contains("  ") {
        return None;
    }
    let is_bracketed = mark.is_some_and(|mark| line[..mark.end].starts_with(['[', '(']));
    let words = title.split_whitespace().count();
    let ends = title
        .trim_end_matches(is_closing)
        .ends_with(|c: char| is_terminal(c) || matches!(c, ',' | ':' | '、' | '，' | '：' | '-' | '–' | '—'));
    let is_long = words > MOST_WORDS || width(line) > WIDEST;
    let is_labelled = mark.is_some_and(|mark| !mark.style.label.is_empty()) && is_title_case(title);
    if ends || is_bracketed || is_caption(line) || is_long && !is_labelled {
        return None;
    }
    let begins = title.trim_start_matches(['"', '“', '\'', '‘', '«', '¿']).chars().next();
    let starts_title = begins.is_some_and(|c| c.is_alphabetic() && !c.is_lowercase());
    let label = mark.map_or("", |mark| mark.style.label);
    let look = match mark {
        // `The 12 men`, `Lee J. R. Hall`
        Some(_) if !may_label(label) || title.chars().nth(1) == Some('.') => return None,
        Some(_) if !label.is_empty() && (title.is_empty() || starts_title || is_remark(title)) => {
            Look::Label(FxBuildHasher.hash_one(label.to_lowercase()))
        }
        Some(mark) if label.is_empty() && starts_title => Look::Numbered(mark.number.depth(), Form::of(&mark, line)),
        None if starts_title && !has_small(title) && title.chars().filter(|c| c.is_uppercase()).count() > 2 => {
            Look::Capitals
        }
        None if starts_title && bold.is_some() => Look::Capitals,
        None if starts_title && is_plain(title, words) => Look::Plain,
        _ => return None,
    };
    Some(Candidate { look, mark })
}

/// Whether a line begins with a day, its month in any language, and a year: `12. März 2024, Krone`.
fn begins_with_day(line: &str) -> bool {
    let day = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_day = (1..=2).contains(&(line.len() - day.len()));
    let rest = day.trim_start_matches(['.', 'º', ' ']);
    let mut words = rest.split([' ', ',']).filter(|word| !matches!(*word, "de" | "")).take(2);
    let is_month = |word: &str| word.len() > 2 && word.chars().all(|c| c.is_alphabetic() || c == '.');
    let is_year =
        |word: &str| word.len() == 4 && word.starts_with(['1', '2']) && word.bytes().all(|b| b.is_ascii_digit());
    is_day && rest.len() < day.len() && words.next().is_some_and(is_month) && words.next().is_some_and(is_year)
}

/// `Taxonomy[edit]`, as an encyclopedia has it.
fn without_button(line: &str) -> &str {
    let title = line.strip_suffix(']').and_then(|line| line.rsplit_once('[')).map(|(title, _)| title.trim_end());
    title.filter(|title| !title.is_empty() && !title.contains('[')).unwrap_or(line)
}

/// `🕗 Opening hours`
fn without_pictograph(line: &str) -> &str {
    let is_picture = |word: &str| word.chars().all(|c| is_pictograph(c) || c == '\u{fe0f}');
    line.split_once(' ').filter(|(word, _)| is_picture(word)).map_or(line, |(_, title)| title)
}

/// `(January 20, 2024)`
fn is_remark(title: &str) -> bool {
    title.strip_prefix('(').and_then(|title| title.strip_suffix(')')).is_some_and(|title| !title.contains(['(', ')']))
}

/// Whether all words but short ones begin with capitals.
pub(super) fn is_title_case(title: &str) -> bool {
    let is_capital = |word: &str| {
        !word.starts_with(char::is_lowercase)
            || word.chars().take_while(|c| c.is_alphabetic()).count() < SHORTEST_CAPITAL
    };
    title.split_whitespace().all(is_capital)
}

/// Whether a word may stand before the number of a heading: not one that starts sentences.
fn may_label(word: &str) -> bool {
    !word.starts_with(char::is_lowercase) && !is_opener(word)
}

pub(super) fn is_plain(title: &str, words: usize) -> bool {
    words <= MOST_PLAIN_WORDS
        && width(title) <= WIDEST_PLAIN
        && !title.contains([',', '/', ':', '*', '`', '[', '#'])
        && !title.contains(". ")
}

/// Whether a letter is a small one, or of a script without capitals.
pub(super) fn has_small(text: &str) -> bool {
    text.chars().any(|c| c.is_alphabetic() && !c.is_uppercase())
}

/// Whether a line before a list introduces it: it ends in the middle of a sentence.
pub(in crate::text::pieces) fn is_open(line: &str) -> bool {
    let last = line.split_whitespace().next_back().unwrap_or_default();
    OPEN_WORDS.contains(&last.to_lowercase().as_str())
}
