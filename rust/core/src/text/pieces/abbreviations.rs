//! Abbreviations: full stops that may not end a sentence, and the words that show that they did.
//!
//! The tables hold facts of ordinary writing, by language; a page's language is not known, so all of them apply to every
//! page. A word stands here only where it is no common word of another language that often ends a sentence.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::marks::{is_han_or_kana, is_opening};

/// When a full stop behind an abbreviation ends a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Never: a name follows (`Dr. Smith`).
    Never,
    /// Unless a number follows (`No. 5`, but `He said no.`).
    UnlessNumber,
    /// Only where a word follows that opens sentences (`at 5 p.m. The train`).
    BeforeOpener,
}

/// Words, with a space between two. Those with a small first letter also match with a capital one; not the other way.
const ABBREVIATIONS: &[(Ends, &str)] = &[
    // English
    (Ends::Never, "Mr Mrs MR MRS DR Ms Mx Dr Drs Prof Messrs Mt Ft Gen Col Sgt Capt Lt Cmdr Maj Cpl Pvt Adm Rev Hon"),
    (Ends::Never, "Gov Sen Rep Pres Supt Fr vs e.g i.e viz cf approx"),
    (Ends::UnlessNumber, "no nos fig figs eq eqs sec secs ch chap vol vols pp pg art est ver ed ext min max app par"),
    (Ends::UnlessNumber, "para op pt tel circa"),
    (Ends::BeforeOpener, "etc al St Ave Blvd Rd Inc Ltd Co Corp Bros LLC Jr Sr Esq Ph.D dept Dept Univ Assn ft lb"),
    (Ends::BeforeOpener, "lbs oz Calif Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur"),
    (Ends::BeforeOpener, "Thurs Fri"),
    // German
    (Ends::Never, "bzw vgl ggf evtl z.B d.h Hrsg Dipl Ing Hr Fr zzgl inkl insb sog"),
    (Ends::UnlessNumber, "nr Abb Bd Abs Kap Tab Aufl ca Ziff Jg"),
    (Ends::BeforeOpener, "usw u.a u.ä o.ä usf Str Mio Mrd Tsd Jh Jhd Jhdt v.Chr n.Chr Chr geb gest GmbH Hbf"),
    // French
    (Ends::Never, "MM Mme Mmes Mlle Mlles Mgr env p.ex av apr Ste"),
    // Spanish
    (Ends::Never, "sr sra srta dra Ud Uds Vd Vds p.ej ej Lic Dña Excmo"),
    (Ends::UnlessNumber, "pág págs núm núms aprox apdo"),
    (Ends::BeforeOpener, "EE.UU EE UU Cía"),
    // Italian
    (Ends::Never, "Sig Sigg sig.ra sig.na dott dott.ssa Ing Avv Arch Geom Mons"),
    (Ends::UnlessNumber, "pag pagg artt cap"),
    (Ends::BeforeOpener, "ecc"),
    // Portuguese
    (Ends::Never, "srs sras V.Exa Exmo Exma Eng Dna"),
    // Dutch
    (Ends::Never, "dhr mevr mw mr drs dr prof bijv d.w.z m.b.t m.a.w t.o.v"),
    (Ends::BeforeOpener, "enz o.a"),
    // Romanian
    (Ends::Never, "dl dvs"),
    (Ends::UnlessNumber, "alin lit ap bl"),
    (Ends::BeforeOpener, "ș.a ș.a.m.d etc d.Hr î.Hr"),
    // Turkish
    (Ends::Never, "Doç Yrd Av Sn bkz örn"),
    (Ends::BeforeOpener, "vb vd Cad Sok Mah Şti"),
    // Greek
    (Ends::Never, "π.χ δηλ βλ Αγ κ.ά Δρ κα κος κ.κ δις"),
    (Ends::UnlessNumber, "σελ αρ παρ αριθ τηλ αιτ"),
    (Ends::BeforeOpener, "κ.λπ κλπ κ.τ.λ κτλ π.Χ μ.Χ Χρ"),
    // Russian
    (Ends::Never, "им ул просп пер напр ср акад проф св т.е т.н г-н тов ред"),
    (Ends::UnlessNumber, "стр рис гл табл ст кн кв руб коп тыс млн млрд чел см мин"),
    (Ends::BeforeOpener, "т.д т.п др пр гг вв обл"),
    // Vietnamese
    (Ends::Never, "TP ThS TS GS PGS PGS.TS GS.TS Tp"),
    (Ends::UnlessNumber, "tr"),
    // Indonesian and Malay
    (Ends::Never, "Jl Bpk Yth Sdr Sdri Drs Dra Ir Hj Kel Kec"),
    (Ends::UnlessNumber, "tgl hlm hal"),
    (Ends::BeforeOpener, "dll dsb dst dkk PT"),
    // Swahili
    (Ends::Never, "Bw Bi Dkt Mhe k.m"),
    (Ends::UnlessNumber, "Sh uk"),
    (Ends::BeforeOpener, "n.k k.k"),
    // Hindi, and how it spells the names of Latin letters, of which initials are made
    (Ends::Never, "डॉ प्रो पं मो मु श्री स्व कु सुश्री बी सी डी एफ एच जे के एल एम एन पी आर एस टी यू वी डब्ल्यू"),
    (Ends::Never, "रु सं पृ क्र कि.मी"),
    // Bengali
    (Ends::Never, "ডা মো মোঃ মি প্রো অধ্যা"),
    (Ends::Never, "নং পৃ রু কি.মি"),
    // Tamil, and how it spells the names of Latin letters
    (Ends::Never, "திரு திருமதி பேரா எம் எஸ் என் ஆர் எல் ஜி டி பி"),
    (Ends::UnlessNumber, "ரூ எண் பக் கி.மீ கி.பி கி.மு"),
];

