//! Abbreviations: full stops that may not end a sentence, and words that show whether they did.
//!
//! `abbreviations.txt` has the words, by language. All apply to every page, because a page's language is unknown here.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub(super) use super::labels::first_word;
use super::labels::{LONGEST_WORD, is_labelled, starts_with_letter, starts_with_number};
use super::marks::{is_han_or_kana, is_opening};

/// When a full stop after an abbreviation ends a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbbreviationRule {
    /// Never: a name follows (`Dr. Smith`).
    Name,
    /// Unless a number, a numeral or a letter follows (`Fig. 3`, `vol. IX`, `cl. A`).
    Label,
    /// Unless a number follows (`No. 5`, but `He said no. I left.`).
    Word,
    /// Unless the citation continues (`Fed. R. Civ. P. 12`, `Cal. Civ. Code § 5`).
    Citation,
    /// Only before a word that starts sentences (`at 5 p.m. The train`).
    MayEnd,
}

/// What other words show about a full stop.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum WordClass {
    /// Starts sentences, and is hardly ever a name.
    Opener,
    /// Starts sentences, and is also part of names.
    OpenerInNames,
    /// Starts sentences, and is also part of names in code: `List.Add`.
    OpenerInCode,
    /// Before an ordinal: `der 1. FC`.
    Article,
    /// After an ordinal: `3. Oktober`.
    OrdinalNoun,
    /// In a citation, after an abbreviation.
    Law,
    /// A name that ends in `!` or `?`.
    Exclaimed,
    /// A noun before a single letter: `plan B`.
    Lettered,
}

const TABLE: &str = include_str!("abbreviations.txt");

/// The lines of the table: a class and its words.
fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "))
}

fn rule(class: &str) -> Option<AbbreviationRule> {
    Some(match class {
        "name" => AbbreviationRule::Name,
        "label" => AbbreviationRule::Label,
        "word" => AbbreviationRule::Word,
        "cite" => AbbreviationRule::Citation,
        "may-end" => AbbreviationRule::MayEnd,
        _ => return None,
    })
}

fn word_class(class: &str) -> Option<WordClass> {
    Some(match class {
        "opener" => WordClass::Opener,
        "opener-in-names" => WordClass::OpenerInNames,
        "opener-in-code" => WordClass::OpenerInCode,
        "article" => WordClass::Article,
        "ordinal" => WordClass::OrdinalNoun,
        "law" => WordClass::Law,
        "exclaimed" => WordClass::Exclaimed,
        "lettered" => WordClass::Lettered,
        _ => return None,
    })
}

static RULES: LazyLock<FxHashMap<&str, AbbreviationRule>> = LazyLock::new(|| {
    let lines = table().filter_map(|(class, words)| Some((rule(class)?, words)));
    lines.flat_map(|(rule, words)| words.split(' ').map(move |word| (word, rule))).collect()
});

/// The classes of each word, one bit each.
static CLASSES: LazyLock<FxHashMap<&str, u8>> = LazyLock::new(|| {
    let mut classes = FxHashMap::default();
    for (class, words) in table().filter_map(|(class, words)| Some((word_class(class)?, words))) {
        for word in words.split(' ') {
            *classes.entry(word).or_default() |= 1 << class as u8;
        }
    }
    classes
});

/// Whether the table lists a word in a class.
pub(super) fn is_word_of(class: WordClass, word: &str) -> bool {
    CLASSES.get(word).is_some_and(|classes| classes & (1 << class as u8) != 0)
}

/// Bytes of the longest abbreviation, with its inner full stops.
const MAX_BYTES: usize = 24;

