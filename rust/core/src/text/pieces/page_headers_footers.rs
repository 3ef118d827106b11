//! Page headers and footers, which interrupt the sentences of printed pages.
//!
//! Text from a PDF has each page's number, header and footer between its lines, mostly next to a form feed. They belong
//! to no sentence.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::pieces::list_marks::HAN_DIGITS;

/// Characters of the longest header or footer.
const MAX_CHARS: usize = 100;

/// Bytes from one head of a page to the next.
const SHORTEST_PAGE: usize = 200;

/// The same where a line has only a number.
const SHORTEST_PRINTED: usize = 40;

/// Lines at each edge of a page that may be its header or footer: a title and a number, in either order.
const EDGE_LINES: usize = 2;

/// Words before a page number.
const PAGE: &[&str] = &[
    "page", "pg", "pg.", "p", "p.", "seite", "s.", "página", "pág.", "pagina", "pag.", "σελίδα", "σελ.", "стр.",
    "slide", "folie", "diapositive", "diapositiva", "страница", "sayfa", "trang", "strona", "sida", "side", "sivu",
    "halaman", "صفحة", "पृष्ठ", "עמוד",
];

/// Words after a page number.
const PAGE_COUNTERS: [&str; 5] = ["页", "頁", "ページ", "쪽", "페이지"];

/// Words between the page number and the number of pages.
const OF: &[&str] = &["of", "von", "de", "di", "sur", "από", "из", "z", "av", "af", "van", "dari", "/", "من"];

/// Lines at the edges of more than one page, without their digits.
pub(super) struct RunningLines(HashSet<String>);

impl RunningLines {
    /// Empty without form feeds and lines with a page number, because the ends of pages are unknown then.
    pub(super) fn new(text: &str, check: &Check) -> Result<Self> {
        let mut checkpoints = Checkpoints::new(check);
        let mut read = 0;
        let mut counts = HashMap::new();
        let printed = pages_of(text);
        if printed.len() > 1 {
            for page in printed {
                checkpoints.reach(read)?;
                read += page.len() + 1;
                let lines = || page.lines().filter(|line| !line.trim().is_empty());
                let edges: HashSet<String> =
                    lines().take(EDGE_LINES).chain(lines().rev().take(EDGE_LINES)).filter_map(without_digits).collect();
                for line in edges {
                    *counts.entry(line).or_insert(0) += 1;
                }
            }
        }
        Ok(Self(counts.into_iter().filter(|&(_, count)| count > 1).map(|(line, _)| line).collect()))
    }

    /// Ignores digits.
    pub(super) fn contains(&self, line: &str) -> bool {
        !self.0.is_empty() && without_digits(line).is_some_and(|line| self.0.contains(&line))
    }
}

/// The constant part of a running line; `None` if the line is too long, or only a number.
fn without_digits(line: &str) -> Option<String> {
    let line = line.trim();
    if line.len() > 4 * MAX_CHARS || line.chars().count() > MAX_CHARS {
        return None;
    }
    let constant: String = line.chars().filter(|c| !c.is_numeric() && !HAN_DIGITS.contains(*c)).collect();
    let constant = constant.trim();
    constant.chars().any(char::is_alphabetic).then(|| constant.to_owned())
}

/// The pages of a text: parts between form feeds, or between lines that have only a page number, with the word for it; or
/// between marks or far from the line's start, if another is one less or more.
fn pages_of(text: &str) -> Vec<&str> {
    if text.as_bytes().contains(&b'\x0c') {
        return text.split('\x0c').collect();
    }
    let (mut end, mut last_number) = (0, 0);
    let mut numbers: Vec<(usize, Option<u32>)> = Vec::new();
    let mut heads: HashMap<&str, (u32, usize)> = HashMap::new();
    for whole in text.split_inclusive('\n') {
        end += whole.len();
        let line = whole.trim();
        if !line.ends_with(may_end_number) {
            continue;
        }
        if !is_page_number(line) {
            // The next page has the same head and the next number; rows are closer.
            if let Some((head, number)) = numbered_head(line)
                && let Some((before, last)) = heads.insert(head, (number, end))
                && before + 1 == number
                && end - last > SHORTEST_PAGE
            {
                numbers.extend([(last, None), (end, None)]);
            }
            continue;
        }
        if line.contains(char::is_alphabetic) {
            numbers.push((end, None));
        } else if whole.starts_with(FAR) || line.starts_with(is_mark_around) || end - last_number >= SHORTEST_PRINTED {
            numbers.extend(number_in(line).map(|number| (end, Some(number))));
        }
        last_number = end;
    }
    numbers.sort_unstable();
    numbers.dedup();
    let follows = |one: usize, other: usize| {
        let number = |place: usize| numbers.get(place).and_then(|(_, number)| *number);
        number(one).zip(number(other)).is_some_and(|(one, other)| one.checked_add(1) == Some(other))
    };
    let is_end = |place: usize| {
        numbers[place].1.is_none() || follows(place, place + 1) || place > 0 && follows(place - 1, place)
    };
    let ends = (0..numbers.len()).filter(|place| is_end(*place)).map(|place| numbers[place].0);
    let mut start = 0;
    ends.chain([text.len()]).map(|end| &text[std::mem::replace(&mut start, end)..end]).collect()
}

