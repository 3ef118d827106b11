//! Classes of characters, for finding words.

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

use crate::text::pieces::marks::is_southeast_asian;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    /// White space, punctuation, symbols: they separate words.
    Other,
    /// A lower-case letter, one without case, or a combining mark.
    Letter,
    /// An upper-case or title-case letter.
    Capital,
    /// A decimal digit of any script.
    Digit,
    /// Punctuation that may be inside a word or a number; see [`joins`].
    Joiner,
    /// Invisible: soft hyphens, zero-width joiners, variation selectors.
    Ignorable,
    Han,
    Hiragana,
    /// Includes half-width letters.
    Katakana,
    Hangul,
    /// Letters and marks of Thai, Lao, Khmer and Burmese, which put no spaces between words.
    SoutheastAsian,
}

impl CharClass {
    pub(super) const fn is_word(self) -> bool {
        matches!(self, Self::Letter | Self::Capital | Self::Digit)
    }

    pub(super) const fn is_east_asian(self) -> bool {
        matches!(self, Self::Han | Self::Hiragana | Self::Katakana)
    }
}

pub(super) const ASCII: [CharClass; 128] = {
    let mut table = [CharClass::Other; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => CharClass::Letter,
            b'A'..=b'Z' => CharClass::Capital,
            b'0'..=b'9' => CharClass::Digit,
            b'_' | b'-' | b'.' | b',' | b'\'' | b'&' => CharClass::Joiner,
            _ => CharClass::Other,
        };
        byte += 1;
    }
    table
};

pub(super) fn class(c: char) -> CharClass {
    if c.is_ascii() {
        return ASCII[c as usize];
    }
    match c {
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => CharClass::Ignorable,
        '\u{2019}' | '\u{2010}' | '\u{2011}' | '\u{5f3}' => CharClass::Joiner,
        'à'..='ö' | 'ø'..='ÿ' | 'а'..='џ' | 'ά'..='ώ' => CharClass::Letter,
        '\u{4e00}'..='\u{9fff}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'
        | '\u{3007}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => CharClass::Han,
        '\u{3041}'..='\u{309f}' => CharClass::Hiragana,
        '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' => {
            CharClass::Katakana
        }
        '\u{ac00}'..='\u{d7a3}' => CharClass::Hangul,
        _ => by_category(c),
    }
}

fn by_category(c: char) -> CharClass {
    use GeneralCategory as Category;
    match CodePointMapData::<Category>::new().get(c) {
        Category::UppercaseLetter | Category::TitlecaseLetter => CharClass::Capital,
        Category::DecimalNumber => CharClass::Digit,
        Category::LowercaseLetter
        | Category::ModifierLetter
        | Category::OtherLetter
        | Category::NonspacingMark
        | Category::SpacingMark
        | Category::LetterNumber => {
            if is_southeast_asian(c) {
                CharClass::SoutheastAsian
            } else {
                CharClass::Letter
            }
        }
        _ => CharClass::Other,
    }
}

/// Whether a joiner between these classes is part of their word: `v2.0`, `10,000`, `e-mail`, `O’Brien`.
pub(super) fn joins(before: CharClass, joiner: char, after: CharClass) -> bool {
    let digits = before == CharClass::Digit && after == CharClass::Digit;
    let letters = before != CharClass::Digit && after != CharClass::Digit;
    before.is_word()
        && after.is_word()
        && match joiner {
            ',' => digits,
            '\'' | '\u{2019}' | '\u{5f3}' | '&' => letters,
            _ => true,
        }
}

/// The value of a decimal digit of any script.
pub(super) fn digit_value(c: char) -> Option<u8> {
    // Unicode places a script's ten digits consecutively: from a multiple of sixteen or, in the Indic blocks, six after
    // one. NFKC maps the others (full-width, mathematical) to ASCII.
    if class(c) != CharClass::Digit {
        return None;
    }
    let low = (u32::from(c) % 16) as u8;
    match c {
        '0'..='9' => Some(low),
        '\u{966}'..='\u{d6f}' => low.checked_sub(6),
        _ => (low < 10).then_some(low),
    }
}
