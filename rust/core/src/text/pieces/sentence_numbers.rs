//! Numbers before full stops that end no sentence: of items, ordinals, dates and documents.

use super::abbreviations::last_word;

/// Whether this numbers the text after it: `12`, `1.2`, `IV`, `B`.
pub(super) fn is_numbering(word: &str) -> bool {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && word.len() <= 6;
    !word.is_empty() && (digits || is_roman(word) || (word.len() == 1 && word.as_bytes()[0].is_ascii_alphabetic()))
}

/// Whether the number of a document follows its name: `Ger. Offen. No. 2,740,113`.
pub(super) fn is_numbered(word: &str, after: &str) -> bool {
    let number = ["No.", "Nos.", "Nr.", "№"].iter().find_map(|label| after.strip_prefix(label)).map(str::trim_start);
    word.len() <= 6
        && word.starts_with(char::is_uppercase)
        && number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a day or a month of a date in numbers ends here: `1. 2. 2024`.
pub(super) fn is_part_of_date(label: &str, word: &str, after: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let is_short = |length: usize| (1..=2).contains(&length);
    let next = digits(after);
    let is_month = || after[next..].starts_with('.') && digits(after[next + 1..].trim_start()) == 4;
    let is_day_above = || {
        let day = label.strip_suffix('.').map(last_word);
        day.is_some_and(|day| is_short(day.len()) && digits(day) == day.len())
    };
    is_short(word.len()) && digits(word) == word.len() && (is_short(next) && is_month() || next == 4 && is_day_above())
}

/// Whether an ordinal and a comma or a small word stand before another one: `am 2. und 4. Dienstag`.
pub(super) fn goes_on_counting(label: &str) -> bool {
    let one = label.trim_end_matches(|c: char| c.is_lowercase() || c == ',').trim_end();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    one.len() < label.len() && one.strip_suffix('.').is_some_and(|one| is_number(last_word(one)))
}

/// A small Roman numeral, or empty.
pub(super) fn is_roman(word: &str) -> bool {
    word.bytes().all(|byte| b"IVX".contains(&byte)) && word.len() <= 5
}
