//! Compounds: identifiers, hyphenated words and numbers, as a whole and in parts.
//!
//! | written | terms |
//! |---|---|
//! | `max_batch_tokens`, `maxBatchTokens`, `max-batch-tokens` | `maxbatchtokens`; `max`, `batch`, `tokens` |
//! | `HTTPServer2` | `httpserver2`; `http`, `server`, `2` |
//! | `e-mail`, `O’Brien`, `AT&T`, `COVID-19`, `1970s` | `email`, `obrien`, `att`, `covid19`, `1970s`; the parts |
//! | `U.S.`, `e.g.`, `צה"ל` | `us`, `eg`, `צהל` |
//! | `infor-` at the end of a line, `mation` on the next | `information`; `infor`, `mation` |
//! | `Warsaw’s` | `warsaw` |
//! | `l’homme` | `l`, `homme` |
//! | `3.5`, `2024-05-01` | `3.5`; `2024-05-01`, `2024`, `05`, `01` |
//! | `10,000`, `1.234.567,5` | `10000`; `1234567.5` |
//! | `10.000` | `10.000`, `10000`: a decimal or a thousand |
//! | `v2.11.0` | `v2.11.0`; `v`, `2.11.0`, `2.11` |
//! | `C++`, `F#` | `c++`, `f#`; `c`, `f` |

use super::characters::{Class, class};
use super::normal::{Normal, hash, lower};
use super::{Role, Term};
use crate::text::page::ByteSpan;

/// The longest compound that has a term as a whole, in bytes; longer ones are data, such as base64.
const LONGEST_WHOLE: usize = 128;

/// The longest number with marks inside that is read as one, in bytes; longer ones are lists.
const LONGEST_NUMBER: usize = 32;

/// What stands between a part and the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// Nothing: a change of case, or from letters to digits.
    None,
    Mark(char),
}

struct Part {
    span: ByteSpan,
    joint: Joint,
    is_number: bool,
}

/// Reads compounds; keeps its memory from one to the next.
#[derive(Default)]
pub(super) struct Compounds {
    parts: Vec<Part>,
}

impl Compounds {
    /// Calls `found` with the terms of the compound that spans `span`.
    pub(super) fn read(
        &mut self,
        text: &str,
        mut span: ByteSpan,
        normal: &mut Normal,
        found: &mut impl FnMut(Term, ByteSpan, Role),
    ) {
        self.split(text, span);
        if let [.., owner, Part { joint: Joint::Mark('\'' | '’'), span: tail, .. }] = &self.parts[..]
            && matches!(tail.of(text), "s" | "S")
        {
            span.end = owner.span.end;
            self.parts.pop();
        }
        let is_acronym = self.parts.len() > 1
            && self.parts.iter().all(|part| !part.is_number && part.span.of(text).chars().nth(1).is_none())
            && self.parts[1..].iter().all(|part| part.joint == Joint::Mark('.'));
        let is_hebrew_acronym = self.parts.iter().any(|part| matches!(part.joint, Joint::Mark('"' | '\u{5f4}')));
        let marked = matches!(text.as_bytes()[span.end - 1], b'+' | b'#');
        if self.parts.len() == 1 && !marked {
            return found_part(text, &self.parts[0], Role::Whole, normal, found);
        }
        if span.len() <= LONGEST_WHOLE && !self.is_elision(text) {
            found(self.whole(text, marked.then_some(span), normal), span, Role::Whole);
        }
        if !is_acronym && !is_hebrew_acronym {
            for part in &self.parts {
                found_part(text, part, Role::Part, normal, found);
            }
        }
    }

    /// Cuts a compound at its marks, where letters meet digits, and where the case changes.
    fn split(&mut self, text: &str, span: ByteSpan) {
        self.parts.clear();
        let (mut start, mut joint) = (span.start, Joint::None);
        let (mut before, mut before_that) = (Class::Other, Class::Other);
        for (offset, c) in span.of(text).char_indices() {
            let at = span.start + offset;
            let now = class(c);
            match now {
                Class::Ignorable => continue,
                Class::Joiner | Class::Other => {
                    let next = text[at + c.len_utf8()..].chars().next().map_or(Class::Other, class);
                    if !(matches!(c, '.' | ',') && before == Class::Digit && next == Class::Digit) {
                        self.push(start, at, joint, before);
                        (start, joint) = (at + c.len_utf8(), Joint::Mark(c));
                    }
                }
                _ => {
                    let digits_begin_or_end = (now == Class::Digit) != (before == Class::Digit);
                    let capital_begins = now == Class::Capital && before == Class::Letter;
                    if before.is_word() && (digits_begin_or_end || capital_begins) {
                        self.push(start, at, joint, before);
                        (start, joint) = (at, Joint::None);
                    } else if now == Class::Letter
                        && c.is_ascii()
                        && before == Class::Capital
                        && before_that == Class::Capital
                    {
                        // `HTTPServer`: the last capital begins the next word. It is ASCII or not, but one character.
                        let last = text[..at].chars().next_back().map_or(0, char::len_utf8);
                        if at - last > start {
                            self.push(start, at - last, joint, Class::Capital);
                            (start, joint) = (at - last, Joint::None);
                        }
                    }
                }
            }
            (before_that, before) = (before, now);
        }
        self.push(start, span.end, joint, before);
    }

