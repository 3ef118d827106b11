//! Entries of lists of references: `Lee, A. (1999). The mill. Mill Press.`
//!
//! Their full stops end no sentences, so each entry is one unit. It starts with authors and has a year.

use super::abbreviations::is_opener;
use super::list_marks::Mark;

/// Bytes of an entry that may name its authors: before the year of publication.
const LONGEST_AUTHORS: usize = 300;

/// Bytes of the longest key.
const LONGEST_KEY: usize = 16;

/// Bytes of the first word of a name of two: `Le Goff`.
const LONGEST_PARTICLE: usize = 4;

/// Bytes of the longest entry.
const LONGEST_ENTRY: usize = 1000;

/// Whether a block is one entry of a list of references.
pub(crate) fn is_reference(block: &str) -> bool {
    let block = block.trim();
    if block.len() > LONGEST_ENTRY {
        return false;
    }
    let mark = Mark::at_start(block).filter(|mark| mark.is_list_mark() && authors(block).is_none());
    let mark = mark.map(|mark| mark.end).or_else(|| key_end(block));
    let entry = block[mark.unwrap_or(0)..].trim_start();
    if starts_dated(entry) {
        return true;
    }
    let Some(authors) = authors(entry) else { return false };
    let is_bracketed = block.starts_with('[') && mark.is_some();
    let has_source = || {
        entry.contains(';')
            || has_range(entry)
            || ["doi", "http", "pp.", "ISBN"].iter().any(|sign| entry.contains(sign))
    };
    // With its full stop: wrapped prose may end a line with a year.
    let ends_with_year = || years(entry).last().is_some_and(|year| &entry[year + 4..] == ".");
    years(entry).next().is_some()
        && match authors {
            Authors::InitialsFirst => is_bracketed,
            Authors::Inverted => is_bracketed || has_source() || ends_with_year(),
        }
}

/// The end of the key of an entry: `[Knu84]`, `[ABC+20a]`.
fn key_end(entry: &str) -> Option<usize> {
    let key = entry.strip_prefix('[')?;
    let end = key.find(']').filter(|end| (4..=LONGEST_KEY).contains(end))?;
    let letters = key[..end].trim_end_matches(|c: char| c.is_ascii_lowercase());
    let name = letters.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_key = name.starts_with(char::is_uppercase)
        && (2..=4).contains(&(letters.len() - name.len()))
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '_'));
    (is_key && key[end + 1..].starts_with(' ')).then_some(end + 2)
}

/// Whether a line is or starts an entry without a mark.
pub(super) fn is_entry(line: &str) -> bool {
    key_end(line).is_some() && is_reference(line)
        || starts_dated(line)
        || (authors(line) == Some(Authors::Inverted) && is_reference(line))
}

