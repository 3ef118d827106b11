//! Quotations inside a sentence: what follows their closing mark without an end between them.

use super::marks::{is_han_or_kana, is_hangul, is_opening, is_terminal};

/// Japanese particles that go on after a quotation: `「行く。」と言った。`
const PARTICLES: [char; 9] = ['と', 'っ', 'の', 'が', 'は', 'を', 'に', 'で', 'も'];

/// Chinese and Japanese verbs of saying, and pronouns of whom a narrator speaks.
const TOLD: [char; 14] = ['说', '說', '问', '問', '喊', '叫', '答', '想', '笑', '言', '他', '她', '彼', '道'];

/// Characters of the clause that says whose words a quotation has.
const LONGEST_CLAUSE: usize = 20;

/// Whether a sentence of Chinese or Japanese goes on after the quotation at its end: a particle follows, or a narrator
/// (`“我走了。”他说。`). What a colon or comma introduces ends with it, and a clause that introduces another is a sentence.
pub(super) fn goes_on_after_quote(sentence: &str, after: &str) -> bool {
    if after.starts_with(PARTICLES) {
        return true;
    }
    let clause = after.chars().take(LONGEST_CLAUSE).take_while(|c| !is_terminal(*c) && !is_opening(*c));
    let introduces = clause.clone().any(|c| matches!(c, '：' | ':'));
    let is_introduced = sentence
        .rfind(['“', '「', '『'])
        .is_some_and(|open| sentence[..open].trim_end().ends_with(['：', ':', '，', ',', '、']));
    after.starts_with(is_han_or_kana)
        && !after.starts_with(is_opening)
        && !introduces
        && !is_introduced
        && clause.into_iter().any(|c| TOLD.contains(&c))
}

/// Whether a Korean text continues with a verb of saying after a quote.
pub(super) fn continues_quote(text: &str) -> bool {
    let particle = text.split(|c: char| !is_hangul(c)).next().unwrap_or_default();
    matches!(particle, "고" | "며" | "면서" | "는" | "란" | "라던")
        || ["라고", "라는", "라며", "라면서", "이라고", "이라는", "이라며", "하고", "하며", "고는", "고도"]
            .iter()
            .any(|beginning| particle.starts_with(beginning))
}
