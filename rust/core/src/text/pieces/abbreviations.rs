//! Abbreviations: full stops that may not end a sentence, and words that show whether they did.
//!
//! The tables are facts of ordinary writing, by language. All apply to every page, because a page's language is unknown
//! here. A word is listed only if it is not a common word of another language that often ends a sentence.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::marks::{is_han_or_kana, is_opening};

/// When a full stop after an abbreviation ends a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbbreviationRule {
    /// Never: a name follows (`Dr. Smith`).
    Never,
    /// Unless a number follows (`No. 5`, but `He said no.`).
    UnlessNumber,
    /// Only before a word that starts sentences (`at 5 p.m. The train`).
    BeforeOpener,
}

/// Separated by spaces. Entries with a lower-case first letter also match a capital one, but not the reverse.
const ABBREVIATIONS: &[(AbbreviationRule, &str)] = &[
    // English
    (
        AbbreviationRule::Never,
        "Mr Mrs MR MRS DR Ms Mx Dr Drs Prof Messrs Mt Ft Gen Col Sgt Capt Lt Cmdr Maj Cpl Pvt Adm Rev Hon",
    ),
    (AbbreviationRule::Never, "Gov Sen Rep Pres Supt Fr vs e.g i.e viz cf approx"),
    (
        AbbreviationRule::UnlessNumber,
        "no nos fig figs eq eqs sec secs ch chap vol vols pp pg art est ver ed ext min max app par",
    ),
    (AbbreviationRule::UnlessNumber, "para op pt tel circa"),
    (
        AbbreviationRule::BeforeOpener,
        "etc al St Ave Blvd Rd Inc Ltd Co Corp Bros LLC Jr Sr Esq Ph.D dept Dept Univ Assn ft lb",
    ),
    (
        AbbreviationRule::BeforeOpener,
        "lbs oz Calif Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur",
    ),
    (AbbreviationRule::BeforeOpener, "Thurs Fri"),
    // Titles, names and labels
    (AbbreviationRule::Never, "Wm Geo Brig Asst Msgr Cdr Atty Amb excl incl"),
    (AbbreviationRule::UnlessNumber, "eqn eqns thm thms suppl hwy apt ref refs sect sch prop lem cl exod"),
    // German
    (AbbreviationRule::Never, "bzw vgl ggf evtl z.B d.h Hrsg Dipl Ing Hr Fr zzgl inkl insb sog"),
    (AbbreviationRule::UnlessNumber, "nr Abb Bd Abs Kap Tab Aufl ca Ziff Jg"),
    (
        AbbreviationRule::BeforeOpener,
        "usw u.a u.ä o.ä usf Str Mio Mrd Tsd Jh Jhd Jhdt v.Chr n.Chr Chr geb gest GmbH Hbf",
    ),
    // French
    (AbbreviationRule::Never, "MM Mme Mmes Mlle Mlles Mgr env p.ex av apr Ste"),
    // Spanish
    (AbbreviationRule::Never, "sr sra srta dra Ud Uds Vd Vds p.ej ej Lic Dña Excmo"),
    (AbbreviationRule::UnlessNumber, "pág págs núm núms aprox apdo"),
    (AbbreviationRule::BeforeOpener, "EE.UU EE UU Cía"),
    // Italian
    (AbbreviationRule::Never, "Sig Sigg sig.ra sig.na dott dott.ssa Ing Avv Arch Geom Mons"),
    (AbbreviationRule::UnlessNumber, "pag pagg artt cap"),
    (AbbreviationRule::BeforeOpener, "ecc"),
    // Portuguese
    (AbbreviationRule::Never, "srs sras V.Exa Exmo Exma Eng Dna"),
    // Dutch
    (AbbreviationRule::Never, "dhr mevr mw mr drs dr prof bijv d.w.z m.b.t m.a.w t.o.v"),
    (AbbreviationRule::BeforeOpener, "enz o.a"),
    // Polish
    (AbbreviationRule::Never, "rozdz tzw tzn"),
    // Czech
    (AbbreviationRule::Never, "tzv např tj"),
    // Ukrainian
    (AbbreviationRule::Never, "вул буд"),
    (AbbreviationRule::UnlessNumber, "стор"),
    // Finnish, Swedish, Danish, Norwegian
    (AbbreviationRule::Never, "esim bl.a t.ex f.eks"),
    // Romanian
    (AbbreviationRule::Never, "dl dvs"),
    (AbbreviationRule::UnlessNumber, "alin lit ap bl"),
    (AbbreviationRule::BeforeOpener, "ș.a ș.a.m.d etc d.Hr î.Hr"),
    // Turkish
    (AbbreviationRule::Never, "Doç Yrd Av Sn bkz örn"),
    (AbbreviationRule::BeforeOpener, "vb vd Cad Sok Mah Şti"),
    // Greek
    (AbbreviationRule::Never, "π.χ δηλ βλ Αγ κ.ά Δρ κα κος κ.κ δις"),
    (AbbreviationRule::UnlessNumber, "σελ αρ παρ αριθ τηλ αιτ"),
    (AbbreviationRule::BeforeOpener, "κ.λπ κλπ κ.τ.λ κτλ π.Χ μ.Χ Χρ"),
    // Russian
    (AbbreviationRule::Never, "им ул просп пер напр ср акад проф св т.е т.н г-н тов ред"),
    (AbbreviationRule::UnlessNumber, "стр рис гл табл ст кн кв руб коп тыс млн млрд чел см мин"),
    (AbbreviationRule::BeforeOpener, "т.д т.п др пр гг вв обл"),
    // Vietnamese
    (AbbreviationRule::Never, "TP ThS TS GS PGS PGS.TS GS.TS Tp"),
    (AbbreviationRule::UnlessNumber, "tr"),
    // Indonesian and Malay
    (AbbreviationRule::Never, "Jl Bpk Yth Sdr Sdri Drs Dra Ir Hj Kel Kec"),
    (AbbreviationRule::UnlessNumber, "tgl hlm hal"),
    (AbbreviationRule::BeforeOpener, "dll dsb dst dkk PT"),
    // Swahili
    (AbbreviationRule::Never, "Bw Bi Dkt Mhe k.m"),
    (AbbreviationRule::UnlessNumber, "Sh uk"),
    (AbbreviationRule::BeforeOpener, "n.k k.k"),
    // Hindi, and its spelling of Latin letters in initials
    (AbbreviationRule::Never, "डॉ प्रो पं मो मु श्री स्व कु सुश्री बी सी डी एफ एच जे के एल एम एन पी आर एस टी यू वी डब्ल्यू"),
    (AbbreviationRule::Never, "रु सं पृ क्र कि.मी"),
    // Bengali
    (AbbreviationRule::Never, "ডা মো মোঃ মি প্রো অধ্যা"),
    (AbbreviationRule::Never, "নং পৃ রু কি.মি"),
    // Tamil, and its spelling of Latin letters
    (AbbreviationRule::Never, "திரு திருமதி பேரா எம் எஸ் என் ஆர் எல் ஜி டி பி"),
    (AbbreviationRule::UnlessNumber, "ரூ எண் பக் கி.மீ கி.பி கி.மு"),
];

