//! The numbers of marks: digits of several scripts, letters that count, Roman and Chinese numbers.

use super::System;

/// The digit zero of scripts with decimal digits.
const ZEROS: [char; 7] = ['0', '٠', '۰', '०', '০', '๐', '０'];

pub(crate) const HAN_DIGITS: &str = "一二三四五六七八九十";

/// Letters that count, in the orders in which they do; of alphabets in the order of their code points the first one.
const ALPHABETS: [&str; 17] = [
    "a",
    "A",
    "α",
    "Α",
    "абвгдежзиклмнопрст",
    "АБВГДЕЖЗИКЛМНОПРСТ",
    "ابجدهوزحطيكلمنسعفصقرشت",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "אבגדהוזחטיכלמנסעפצקרשת",
    "가나다라마바사아자차카타파하",
    "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ",
    "アイウエオカキクケコサシスセソ",
    "イロハニホヘトチリヌルヲ",
    "ক",
    "क",
    "กขคงจฉชซ",
    "甲乙丙丁戊己庚辛壬癸",
];

/// The value of a mark. A letter may be a Roman number, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number {
    /// `[1, 2]` in `1.2`, or one number; zeros after them.
    parts: [u32; 4],
    /// Of `12A` 1.
    suffix: u32,
    /// Of a letter its code point.
    pub(super) letter: Option<u32>,
    /// Of `iv` 4.
    roman: Option<u32>,
}

impl Number {
    /// Whether a list may start with it.
    pub(crate) fn is_first(self) -> bool {
        let is_letter = |letter: u32| {
            ALPHABETS.iter().filter_map(|letters| letters.chars().next()).any(|first| u32::from(first) == letter)
        };
        self.letter.is_some_and(is_letter)
            || self.roman == Some(1)
            || self.parts.iter().rfind(|part| **part > 0) == Some(&1)
    }

    /// Whether it comes right after another one: 3 or 2.1 after 2, b after a, ii after i.
    pub(crate) fn follows(self, other: Self) -> bool {
        let is_next = |one: Option<u32>, next: Option<u32>| one.is_some_and(|one| next == Some(one + 1));
        let same = self.parts.iter().zip(&other.parts).take_while(|(part, other)| part == other).count();
        let is_next_part = self.parts.get(same).is_some_and(|part| *part == other.parts[same] + 1)
            && self.parts[same + 1..].iter().all(|part| *part <= 1);
        let is_next_suffix = self.parts == other.parts && self.suffix == other.suffix + 1;
        other.letter.zip(self.letter).is_some_and(is_next_letter)
            || is_next(other.roman, self.roman)
            || is_next_part && self.suffix == 0
            || is_next_suffix
    }

    /// Whether it is a part of another one: 1.2 of 1.
    pub(crate) fn is_below(self, other: Self) -> bool {
        let depth = other.depth();
        self.depth() > depth && self.parts[..depth] == other.parts[..depth]
    }

    /// Whether it may be a Roman number.
    pub(crate) fn is_roman(self) -> bool {
        self.roman.is_some()
    }

    /// How many numbers it has: 2 in `1.2`.
    pub(crate) fn depth(self) -> usize {
        self.parts.iter().filter(|part| **part > 0).count().max(1)
    }
}

/// Whether the second of two letters comes right after the first one in an alphabet.
fn is_next_letter((one, next): (u32, u32)) -> bool {
    let is_pair = |(first, second): (char, char)| (u32::from(first), u32::from(second)) == (one, next);
    let has_pair = |letters: &&str| letters.chars().zip(letters.chars().skip(1)).any(is_pair);
    next == one + 1 || ALPHABETS.iter().any(has_pair)
}