/// What stands far before the number at the end of a line: `Handbook     13`.
fn numbered_head(line: &str) -> Option<(&str, u32)> {
    let (head, number) = line.rsplit_once(WIDE_GAP)?;
    if head.len() > MAX_CHARS || !is_number(number, 4) {
        return None;
    }
    Some((head.trim_end(), number.parse().ok()?))
}

/// The only number of a line.
fn number_in(line: &str) -> Option<u32> {
    line.trim_matches(|c: char| !c.is_numeric()).parse().ok()
}

/// Spaces between a header and the page number in the same line.
const WIDE_GAP: &str = "   ";

/// The same where no word names the number.
const FAR: &str = "          ";

/// Whether a line is only a page number, also one with a header next to it: `12`, `- 12 -`, `Page 3 of 10`, `3/10`,
/// `Contract     Page 3`, `Ann Lee     Informational     [Page 3]`.
pub(super) fn is_page_number(line: &str) -> bool {
    is_number_of_page(line, false)
        || line.ends_with(|c: char| c.is_ascii_digit() || c == ']')
            && line.rsplit_once(WIDE_GAP).is_some_and(|(header, number)| {
                header.len() <= MAX_CHARS
                    && (number.starts_with('[') || !header.trim_end().contains(WIDE_GAP))
                    && is_number_of_page(number.trim(), true)
            })
}

/// Whether a line has a page number far from its other words: `48            K. Brandt and L. Osei`.
pub(super) fn is_numbered_head(line: &str) -> bool {
    let parts = || line.split_once(FAR).map(|(number, words)| (number, words.trim_start()));
    let is_head = |(number, words): (&str, &str)| {
        is_number(number, 4) && words.contains(char::is_alphabetic) && !words.contains(WIDE_GAP)
    };
    let swapped = || line.rsplit_once(FAR).map(|(words, number)| (number, words.trim_end()));
    line.len() <= 2 * MAX_CHARS && (parts().is_some_and(is_head) || swapped().is_some_and(is_head))
}

/// Whether this is a page number, with the word for it if it must be named.
fn is_number_of_page(line: &str, must_be_named: bool) -> bool {
    // At most four words of ten characters.
    if line.len() > 80 || !line.ends_with(may_end_number) {
        return false;
    }
    let inside = match line.chars().next() {
        Some(mark) if is_mark_around(mark) => line.trim_start_matches(mark).strip_suffix(mark),
        Some('[') => line[1..].strip_suffix(']'),
        _ => Some(line),
    };
    let Some(inside) = inside else { return false };
    if let Some(counted) = east_asian(inside) {
        return is_number(counted, 5);
    }
    let spaced = inside.replace('/', " / ");
    let mut words = spaced.split_whitespace().peekable();
    let named = words.next_if(|word| PAGE.contains(&word.to_lowercase().as_str())).is_some();
    if must_be_named && !named {
        return false;
    }
    // Four digits alone may be a year.
    let Some(number) = words.next().filter(|word| is_number(word, if named { 5 } else { 3 })) else { return false };
    match (words.next(), words.next(), words.next()) {
        (None, ..) => named || number.len() <= 3,
        (Some(of), Some(all), None) => OF.contains(&of.to_lowercase().as_str()) && is_number(all, 5),
        _ => false,
    }
}