/// Words that start sentences and are hardly ever names.
const OPENERS: &[&str] = &[
    // English
    "The It He She They We You In On At This That These Those But And However A An If When While As For From",
    "There Then His Her Its Their Our My After Before Although By To With What Why How So Since Some Many Most",
    "Not Or Also During Meanwhile I Is Are Was Were Please Today Here Moreover According Another Nor",
    // German
    "Er Sie Es Wir Ich Dies Diese Dieser Dieses Im Am Bei Mit Aber Und Auch Wenn Als Nach Seit Das Ein Eine Da",
    "Doch Für Daher Jedoch",
    // French
    "Il Elle Ils Elles Nous Vous Ce Cette Ces C Dans Mais Pour Les Un Une",
    // Spanish, Italian, Portuguese
    "Los Las Una Este Esta Pero Cuando También Gli Nel Questo Questa Ma Ele Ela Os Mas Quando Em No Na Não En",
    // Dutch
    "Het Een Hij Zij Wij Dit Deze Maar Toen",
    // Turkish
    "Bu Bir Ancak Ama Ve O",
    // Greek
    "Ο Η Το Οι Τα Αυτό Αυτή Αλλά Και Στη Στην Στο",
    // Vietnamese, without words that are often names
    "Ông Tôi Chúng Họ Đây Đó Khi Trong Nếu Vì Nhưng Và Tại Theo Sau Trước Từ Ở Các Những Không Với Đến Tuy Vào Do",
    // Indonesian
    "Dia Ini Itu Mereka Kami Kita Saya Pada Di Dengan Untuk Tetapi Namun Setelah Karena Ketika Jika Mengapa Apa",
    // Swahili
    "Kwa Katika Lakini Baada Hata Hii Huu Yeye Wao Ni Pia Hivyo",
    // Russian
    "Он Она Оно Они Это Этот Эта В На Но И А Мы Я Вы Как По После При Для Если Когда Также Однако Его Их За С К",
    "Из У О",
];