/// The last word of a text: the part after the last space, opening mark or dash. Empty if it is longer than an
/// abbreviation.
pub(super) fn last_word(text: &str) -> &str {
    let bounds = |c: char| {
        c.is_whitespace() || is_opening(c) || is_han_or_kana(c) || matches!(c, '"' | '\'' | '’' | '/' | '-' | '–' | '—')
    };
    let mut start = text.len();
    for c in text.chars().rev() {
        if bounds(c) {
            break;
        }
        start -= c.len_utf8();
        if text.len() - start > MAX_BYTES {
            return "";
        }
    }
    &text[start..]
}

/// The rule for a word, passed without its full stop; `None` if it is not an abbreviation.
pub(super) fn rule_of(word: &str) -> Option<AbbreviationRule> {
    let first = word.chars().next()?;
    if word.len() > MAX_BYTES {
        return None;
    }
    if let Some(&rule) = RULES.get(word) {
        return Some(rule);
    }
    if first.is_uppercase() {
        let lowercase: String = first.to_lowercase().chain(word.chars().skip(1)).collect();
        if let Some(&rule) = RULES.get(lowercase.as_str()) {
            return Some(rule);
        }
    }
    if is_caseless_initials(word) {
        return Some(AbbreviationRule::Name);
    }
    // A German street: `Goethestr. 5`.
    if word.ends_with("str") && word.len() > 5 {
        return Some(AbbreviationRule::Label);
    }
    // A Czech doctor: `JUDr`.
    if word.ends_with("Dr") {
        return Some(AbbreviationRule::Name);
    }
    (is_initials(word) || is_vowelless(word)).then_some(AbbreviationRule::MayEnd)
}

/// Whether a word has a capital, then only consonants: a title or a contraction in any language (`Mgr`, `Sgt`, `Пл`).
///
/// Not with `r` or `l` between consonants, which make syllables in Slavic names (`Brno`, `Krk`).
fn is_vowelless(word: &str) -> bool {
    let is_consonant = |c: char| match c {
        'a'..='z' => !matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y'),
        'а'..='я' => !matches!(c, 'а' | 'е' | 'и' | 'о' | 'у' | 'ы' | 'э' | 'ю' | 'я' | 'ь' | 'ъ' | 'й'),
        _ => false,
    };
    let mut chars = word.chars();
    let Some(first) = chars.next().filter(|c| c.is_uppercase()).and_then(|c| c.to_lowercase().next()) else {
        return false;
    };
    let rest = chars.as_str();
    let inside = rest.char_indices().next_back().map_or("", |(at, _)| &rest[..at]);
    is_consonant(first)
        && (1..=4).contains(&rest.chars().count())
        && rest.chars().all(is_consonant)
        && !inside.contains(['r', 'l', 'р', 'л'])
}

/// Single letters separated by full stops: `J`, `U.S`, `a.m`.
fn is_initials(word: &str) -> bool {
    word.split('.').all(|part| {
        let mut letters = part.chars();
        letters.next().is_some_and(|c| c.is_lowercase() || c.is_uppercase()) && letters.next().is_none()
    })
}

/// Single letters of a script without capitals, where no capital shows the start of a sentence: `ד`, `ه‍.ش`. In South
/// Indian scripts also syllables, because initials are spelled by sound: `மு`.
fn is_caseless_initials(word: &str) -> bool {
    word.split('.').all(|part| {
        let mut letters = part.chars().filter(|c| !matches!(c, '\u{200c}' | '\u{200d}'));
        let Some(first) = letters.next() else { return false };
        // Unicode orders each Indic block alike: letters, then vowel signs.
        let offset = u32::from(first) % 0x80;
        let is_letter = match first {
            '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{64a}' | '\u{671}'..='\u{6d3}' => true,
            '\u{900}'..='\u{d7f}' => (0x05..=0x39).contains(&offset),
            _ => false,
        };
        let is_vowel_sign = |c| (0x3e..=0x57).contains(&(u32::from(c) % 0x80));
        is_letter
            && match letters.next() {
                None => true,
                Some(sign) => {
                    ('\u{b80}'..='\u{d7f}').contains(&first) && is_vowel_sign(sign) && letters.next().is_none()
                }
            }
    })
}