/// The number in `第 3 页`, `3ページ`, `3쪽`, and the first one in `第3页 共10页`.
fn east_asian(line: &str) -> Option<&str> {
    let counter = PAGE_COUNTERS.iter().find(|counter| line.ends_with(**counter))?;
    let first = line.split(counter).next().unwrap_or_default();
    Some(first.strip_prefix(['第', '제']).unwrap_or(first).trim())
}

/// Marks on both sides of a page number.
const fn is_mark_around(c: char) -> bool {
    matches!(c, '-' | '–' | '—' | '|' | '－' | '−' | '~' | '·')
}

fn may_end_number(c: char) -> bool {
    c.is_ascii_digit() || c == ']' || is_mark_around(c) || matches!(c, '页' | '頁' | 'ジ' | '쪽' | '지')
}

fn is_number(word: &str, max_digits: usize) -> bool {
    (1..=max_digits).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether dots lead to a number at the end, as in a table of contents: `Methods ..... 12`.
pub(super) fn has_dot_leader(line: &str) -> bool {
    if !line.ends_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let before = line.trim_end_matches(|c: char| c.is_ascii_digit());
    let entry = before.trim_end_matches([' ', '\t', '.', '…', '·', '_']);
    let leader = &before[entry.len()..];
    let dots: usize = leader.chars().map(|c| if c == '…' { 3 } else { usize::from(!c.is_whitespace()) }).sum();
    !entry.is_empty() && dots >= 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::call::unstopped;

    #[test]
    fn lines_of_only_a_page_number_are_found() {
        for line in [
            "7", "12", "- 12 -", "— 3 —", "－ 27 －", "[4]", "Page 3", "page 3 of 10", "Seite 3 von 10", "3/10",
            "12 / 345", "第 3 页", "第3页 共10页", "3ページ", "3쪽", "p. 1204", "Vertrag    Seite 4 von 6",
            "Team     Slide 7",
        ] {
            assert!(is_page_number(line), "{line:?}");
        }
        for line in [
            "", "1984", "- 12", "12.", "12 men", "Page", "page three", "3 of hearts", "1/2 cup", "12 13", "12 13 14",
            "Milk    4", "the last page 3", "a    b    Page 3",
        ] {
            assert!(!is_page_number(line), "{line:?}");
        }
    }

    #[test]
    fn dots_lead_to_a_number() {
        for line in ["Introduction ........ 5", "2.1 Methods . . . . . . 12", "Index……99", "Name ____ 3"] {
            assert!(has_dot_leader(line), "{line:?}");
        }
        for line in ["It was worth 3.50", "Wait... 5", "........ 5", "Introduction ........", "A_1"] {
            assert!(!has_dot_leader(line), "{line:?}");
        }
    }

    #[test]
    fn lines_at_the_edges_of_two_pages_are_headers_and_footers() {
        let running =
            RunningLines::new("Report 1\nText of one.\nACME\n\x0cReport 2\nMore.\nACME\n\x0cEnd.\n", &unstopped)
                .unwrap();
        assert!(running.contains("Report 3") && running.contains(" ACME"));
        assert!(!running.contains("More.") && !running.contains("End."));
        assert!(!RunningLines::new("ACME\nText.\nACME", &unstopped).unwrap().contains("ACME"));
        let numbered = RunningLines::new("Text.\nACME 1\nPage 1\nMore.\nACME 2\nPage 2\n", &unstopped).unwrap();
        assert!(numbered.contains("ACME 3") && !numbered.contains("More."));
        let bare = RunningLines::new("ACME\nText.\n- 7 -\nACME\nMore.\n- 8 -\n", &unstopped).unwrap();
        assert!(bare.contains("ACME") && !bare.contains("More."));
        assert!(!RunningLines::new("ACME\n7\nACME\n12\nACME\n", &unstopped).unwrap().contains("ACME"));
        let far = format!("ACME    12\n{0}\nACME    13\n{0}\n", "Text of a page. ".repeat(20));
        assert!(RunningLines::new(&far, &unstopped).unwrap().contains("ACME    14"));
        let rows = "Room    12\nRoom    13\nRoom    14\n";
        assert!(!RunningLines::new(rows, &unstopped).unwrap().contains("Room    12"));
    }
}
