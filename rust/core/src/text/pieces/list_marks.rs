//! The marks of list items, steps, articles and headings at the start of a text: `•`, `2.`, `(b)`, `iv)`, `§ 3`, `Step 4:`.
//!
//! Some marks show an item by themselves. Others, such as `A.`, `1.2` and `o`, may start a sentence; they count only in a
//! sequence with others of their style, which [`super::items`] finds.

mod numbers;

use super::marks::is_pictograph;
use super::table_captions::is_caption;
use super::terms::introduces_literal;
pub(super) use numbers::HAN_DIGITS;
pub(crate) use numbers::Number;
use numbers::{decimal, digit, digits, han_number, roman, value};

/// Words before the number of a step or article, which are marks with a number and a full stop or colon.
const LABELS: [&str; 9] = ["Step", "Art.", "Article", "§", "Schritt", "Artikel", "Étape", "Paso", "Artículo"];

/// Words before the number of a statement, which goes on after it.
const STATEMENTS: [&str; 18] = [
    "Theorem", "Lemma", "Corollary", "Proposition", "Definition", "Remark", "Example", "Exercise", "Problem", "Claim",
    "Note", "Rule", "Satz", "Beispiel", "Théorème", "Exemple", "Teorema", "Ejemplo",
];

/// Also those of symbol fonts, as PDFs have them.
const BULLETS: &str = "-*+»›•‣◦▪▫●○◎■□◆◇▲△▼▽·∙⦁・･–—⁃►▶▸▹➢➤→➔➜❖✓✔✅☑☐✗✘❌★☆👉⚠🔹🔸\u{f0a7}\u{f0b7}\u{f0d8}\u{f0fc}";

/// Bullets that need no space after them: no text starts with them.
const TIGHT_BULLETS: &str = "•‣◦▪●○◎■□◆◇⦁・･►➢\u{f0a7}\u{f0b7}\u{f0d8}";

/// What asks for the picture of a character.
const AS_EMOJI: char = '\u{fe0f}';

/// The label of all other pictures.
pub(super) const PICTURE: &str = "🙂";

/// What shows a digit as a key, which the mark of an item may be: `1️⃣`.
const KEYCAP: &str = "\u{fe0f}\u{20e3}";

/// Bytes of the longest word before a number.
const LONGEST_LABEL: usize = 24;

/// A mark at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark<'text> {
    pub(crate) style: Style<'text>,
    pub(crate) number: Number,
    /// Whether the text is an item whatever stands around it.
    pub(super) is_sure: bool,
    /// The end of the mark, without white space after it.
    pub(crate) end: usize,
}

/// What the marks of one list have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Style<'text> {
    /// A bullet, or the word before the number.
    pub(super) label: &'text str,
    opening: Option<char>,
    /// The mark after the number; none for full stops after digits, which deeper numbers lack: `1.`, `1.1`.
    closing: Option<char>,
    pub(crate) system: System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum System {
    Bullet,
    Decimal,
    /// Letters, and Roman numbers of letters.
    Lower,
    Upper,
    /// `①`, `一`
    Other,
}

impl Style<'_> {
    /// The same of marks without a label.
    pub(super) fn without_label(self) -> Style<'static> {
        Style { label: "", ..self }
    }
}

impl<'text> Mark<'text> {
    /// The mark at the start of a text without indentation.
    pub(crate) fn at_start(text: &'text str) -> Option<Self> {
        let first = text.chars().next()?;
        if let Some(mark) = bullet_of_ascii(text) {
            return Some(mark);
        }
        if BULLETS.contains(first) || first == 'o' {
            return bullet(text, first);
        }
        if let Some(mark) = symbol(text, first) {
            return Some(mark);
        }
        if HAN_DIGITS.contains(first) {
            return numbered(text, "");
        }
        if is_picture(first) {
            return pictograph(text);
        }
        if first.is_alphabetic() && !is_single(text) {
            return roman_or_letters(text, "").or_else(|| labelled(text));
        }
        if matches!(first, '§' | '№' | '#') { labelled(text) } else { numbered(text, "") }
    }

    /// Whether a list may have it, and no word stands in it.
    pub(super) fn is_list_mark(&self) -> bool {
        self.style.system == System::Bullet || self.style.label.is_empty()
    }

    /// Whether it names a statement: `Lemma 3.2.`
    pub(crate) fn names_statement(&self) -> bool {
        let label = self.style.label;
        STATEMENTS.contains(&label) || self.number.depth() > 1 && label.starts_with(char::is_uppercase)
    }

    /// Whether it is only a number, as sentences may start with.
    pub(super) fn is_bare(&self) -> bool {
        let Style { label, opening, closing, system } = self.style;
        system == System::Decimal && label.is_empty() && opening.or(closing).is_none() && self.number.depth() == 1
    }

