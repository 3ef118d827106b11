//! Compounds: identifiers, hyphenated words and numbers, as a whole and in parts.

use super::characters::{CharClass, class};
use super::normalizer::{Normalizer, hash, lower};
use super::{Term, TermRole};
use crate::text::page::ByteSpan;

/// Longer compounds get no term as a whole, in bytes: they are data such as base64.
const LONGEST_WHOLE: usize = 128;

/// In bytes; a longer number with marks inside is a list.
const LONGEST_NUMBER: usize = 32;

/// Groups of digits of a telephone number or an account, the digits of one, and those of all.
const MIN_GROUPS: usize = 3;
const MAX_GROUPS: usize = 6;
const GROUP_DIGITS: usize = 6;
const MIN_DIGITS: usize = 9;

/// What separates a part from the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// A change of case, or from letters to digits.
    None,
    Mark(char),
}

struct CompoundPart {
    span: ByteSpan,
    separator: Separator,
    is_number: bool,
}

/// Splits compounds; reuses its memory.
#[derive(Default)]
pub(super) struct Compounds {
    parts: Vec<CompoundPart>,
}

impl Compounds {
    /// Calls `emit` with the terms of a compound.
    pub(super) fn scan(
        &mut self,
        text: &str,
        mut span: ByteSpan,
        normalizer: &mut Normalizer,
        emit: &mut impl FnMut(Term, ByteSpan, TermRole),
    ) {
        self.split(text, span);
        if let [.., owner, CompoundPart { separator: Separator::Mark('\'' | '’'), span: suffix, .. }] = &self.parts[..]
            && matches!(suffix.of(text), "s" | "S")
        {
            span.end = owner.span.end;
            self.parts.pop();
        }
        let is_acronym = self.parts.len() > 1
            && self.parts.iter().all(|part| !part.is_number && part.span.of(text).chars().nth(1).is_none())
            && self.parts[1..].iter().all(|part| part.separator == Separator::Mark('.'));
        let is_hebrew_acronym =
            self.parts.iter().any(|part| matches!(part.separator, Separator::Mark('"' | '\u{5f4}')));
        let is_marked = matches!(text.as_bytes()[span.end - 1], b'+' | b'#');
        if self.parts.len() == 1 && !is_marked {
            return emit_part(text, &self.parts[0], TermRole::Whole, normalizer, emit);
        }
        if span.len() <= LONGEST_WHOLE && !self.is_elision(text) {
            emit(self.whole(text, is_marked.then_some(span), normalizer), span, TermRole::Whole);
        }
        if !is_acronym && !is_hebrew_acronym {
            for part in &self.parts {
                emit_part(text, part, TermRole::Part, normalizer, emit);
            }
        }
    }

    /// Splits at marks, between letters and digits, and at changes of case.
    fn split(&mut self, text: &str, span: ByteSpan) {
        self.parts.clear();
        let (mut start, mut separator) = (span.start, Separator::None);
        let (mut before, mut before_that) = (CharClass::Other, CharClass::Other);
        for (offset, c) in span.of(text).char_indices() {
            let at = span.start + offset;
            let now = class(c);
            match now {
                CharClass::Ignorable => continue,
                CharClass::Joiner | CharClass::Other => {
                    let next = text[at + c.len_utf8()..].chars().next().map_or(CharClass::Other, class);
                    if !(matches!(c, '.' | ',') && before == CharClass::Digit && next == CharClass::Digit) {
                        self.push(start, at, separator, before);
                        (start, separator) = (at + c.len_utf8(), Separator::Mark(c));
                    }
                }
                _ => {
                    let digits_begin_or_end = (now == CharClass::Digit) != (before == CharClass::Digit);
                    let capital_begins = now == CharClass::Capital && before == CharClass::Letter;
                    if before.is_word() && (digits_begin_or_end || capital_begins) {
                        self.push(start, at, separator, before);
                        (start, separator) = (at, Separator::None);
                    } else if now == CharClass::Letter
                        && c.is_ascii()
                        && before == CharClass::Capital
                        && before_that == CharClass::Capital
                    {
                        // `HTTPServer`: the last capital starts the next word. It may be longer than one byte.
                        let last = text[..at].chars().next_back().map_or(0, char::len_utf8);
                        if at - last > start {
                            self.push(start, at - last, separator, CharClass::Capital);
                            (start, separator) = (at - last, Separator::None);
                        }
                    }
                }
            }
            (before_that, before) = (before, now);
        }
        self.push(start, span.end, separator, before);
    }