    fn push(&mut self, start: usize, end: usize, joint: Joint, last: Class) {
        if start < end {
            self.parts.push(Part { span: ByteSpan { start, end }, joint, is_number: last == Class::Digit });
        }
    }

    /// Whether an article or the like hangs in front: `l’homme`, `qu’il`. Nobody asks for the two as one word.
    fn is_elision(&self, text: &str) -> bool {
        let [first, second, ..] = &self.parts[..] else { return false };
        matches!(second.joint, Joint::Mark('\'' | '’'))
            && first.span.len() <= 2
            && first.span.of(text).is_ascii()
            && !first.span.of(text).starts_with('O')
    }

    /// The term of the whole: its parts without what stands between them, unless that is digits on both sides.
    fn whole(&self, text: &str, marked: Option<ByteSpan>, normal: &mut Normal) -> Term {
        let (word, language) = normal.begin();
        if let Some(span) = marked {
            lower(span.of(text), language, word);
            return normal.finish(false);
        }
        let mut after_number = false;
        for part in &self.parts {
            if after_number
                && part.is_number
                && let Joint::Mark(mark) = part.joint
            {
                word.push(mark);
            }
            lower(part.span.of(text), language, word);
            after_number = part.is_number;
        }
        normal.finish(self.parts.iter().all(|part| !part.is_number))
    }
}

/// Calls `found` with the term of a part, or with the terms of a number.
fn found_part(text: &str, part: &Part, role: Role, normal: &mut Normal, found: &mut impl FnMut(Term, ByteSpan, Role)) {
    if !part.is_number {
        return found(normal.word(part.span.of(text)), part.span, role);
    }
    if part.span.len() > LONGEST_NUMBER {
        // A list: every number has a span of its own, or else the spans of n numbers would be n times as long.
        let mut start = part.span.start;
        for number in part.span.of(text).split(['.', ',']) {
            let (word, language) = normal.begin();
            lower(number, language, word);
            found(Term(hash(word.as_bytes())), ByteSpan { start, end: start + number.len() }, role);
            start += number.len() + 1;
        }
        return;
    }
    let (word, language) = normal.begin();
    lower(part.span.of(text), language, word);
    let mut role = role;
    for_forms(word, &mut |form| {
        found(Term(hash(form.as_bytes())), part.span, role);
        role = Role::Part;
    });
}

/// Calls `found` with the ways to write a number of ASCII digits, points and commas; the main one first.
fn for_forms(number: &str, found: &mut impl FnMut(&str)) {
    let marks = || number.bytes().filter(|byte| !byte.is_ascii_digit());
    let Some(first) = marks().next() else { return found(number) };
    let last = marks().next_back().unwrap_or(first);
    let integer = if last == first { number } else { number.rsplit_once(char::from(last)).map_or(number, |it| it.0) };
    let grouped = is_grouped(integer, char::from(first));
    let decimal_comma = first == b',' && marks().count() == 1;
    if grouped && (first == b',' || last != first || marks().count() > 1) {
        found(&number.replace(char::from(first), "").replace(',', "."));
    } else if grouped {
        found(number);
        found(&number.replace('.', ""));
    } else if decimal_comma {
        found(&number.replace(',', "."));
        number.split(',').for_each(found);
    } else if first == b'.' && last == b'.' {
        found(number);
        if let Some((end, _)) = number.match_indices('.').nth(1) {
            found(&number[..end]);
        }
    } else {
        number.split(['.', ',']).for_each(found);
    }
}

/// Whether marks set off the thousands of a whole number: `1,234,567`.
fn is_grouped(integer: &str, mark: char) -> bool {
    let mut groups = integer.split(mark);
    let head = groups.next().unwrap_or_default();
    (1..=3).contains(&head.len())
        && !head.starts_with('0')
        && groups.all(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()))
}