    /// Whether a list may start with any number of this style, because prose has none such: `Article 41`, `3.12`, `[7]`.
    pub(super) fn counts_from_anywhere(&self) -> bool {
        !self.style.label.is_empty() || self.style.opening.is_some() || self.number.depth() > 1
    }

    /// The end of the marks that an item starts with, including a number after a bullet; 0 without one.
    pub(super) fn end_of_all(text: &str) -> usize {
        let Some(mark) = Mark::at_start(text) else { return 0 };
        let after = &text[mark.end..];
        let inner = after.trim_start();
        let is_bullet = mark.style.system == System::Bullet;
        let second = if is_bullet { Mark::at_start(inner).map_or(0, |second| second.end) } else { 0 };
        if second == 0 { mark.end } else { text.len() - inner.len() + second }
    }
}

/// Whether a character is a bullet and nothing else.
pub(super) fn is_sure_bullet(c: char) -> bool {
    TIGHT_BULLETS.contains(c) || (BULLETS.contains(c) && !c.is_ascii() && !matches!(c, '–' | '—' | '·' | '»' | '›'))
}

fn bullet(text: &str, first: char) -> Option<Mark<'_>> {
    let after = text[first.len_utf8()..].trim_start_matches(AS_EMOJI);
    let end = text.len() - after.len();
    let after = after.chars().next()?;
    let is_spaced = after.is_whitespace();
    let is_mark = is_spaced || (TIGHT_BULLETS.contains(first) && after.is_alphanumeric());
    let style = Style { label: &text[..end], opening: None, closing: None, system: System::Bullet };
    is_mark.then_some(Mark { style, number: Number::default(), is_sure: !matches!(first, 'o' | '»' | '›'), end })
}

/// Whether a picture may be the mark of an item, as no tile or card is: `🚀 Faster startup.`
fn is_picture(c: char) -> bool {
    is_pictograph(c) && !matches!(c, '\u{1f000}'..='\u{1f2ff}')
}

/// A picture before a space: the mark of an item if the next line has one, too.
fn pictograph(text: &str) -> Option<Mark<'_>> {
    let end = text.find(' ')?;
    let is_alone = text[..end].chars().all(|c| is_picture(c) || c == AS_EMOJI);
    let begins = text[end..].trim_start().starts_with(char::is_alphanumeric);
    let style = Style { label: PICTURE, opening: None, closing: None, system: System::Bullet };
    (is_alone && begins).then_some(Mark { style, number: Number::default(), is_sure: false, end })
}

/// Boxes to tick and arrows of ASCII, and directives of reStructuredText: `[ ]`, `[x]`, `->`, `=>`, `.. note::`.
fn bullet_of_ascii(text: &str) -> Option<Mark<'_>> {
    let (label, end) = match text.as_bytes() {
        [b'.', b'.', b' ', name @ ..] if is_directive(name) && !introduces_literal(text) => (&text[..2], 2),
        [b'[', b' ' | b'x' | b'X', b']', b' ', ..] => ("[", 3),
        [b'-' | b'=', b'>', b' ', ..] => (&text[..2], 2),
        _ => return None,
    };
    let style = Style { label, opening: None, closing: None, system: System::Bullet };
    Some(Mark { style, number: Number::default(), is_sure: true, end })
}

/// `note::`, `py:function:: load(path)`
fn is_directive(text: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':');
    let name = text.iter().take_while(|byte| is_of_name(byte)).count();
    name > 2 && text[..name].ends_with(b"::")
}

/// `①`, `⑴`, `第三条`
fn symbol(text: &str, first: char) -> Option<Mark<'_>> {
    if let Some(after) = text[first.len_utf8()..].strip_prefix(KEYCAP) {
        let style = Style { label: "", opening: None, closing: Some('\u{20e3}'), system: System::Other };
        let number = decimal(first.to_digit(10)?);
        return Some(Mark { style, number, is_sure: true, end: text.len() - after.len() });
    }
    let start = match first {
        '①'..='⑳' => '①',
        '⑴'..='⒇' => '⑴',
        '⒈'..='⒛' => '⒈',
        '第' | '제' => return east_asian_article(text, first),
        _ => return None,
    };
    let style = Style { label: "", opening: None, closing: Some(start), system: System::Other };
    let number = decimal(u32::from(first) - u32::from(start) + 1);
    Some(Mark { style, number, is_sure: true, end: first.len_utf8() })
}

