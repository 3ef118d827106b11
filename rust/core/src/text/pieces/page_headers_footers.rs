//! Furniture of pages: what stands around the text of a printed page, and comes out in the middle of its sentences.
//!
//! Text taken from a PDF has the number of each page and its running head or foot between the lines, most often beside a
//! form feed. None of them is part of a sentence.

use std::collections::{HashMap, HashSet};

/// The characters of the widest line that heads or foots pages.
const WIDEST: usize = 100;

/// How many lines at either edge of a page may be its head or foot: a title and a number, in either order.
const EDGE: usize = 2;

/// What people write before the number of a page.
const PAGE: &[&str] = &[
    "page",
    "pg",
    "pg.",
    "p",
    "p.",
    "seite",
    "s.",
    "página",
    "pág.",
    "pagina",
    "pag.",
    "σελίδα",
    "σελ.",
    "стр.",
    "страница",
    "sayfa",
    "trang",
    "strona",
    "sida",
    "side",
    "sivu",
    "halaman",
    "صفحة",
    "पृष्ठ",
    "עמוד",
];

/// What they write between that and how many there are.
const OF: &[&str] = &["of", "von", "de", "di", "sur", "από", "из", "z", "av", "af", "van", "dari", "/", "من"];

/// The lines that head or foot more than one page of a text, without their digits.
pub(super) struct Running(HashSet<String>);

impl Running {
    /// Only a text with form feeds tells where its pages end.
    pub(super) fn of(text: &str) -> Self {
        let mut pages = HashMap::new();
        if text.as_bytes().contains(&b'\x0c') {
            for page in text.split('\x0c') {
                let lines = || page.lines().filter(|line| !line.trim().is_empty());
                let edges: HashSet<String> =
                    lines().take(EDGE).chain(lines().rev().take(EDGE)).filter_map(without_digits).collect();
                for line in edges {
                    *pages.entry(line).or_insert(0) += 1;
                }
            }
        }
        Self(pages.into_iter().filter(|&(_, count)| count > 1).map(|(line, _)| line).collect())
    }

    /// Whether this line is one of them.
    pub(super) fn holds(&self, line: &str) -> bool {
        !self.0.is_empty() && without_digits(line).is_some_and(|line| self.0.contains(&line))
    }
}

/// What a running line has on every page; nothing where it is too wide for one, or a number alone.
fn without_digits(line: &str) -> Option<String> {
    let line = line.trim();
    if line.len() > 4 * WIDEST || line.chars().count() > WIDEST {
        return None;
    }
    let kept: String = line.chars().filter(|c| !c.is_numeric()).collect();
    let kept = kept.trim();
    kept.chars().any(char::is_alphabetic).then(|| kept.to_owned())
}

/// Whether a line is the number of a page and nothing else: `12`, `- 12 -`, `Page 3 of 10`, `3/10`.
pub(super) fn is_page_number(line: &str) -> bool {
    // Four words of ten characters, at the widest.
    let ends_so = |c: char| c.is_ascii_digit() || matches!(c, '-' | '–' | '—' | '|' | ']');
    if line.len() > 80 || !line.ends_with(ends_so) {
        return false;
    }
    let inside = match line.chars().next() {
        Some(mark @ ('-' | '–' | '—' | '|')) => line.trim_start_matches(mark).strip_suffix(mark),
        Some('[') => line[1..].strip_suffix(']'),
        _ => Some(line),
    };
    let Some(inside) = inside else { return false };
    let spaced = inside.replace('/', " / ");
    let mut words = spaced.split_whitespace().peekable();
    let named = words.next_if(|word| PAGE.contains(&word.to_lowercase().as_str())).is_some();
    // Four digits alone may be a year.
    let Some(number) = words.next().filter(|word| is_number(word, if named { 5 } else { 3 })) else { return false };
    match (words.next(), words.next(), words.next()) {
        (None, ..) => named || number.len() <= 3,
        (Some(of), Some(all), None) => OF.contains(&of.to_lowercase().as_str()) && is_number(all, 5),
        _ => false,
    }
}

fn is_number(word: &str, most: usize) -> bool {
    (1..=most).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether dots lead from what a line says to the number at its end, as in a table of contents: `Methods ..... 12`.
pub(super) fn has_leader(line: &str) -> bool {
    if !line.ends_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let before = line.trim_end_matches(|c: char| c.is_ascii_digit());
    let said = before.trim_end_matches([' ', '\t', '.', '…', '·', '_']);
    let leader = &before[said.len()..];
    let dots: usize = leader.chars().map(|c| if c == '…' { 3 } else { usize::from(!c.is_whitespace()) }).sum();
    !said.is_empty() && dots >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_pages_stand_alone() {
        for line in [
            "7",
            "12",
            "- 12 -",
            "— 3 —",
            "[4]",
            "Page 3",
            "page 3 of 10",
            "Seite 3 von 10",
            "3/10",
            "12 / 345",
            "p. 1204",
        ] {
            assert!(is_page_number(line), "{line:?}");
        }
        for line in
            ["", "1984", "- 12", "12.", "12 men", "Page", "page three", "3 of hearts", "1/2 cup", "12 13", "12 13 14"]
        {
            assert!(!is_page_number(line), "{line:?}");
        }
    }

    #[test]
    fn dots_lead_to_a_number() {
        for line in ["Introduction ........ 5", "2.1 Methods . . . . . . 12", "Index……99", "Name ____ 3"] {
            assert!(has_leader(line), "{line:?}");
        }
        for line in ["It was worth 3.50", "Wait... 5", "........ 5", "Introduction ........", "A_1"] {
            assert!(!has_leader(line), "{line:?}");
        }
    }

    #[test]
    fn lines_at_the_edges_of_two_pages_run() {
        let running = Running::of("Report 1\nText of one.\nACME\n\x0cReport 2\nMore.\nACME\n\x0cEnd.\n");
        assert!(
            running.holds("Report 3") && running.holds(" ACME") && !running.holds("More.") && !running.holds("End.")
        );
        assert!(!Running::of("ACME\nText.\nACME").holds("ACME"));
    }
}