/// Words that start sentences and also parts of names (`J. Le Carré`). They count only after full abbreviations.
const OPENERS_IN_NAMES: &[&str] = &["Der", "Die", "Den", "De", "Le", "La", "El", "Lo", "L"];

/// Nouns after German and Turkish ordinals: `3. Oktober` is a date, `II. Mehmed` a sultan.
const ORDINAL_NOUNS: &[&str] = &[
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Mär Apr",
    "Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jhd Klasse Platz Weltkrieg",
    "Weltkriegs Auflage Geburtstag Jahrestag Mal Etage Stock Liga Bundesliga Armee Division Regiment Bezirk",
    "Kapitel",
    // Turkish nouns, and sultans
    "Dünya Yüzyıl Sınıf Ordu Kolordu Tümen Bölge Sokak Cadde Madde Bölüm Lig Dönem Cumhurbaşkanı Meclis Murad Mehmed",
    "Bayezid Selim Süleyman Osman Mustafa Ahmed Mahmud Abdülhamid Abdülaziz Abdülmecid",
];

static RULES: LazyLock<HashMap<&str, AbbreviationRule>> = LazyLock::new(|| {
    ABBREVIATIONS.iter().flat_map(|&(rule, words)| words.split(' ').map(move |word| (word, rule))).collect()
});
static OPENER_SET: LazyLock<HashSet<&str>> =
    LazyLock::new(|| OPENERS.iter().flat_map(|words| words.split(' ')).collect());

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
        return Some(AbbreviationRule::Never);
    }
    is_initials(word).then_some(AbbreviationRule::BeforeOpener)
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

/// Whether a text starts a new sentence after an abbreviation.
pub(super) fn starts_sentence(abbreviation: &str, text: &str) -> bool {
    let (word, after) = first_word(text);
    // `J. A. Smith`: another initial. `Cad. No. 5`: another abbreviation.
    if after.starts_with('.')
        && (word.chars().nth(1).is_none() || rule_of(word) == Some(AbbreviationRule::UnlessNumber))
    {
        return false;
    }
    let is_initial = abbreviation.chars().nth(1).is_none() && abbreviation.starts_with(char::is_uppercase);
    // A single capital after an initial is probably the next one, without its full stop.
    if is_initial && word.chars().nth(1).is_none() {
        return word == "A" || word == "I";
    }
    OPENER_SET.contains(word) || (!is_initial && OPENERS_IN_NAMES.contains(&word))
}

/// Whether a text starts with a number, also a Roman one of two letters or more: `IX`.
pub(super) fn starts_with_number(text: &str) -> bool {
    let (word, _) = first_word(text);
    let is_roman = word.len() > 1 && word.bytes().all(|byte| b"IVXLC".contains(&byte));
    text.starts_with(|c: char| c.is_ascii_digit()) || is_roman
}

pub(super) fn starts_with_ordinal_noun(text: &str) -> bool {
    let (word, _) = first_word(text);
    ORDINAL_NOUNS.iter().any(|nouns| nouns.split(' ').any(|noun| noun == word))
}

/// Splits after the letters that a text starts with, at most 16: more than any word of the tables has.
fn first_word(text: &str) -> (&str, &str) {
    let end = text.char_indices().take(16).find(|(_, c)| !c.is_alphabetic()).map(|(at, _)| at);
    text.split_at(end.unwrap_or_else(|| text.char_indices().nth(16).map_or(text.len(), |(at, _)| at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_abbreviation_is_short_enough_to_be_found() {
        for word in ABBREVIATIONS.iter().flat_map(|(_, words)| words.split(' ')) {
            assert!(word.len() <= MAX_BYTES && !word.ends_with('.'), "{word}");
        }
    }

    #[test]
    fn languages_agree_on_the_words_they_share() {
        for &(rule, words) in ABBREVIATIONS {
            for word in words.split(' ') {
                assert_eq!(RULES[word], rule, "{word}");
            }
        }
    }

    #[test]
    fn lower_case_entries_match_capitals_but_not_the_reverse() {
        assert_eq!(rule_of("Vgl"), Some(AbbreviationRule::Never));
        assert_eq!(rule_of("Dec"), Some(AbbreviationRule::BeforeOpener));
        assert_eq!(rule_of("mar"), None);
        assert_eq!(rule_of("U.S"), Some(AbbreviationRule::BeforeOpener));
        assert_eq!(rule_of("Smith"), None);
        assert_eq!(rule_of(""), None);
    }

    #[test]
    fn initials_in_scripts_without_capitals_end_no_sentence() {
        for word in ["ד", "א.ב", "ه\u{200d}.ش", "ड", "ড", "மு", "కె"] {
            assert_eq!(rule_of(word), Some(AbbreviationRule::Never), "{word}");
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
