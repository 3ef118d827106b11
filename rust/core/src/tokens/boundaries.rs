//! Where a page may be cut without changing its ids.
//!
//! A boundary is *safe* if the text on each side has the same ids with and without the text on the other side. Which
//! boundaries are safe depends on the normalizer and the pre-tokenizer. For unknown ones none is, and every window is
//! tokenized alone.

use serde_json::Value;

/// Tokenizers by their safe boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// BERT's pre-tokenizer: words end at white space. Punctuation, and Han characters with `han`, are words of their
    /// own.
    Bert { punctuation: bool, han: bool },
    /// Words end at white space and carry a start mark (`WhitespaceSplit`, then `Metaspace` or nothing).
    WhitespaceSplit,
    /// `Metaspace` alone: words end only at the space character.
    Metaspace,
    /// GPT-2's byte-level pre-tokenizer: a word includes the space before it, so the cut is before white space.
    ByteLevel,
    /// Any other: only the ends of the text are safe.
    Unknown,
}

impl Family {
    /// Recognizes the family in a `tokenizer.json`.
    pub(super) fn new(tokenizer: &Value) -> Self {
        let normalizer = steps(&tokenizer["normalizer"], "normalizers");
        let pre_tokenizer = steps(&tokenizer["pre_tokenizer"], "pretokenizers");
        let names: Vec<&str> = pre_tokenizer.iter().map(|step| step_type(step)).collect();
        // Normalizers whose changes stay local, and never reach a word's edge next to a space.
        let is_local = |step: &&Value| {
            matches!(
                step_type(step),
                "BertNormalizer"
                    | "Lowercase"
                    | "NFC"
                    | "NFD"
                    | "NFKC"
                    | "NFKD"
                    | "StripAccents"
                    | "Precompiled"
                    | "Nmt"
            ) || (step_type(step) == "Replace" && step["pattern"]["Regex"] == " {2,}")
                // No window ends in white space.
                || (step_type(step) == "Strip" && step["strip_left"] == false)
        };
        if !normalizer.iter().all(is_local) {
            return Self::Unknown;
        }
        let strips = normalizer.iter().any(|step| step_type(step) == "Strip");
        let collapses = normalizer.iter().any(|step| step_type(step) == "Replace");
        // Composing normalizers may join a punctuation mark with the next character (`=` and U+0338).
        let composes = normalizer.iter().any(|step| matches!(step_type(step), "NFC" | "NFKC" | "Precompiled" | "Nmt"));
        let prepends = |step: &Value| {
            step["prepend_scheme"].as_str().map_or(step["add_prefix_space"] == true, |scheme| scheme == "always")
        };
        match names.as_slice() {
            ["BertPreTokenizer"] => Self::Bert {
                punctuation: !composes,
                han: !composes && normalizer.iter().any(|step| step["handle_chinese_chars"] == true),
            },
            ["WhitespaceSplit"] => Self::WhitespaceSplit,
            ["WhitespaceSplit", "Metaspace"] if prepends(pre_tokenizer[1]) => Self::WhitespaceSplit,
            // Collapsing leaves one space at a text's end, which only stripping removes.
            ["Metaspace"] if pre_tokenizer[0]["split"] != false && collapses == strips => {
                // `first` marks the start of the text, which is also the start of a window tokenized alone.
                let scheme = pre_tokenizer[0]["prepend_scheme"].as_str();
                if prepends(pre_tokenizer[0]) || scheme == Some("first") { Self::Metaspace } else { Self::Unknown }
            }
            ["ByteLevel"] if pre_tokenizer[0]["use_regex"] != false => Self::ByteLevel,
            _ => Self::Unknown,
        }
    }

    /// Whether the text may be cut at a byte on a character boundary.
    pub(super) fn is_safe(self, text: &str, byte: usize) -> bool {
        let Some(before) = text[..byte].chars().next_back() else { return true };
        let Some(after) = text[byte..].chars().next() else { return true };
        match self {
            Self::Bert { punctuation, han } => {
                let alone = |c: char| (punctuation && is_punctuation(c)) || (han && is_han(c));
                is_bert_space(before) || is_bert_space(after) || alone(before) || alone(after)
            }
            Self::WhitespaceSplit => is_plain_space(before) || is_plain_space(after),
            Self::Metaspace => {
                // White space at a segment's end would be stripped, but not in the middle of a window.
                let last = text[..byte].trim_end_matches(' ').chars().next_back();
                (after == ' ' || (before == ' ' && starts_word(after))) && last.is_none_or(ends_word)
            }
            Self::ByteLevel => !before.is_whitespace() && is_plain_space(after),
            Self::Unknown => false,
        }
    }

    /// Whether the ids of a text that starts with this character stay the same after a space.
    pub(super) fn may_follow_space(self, first: char) -> bool {
        self != Self::Metaspace || starts_word(first)
    }

    pub(super) fn next_safe(self, text: &str, from: usize, to: usize) -> Option<usize> {
        if self == Self::Unknown {
            return [from, to].into_iter().find(|byte| *byte == 0 || *byte == text.len());
        }
        let inside = text[from..to].char_indices().map(|(offset, _)| from + offset);
        inside.chain([to]).find(|byte| self.is_safe(text, *byte))
    }

    pub(super) fn last_safe(self, text: &str, from: usize, to: usize) -> Option<usize> {
        if self == Self::Unknown {
            return [to, from].into_iter().find(|byte| *byte == 0 || *byte == text.len());
        }
        let inside = text[from..to].char_indices().rev().map(|(offset, _)| from + offset);
        [to].into_iter().chain(inside).find(|byte| self.is_safe(text, *byte))
    }
}

/// The steps of a normalizer or pre-tokenizer, with `Sequence`s flattened.
fn steps<'json>(step: &'json Value, list: &str) -> Vec<&'json Value> {
    match (step_type(step), step[list].as_array()) {
        ("Sequence", Some(sequence)) => sequence.iter().flat_map(|step| steps(step, list)).collect(),
        ("", _) => Vec::new(),
        _ => vec![step],
    }
}

fn step_type(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// White space to all tokenizers.
const fn is_plain_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\r')
}

/// Characters that BERT's normalizer maps to a space. It removes other white space (U+0085, U+000B) as control
/// characters.
pub(super) const fn is_bert_space(c: char) -> bool {
    is_plain_space(c) || matches!(c, '\u{a0}' | '\u{3000}')
}

/// Whether no normalizer maps this to white space or removes it, so that after a space it starts a word.
fn starts_word(c: char) -> bool {
    let becomes_space_and_mark = matches!(c, '\u{37a}' | '\u{fe70}'..='\u{fe7f}');
    (c.is_alphanumeric() && !becomes_space_and_mark)
        || c.is_ascii_punctuation()
        || matches!(c, '«' | '»' | '¿' | '¡' | '–' | '—' | '\u{2018}'..='\u{201f}' | '\u{3008}'..='\u{3011}')
}

/// Whether no normalizer maps this to white space (U+FFFD) or removes it, so that it protects white space before it.
fn ends_word(c: char) -> bool {
    starts_word(c) || is_punctuation(c)
}

/// A subset of BERT's punctuation: ASCII's, quotation marks, dashes, and the marks of sentences.
pub(super) const fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}')
        || matches!(c, '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{2027}')
        || matches!(c, '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}')
        || matches!(c, '\u{ff01}' | '\u{ff08}' | '\u{ff09}' | '\u{ff0c}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}')
}

/// The Han characters that BERT's normalizer separates, without the rare planes.
const fn is_han(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}')
}