/// The number at the start, its system and its bytes. Below a label, hyphens may join its parts: `§ 2-302`.
pub(super) fn value(text: &str, is_labelled: bool) -> Option<(Number, System, usize)> {
    if let Some((first, mut length)) = digits(text) {
        let mut parts = [first, 0, 0, 0];
        // `25/12`, the twelfth of a year's minutes.
        let mark = match text.as_bytes().get(length) {
            Some(b'/') => '/',
            Some(b'-') if is_labelled => '-',
            _ => '.',
        };
        for part in &mut parts[1..] {
            let Some((value, more)) = text[length..].strip_prefix(mark).and_then(digits) else { break };
            *part = value;
            length += 1 + more;
        }
        // `9.00`, a time.
        if text[..length].ends_with(".00") {
            return None;
        }
        // `1.a`, `2b`
        let rest = text[length..].strip_prefix('.').unwrap_or(&text[length..]);
        if let Some(letter) = rest.bytes().next().filter(u8::is_ascii_lowercase)
            && rest[1..].starts_with([' ', '.', ')'])
            && parts[1] == 0
        {
            parts[1] = u32::from(letter - b'a') + 1;
            length = text.len() - rest.len() + 1;
        }
        // `12A`
        let after = &text[length..];
        let mut letters = after.bytes().take_while(u8::is_ascii_uppercase);
        let suffix = letters.next().filter(|_| {
            letters.next().is_none()
                && (after[1..].starts_with(['.', ')', ':'])
                    || is_labelled && (after.len() == 1 || after[1..].starts_with(' ')))
        });
        let suffix = suffix.map_or(0, |letter| u32::from(letter - b'A') + 1);
        length += usize::from(suffix > 0);
        let is_plausible = parts.iter().all(|part| *part < 1000) && !text[length..].starts_with([',', '%']);
        return is_plausible.then_some((Number { parts, suffix, ..Number::default() }, System::Decimal, length));
    }
    if let Some((value, length)) = han_number(text) {
        return Some((decimal(value), System::Other, length));
    }
    let length = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    // Arabic writes its fifth letter with a stroke when it stands alone.
    let letters = text[..length].trim_end_matches('\u{640}');
    let first = letters.chars().next().map(|first| if first == 'أ' { 'ا' } else { first })?;
    let system = if first.is_uppercase() { System::Upper } else { System::Lower };
    let is_single = letters.len() == first.len_utf8();
    let roman = roman(letters);
    let number = Number { letter: is_single.then_some(u32::from(first)), roman, ..Number::default() };
    (is_single || roman.is_some()).then_some((number, system, length))
}

pub(super) const fn decimal(value: u32) -> Number {
    Number { parts: [value, 0, 0, 0], suffix: 0, letter: None, roman: None }
}

/// At most four digits, and their bytes.
pub(super) fn digits(text: &str) -> Option<(u32, usize)> {
    let (mut value, mut length) = (0, 0);
    for (count, c) in text.chars().enumerate() {
        let Some(digit) = digit(c) else { break };
        if count == 4 {
            return None;
        }
        value = value * 10 + digit;
        length += c.len_utf8();
    }
    (length > 0).then_some((value, length))
}

pub(super) fn digit(c: char) -> Option<u32> {
    let from = |zero: &char| u32::from(c).checked_sub(u32::from(*zero)).filter(|digit| *digit < 10);
    ZEROS.iter().find_map(from)
}

/// A Chinese number up to 99, and its bytes.
pub(super) fn han_number(text: &str) -> Option<(u32, usize)> {
    let (mut value, mut length) = (0, 0);
    for c in text.chars().take(3) {
        let Some(digit) = HAN_DIGITS.chars().zip(1..).find_map(|(han, digit)| (han == c).then_some(digit)) else {
            break;
        };
        value = if digit == 10 { u32::max(value, 1) * 10 } else { value + digit };
        length += c.len_utf8();
    }
    (length > 0).then_some((value, length))
}

/// A Roman number up to 39, of letters of one case.
pub(super) fn roman(letters: &str) -> Option<u32> {
    let value = |byte: u8| match byte.to_ascii_lowercase() {
        b'i' => 1,
        b'v' => 5,
        b'x' => 10,
        _ => 0,
    };
    let bytes = letters.as_bytes();
    let is_one_case = bytes.iter().all(u8::is_ascii_lowercase) || bytes.iter().all(u8::is_ascii_uppercase);
    if !(1..=6).contains(&bytes.len()) || !is_one_case || bytes.iter().any(|byte| value(*byte) == 0) {
        return None;
    }
    let signed = |(place, byte): (usize, &u8)| {
        let is_less = bytes.get(place + 1).is_some_and(|next| value(*next) > value(*byte));
        if is_less { -value(*byte) } else { value(*byte) }
    };
    u32::try_from(bytes.iter().enumerate().map(signed).sum::<i32>()).ok().filter(|sum| *sum > 0)
}