/// Words that open sentences and are next to never a name.
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
    // Vietnamese, without those that are often names
    "Ông Tôi Chúng Họ Đây Đó Khi Trong Nếu Vì Nhưng Và Tại Theo Sau Trước Từ Ở Các Những Không Với Đến Tuy Vào Do",
    // Indonesian
    "Dia Ini Itu Mereka Kami Kita Saya Pada Di Dengan Untuk Tetapi Namun Setelah Karena Ketika Jika Mengapa Apa",
    // Swahili
    "Kwa Katika Lakini Baada Hata Hii Huu Yeye Wao Ni Pia Hivyo",
    // Russian
    "Он Она Оно Они Это Этот Эта В На Но И А Мы Я Вы Как По После При Для Если Когда Также Однако Его Их За С К",
    "Из У О",
];

/// Words that open sentences and also begin names (`J. Le Carré`), so that they count only behind whole abbreviations.
const OPENERS_IN_NAMES: &[&str] = &["Der", "Die", "Den", "De", "Le", "La", "El", "Lo", "L"];

/// What a German or Turkish number with a full stop counts: `3. Oktober` is a date, `II. Mehmed` a sultan.
const COUNTED: &[&str] = &[
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Mär Apr",
    "Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jhd Klasse Platz Weltkrieg",
    "Weltkriegs Auflage Geburtstag Jahrestag Mal Etage Stock Liga Bundesliga Armee Division Regiment Bezirk",
    "Kapitel",
    // Turkish: things, and sultans
    "Dünya Yüzyıl Sınıf Ordu Kolordu Tümen Bölge Sokak Cadde Madde Bölüm Lig Dönem Cumhurbaşkanı Meclis Murad Mehmed",
    "Bayezid Selim Süleyman Osman Mustafa Ahmed Mahmud Abdülhamid Abdülaziz Abdülmecid",
];

static ENDS: LazyLock<HashMap<&str, Ends>> = LazyLock::new(|| {
    ABBREVIATIONS.iter().flat_map(|&(ends, words)| words.split(' ').map(move |word| (word, ends))).collect()
});
static OPENER_SET: LazyLock<HashSet<&str>> =
    LazyLock::new(|| OPENERS.iter().flat_map(|words| words.split(' ')).collect());

/// The bytes of the longest abbreviation that is looked up, its inner full stops counted.
const LONGEST: usize = 24;

/// The last word of a text: what is behind its last space, opening mark or dash; empty where that is far.
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
        if text.len() - start > LONGEST {
            return "";
        }
    }
    &text[start..]
}

/// When a full stop behind this word ends a sentence; `None` where it is no abbreviation. The word comes without it.
pub(super) fn ends(word: &str) -> Option<Ends> {
    let first = word.chars().next()?;
    if word.len() > LONGEST {
        return None;
    }
    if let Some(&ends) = ENDS.get(word) {
        return Some(ends);
    }
    if first.is_uppercase() {
        let small: String = first.to_lowercase().chain(word.chars().skip(1)).collect();
        if let Some(&ends) = ENDS.get(small.as_str()) {
            return Some(ends);
        }
    }
    if is_caseless_initials(word) {
        return Some(Ends::Never);
    }
    is_initials(word).then_some(Ends::BeforeOpener)
}

