//! Punctuation that ends, opens, closes or refers, and scripts with rules of their own.

/// Whether this ends a sentence.
pub(crate) const fn is_terminal(c: char) -> bool {
    matches!(
        c,
        '.' | '!'
            | '?'
            | '…'
            | '。'
            | '！'
            | '？'
            | '．'
            | '｡'
            | '।'
            | '॥'
            | '؟'
            | '۔'
            | '։'
            | '።'
            | '။'
            | '។'
            | '៕'
            | '‼'
            | '⁇'
            | '⁈'
            | '⁉'
            | '‽'
            | '׃'
            | '།'
            | '༎'
    )
}

/// Whether this opens a quote or bracket, and so belongs to the text after it.
pub(super) const fn is_opening(c: char) -> bool {
    matches!(
        c,
        '(' | '['
            | '{'
            | '“'
            | '‘'
            | '„'
            | '‚'
            | '«'
            | '‹'
            | '「'
            | '『'
            | '【'
            | '（'
            | '《'
            | '〈'
            | '［'
            | '〔'
            | '｛'
            | '｢'
            | '¿'
            | '¡'
    )
}

/// Whether this closes a quote or bracket, and so belongs to the text before it.
pub(crate) const fn is_closing(c: char) -> bool {
    matches!(
        c,
        ')' | ']'
            | '}'
            | '"'
            | '\''
            | '”'
            | '’'
            | '“'
            | '‘'
            | '»'
            | '›'
            | '」'
            | '』'
            | '】'
            | '）'
            | '》'
            | '〉'
            | '］'
            | '〕'
            | '｝'
            | '｣'
    )
}

/// Whether this closes emphasis or code in Markdown.
pub(crate) const fn is_emphasis(c: char) -> bool {
    matches!(c, '*' | '_' | '`' | '~')
}

pub(super) const fn is_superscript(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰' | '⁴'..='⁹' | '†' | '‡')
}

/// Chinese and Japanese, which put no spaces between words.
pub(super) const fn is_han_or_kana(c: char) -> bool {
    matches!(
        c,
        '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Chinese, Japanese and Korean, which may be wrapped after any character.
pub(crate) const fn is_east_asian(c: char) -> bool {
    is_han_or_kana(c) || is_hangul(c)
}

pub(super) const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}')
}

/// Thai, Lao, Khmer and Burmese: no spaces between words, no marks between sentences.
pub(crate) const fn is_southeast_asian(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// Letters of scripts without spaces between words: also Chinese and Japanese.
pub(crate) const fn is_unspaced(c: char) -> bool {
    is_southeast_asian(c)
        || matches!(
            c,
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
        )
}

/// In a text with capitals, a lower-case letter shows that a sentence continues.
pub(super) fn has_capitals(text: &str) -> bool {
    // Nearly every page has an ASCII capital near its start.
    text.bytes().any(|byte| byte.is_ascii_uppercase()) || text.chars().any(char::is_uppercase)
}

/// Bytes that are checked together, in a few instructions.
const CHUNK: usize = 64;

/// Whether a text has letters of a script in which other marks are typed for full stops: Armenian, Hebrew, the scripts of
/// India, Tibetan, Ethiopic. Found by their first bytes, with those of a few other scripts.
pub(super) fn has_substitutes(text: &str) -> bool {
    let has_lead =
        |chunk: &[u8]| chunk.iter().fold(false, |found, byte| found | matches!(byte, 0xd4..=0xd7 | 0xe0 | 0xe1));
    text.as_bytes().chunks(CHUNK).any(has_lead)
}

/// The scripts of India, where `|` is typed for the danda.
pub(super) const fn is_indic(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{d7f}')
}

pub(super) const fn is_armenian(c: char) -> bool {
    matches!(c, '\u{531}'..='\u{588}')
}

pub(super) const fn is_ethiopic(c: char) -> bool {
    matches!(c, '\u{1200}'..='\u{135f}')
}

/// Whether a row only separates others: `|---|:-:|`, `├───┼───┤`.
pub(crate) fn is_separator_row(row: &str) -> bool {
    row.chars().all(|c| matches!(c, '|' | '-' | ':' | '+' | '=' | ' ') || is_box(c))
}

/// Whether this is a picture: a symbol, an emoji, a tile or a card.
pub(super) const fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether this draws boxes.
pub(super) const fn is_box(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{257f}')
}

/// Without the numbers of notes: `It fell.[1]`, `It fell. [1, 2]`, `It fell.[^note]`, `It fell.¹`.
pub(crate) fn without_note(text: &str) -> &str {
    let text = text.trim_end_matches(['¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹', '⁰']);
    let (before, note) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')).unwrap_or((text, ""));
    if note.starts_with('^') || !note.is_empty() && are_notes(note) { before.trim_end() } else { text }
}

/// Whether brackets hold numbers of notes: `1`, `1, 2`, `3-5`.
pub(super) fn are_notes(inside: &str) -> bool {
    inside.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b' ' | b'-'))
}
