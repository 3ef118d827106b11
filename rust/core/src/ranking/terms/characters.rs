//! Characters: what each one means to the reading of words.

use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

use crate::text::pieces::marks::is_southeast_asian;

/// What a character is to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// White space, punctuation, symbols: between words.
    Other,
    /// A small letter, one without case, or a mark on a letter.
    Letter,
    /// A capital letter.
    Capital,
    /// A decimal digit of any script.
    Digit,
    /// Punctuation that may stand inside a word or a number: see [`joins`].
    Joiner,
    /// Nothing to see: soft hyphens, zero-width joiners, variation selectors.
    Ignorable,
    /// A Chinese character.
    Han,
    /// Japanese syllables, the round kind.
    Hiragana,
    /// Japanese syllables, the angular kind.
    Katakana,
    /// A Korean syllable.
    Hangul,
    /// A letter or mark of Thai, Lao, Khmer or Burmese, which put no spaces between words.
    SoutheastAsian,
}

impl Class {
    pub(super) const fn is_word(self) -> bool {
        matches!(self, Self::Letter | Self::Capital | Self::Digit)
    }

    pub(super) const fn is_east_asian(self) -> bool {
        matches!(self, Self::Han | Self::Hiragana | Self::Katakana)
    }
}

/// The class of each ASCII character.
pub(super) const ASCII: [Class; 128] = {
    let mut table = [Class::Other; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => Class::Letter,
            b'A'..=b'Z' => Class::Capital,
            b'0'..=b'9' => Class::Digit,
            b'_' | b'-' | b'.' | b',' | b'\'' | b'&' => Class::Joiner,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
};

/// The class of a character.
pub(super) fn class(c: char) -> Class {
    if c.is_ascii() {
        return ASCII[c as usize];
    }
    match c {
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => Class::Ignorable,
        '\u{2019}' | '\u{2010}' | '\u{2011}' | '\u{5f3}' => Class::Joiner,
        'à'..='ö' | 'ø'..='ÿ' | 'а'..='џ' | 'ά'..='ώ' => Class::Letter,
        '\u{4e00}'..='\u{9fff}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'
        | '\u{3007}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Han,
        '\u{3041}'..='\u{309f}' => Class::Hiragana,
        '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}' => {
            Class::Katakana
        }
        '\u{ac00}'..='\u{d7a3}' => Class::Hangul,
        _ => by_category(c),
    }
}

fn by_category(c: char) -> Class {
    use GeneralCategory as Category;
    match CodePointMapData::<Category>::new().get(c) {
        Category::UppercaseLetter | Category::TitlecaseLetter => Class::Capital,
        Category::DecimalNumber => Class::Digit,
        Category::LowercaseLetter
        | Category::ModifierLetter
        | Category::OtherLetter
        | Category::NonspacingMark
        | Category::SpacingMark
        | Category::LetterNumber => {
            if is_southeast_asian(c) {
                Class::SoutheastAsian
            } else {
                Class::Letter
            }
        }
        _ => Class::Other,
    }
}

/// Whether a joiner between characters of these classes belongs to their word: `v2.0`, `10,000`, `e-mail`, `O’Brien`.
pub(super) fn joins(before: Class, joiner: char, after: Class) -> bool {
    let digits = before == Class::Digit && after == Class::Digit;
    let letters = before != Class::Digit && after != Class::Digit;
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
    // Unicode lays out the ten digits of a script side by side: from a multiple of sixteen, or, in the blocks of
    // India, six behind one. NFKC turns the others (full width, mathematical) into ASCII.
    if class(c) != Class::Digit {
        return None;
    }
    let low = (u32::from(c) % 16) as u8;
    match c {
        '0'..='9' => Some(low),
        '\u{966}'..='\u{d6f}' => low.checked_sub(6),
        _ => (low < 10).then_some(low),
    }
}
