//! Marks: the punctuation that ends, opens, closes or refers, and the scripts that treat it in their own way.

/// Whether this ends a sentence.
pub(super) const fn is_terminal(c: char) -> bool {
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
    )
}

/// Whether this opens a quote or a bracket, and so belongs to what comes behind it.
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

/// Whether this closes a quote or a bracket, and so belongs to what stands before it.
pub(super) const fn is_closing(c: char) -> bool {
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
pub(super) const fn is_emphasis(c: char) -> bool {
    matches!(c, '*' | '_' | '`' | '~')
}

pub(super) const fn is_superscript(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰' | '⁴'..='⁹' | '†' | '‡')
}

/// Whether this is Chinese or Japanese writing, which puts no spaces between words.
pub(super) const fn is_han_or_kana(c: char) -> bool {
    matches!(
        c,
        '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff01}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Whether this is Chinese or Japanese writing or a Korean syllable, which may be wrapped behind any character.
pub(super) const fn is_east_asian(c: char) -> bool {
    is_han_or_kana(c) || matches!(c, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}')
}

/// Whether this is Thai, Lao, Khmer or Burmese: no spaces between words, no marks between sentences.
pub(crate) const fn is_southeast_asian(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// Whether a text has capital letters, so that a small one tells that a sentence goes on.
pub(super) fn has_capitals(text: &str) -> bool {
    // Nearly every page has an ASCII capital near its start.
    text.bytes().any(|byte| byte.is_ascii_uppercase()) || text.chars().any(char::is_uppercase)
}
