//! What a text names: numbers, dates, names and quoted words, each with its value, so that `3 million` is 3,000,000.

mod dates;

pub(super) use dates::Date;
use dates::dates;
use pullquote_wire::citations::FactKind;

use super::units::{Unit, unit_of};
use crate::quotes::amounts::readings;
use crate::ranking::terms::{Language, Term, terms};
use crate::text::page::ByteSpan;
use crate::text::pieces::marks::is_unspaced;

/// What stands at a place of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fact {
    pub(super) kind: FactKind,
    pub(super) span: ByteSpan,
    pub(super) value: Value,
    /// Of a number.
    pub(super) unit: Option<Unit>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// The numbers that may be meant, in a normal form.
    Number(Vec<String>),
    Date(Vec<Date>),
    /// Terms of the name's words.
    Name(Vec<Term>),
    /// Letters and digits with single spaces.
    Quote(String),
}

/// Whether a word is a part of numbers: "three" or "thousand". Their value says more.
pub(super) fn is_number_word(word: &str) -> bool {
    let word = word.to_lowercase();
    let scale = SCALES.iter().any(|(name, _)| *name == word && name.len() > 2);
    scale || NUMBER_WORDS.iter().any(|(name, _)| *name == word)
}

const NUMBER_WORDS: [(&str, u32); 29] = [
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
    ("hundred", 100),
    ("thousand", 1000),
    ("dozen", 12),
];

/// Words and letters after a number, and the zeros that they stand for.
const SCALES: [(&str, i32); 24] = [
    ("hundred", 2),
    ("thousand", 3),
    ("million", 6),
    ("millions", 6),
    ("billion", 9),
    ("trillion", 12),
    ("tausend", 3),
    ("millionen", 6),
    ("mio", 6),
    ("milliarde", 9),
    ("milliarden", 9),
    ("mrd", 9),
    ("mille", 3),
    ("milliard", 9),
    ("milliards", 9),
    ("millones", 6),
    ("millón", 6),
    ("milioni", 6),
    ("milhões", 6),
    ("k", 3),
    ("m", 6),
    ("mn", 6),
    ("bn", 9),
    ("b", 9),
];

/// A word: a run of letters or of digits, with the marks between digits.
#[derive(Clone, Copy)]
struct Word<'text> {
    text: &'text str,
    span: ByteSpan,
    is_number: bool,
    /// Whether the word before touches it.
    is_joined: bool,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let is_number = c.is_ascii_digit();
        if !c.is_alphanumeric() {
            continue;
        }
        let mut end = start + c.len_utf8();
        while let Some(&(at, next)) = chars.peek() {
            let after = text[at + next.len_utf8()..].chars().next();
            let goes_on = if is_number {
                next.is_ascii_digit() || (matches!(next, '.' | ',') && after.is_some_and(|c| c.is_ascii_digit()))
            } else {
                (next.is_alphanumeric() && !next.is_ascii_digit())
                    || matches!(next, '\u{300}'..='\u{36f}')
                    || (matches!(next, '\'' | '’') && after.is_some_and(char::is_alphabetic))
            };
            if !goes_on {
                break;
            }
            end = at + next.len_utf8();
            chars.next();
        }
        let is_joined = words.last().is_some_and(|last| last.span.end == start);
        words.push(Word { text: &text[start..end], span: ByteSpan { start, end }, is_number, is_joined });
    }
    words
}

/// The facts of a text, in the order of their kinds.
pub(super) fn facts(text: &str, language: Language) -> Vec<Fact> {
    let words = words(text);
    let mut facts = dates(text, &words);
    let quotes = quotes(text);
    let in_date = |span: ByteSpan, facts: &[Fact]| {
        facts
            .iter()
            .any(|fact| fact.kind == FactKind::Date && fact.span.start <= span.start && span.end <= fact.span.end)
    };
    let mut numbers = numbers(text, &words);
    numbers.retain(|number| !in_date(number.span, &facts));
    let mut names = names(text, &words, language);
    names.retain(|name| !in_date(name.span, &facts));
    facts.extend(numbers);
    facts.extend(names);
    facts.extend(quotes);
    facts
}

