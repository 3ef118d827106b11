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
const fn is_emphasis(c: char) -> bool {
    matches!(c, '*' | '_' | '`' | '~')
}

const fn is_superscript(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰' | '⁴'..='⁹' | '†' | '‡')
}

/// The bytes that a reference such as `[citation needed]` may take, brackets and all.
const LONGEST_REFERENCE: usize = 24;

/// Where what is attached to the end of a sentence ends: closing quotes and brackets, emphasis, footnote markers.
pub(super) fn attached_end(text: &str, mark_end: usize) -> usize {
    let mut at = mark_end;
    while let Some(c) = text[at..].chars().next() {
        if is_closing(c) || is_emphasis(c) || is_superscript(c) {
            at += c.len_utf8();
        } else if let Some(length) = reference(&text[at..]) {
            at += length;
        } else {
            break;
        }
    }
    at
}

/// How many bytes a reference in brackets takes at the start of a text.
fn reference(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('[')?;
    let length = inside.bytes().take(LONGEST_REFERENCE - 1).position(|byte| byte == b']')?;
    let refers = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b',' | b'-' | b'^');
    (length > 0 && inside.bytes().take(length).all(refers)).then_some(length + 2)
}

/// Whether this is Chinese or Japanese writing or a Korean syllable, which may be wrapped behind any character.
pub(super) const fn is_east_asian(c: char) -> bool {
    matches!(
        c,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
            | '\u{ff01}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}'
    )
}

/// Whether this is Thai, Lao, Khmer or Burmese: no spaces between words, no marks between sentences.
pub(crate) const fn is_southeast_asian(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_attached_to_a_full_stop_is_found() {
        for (text, expected) in [
            ("[12] Next", "[12]"),
            ("\u{201d}[1][note 2] Next", "\u{201d}[1][note 2]"),
            (")**² x", ")**²"),
            ("[Link](url)", "[Link]"),
            ("[a longer text than any reference]", ""),
            ("[é]", ""),
            (" x", ""),
        ] {
            assert_eq!(&text[..attached_end(text, 0)], expected, "{text:?}");
        }
    }
}