    fn push(&mut self, start: usize, end: usize, separator: Separator, last: CharClass) {
        if start < end {
            let (span, is_number) = (ByteSpan { start, end }, last == CharClass::Digit);
            self.parts.push(CompoundPart { span, separator, is_number });
        }
    }

    /// Whether a short article or pronoun is joined by an apostrophe: `l’homme`, `qu’il`. Queries never want these as
    /// one word.
    fn is_elision(&self, text: &str) -> bool {
        let [first, second, ..] = &self.parts[..] else { return false };
        matches!(second.separator, Separator::Mark('\'' | '’'))
            && first.span.len() <= 2
            && first.span.of(text).is_ascii()
            && !first.span.of(text).starts_with('O')
    }

    /// The term of the whole: its parts without separators, except a mark between two numbers.
    fn whole(&self, text: &str, marked: Option<ByteSpan>, normalizer: &mut Normalizer) -> Term {
        let (word, language) = normalizer.begin();
        if let Some(span) = marked {
            lower(span.of(text), language, word);
            return normalizer.finish(false);
        }
        let mut after_number = false;
        for part in &self.parts {
            if after_number
                && part.is_number
                && let Separator::Mark(mark) = part.separator
            {
                word.push(mark);
            }
            lower(part.span.of(text), language, word);
            after_number = part.is_number;
        }
        normalizer.finish(self.parts.iter().all(|part| !part.is_number))
    }
}

/// Calls `emit` with the term of a word, or the terms of a number.
fn emit_part(
    text: &str,
    part: &CompoundPart,
    role: TermRole,
    normalizer: &mut Normalizer,
    emit: &mut impl FnMut(Term, ByteSpan, TermRole),
) {
    if !part.is_number {
        return emit(normalizer.word(part.span.of(text)), part.span, role);
    }
    if part.span.len() > LONGEST_NUMBER {
        // A list: with the whole list as their span, the spans of n numbers would take n² bytes.
        let mut start = part.span.start;
        for number in part.span.of(text).split(['.', ',']) {
            let (word, language) = normalizer.begin();
            lower(number, language, word);
            emit(Term(hash(word.as_bytes())), ByteSpan { start, end: start + number.len() }, role);
            start += number.len() + 1;
        }
        return;
    }
    let (word, language) = normalizer.begin();
    lower(part.span.of(text), language, word);
    let mut role = role;
    number_forms(word, &mut |form| {
        emit(Term(hash(form.as_bytes())), part.span, role);
        role = TermRole::Part;
    });
}

/// Calls `emit` with the notations of a number of ASCII digits, points and commas; the main one first: its value, as far as
/// the number alone shows it.
fn number_forms(number: &str, emit: &mut impl FnMut(&str)) {
    let marks = || number.bytes().filter(|byte| !byte.is_ascii_digit());
    let Some(first) = marks().next() else { return emit(number) };
    let last = marks().next_back().unwrap_or(first);
    let is_one = marks().count() == 1;
    let (integer, decimals) = number.rsplit_once(char::from(last)).unwrap_or((number, ""));
    let integer = if last == first { number } else { integer };
    let grouped = is_grouped(integer, char::from(first)) && !is_address(number);
    if is_one && decimals == "00" {
        emit(&number[..number.len() - decimals.len() - 1]);
        emit(&number.replace(',', "."));
    } else if grouped && (first == b',' || last != first || !is_one) {
        let plain = number.replace(char::from(first), "").replace(',', ".");
        emit(plain.strip_suffix(".00").unwrap_or(&plain));
    } else if grouped {
        emit(number);
        emit(&number.replace('.', ""));
    } else if first == b',' && is_one {
        emit(&number.replace(',', "."));
        number.split(',').for_each(emit);
    } else if first == b'.' && last == b'.' {
        emit(number);
        if let Some((end, _)) = number.match_indices('.').nth(1) {
            emit(&number[..end]);
        }
    } else {
        number.split(['.', ',']).for_each(emit);
    }
}

/// Whether this is an IPv4 address, which may look like grouped digits: `192.168.100.200`.
fn is_address(number: &str) -> bool {
    number.split('.').count() == 4 && number.split('.').all(|part| part.parse::<u8>().is_ok())
}