/// Whether a line starts an entry with authors and the year after them: `Lee, A. (1999). `, `Lee, A., 1999. `
fn starts_dated(line: &str) -> bool {
    let Some(year) = years(line).next().filter(|year| *year <= LONGEST_AUTHORS) else { return false };
    let (before, after) = (&line[..year], line[year + 4..].trim_start_matches(|c: char| c.is_ascii_lowercase()));
    let is_inverted = authors(line) == Some(Authors::Inverted);
    match after.strip_prefix(')').filter(|_| before.ends_with('(')) {
        // In a sentence, a verb follows.
        Some(after) if is_inverted => {
            after.starts_with(['.', ',', ':']) || after.trim_start().starts_with(|c: char| c.is_uppercase() || c == '“')
        }
        // The author is an organization.
        Some(after) => after.starts_with(". ") && before.ends_with(". (") && line.starts_with(char::is_uppercase),
        None => {
            is_inverted && before.ends_with([' ']) && before.trim_end().ends_with([',', '.']) && after.starts_with(". ")
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Authors {
    /// `Lee, A.`, `Lee A,`
    Inverted,
    /// `A. Lee`
    InitialsFirst,
}

/// How the authors at the start of an entry are written. `Friedrich II.` has no initials.
fn authors(entry: &str) -> Option<Authors> {
    let is_initial = |word: &str| {
        let letters = word.trim_end_matches(['.', ',', ';', '&']);
        (1..=4).contains(&letters.chars().count())
            && letters.chars().all(|c| c.is_uppercase() || matches!(c, '.' | '-'))
            && (letters.len() == 1 || !letters.chars().all(|c| matches!(c, 'I' | 'V' | 'X')))
    };
    let mut words = entry.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    if !first.starts_with(char::is_uppercase) {
        return None;
    }
    if first.ends_with('.') {
        let name = std::iter::once(second).chain(words).take(3).find(|word| !is_initial(word))?;
        let is_name = name.starts_with(char::is_uppercase) && name.chars().count() > 1;
        return (is_initial(first) && is_name).then_some(Authors::InitialsFirst);
    }
    let third = words.next();
    // `Le Goff, J.`
    let is_particle = first.len() <= LONGEST_PARTICLE && !first.ends_with(',') && !is_opener(first);
    if is_particle && second.starts_with(char::is_uppercase) && second.ends_with(',') && !is_initial(second) {
        return third.is_some_and(is_initial).then_some(Authors::Inverted);
    }
    // Names of several words: `de la Cruz, A.`
    let is_dated = third.is_some_and(|third| third.starts_with("(1") || third.starts_with("(2"));
    let is_closed = second.ends_with(['.', ',', ';']) || (is_initial(second) && is_dated);
    // `See S. Rep. No. 94-12, at 3 (1975).`
    let is_name = first.ends_with(',') || !is_opener(first);
    let is_inverted = is_name
        && is_closed
        && (is_initial(second) || (first.ends_with(',') && second.starts_with(char::is_uppercase)));
    (first.len() > 1 && is_inverted).then_some(Authors::Inverted)
}

/// Where years stand: 1500 to 2099.
fn years(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_year = move |at: &usize| {
        let century = (bytes[*at], bytes.get(at + 1).copied().unwrap_or(0));
        matches!(century, (b'1', b'5'..=b'9') | (b'2', b'0'))
            && is_digit(at + 2)
            && is_digit(at + 3)
            && !is_digit(at + 4)
            && at.checked_sub(1).is_none_or(|before| !is_digit(before))
    };
    (0..bytes.len()).filter(is_year)
}

/// Whether pages are named: `12–30`.
fn has_range(text: &str) -> bool {
    text.match_indices(['-', '–']).any(|(at, dash)| {
        text[..at].ends_with(|c: char| c.is_ascii_digit())
            && text[at + dash.len()..].starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_start_with_authors_and_have_a_year() {
        for entry in [
            "[1] J. Smith and A. Lee. The mill. Journal of Mills, 3(2), pp. 12–30, 1999.",
            "[3] C. D. Roe. Water. PhD thesis, Univ. of Leeds, 2010.",
            "1. Smith J, Lee A. The mill. J Mills. 1999;3(2):12-30.",
            "Lee, A. (1999). The mill. Journal of Mills, 3(2), 12–30.",
            "Ng, B., & Roe, C. D. (2004a) Stones. In E. Fox (Ed.), Wheels.",
            "- Smith, John. The Mill. Leeds: Mill Press, 1999.",
            "Lee A, Ng B (1999) The mill. J Mills 3:12–30.",
            "Lee A (1999) The mill. J Mills 3:12–30.",
            "[Knu84] D. E. Knuth. Literate programming. The Computer Journal, 1984.",
            "[LN+99a] A. Lee, B. Ng, et al. The mill. Mill Press, 1999.",
            "Lee, A.; Ng, B. The mill. J. Mills 1999, 3, 12–30.",
            "Lee, A., 1999. The mill. Leeds: Mill Press.",
            "Water Board. (2020). Mills of the north. https://mills.example",
        ] {
            assert!(is_reference(entry), "{entry:?}");
        }
        for text in [
            "Lee, A. (1999) showed that mills are loud. They are.",
            "In 1999, J. Smith sold it. It burned.",
            "A. Smith was born in 1999. He left.",
            "Yes, Ann. It was built in 1850. It burned.",
            "1. Open the lid. It was closed in 1999.",
            "It was loud.",
            "Friedrich II. starb 1786. Das war am 5.5.2005.",
            "The J. R. Hall of 1984 was in Paris No. 5 to of 12",
            "Paris J. R. Hall was of the river in 1984",
        ] {
            assert!(!is_reference(text), "{text:?}");
        }
    }
}
