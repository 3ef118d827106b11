//! Names, and lines that say who wrote the text below them, and when.

use super::stamps::{Stamp, is_day, stamp};
use crate::text::pieces::abbreviations::is_opener;

/// Bytes of the longest name of a speaker.
pub(super) const LONGEST_NAME: usize = 40;

/// Words of a name.
const MAX_NAME_WORDS: usize = 4;

/// Bytes of a line that has only a speaker and the time.
const LONGEST_NAME_LINE: usize = 60;

/// Bytes of a line that has only the day and the time.
const LONGEST_TIME_LINE: usize = 40;

/// Bytes of a line that says who wrote the text below it, and when.
const LONGEST_ATTRIBUTION: usize = 120;

/// What somebody did who is named in such a line.
const VERBS: [&str; 15] = [
    " wrote", " added a comment", " commented", " replied", " posted", " said", " asked", " answered", " schrieb",
    " a écrit", " escribió", " ha scritto", " escreveu", " schreef", " написал",
];

/// What stands before the name of the author of a post.
const POSTERS: [&str; 6] = ["Posted by ", "posted by ", "Asked by ", "Answered by ", "Written by ", "Reviewed by "];

/// Days before the time of a message, as apps write them.
const DAYS: [&str; 28] = [
    "today at", "yesterday at", "heute um", "gestern um", "aujourd’hui à", "aujourd'hui à", "hier à", "hoy a las",
    "ayer a las", "oggi alle", "ieri alle", "hoje às", "ontem às", "vandaag om", "gisteren om", "dzisiaj o",
    "wczoraj o", "сегодня в", "вчера в", "今日", "昨日", "今天", "昨天", "오늘", "yesterday", "gestern", "hier",
    "ayer",
];

/// What stands before the name of an author.
const AUTHORS: [&str; 14] = [
    "Author", "Autor", "Autora", "Auteur", "Autore", "Автор", "User", "Usuario", "Usuário", "Benutzer", "Verfasser",
    "Napisał", "Napisała", "Posted by",
];

/// What stands after the name in the line above a post.
const BYLINE_JOINTS: [&str; 9] = ["  ", ", ", " (", " | ", " » ", " • ", " · ", " – ", " — "];

/// Bytes of the label of a field: `Verfasst am`.
const LONGEST_LABEL: usize = 24;

/// What stands between a speaker and the time.
const JOINTS: [char; 9] = [' ', '\t', '-', '–', '—', '|', ',', '•', '»'];

/// Whether a line says who wrote the text below it, and when: `Ann wrote on 3 May 2024:`, `On 3 May 2024, Ann wrote:`,
/// `ann • 3 hours ago`.
pub(in crate::text::pieces) fn is_attribution(text: &str) -> bool {
    // `ann 3 hours ago | parent | next`
    let past = (text.len() <= LONGEST_ATTRIBUTION).then(|| text.find(" ago | ")).flatten();
    let text = past.map_or(text, |at| &text[..at + " ago".len()]);
    let is_past = text.ends_with(" ago");
    if text.len() > LONGEST_ATTRIBUTION
        || !is_past && !text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | 'M' | 'm' | ')'))
        || !text.bytes().any(|byte| byte.is_ascii_digit())
    {
        return false;
    }
    let is_verb = |verb: &&str| {
        let after = text.find(*verb).map(|at| &text[at + verb.len()..]);
        after.is_some_and(|after| after.starts_with([' ', ':', ',']))
    };
    if POSTERS.iter().any(|poster| text.starts_with(poster)) && !text.contains(". ") {
        return true;
    }
    // Sentences have them, too, but no date and no colon at their end.
    let is_cut = || text.ends_with(':') || text.contains(" on ") || is_past;
    if VERBS.iter().any(is_verb) {
        return is_cut() || time_at_end(text).is_some();
    }
    if let Some((name, _)) = text.split_once(|c: char| c.is_ascii_digit()).filter(|_| is_past) {
        let name = name.trim_end_matches(JOINTS);
        return !name.contains(' ') && is_name(name, true) || is_person(name);
    }
    if let Some((name, day)) = text.rsplit_once(" on ") {
        return is_day(day) && is_name(name.trim_matches('*'), true);
    }
    false
}