/// `第三条`, `제 3 조`: an article or chapter.
fn east_asian_article(text: &str, first: char) -> Option<Mark<'_>> {
    let label = first.len_utf8();
    let rest = text[label..].trim_start();
    let start = text.len() - rest.len();
    let (value, length) = digits(rest).or_else(|| han_number(rest))?;
    let after = rest[length..].trim_start();
    let closing = after.chars().next().filter(|c| "条條章节節款項项編编部조장절".contains(*c))?;
    let style = Style { label: &text[..label], opening: None, closing: Some(closing), system: System::Decimal };
    let end = text.len() - after.len() + closing.len_utf8();
    (end > start).then_some(Mark { style, number: decimal(value), is_sure: true, end })
}

/// Whether the first letter stands alone, as in `a)` and `B. `.
fn is_single(text: &str) -> bool {
    text.chars().nth(1).is_none_or(|second| !second.is_alphanumeric() && !is_sign_of_india(second))
}

/// Signs inside words that are no letters by themselves: `प्रश्न`.
fn is_sign_of_india(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{dff}') && !c.is_numeric() && !matches!(c, '।' | '॥')
}

/// `Step 1.`, `Art. 2`, `§3`, `Q4:`
fn labelled(text: &str) -> Option<Mark<'_>> {
    let is_inside = |c: char| c.is_alphabetic() || matches!(c, '§' | '№' | '#') || is_sign_of_india(c);
    let word_end = text.find(|c| !is_inside(c)).unwrap_or(text.len());
    let with_stop = word_end + usize::from(text[word_end..].starts_with('.'));
    let label = &text[..with_stop];
    if word_end == 0 || word_end > LONGEST_LABEL || is_caption(text) {
        return None;
    }
    let rest = text[with_stop..].trim_start_matches([' ', '\u{a0}']);
    let mut mark = numbered(rest, label)?;
    let is_tight = text.len() - rest.len() == with_stop;
    let is_closed = rest[..mark.end].ends_with(['.', ':', '：']);
    let is_letter = !rest.starts_with(|c: char| digit(c).is_some());
    // One letter is an initial or a word: `Henry I. `, `Vitamin B`, `government a`.
    let is_initial = (!is_closed || is_tight) && !LABELS.contains(&label) && label.len() < 4;
    let is_word = !is_closed && rest.starts_with(char::is_lowercase);
    if is_letter && (is_initial || is_word) {
        return None;
    }
    mark.is_sure = is_closed && !is_letter && (LABELS.contains(&label) || (is_tight && label == "Q"));
    mark.end += text.len() - rest.len();
    Some(mark)
}

/// Letters that are a Roman number: `iv)`, `XII.`
fn roman_or_letters<'text>(text: &'text str, label: &'text str) -> Option<Mark<'text>> {
    let length = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    roman(&text[..length]).and_then(|_| numbered(text, label))
}

/// A number or letter with the marks around it: `1.`, `(a)`, `[3]`, `IV.`, `1.2`, `2.-`, `一、`. Without a label, letters and
/// Chinese numbers have a mark after them.
fn numbered<'text>(text: &'text str, label: &'text str) -> Option<Mark<'text>> {
    let opening = text.chars().next().filter(|c| matches!(c, '(' | '[' | '（'));
    let inside = &text[opening.map_or(0, char::len_utf8)..];
    let (number, system, length) = value(inside, !label.is_empty())?;
    let stop = inside[length..].chars().next().filter(|c| matches!(c, '.' | '．' | 'º' | 'ª' | '°'));
    let rest = &inside[length + stop.map_or(0, char::len_utf8)..];
    // `Artigo 8.º`
    let rest = rest.strip_prefix(['º', 'ª']).filter(|_| stop == Some('.')).unwrap_or(rest);
    let (closing, rest) = closing(rest);
    let next = rest.chars().next();
    let is_spaced = next.is_none_or(char::is_whitespace);
    let is_bracketed = matches!(closing, Some(')' | '）' | ']'));
    let is_decimal = system == System::Decimal;
    let is_letter = matches!(system, System::Lower | System::Upper);
    let is_closed = is_bracketed
        || stop.is_some()
        || matches!(closing, Some('-' | '–' | '—')) && is_spaced && number.letter.is_some()
        || (closing.is_some() && !is_letter);
    // `1.Open`
    let is_tight =
        is_closed && is_decimal && next.is_some_and(|next| next.is_alphabetic() && !next.is_ascii_lowercase());
    let is_han = is_bracketed && system == System::Other;
    let may_end = is_spaced || is_tight || is_han || stop == Some('．') || matches!(closing, Some('、' | '）' | '：'));
    let is_mark = is_closed || !label.is_empty() || (is_decimal && closing.is_none() && next.is_some());
    if (opening.is_some() && !is_bracketed) || !may_end || !is_mark {
        return None;
    }
    let digits = &inside[..length];
    let is_short = number.depth() == 1 && digits.is_ascii() && digits.len() <= if is_decimal { 3 } else { 6 };
    // `[1]` may be a note in a sentence, and a letter with a full stop an initial.
    let is_round = closing == Some(')');
    let is_known = match system {
        System::Decimal => is_round || (stop == Some('.') && closing.is_none()),
        System::Lower => is_round,
        _ => is_round && digits.len() == 1,
    };
    let is_sure = is_known && is_short && is_spaced && next.is_some();
    let closing = closing.or(stop.filter(|stop| !is_decimal || !matches!(stop, '.' | '．')));
    Some(Mark { style: Style { label, opening, closing, system }, number, is_sure, end: text.len() - rest.len() })
}