fn numbers(text: &str, words: &[Word]) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let first = at;
        at += 1;
        let mut values = if word.is_number {
            // Digits after letters belong to a name, such as A320, but for scripts without spaces between words.
            let of_name = |before: &Word| !before.is_number && !before.text.ends_with(is_unspaced);
            if word.is_joined && of_name(&words[first - 1]) {
                continue;
            }
            let mut number = word.text.to_owned();
            while let Some(next) = words.get(at).filter(|next| is_group(text, word, &words[at - 1], next)) {
                number.push_str(next.text);
                at += 1;
            }
            readings(&number)
        } else {
            let lower = word.text.to_lowercase();
            match NUMBER_WORDS.iter().find(|(name, _)| *name == lower) {
                Some((_, value)) => vec![value.to_string()],
                None => continue,
            }
        };
        let mut end = words[at - 1].span.end;
        while let Some((zeros, next)) = words.get(at).and_then(|next| Some((scale(next)?, next))) {
            let is_letter = next.text.len() == 1;
            let gap = &text[end..next.span.start];
            if (is_letter && !gap.is_empty()) || gap.len() > 1 {
                break;
            }
            values = values.iter().filter_map(|value| scaled(value, zeros)).collect();
            end = next.span.end;
            at += 1;
        }
        if !values.is_empty() {
            let span = ByteSpan { start: word.span.start, end };
            let unit = unit_of(text, span.start, span.end);
            facts.push(Fact { kind: FactKind::Number, span, value: Value::Number(values), unit });
        }
    }
    facts
}