/// Whether this is the line above a post: its number, a label, the name of the author, the day and the time:
/// `#2  ann_lee  Nov 21, 6:55 PM`, `Autor: ann | 03-06-2022, 17:40`. Months may be in any language.
pub(super) fn is_byline(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_digit() || matches!(c, 'M' | 'm' | ')' | ']' | ':');
    if text.len() > LONGEST_ATTRIBUTION || !text.ends_with(ends) {
        return false;
    }
    let number = text.strip_prefix('#').map(|text| text.trim_start_matches(|c: char| c.is_ascii_digit()));
    let text = number.unwrap_or(text).trim_start().trim_end_matches([':', ')', ']']);
    let text = text.split_once(": ").filter(|(label, _)| AUTHORS.contains(label)).map_or(text, |(_, rest)| rest);
    let name_end = BYLINE_JOINTS.into_iter().filter_map(|joint| text.find(joint)).min();
    let Some((name, date)) = name_end.map(|end| text.split_at(end)).filter(|_| text.len() <= LONGEST_ATTRIBUTION)
    else {
        return false;
    };
    let has_day = |time: usize| {
        date[..time].contains(|c: char| c.is_ascii_digit()) || stamp(&date[time..]).is_some_and(Stamp::is_dated)
    };
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let may_be_name = |name: &str| is_name(name, true) && !name.split(' ').any(is_number);
    time_at_end(date).is_some_and(has_day) && may_be_name(name.trim_matches('*'))
}

/// What follows the label of a field: `Ann` of `Author: Ann`.
pub(super) fn without_label(text: &str) -> &str {
    let is_label = |label: &str| {
        label.len() <= LONGEST_LABEL
            && label.starts_with(char::is_uppercase)
            && label.chars().all(|c| c.is_alphabetic() || c == ' ')
    };
    text.split_once(": ").filter(|(label, _)| is_label(label)).map_or(text, |(_, rest)| rest.trim_start())
}

/// Whether this is only a speaker and a time: `Ann Lee  10:07 AM`, `Ann — Today at 10:07`.
pub(super) fn is_name_line(text: &str) -> bool {
    if is_attribution(text) {
        return true;
    }
    if text.len() > LONGEST_NAME_LINE
        || !text.ends_with(|c: char| c.is_ascii_digit() || matches!(c, 'M' | 'm' | ')' | ']'))
    {
        return false;
    }
    let Some(time) = time_at_end(text) else { return false };
    let before = text[..time].trim_end();
    let without = |day: &str| {
        let start = before.len().checked_sub(day.len())?;
        before.get(start..).filter(|end| end.to_lowercase() == day).map(|_| before[..start].trim_end())
    };
    let name = DAYS.into_iter().find_map(without).unwrap_or(before);
    let name = name.trim_end_matches(JOINTS).trim_start_matches("by ");
    // A nick has no capitals: `ann — Today at 10:07`, `ann [10:07 AM]`.
    let is_nick = !name.contains(' ') && (name.len() < before.len() || text[time..].starts_with(['(', '[']));
    is_name(name.trim_matches('*'), is_nick)
}

/// Where the time starts that ends a text.
fn time_at_end(text: &str) -> Option<usize> {
    let is_begin = |at: usize| text[..at].ends_with([' ', '\t']);
    let starts = text.char_indices().filter(|(at, c)| *at > 0 && (c.is_ascii_digit() || matches!(c, '(' | '[')));
    let ends = |at: &usize| stamp(&text[*at..]).is_some_and(|stamp| at + stamp.end == text.len());
    starts.map(|(at, _)| at).filter(|at| is_begin(*at)).find(ends)
}

