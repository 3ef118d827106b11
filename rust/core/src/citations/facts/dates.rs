//! Dates: `4 May 2020`, `2020-05-04`, `5/4/2020`.

use pullquote_wire::citations::FactKind;

use super::{Fact, Value, Word};
use crate::text::page::ByteSpan;

/// A date, of which parts may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::citations) struct Date {
    pub(in crate::citations) year: Option<u32>,
    pub(in crate::citations) month: u32,
    pub(in crate::citations) day: Option<u32>,
}

/// The first letters of months, without accents, in English, German, French, Spanish, Italian and Portuguese.
const MONTHS: [&str; 12] = [
    "january jan januar janvier enero gennaio janeiro",
    "february feb februar fevrier febrero febbraio fevereiro",
    "march mar marz mars marzo marco",
    "april apr avril abril aprile",
    "may mai mayo maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug aout agosto",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dicembre dezembro",
];

/// The dates of a text.
pub(super) fn dates(text: &str, words: &[Word]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let number = |place: Option<usize>, digits: std::ops::RangeInclusive<usize>| {
        let word = words.get(place?).filter(|word| word.is_number && digits.contains(&word.text.len()))?;
        word.text.parse::<u32>().ok()
    };
    let day = |place: Option<usize>| number(place, 1..=2).filter(|day| (1..=31).contains(day));
    let year = |place: usize| number(Some(place), 4..=4);
    let near = |a: usize, b: usize| words[b].span.start - words[a].span.end <= 6;
    let ordinal = |place: usize| {
        words.get(place).is_some_and(|word| word.is_joined && matches!(word.text, "st" | "nd" | "rd" | "th" | "er"))
    };
    for (at, word) in words.iter().enumerate() {
        if let Some(month) = month(word) {
            let mut date = Date { month, ..Date::default() };
            let (mut first, mut last) = (at, at);
            let is_between = |place: &usize| ordinal(*place) || matches!(words[*place].text, "of" | "de");
            let before = (at.saturating_sub(3)..at).rev().find(|place| !is_between(place));
            let before = before.filter(|place| near(*place, at));
            if let (Some(found), Some(place)) = (day(before), before) {
                (date.day, first) = (Some(found), place);
            } else if let Some(found) = day(Some(at + 1)).filter(|_| near(at, at + 1)) {
                (date.day, last) = (Some(found), at + 1);
                if ordinal(last + 1) {
                    last += 1;
                }
            }
            let next = (last + 1..=last + 2).find(|next| year(*next).is_some_and(|_| near(last, *next)));
            if let Some(next) = next {
                (date.year, last) = (year(next), next);
            }
            if date.year.is_some() || date.day.is_some() {
                let span = ByteSpan { start: words[first].span.start, end: words[last].span.end };
                facts.push(Fact { kind: FactKind::Date, span, value: Value::Date(vec![date]), unit: None });
            }
        }
        if let Some(date) = numeric_date(text, words, at) {
            facts.push(date);
        }
    }
    facts
}

/// A date such as 2020-05-04, 4.5.2020 and 5/4/2020, which may be of May or of April.
fn numeric_date(text: &str, words: &[Word], at: usize) -> Option<Fact> {
    let word = words[at];
    let make = |year: u32, month: u32, day: u32| {
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
        is_date.then_some(Date { year: Some(year), month, day: Some(day) })
    };
    let parts = |end: usize| -> Option<Vec<u32>> {
        text[word.span.start..end].split(['-', '/', '.']).map(|part| part.parse().ok()).collect()
    };
    // The marks of `4.5.2020` are those of a number, others part words.
    let end = if word.text.contains('.') {
        word.span.end
    } else {
        let last = words.get(at + 2).filter(|last| last.is_number && last.span.end <= word.span.start + 10)?;
        last.span.end
    };
    let dates: Vec<Date> = match parts(end)?[..] {
        [year, month, day] if (1000..=9999).contains(&year) => make(year, month, day).into_iter().collect(),
        [first, second, year] if (1000..=9999).contains(&year) => {
            let both = [make(year, second, first), make(year, first, second)];
            both.into_iter().flatten().collect()
        }
        _ => return None,
    };
    let span = ByteSpan { start: word.span.start, end };
    (!dates.is_empty()).then_some(Fact { kind: FactKind::Date, span, value: Value::Date(dates), unit: None })
}

/// Lower case without accents, for comparing with `MONTHS`.
fn plain(word: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    word.to_lowercase().nfd().filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).collect()
}

fn month(word: &Word) -> Option<u32> {
    if word.is_number || word.text.len() > 12 {
        return None;
    }
    let name = plain(word.text);
    // Small, these are other words of English.
    if matches!(word.text, "may" | "march" | "mar") {
        return None;
    }
    (1..).zip(MONTHS).find(|(_, names)| names.split(' ').any(|known| known == name)).map(|(month, _)| month)
}