/// Whether these are single letters with full stops between them: `J`, `U.S`, `a.m`.
fn is_initials(word: &str) -> bool {
    word.split('.').all(|part| {
        let mut letters = part.chars();
        letters.next().is_some_and(|c| c.is_lowercase() || c.is_uppercase()) && letters.next().is_none()
    })
}

/// Whether these are single letters of a script without capitals, where nothing tells whether a sentence begins behind
/// them: `ד`, `ه‍.ش`; in the south of India, syllables, since initials are written as they sound: `மு`.
fn is_caseless_initials(word: &str) -> bool {
    word.split('.').all(|part| {
        let mut letters = part.chars().filter(|c| !matches!(c, '\u{200c}' | '\u{200d}'));
        let Some(first) = letters.next() else { return false };
        // Unicode lays out each script of India in the same order: letters, then vowel signs.
        let place = u32::from(first) % 0x80;
        let is_letter = match first {
            '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{64a}' | '\u{671}'..='\u{6d3}' => true,
            '\u{900}'..='\u{d7f}' => (0x05..=0x39).contains(&place),
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

/// Whether a text ends with an abbreviation of Thai or Lao, which are consonants alone: `พ.ศ`, and behind a space `ดร`.
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

/// Whether a text starts with a word that opens a sentence behind an abbreviation.
pub(super) fn opens_sentence(abbreviation: &str, text: &str) -> bool {
    let (word, rest) = first_word(text);
    // `J. A. Smith`: another initial. `Cad. No. 5`: another abbreviation.
    if rest.starts_with('.') && (word.chars().nth(1).is_none() || ends(word) == Some(Ends::UnlessNumber)) {
        return false;
    }
    let is_initial = abbreviation.chars().nth(1).is_none() && abbreviation.starts_with(char::is_uppercase);
    // A lone capital behind an initial is likelier the next one, its full stop forgotten.
    if is_initial && word.chars().nth(1).is_none() {
        return word == "A" || word == "I";
    }
    OPENER_SET.contains(word) || (!is_initial && OPENERS_IN_NAMES.contains(&word))
}

/// Whether a text starts with what a number with a full stop counts.
pub(super) fn is_counted(text: &str) -> bool {
    let (word, _) = first_word(text);
    COUNTED.iter().any(|words| words.split(' ').any(|counted| counted == word))
}

/// The letters that a text starts with, up to more of them than any word of the tables has, and the rest.
fn first_word(text: &str) -> (&str, &str) {
    let end = text.char_indices().take(16).find(|(_, c)| !c.is_alphabetic()).map(|(at, _)| at);
    text.split_at(end.unwrap_or_else(|| text.char_indices().nth(16).map_or(text.len(), |(at, _)| at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_entry_is_too_long_to_be_looked_up() {
        for word in ABBREVIATIONS.iter().flat_map(|(_, words)| words.split(' ')) {
            assert!(word.len() <= LONGEST && !word.ends_with('.'), "{word}");
        }
    }

    #[test]
    fn languages_agree_on_the_words_they_share() {
        for &(ends, words) in ABBREVIATIONS {
            for word in words.split(' ') {
                assert_eq!(ENDS[word], ends, "{word}");
            }
        }
    }

    #[test]
    fn small_entries_match_capitals_but_not_the_other_way() {
        assert_eq!(ends("Vgl"), Some(Ends::Never));
        assert_eq!(ends("Dec"), Some(Ends::BeforeOpener));
        assert_eq!(ends("mar"), None);
        assert_eq!(ends("U.S"), Some(Ends::BeforeOpener));
        assert_eq!(ends("Smith"), None);
        assert_eq!(ends(""), None);
    }

    #[test]
    fn initials_of_scripts_without_capitals_end_nothing() {
        for word in ["ד", "א.ב", "ه\u{200d}.ش", "ड", "ড", "மு", "కె"] {
            assert_eq!(ends(word), Some(Ends::Never), "{word}");
        }
        // A syllable of Hindi is more often a word: `है`.
        for word in ["है", "না", "שם", "من", "집", "我"] {
            assert_eq!(ends(word), None, "{word}");
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
    fn a_second_initial_opens_no_sentence() {
        assert!(!opens_sentence("J", "A. Smith"));
        assert!(!opens_sentence("J", "Le Carré"));
        assert!(opens_sentence("U.S", "The end"));
        assert!(opens_sentence("etc", "La suite"));
        assert!(opens_sentence("etc", "No one") && !opens_sentence("Cad", "No. 5"));
    }
}
