//! Abbreviations: full stops that may not end a sentence, and the words that show that they did.
//!
//! The tables hold facts of ordinary writing, by language; a page's language is not known, so all of them apply to every
//! page. A word stands here only where it is no common word of another language that often ends a sentence.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::marks::is_opening;

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
    (Ends::Never, "Sra Srta Dra Ud Uds Vd Vds p.ej ej Lic Dña Excmo"),
    (Ends::UnlessNumber, "pág págs núm núms aprox"),
    (Ends::BeforeOpener, "EE.UU EE UU Cía"),
    // Italian
    (Ends::Never, "Sig Sigg Sig.ra Dott Dott.ssa Ing Avv Arch Geom Mons"),
    (Ends::UnlessNumber, "pag pagg artt cap"),
    (Ends::BeforeOpener, "ecc"),
    // Portuguese
    (Ends::Never, "Srs Sras V.Exa Exmo Exma Eng Dna"),
    // Dutch
    (Ends::Never, "dhr mevr mw mr drs dr prof bijv d.w.z m.b.t m.a.w t.o.v"),
    (Ends::BeforeOpener, "enz o.a"),
    // Romanian
    (Ends::Never, "dl dvs"),
    (Ends::BeforeOpener, "ș.a etc"),
    // Turkish
    (Ends::Never, "Doç Yrd Av Sn bkz örn"),
    (Ends::BeforeOpener, "vb vd Cad Sok Mah Şti"),
    // Greek
    (Ends::Never, "π.χ δηλ βλ Αγ κ.ά"),
    (Ends::UnlessNumber, "σελ αρ"),
    (Ends::BeforeOpener, "κ.λπ κλπ κ.τ.λ κτλ π.Χ μ.Χ Χρ"),
    // Russian
    (Ends::Never, "им ул просп пер напр ср акад проф св т.е т.н г-н тов ред"),
    (Ends::UnlessNumber, "стр рис гл табл ст кн"),
    (Ends::BeforeOpener, "т.д т.п др пр гг вв руб коп тыс млн млрд чел см мин обл"),
    // Vietnamese
    (Ends::Never, "TP ThS TS GS PGS Tp"),
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
    // Russian
    "Он Она Оно Они Это Этот Эта В На Но И А Мы Я Вы Как По После При Для Если Когда Также Однако Его Их За С К",
    "Из У О",
];

/// Words that open sentences and also begin names (`J. Le Carré`), so that they count only behind whole abbreviations.
const OPENERS_IN_NAMES: &[&str] = &["Der", "Die", "Den", "De", "Le", "La", "El", "Lo", "L"];

/// What a German number with a full stop counts: `3. Oktober` is a date.
const COUNTED: &[&str] = &[
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Mär Apr",
    "Jun Jul Aug Sep Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jhd Klasse Platz Weltkrieg",
    "Weltkriegs Auflage Geburtstag Jahrestag Mal Etage Stock Liga Bundesliga Armee Division Regiment Bezirk",
    "Kapitel",
];

static ENDS: LazyLock<HashMap<&str, Ends>> = LazyLock::new(|| {
    ABBREVIATIONS.iter().flat_map(|&(ends, words)| words.split(' ').map(move |word| (word, ends))).collect()
});
static OPENER_SET: LazyLock<HashSet<&str>> =
    LazyLock::new(|| OPENERS.iter().flat_map(|words| words.split(' ')).collect());

/// The bytes of the longest abbreviation that is looked up, its inner full stops counted.
const LONGEST: usize = 20;

/// The last word of a text: what is behind its last space, opening mark or dash; empty where that is far.
pub(super) fn last_word(text: &str) -> &str {
    let bounds = |c: char| c.is_whitespace() || is_opening(c) || matches!(c, '"' | '\'' | '’' | '/' | '-' | '–' | '—');
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
    is_initials(word).then_some(Ends::BeforeOpener)
}

/// Whether these are single letters with full stops between them: `J`, `U.S`, `a.m`.
fn is_initials(word: &str) -> bool {
    word.split('.').all(|part| {
        let mut letters = part.chars();
        letters.next().is_some_and(|c| c.is_lowercase() || c.is_uppercase()) && letters.next().is_none()
    })
}

/// Whether a text starts with a word that opens a sentence behind an abbreviation.
pub(super) fn opens_sentence(abbreviation: &str, text: &str) -> bool {
    let (word, rest) = first_word(text);
    // `J. A. Smith`: another initial.
    if rest.starts_with('.') && word.chars().nth(1).is_none() {
        return false;
    }
    let is_initial = abbreviation.chars().nth(1).is_none() && abbreviation.starts_with(char::is_uppercase);
    // A lone capital behind an initial is likelier the next one, its full stop forgotten.
    if is_initial && word.chars().nth(1).is_none() {
        return word == "A" || word == "I";
    }
    OPENER_SET.contains(word) || (!is_initial && OPENERS_IN_NAMES.contains(&word))
}

/// Whether a text starts with what a German number with a full stop counts.
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
    fn a_second_initial_opens_no_sentence() {
        assert!(!opens_sentence("J", "A. Smith"));
        assert!(!opens_sentence("J", "Le Carré"));
        assert!(opens_sentence("U.S", "The end"));
        assert!(opens_sentence("etc", "La suite"));
    }
}