/// Whether marks separate thousands: `1,234,567`; with commas also in lakhs and crores: `12,34,567`.
fn is_grouped(integer: &str, mark: char) -> bool {
    let mut groups = integer.split(mark);
    let head = groups.next().unwrap_or_default();
    let are_groups = |mut groups: std::str::Split<'_, char>, inner: usize| {
        let last = groups.next_back();
        last.is_some_and(|last| last.len() == 3) && groups.all(|group| group.len() == inner)
    };
    (1..=3).contains(&head.len())
        && !head.starts_with('0')
        && integer.bytes().all(|byte| byte.is_ascii_digit() || char::from(byte) == mark)
        && (are_groups(groups.clone(), 3) || mark == ',' && head.len() < 3 && are_groups(groups, 2))
}

/// The value of a number whose groups spaces or apostrophes separate, and its end: `1 250`, `1'250.00`.
///
/// `head_end` is the end of its first digits. Digits that other digits or marks continue are a list, a telephone number or
/// a date, and no number.
pub(super) fn spaced_number(text: &str, start: usize, head_end: usize) -> Option<(String, usize)> {
    let head = &text[start..head_end];
    let separator = |at: usize| {
        let c = text[at..].chars().next()?;
        let follows = text[at + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        (follows && matches!(c, ' ' | '\'' | '’' | '\u{a0}' | '\u{2009}' | '\u{202f}')).then_some(c)
    };
    let mark = separator(head_end)?;
    let before = text[..start].trim_end_matches(mark);
    let continues = before.len() < start && before.ends_with(|c: char| c.is_ascii_digit())
        || before.ends_with(['+', '/', '-', '–', ':', '.', ',']) && before.len() == start;
    if head.len() > 3 || head.starts_with('0') || continues {
        return None;
    }
    let (mut value, mut end) = (head.to_owned(), head_end);
    while let Some(next) = separator(end) {
        let group = end + next.len_utf8();
        let digits = text[group..].bytes().take(4).take_while(u8::is_ascii_digit).count();
        if next != mark || digits != 3 || value.len() >= LONGEST_NUMBER {
            return None;
        }
        value.push_str(&text[group..group + digits]);
        end = group + digits;
    }
    let digits_after = |at: usize| text[at..].bytes().take(4).take_while(u8::is_ascii_digit).count();
    if text[end..].starts_with(['.', ',']) && (1..=2).contains(&digits_after(end + 1)) {
        let decimals = &text[end + 1..end + 1 + digits_after(end + 1)];
        end += 1 + decimals.len();
        if decimals != "00" {
            value = value + "." + decimals;
        }
    }
    (!goes_on(text, end)).then_some((value, end))
}

/// Whether letters, digits or marks continue what ends here: it is a part of something else.
fn goes_on(text: &str, end: usize) -> bool {
    let rest = &text[end..];
    rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_'))
        || rest.starts_with(['.', ',', ':']) && rest[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// The digits of a telephone number, an account or the like, and its end: `0113 496 0172`. Its groups are of any length.
pub(super) fn digit_groups(text: &str, start: usize) -> Option<(String, usize)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let before = text[..start].trim_end_matches(' ');
    if before.ends_with(is_digit) || before.len() == start && before.ends_with(['-', '–', '/', ':', '.', ',']) {
        return None;
    }
    let (mut value, mut end, mut groups, mut are_years) = (String::new(), start, 0, true);
    loop {
        let digits = text[end..].bytes().take(GROUP_DIGITS + 1).take_while(u8::is_ascii_digit).count();
        let group = &text[end..end + digits];
        if !(2..=GROUP_DIGITS).contains(&digits) || groups == MAX_GROUPS {
            return None;
        }
        are_years &= digits == 4 && (group.starts_with("19") || group.starts_with("20"));
        value.push_str(group);
        (end, groups) = (end + digits, groups + 1);
        match text[end..].strip_prefix(' ') {
            Some(rest) if rest.starts_with(is_digit) => end += 1,
            _ => break,
        }
    }
    let is_part = goes_on(text, end) || text[end..].starts_with('%');
    (groups >= MIN_GROUPS && value.len() >= MIN_DIGITS && !are_years && !is_part).then_some((value, end))
}