/// Whether a text ends in a Thai or Lao abbreviation, which is consonants only: `พ.ศ`, and after a space `ดร`.
pub(super) fn ends_in_consonants(text: &str) -> bool {
    let is_consonant = |c: char| matches!(c, '\u{e01}'..='\u{e2e}' | '\u{e81}'..='\u{eae}');
    let mut parts = text.rsplit('.');
    let last = parts.next().unwrap_or_default();
    let start = last.char_indices().rev().take(5).take_while(|&(_, c)| is_consonant(c)).last().map(|(at, _)| at);
    let Some(start) = start.filter(|&start| last[start..].chars().nth(4).is_none()) else { return false };
    match last[..start].chars().next_back() {
        Some(before) => before.is_whitespace() || is_opening(before) || before.is_ascii_digit(),
        None => parts.next().is_none_or(|part| part.ends_with(is_consonant)),
    }
}

/// Whether the full stop after an abbreviation ends a sentence, with `after` following.
///
/// `sentence` ends in the abbreviation. In a text without capitals, the first letter of `after` may be any.
pub(super) fn ends(rule: AbbreviationRule, sentence: &str, word: &str, after: &str, has_capitals: bool) -> bool {
    match rule {
        // After a number it is a unit: `5 см. Затем`; but `3 bd. Foch`.
        AbbreviationRule::Name => {
            has_capitals
                && (!word.is_ascii() || word == "hl")
                && sentence[..sentence.len() - word.len()].trim_end().ends_with(|c: char| c.is_ascii_digit())
        }
        AbbreviationRule::Label => !is_labelled(after) && next_rule(after) != Some(AbbreviationRule::Label),
        AbbreviationRule::Word => !starts_with_number(after) && !starts_with_letter(after),
        AbbreviationRule::Citation => {
            let is_cited = match next_rule(after) {
                Some(AbbreviationRule::Name) | None => is_word_of(WordClass::Law, first_word(after).0),
                Some(_) => true,
            };
            !is_cited && !is_labelled(after)
        }
        AbbreviationRule::MayEnd if has_capitals => starts_sentence(word, after),
        AbbreviationRule::MayEnd => starts_sentence(word, &capitalized(after)),
    }
}

/// The rule of the abbreviation that a text starts with.
fn next_rule(text: &str) -> Option<AbbreviationRule> {
    let (word, after) = first_word(text);
    if after.starts_with('.') { rule_of(word) } else { None }
}

/// Whether a word starts sentences.
pub(crate) fn is_opener(word: &str) -> bool {
    is_word_of(WordClass::Opener, word) || is_word_of(WordClass::OpenerInCode, word)
}

/// Whether a text starts a new sentence after an abbreviation.
fn starts_sentence(abbreviation: &str, text: &str) -> bool {
    let (word, after) = first_word(text);
    // `J. A. Smith`: another initial. `Cad. No. 5`: another abbreviation.
    if after.starts_with('.') && (word.chars().nth(1).is_none() || rule_of(word).is_some()) {
        return false;
    }
    let is_initial = abbreviation.chars().nth(1).is_none() && abbreviation.starts_with(char::is_uppercase);
    // A single capital after an initial is probably the next one, without its full stop.
    if is_initial && word.chars().nth(1).is_none() {
        return word == "A" || word == "I";
    }
    is_opener(word) || (!is_initial && is_word_of(WordClass::OpenerInNames, word))
}

