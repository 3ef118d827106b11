//! Where the ids of a page may be cut.
//!
//! A boundary is *safe* when the text on its right becomes the same ids whether or not the text on its left is there,
//! and the other way round. Which boundaries are safe depends on the tokenizer's normalizer and pre-tokenizer; what this
//! module does not recognize has none, and every window is tokenized alone then.

use serde_json::Value;

/// Tokenizers, by where they may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// BERT's pre-tokenizer: words end at white space; punctuation and, where `han` is set, Han characters stand alone.
    Bert { punctuation: bool, han: bool },
    /// Words end at white space and carry their own mark of a word's start (`WhitespaceSplit`, then `Metaspace` or nothing).
    Spaced,
    /// `Metaspace` alone: words end at the space character, and nowhere else.
    Metaspace,
    /// GPT-2's byte-level pre-tokenizer: a word takes the space before it along, so the cut is before the white space.
    ByteLevel,
    /// Anything else: no safe boundary but the ends of the text.
    Unknown,
}

impl Family {
    /// Reads the family off a `tokenizer.json`.
    pub(super) fn of(tokenizer: &Value) -> Self {
        let normalizer = kinds(&tokenizer["normalizer"], "normalizers");
        let pre_tokenizer = kinds(&tokenizer["pre_tokenizer"], "pretokenizers");
        let names: Vec<&str> = pre_tokenizer.iter().map(|step| kind(step)).collect();
        // Normalizers that change a text only near what they change, and never at a word's edge next to a space.
        let local = |step: &&Value| {
            matches!(
                kind(step),
                "BertNormalizer"
                    | "Lowercase"
                    | "NFC"
                    | "NFD"
                    | "NFKC"
                    | "NFKD"
                    | "StripAccents"
                    | "Precompiled"
                    | "Nmt"
            ) || (kind(step) == "Replace" && step["pattern"]["Regex"] == " {2,}")
                // White space behind a window is no part of it.
                || (kind(step) == "Strip" && step["strip_left"] == false)
        };
        if !normalizer.iter().all(local) {
            return Self::Unknown;
        }
        let strips = normalizer.iter().any(|step| kind(step) == "Strip");
        let collapses = normalizer.iter().any(|step| kind(step) == "Replace");
        // Composing normalizers may join a punctuation mark with what follows it (`=` and U+0338).
        let composes = normalizer.iter().any(|step| matches!(kind(step), "NFC" | "NFKC" | "Precompiled" | "Nmt"));
        let prepends = |step: &Value| {
            step["prepend_scheme"].as_str().map_or(step["add_prefix_space"] == true, |scheme| scheme == "always")
        };
        match names.as_slice() {
            ["BertPreTokenizer"] => Self::Bert {
                punctuation: !composes,
                han: !composes && normalizer.iter().any(|step| step["handle_chinese_chars"] == true),
            },
            ["WhitespaceSplit"] => Self::Spaced,
            ["WhitespaceSplit", "Metaspace"] if prepends(pre_tokenizer[1]) => Self::Spaced,
            // Collapsing spaces leaves one at a text's end, which only stripping takes away.
            ["Metaspace"] if pre_tokenizer[0]["split"] != false && collapses == strips => {
                // `first` marks the start of the text, which is where a window tokenized alone starts too.
                let scheme = pre_tokenizer[0]["prepend_scheme"].as_str();
                if prepends(pre_tokenizer[0]) || scheme == Some("first") { Self::Metaspace } else { Self::Unknown }
            }
            ["ByteLevel"] if pre_tokenizer[0]["use_regex"] != false => Self::ByteLevel,
            _ => Self::Unknown,
        }
    }

    /// Whether the text may be cut at this byte, which must lie on a character boundary.
    pub(super) fn is_safe(self, text: &str, byte: usize) -> bool {
        let Some(before) = text[..byte].chars().next_back() else { return true };
        let Some(after) = text[byte..].chars().next() else { return true };
        match self {
            Self::Bert { punctuation, han } => {
                let alone = |c: char| (punctuation && is_punctuation(c)) || (han && is_han(c));
                is_bert_space(before) || is_bert_space(after) || alone(before) || alone(after)
            }
            Self::Spaced => is_plain_space(before) || is_plain_space(after),
            Self::Metaspace => {
                // Other white space at a segment's end would be stripped there, but not in the middle of a window.
                let last = text[..byte].trim_end_matches(' ').chars().next_back();
                (after == ' ' || (before == ' ' && starts_word(after))) && !last.is_some_and(char::is_whitespace)
            }
            Self::ByteLevel => !before.is_whitespace() && is_plain_space(after),
            Self::Unknown => false,
        }
    }

    /// The first safe byte in `from..=to`.
    pub(super) fn next_safe(self, text: &str, from: usize, to: usize) -> Option<usize> {
        if self == Self::Unknown {
            return [from, to].into_iter().find(|byte| *byte == 0 || *byte == text.len());
        }
        let inside = text[from..to].char_indices().map(|(offset, _)| from + offset);
        inside.chain([to]).find(|byte| self.is_safe(text, *byte))
    }

    /// The last safe byte in `from..=to`.
    pub(super) fn last_safe(self, text: &str, from: usize, to: usize) -> Option<usize> {
        if self == Self::Unknown {
            return [to, from].into_iter().find(|byte| *byte == 0 || *byte == text.len());
        }
        let inside = text[from..to].char_indices().rev().map(|(offset, _)| from + offset);
        [to].into_iter().chain(inside).find(|byte| self.is_safe(text, *byte))
    }
}

/// The steps of a normalizer or pre-tokenizer, whether it is one or a `Sequence`.
fn kinds<'json>(step: &'json Value, list: &str) -> Vec<&'json Value> {
    match (kind(step), step[list].as_array()) {
        ("Sequence", Some(steps)) => steps.iter().flat_map(|step| kinds(step, list)).collect(),
        ("", _) => Vec::new(),
        _ => vec![step],
    }
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or_default()
}

/// White space that every tokenizer in use treats as such.
const fn is_plain_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\r')
}

/// What BERT's normalizer turns into a space; other white space (U+0085, U+000B) it removes as a control character.
const fn is_bert_space(c: char) -> bool {
    is_plain_space(c) || matches!(c, '\u{a0}' | '\u{3000}')
}

/// Whether no normalizer turns this into white space, or into nothing: behind a space it starts a word for certain.
fn starts_word(c: char) -> bool {
    let becomes_space_and_mark = matches!(c, '\u{37a}' | '\u{fe70}'..='\u{fe7f}');
    (c.is_alphanumeric() && !becomes_space_and_mark)
        || c.is_ascii_punctuation()
        || matches!(c, '«' | '»' | '¿' | '¡' | '–' | '—' | '\u{2018}'..='\u{201f}' | '\u{3008}'..='\u{3011}')
}

/// A part of what BERT takes for punctuation: the marks that end sentences and quotes.
const fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(c, '\u{2018}'..='\u{201f}' | '\u{2026}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}')
        || matches!(c, '\u{ff01}' | '\u{ff08}' | '\u{ff09}' | '\u{ff0c}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}')
}

/// The Han characters that BERT's normalizer sets apart, but for the rare planes.
const fn is_han(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}')
}