/// The mark after a number, and what follows it. A space may stand before colons and dashes.
fn closing(text: &str) -> (Option<char>, &str) {
    let rest = text.trim_start_matches([' ', '\u{a0}']);
    let is_spaced = rest.len() < text.len();
    match rest.chars().next() {
        Some(mark @ (')' | ']' | '）' | '、' | '：' | '/' | '-')) if !is_spaced => {
            (Some(mark), &rest[mark.len_utf8()..])
        }
        Some(mark @ (':' | '–' | '—')) => (Some(mark), &rest[mark.len_utf8()..]),
        Some('-') if rest[1..].starts_with(' ') => (Some('-'), &rest[1..]),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_numbers_of_a_style() {
        for (text, mark, is_sure) in [
            ("• a", "•", true),
            ("•Open", "•", true),
            ("・営利", "・", true),
            ("⚠\u{fe0f} a", "⚠\u{fe0f}", true),
            ("✅ a", "✅", true),
            ("o Open", "o", false),
            ("- a", "-", true),
            ("[x] a", "[x]", true),
            ("-> a", "->", true),
            ("1. a", "1.", true),
            ("12) a", "12)", true),
            ("(1) a", "(1)", true),
            ("(1.) a", "(1.)", true),
            ("1.) a", "1.)", true),
            ("a) b", "a)", true),
            ("(iv) b", "(iv)", true),
            ("ii) b", "ii)", true),
            ("A. Smith", "A.", false),
            ("iv. b", "iv.", false),
            ("XII. b", "XII.", false),
            ("1.2 b", "1.2", false),
            ("1.2.3. b", "1.2.3.", false),
            ("7 Results", "7", false),
            ("[3] b", "[3]", false),
            ("1.a b", "1.a", false),
            ("1.- b", "1.-", false),
            ("1 – b", "1 –", false),
            ("2/ b", "2/", false),
            ("（一）打开", "（一）", false),
            ("(二)打开", "(二)", false),
            ("步骤1：打开", "步骤1：", false),
            ("1º b", "1º", false),
            ("б) b", "б)", false),
            ("① b", "①", true),
            ("一、打开", "一、", false),
            ("第三条 本法", "第三条", true),
            ("제3조 목적", "제3조", true),
            ("١. افتح", "١.", false),
            ("प्रश्न 2. पौधे", "प्रश्न 2.", false),
            ("Step 1. b", "Step 1.", true),
            ("Art. 12. b", "Art. 12.", true),
            ("§ 3. b", "§ 3.", true),
            ("§3 b", "§3", false),
            ("Q4. b", "Q4.", true),
            ("Étape 1 : b", "Étape 1 :", true),
            ("Rule 2. b", "Rule 2.", false),
            ("Chapter IV", "Chapter IV", false),
        ] {
            let found = Mark::at_start(text).unwrap_or_else(|| panic!("{text:?} has a mark"));
            assert_eq!((&text[..found.end], found.is_sure), (mark, is_sure), "{text:?}");
        }
        for text in
            ["1984. a", "10,000 b", "5% b", "1.5m b", "Table 1: b", "a man", "open", "Mr. X", "-a", "(see) b", "I am"]
        {
            assert_eq!(Mark::at_start(text), None, "{text:?}");
        }
        assert_eq!(Mark::end_of_all("• 1. Open"), "• 1.".len());
    }

    #[test]
    fn numbers_follow_each_other() {
        let number = |text| Mark::at_start(text).unwrap().number;
        for (one, next) in [
            ("1. a", "2. b"),
            ("h. a", "i. b"),
            ("i. a", "ii. b"),
            ("1 A", "1.1 B"),
            ("1.2 A", "2 B"),
            ("2.9 A", "2.10 B"),
            ("九、a", "十、b"),
        ] {
            assert!(number(next).follows(number(one)), "{one:?} {next:?}");
        }
        for (one, next) in [("1. a", "3. b"), ("a. a", "c. b"), ("1.2 A", "1.4 B"), ("2. a", "2. b")] {
            assert!(!number(next).follows(number(one)), "{one:?} {next:?}");
        }
        assert!(["1. a", "a) b", "i. b", "3.1 b"].into_iter().all(|text| number(text).is_first()));
    }
}