/// Whether digits continue a number with groups of three.
fn is_group(text: &str, first: &Word, last: &Word, next: &Word) -> bool {
    let gap = text[last.span.end..next.span.start].chars().collect::<Vec<_>>();
    let is_short = first.text.len() <= 3 && first.text.bytes().all(|byte| byte.is_ascii_digit());
    let groups = next.text.split(['.', ',']).next().unwrap_or_default();
    let is_gap = matches!(gap[..], [' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '’']);
    next.is_number && is_short && is_gap && groups.len() == 3
}

fn scale(word: &Word) -> Option<i32> {
    let lower = word.text.to_lowercase();
    let is_known = |(name, _): &&(&str, i32)| *name == lower;
    // In a unit such as `m`, the letter is small; `5 m` are metres.
    let is_unit = matches!(word.text, "m" | "b");
    SCALES.iter().find(is_known).filter(|_| !is_unit).map(|(_, zeros)| *zeros)
}

fn scaled(value: &str, zeros: i32) -> Option<String> {
    let value: f64 = value.parse().ok()?;
    let product = value * 10_f64.powi(zeros);
    let whole = product.round();
    Some(if (product - whole).abs() <= whole.abs() * 1e-12 { whole.to_string() } else { product.to_string() })
}

/// Words in quotation marks.
fn quotes(text: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find(['"', '“', '„', '«', '»']).map(|found| at + found) {
        let c = text[open..].chars().next().unwrap_or('"');
        let inner = open + c.len_utf8();
        let closing: &[char] = match c {
            '“' => &['”'],
            '„' => &['“', '”'],
            '«' => &['»'],
            '»' => &['«'],
            _ => &['"'],
        };
        let Some(length) = text[inner..].find(closing) else {
            at = inner;
            continue;
        };
        let end = inner + length;
        let letters = letters_of(&text[inner..end]);
        if !letters.is_empty() {
            let span = ByteSpan { start: inner, end };
            facts.push(Fact { kind: FactKind::Quote, span, value: Value::Quote(letters), unit: None });
        }
        at = end + text[end..].chars().next().map_or(0, char::len_utf8);
    }
    facts
}

/// The letters and digits of a text in lower case, with single spaces between words.
pub(super) fn letters_of(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Names: words that begin with a capital inside of a sentence; at its start, those that another one follows, or that have
/// a capital or a digit inside.
fn names(text: &str, words: &[Word], language: Language) -> Vec<Fact> {
    // German nouns have capitals, and many scripts have none.
    if language == Language::German {
        return Vec::new();
    }
    let is_capital = |word: &Word| word.text.starts_with(char::is_uppercase);
    let has_inner = |word: &Word| word.text.chars().skip(1).any(char::is_uppercase);
    let stops = |word: &Word| stops_sentence(text, word.span.start);
    let (mut facts, mut at) = (Vec::new(), 0);
    let is_title_case = {
        let long = || words.iter().filter(|word| !word.is_number && word.text.len() > 3);
        long().count() > 3 && long().all(is_capital)
    };
    if is_title_case {
        return facts;
    }
    while let Some(word) = words.get(at) {
        let first = at;
        at += 1;
        if !is_capital(word) || word.is_joined || word.text.chars().any(is_unspaced) {
            continue;
        }
        let touches = |at: usize| {
            text[words[at - 1].span.end..words[at].span.start].chars().all(|c| matches!(c, ' ' | '-' | '.' | '\u{a0}'))
                && !stops(&words[at])
        };
        while at < words.len() && is_capital(&words[at]) && touches(at) {
            at += 1;
        }
        let run = &words[first..at];
        let begins = stops(word);
        let skip = usize::from(begins && is_plain_start(word, run.len()) && !has_inner(word));
        let run = &run[skip..];
        let is_pronoun =
            |word: &Word| matches!(word.text, "I" | "I'm" | "I’m" | "A" | "The" | "In" | "On" | "At" | "OK");
        if run.iter().all(is_pronoun) {
            continue;
        }
        for word in run.iter().filter(|word| !is_pronoun(word)) {
            let of_word = terms(word.text, language).into_iter().map(|one| one.term).collect();
            facts.push(Fact { kind: FactKind::Name, span: word.span, value: Value::Name(of_word), unit: None });
        }
    }
    facts
}

/// Whether the first word of a sentence is probably no name: alone, or a word that often begins one.
fn is_plain_start(word: &Word, run: usize) -> bool {
    const STARTS: &str = "the a an in on at by for from as of to with and but or it its he his she her they their this these that those \
        when while where after before during although though because since if both all some many most one two three each every \
        there here such only also however according between under over about into its our we you le la les el los las un une";
    let lower = word.text.to_lowercase();
    run == 1 || STARTS.split_whitespace().any(|start| start == lower)
}

fn stops_sentence(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\n', '*', '_', '"', '“', '(', '\'', '-', '•', '>', '#', '|', '+']);
    before.is_empty() || before.ends_with(['.', '!', '?', ':', ';', '\n']) && !is_initial(before) || list_mark(before)
}

/// Whether a stop is that of an initial or a short title: `J.`, `Mr.`
fn is_initial(before: &str) -> bool {
    let word = before.trim_end_matches('.').rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    before.ends_with('.') && word.chars().count() <= 2 && word.starts_with(char::is_uppercase)
}

fn list_mark(before: &str) -> bool {
    before.trim_end_matches(['.', ')']).bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(FactKind, &str)> {
        facts(text, Language::English).iter().map(|fact| (fact.kind, fact.span.of(text))).collect()
    }

    fn value(text: &str) -> Value {
        facts(text, Language::English).swap_remove(0).value
    }

    #[test]
    fn facts_of_each_kind_are_found() {
        let text = "In May 2020, Marie Curie paid 1,250 euros and said “never again” on 5 June 1911.";
        let expected = [
            (FactKind::Date, "May 2020"),
            (FactKind::Date, "5 June 1911"),
            (FactKind::Number, "1,250"),
            (FactKind::Name, "Marie"),
            (FactKind::Name, "Curie"),
            (FactKind::Quote, "never again"),
        ];
        assert_eq!(found(text), expected);
        assert_eq!(found("Founded late, it may 5 times fail. The end."), [(FactKind::Number, "5")]);
    }

    #[test]
    fn values_do_not_depend_on_writing() {
        let meet = |a: &str, b: &str| match (value(a), value(b)) {
            (Value::Number(a), Value::Number(b)) => a.iter().any(|one| b.contains(one)),
            (Value::Date(a), Value::Date(b)) => a.iter().any(|one| b.contains(one)),
            (a, b) => a == b,
        };
        for (a, b) in [
            ("1,250", "1.250,00"),
            ("3 million", "3,000,000"),
            ("1.5 bn", "1500000000"),
            ("10 000", "10000"),
            ("three thousand", "3000"),
            ("$2M", "2000000"),
            ("40%", "40 percent"),
            ("twelve", "12"),
            ("May 5, 2020", "2020-05-05"),
            ("5th of May 2020", "5. Mai 2020"),
            ("5/4/2020", "4 May 2020"),
            ("5/4/2020", "4.5.2020"),
            ("Sept. 3", "3 September"),
        ] {
            assert!(meet(a, b), "{a} {b} {:?} {:?}", value(a), value(b));
        }
        for (a, b) in
            [("1,250", "1,251"), ("3 million", "3 billion"), ("May 5, 2020", "2020-05-06"), ("5 m", "5000000")]
        {
            assert!(!meet(a, b), "{a} {b}");
        }
        assert_eq!(found("高さは333メートルである"), [(FactKind::Number, "333")]);
        assert!(found("the A320 and mp3").iter().all(|(kind, _)| *kind != FactKind::Number));
    }
}
