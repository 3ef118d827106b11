//! What a label such as `No.`, `Fig.` or `app.` stands before: a number, a numeral or a letter.

/// Whether a text starts with a number, also a Roman one that is no word (`IX`, not `I`), or after letters (`X5`).
pub(super) fn starts_with_number(text: &str) -> bool {
    let (word, after) = first_word(text);
    let is_roman = word.len() > 1 && word.bytes().all(|byte| b"IVXLC".contains(&byte)) || matches!(word, "V" | "X");
    let is_digit = |c: char| c.is_ascii_digit();
    // `L. 121-1`
    let is_lettered = word.len() == 1 && after.strip_prefix(". ").is_some_and(|number| number.starts_with(is_digit));
    text.trim_start_matches(['#', '§', '№', '°', ' ']).starts_with(char::is_numeric)
        || is_roman
        || is_lettered
        || word == "I" && after.starts_with(", §")
        // `RE-2024-12`
        || after.strip_prefix('-').unwrap_or(after).starts_with(is_digit) && word.starts_with(char::is_uppercase)
}

/// Single capitals that are words of some language: `A man`, `I left`, `È vero`.
const WORDS: &str = "AEIOUYWZVKS";

/// Whether a text starts with a single capital that names something, as in `app. B`.
pub(super) fn starts_with_letter(text: &str) -> bool {
    let (word, after) = first_word(text);
    let is_capital = word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
    is_capital && (!WORDS.contains(word) || after.starts_with(['.', ',', ')', ';']))
}

/// Whether a text starts with what a label is before: a number, also in brackets, or a single capital letter.
pub(super) fn is_labelled(text: &str) -> bool {
    let text = text.strip_prefix('(').unwrap_or(text);
    let (word, _) = first_word(text);
    starts_with_number(text) || word.starts_with(char::is_uppercase) && word.chars().nth(1).is_none()
}

/// Letters of the longest word that [`first_word`] returns, and more than any of the table has.
pub(super) const LONGEST_WORD: usize = 16;

/// Splits after the letters that a text starts with.
pub(super) fn first_word(text: &str) -> (&str, &str) {
    let end = text.char_indices().take(LONGEST_WORD).find(|(_, c)| !c.is_alphabetic()).map(|(at, _)| at);
    let longest = || text.char_indices().nth(LONGEST_WORD).map_or(text.len(), |(at, _)| at);
    text.split_at(end.unwrap_or_else(longest))
}