/// Whether this is only a time of day: `8:07 AM`, `Today at 10:07`, `Posted: 3 May 2024, 8:07`, and what forums say of the
/// author after it: `   Posts: 212`.
pub(super) fn is_time_line(line: &str) -> bool {
    let text = without_label(line.trim());
    let text = text.split_once("  ").filter(|(_, author)| author.contains(": ")).map_or(text, |(time, _)| time);
    if text.len() > LONGEST_TIME_LINE || !text.contains(char::is_numeric) {
        return false;
    }
    let after =
        |day: &str| text.get(..day.len()).filter(|begin| begin.to_lowercase() == day).map(|_| &text[day.len()..]);
    if is_past(text) {
        return true;
    }
    let time = DAYS.into_iter().find_map(after).map_or(text, str::trim_start);
    stamp(time).is_some_and(|stamp| stamp.end == time.len())
}

/// Whether this says how long ago something was, in a few words: `3 days ago`, `vor 2 Tagen`, `il y a 3 jours`, `2日前`.
fn is_past(text: &str) -> bool {
    let number = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let begins = |start: &&str| text.strip_prefix(*start).is_some_and(number);
    text.split(' ').count() <= 5
        && (["vor ", "il y a ", "hace ", "há "].iter().any(begins)
            || number(text) && [" ago", "前", " назад", " geleden", " temu"].iter().any(|end| text.ends_with(end)))
}

/// Whether this may name a person: up to four words with capitals.
pub(super) fn is_name(name: &str, any_case: bool) -> bool {
    let mut words = name.split(' ');
    let is_word = |(place, word): (usize, &str)| {
        let is_small = matches!(
            word,
            "von" | "van" | "de" | "da" | "di" | "la" | "le" | "of" | "the" | "and" | "zu" | "al" | "bin"
        );
        let first = word.chars().next();
        let is_cased = any_case || first.is_some_and(|first| !first.is_lowercase());
        let is_spelled =
            word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '\'' | '’' | '-' | '_' | '&' | '#'));
        first.is_some() && is_spelled && (is_cased || (place > 0 && is_small))
    };
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_alphabetic() || c == '@')
        && words.clone().count() <= MAX_NAME_WORDS
        && words.by_ref().map(|word| word.trim_start_matches('@')).enumerate().all(is_word)
}

/// Whether this names a person: two words with capitals or more, and no article.
pub(crate) fn is_person(name: &str) -> bool {
    let mut words = name.split(' ');
    words.next().is_some_and(|first| !is_opener(first)) && words.next().is_some() && is_name(name, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_write_the_day_before_the_time() {
        for line in ["ann — Today at 10:07", "Lívia — Hoje às 14:02", "Ben — gestern um 9:15", "Ann Lee  10:07 AM"]
        {
            assert!(is_name_line(line), "{line}");
        }
        for line in [
            "#2   ann_lee   Nov 21, 6:55 PM",
            "Autor: ann | 03-06-2022, 17:40",
            "Ann Lee, 9 grudnia 2022, 20:14",
            "ann napisała (12.01, 18:22):",
        ] {
            assert!(is_byline(line), "{line}");
        }
        for line in [
            "Jun 6, 2023 - 4:18 pm",
            "Ann: see you, at 12:30",
            "Ann: see you, 3 May at 12:30",
            "The bus, late as ever, left at 12:30",
        ] {
            assert!(!is_byline(line), "{line}");
        }
        assert!(is_time_line("Jun 6, 2023 - 4:18 pm") && is_time_line("Verfasst am: 04.05.2023, 18:22"));
        assert!(is_time_line("Aujourd’hui à 9:15") && is_time_line("8:07 AM"));
        assert!(is_time_line("Posted: Sat Apr 06, 2024 9:14 am   Joined: 2019   Posts: 212"));
        assert!(!is_name_line("we met there at 10:07") && !is_time_line("Morgen um 9:15 dort"));
    }
}