/// Whether an unknown word before a full stop is probably an abbreviation, by the numbers around it: `Exod. 20:3`,
/// `cond. 4.1.`, `See Obs. 3.`, `12 Harv. L. Rev. 5`. `label` is the sentence before it.
pub(super) fn is_short_for_reference(label: &str, word: &str, after: &str) -> bool {
    let is_capitalized = word.starts_with(char::is_uppercase);
    let letters = word.chars().count();
    if !(2..=6).contains(&letters) || !word.chars().skip(1).all(char::is_lowercase) {
        return false;
    }
    let number = &after[..after.bytes().take(12).take_while(|b| b.is_ascii_digit() || b"-.:".contains(b)).count()];
    let digits = number.trim_end_matches(['.', ':', '-']);
    if digits.is_empty() {
        let is_numbered = label.trim_end().ends_with(|c: char| c.is_ascii_digit());
        return is_capitalized && is_numbered && next_rule(after).is_some();
    }
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_verse = is_capitalized && digits.contains(':') && digits.len() <= 7;
    let is_inside = number.len() > digits.len() || matches!(after.as_bytes().get(number.len()), Some(b',' | b';'));
    let is_title = is_capitalized && !label.is_empty();
    is_verse || letters <= 5 && digits.len() <= 6 && is_inside && (!is_plain || is_title)
}

/// The start of a text with a capital first letter, long enough for the table.
fn capitalized(text: &str) -> String {
    let mut chars = text.chars().take(LONGEST_WORD);
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_has_a_class_and_words_short_enough_to_be_found() {
        for (class, words) in table() {
            assert!(rule(class).is_some() || word_class(class).is_some(), "{class}");
            for word in words.split(' ') {
                assert!(!word.is_empty() && word.len() <= MAX_BYTES && !word.ends_with('.'), "{class}: {word}");
            }
        }
    }

    #[test]
    fn languages_agree_on_the_words_they_share() {
        for (rule, words) in table().filter_map(|(class, words)| Some((rule(class)?, words))) {
            for word in words.split(' ') {
                assert_eq!(RULES[word], rule, "{word}");
            }
        }
    }

    #[test]
    fn lower_case_entries_match_capitals_but_not_the_reverse() {
        assert_eq!(rule_of("Vgl"), Some(AbbreviationRule::Name));
        assert_eq!(rule_of("Dec"), Some(AbbreviationRule::MayEnd));
        assert_eq!(rule_of("mar"), None);
        assert_eq!(rule_of("U.S"), Some(AbbreviationRule::MayEnd));
        assert_eq!(rule_of("Smith"), None);
        assert_eq!(rule_of(""), None);
    }

    #[test]
    fn initials_in_scripts_without_capitals_end_no_sentence() {
        for word in ["ד", "א.ב", "ه\u{200d}.ش", "ड", "ড", "மு", "కె"] {
            assert_eq!(rule_of(word), Some(AbbreviationRule::Name), "{word}");
        }
        // A Hindi syllable is more often a word: `है`.
        for word in ["है", "না", "שם", "من", "집", "我"] {
            assert_eq!(rule_of(word), None, "{word}");
        }
    }

    #[test]
    fn thai_and_lao_abbreviations_are_consonants() {
        for text in ["พ.ศ", "เมื่อพ.ศ", "นาย ดร", "ທ່ານ ດຣ", "(น.ส"] {
            assert!(ends_in_consonants(text), "{text}");
        }
        for text in ["", "มาก", "ไปโรงเรียน", " กกกกก", "ດີ", "a.b"] {
            assert!(!ends_in_consonants(text), "{text}");
        }
    }

    #[test]
    fn a_word_ends_where_chinese_or_japanese_begins() {
        assert_eq!(last_word("他是U.S"), "U.S");
        assert_eq!(last_word("the U.S"), "U.S");
        assert_eq!(last_word("(e.g"), "e.g");
    }

    #[test]
    fn a_second_initial_starts_no_sentence() {
        assert!(!starts_sentence("J", "A. Smith"));
        assert!(!starts_sentence("J", "Le Carré"));
        assert!(starts_sentence("U.S", "The end"));
        assert!(starts_sentence("etc", "La suite"));
        assert!(starts_sentence("etc", "No one") && !starts_sentence("Cad", "No. 5"));
    }
}
