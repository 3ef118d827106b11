//! Where an element starts or ends inside a line: whether the words on both sides are one.
//!
//! A browser shows a note above the line, a button in a frame. In a text they would fuse with the word or number next to
//! them: `end.12The`, `CopyShare`, `106` for a power of ten. `1st`, `m2` and `H2O` stay words.

use super::super::elements::ElementRole;

/// Letters of the shortest word that does not go on above the line: `km2`, but not `house2`.
const SHORTEST_WORD: usize = 3;

/// What started or ended since the last character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Joint {
    #[default]
    None,
    /// Two words.
    Words,
    /// Two numbers.
    Numbers,
    /// Text above the line starts.
    Raised,
    /// Text above the line ended, which started at this byte.
    Lowered(usize),
}

impl Joint {
    /// At the start of an element.
    pub(super) const fn before(role: ElementRole, open: Self) -> Self {
        match role {
            ElementRole::Button => Self::Words,
            ElementRole::Superscript => Self::Raised,
            ElementRole::Subscript => Self::Numbers,
            _ => open,
        }
    }

    /// At the end of an element with this span of the text.
    pub(super) const fn after(role: ElementRole, start: usize, end: usize, open: Self) -> Self {
        match role {
            ElementRole::Button => Self::Words,
            ElementRole::Superscript if start < end => Self::Lowered(start),
            ElementRole::Subscript if start < end => Self::Numbers,
            _ => open,
        }
    }

    /// Whether a space is needed between the text so far and the next word.
    pub(super) fn separates(self, text: &str, next: &str) -> bool {
        let (Some(last), Some(first)) = (text.chars().next_back(), next.chars().next()) else { return false };
        let are_numbers = last.is_numeric() && first.is_numeric();
        match self {
            Self::None => false,
            Self::Words => last.is_alphanumeric() && first.is_alphanumeric(),
            Self::Numbers => are_numbers,
            Self::Raised if !first.is_alphanumeric() => false,
            Self::Raised => are_numbers || ends_with_word(text) || ends_with_number_mark(text) && first.is_numeric(),
            Self::Lowered(start) => {
                let is_mark = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
                let is_tight = || text.get(start..).is_some_and(|raised| !raised.starts_with(char::is_whitespace));
                let after_mark = || is_tight() && text.get(..start).is_some_and(|before| before.ends_with(is_mark));
                let is_note = || {
                    last.is_numeric()
                        && next.chars().take(SHORTEST_WORD).filter(|c| c.is_alphabetic()).count() == SHORTEST_WORD
                };
                first.is_alphanumeric() && (are_numbers || after_mark() || is_note())
            }
        }
    }
}

/// Whether the text ends with a word that is no unit or name of a variable.
fn ends_with_word(text: &str) -> bool {
    text.chars().rev().take(SHORTEST_WORD).filter(|c| c.is_alphabetic() && !is_ideograph(*c)).count() == SHORTEST_WORD
}

/// Whether a number's full stop would make one number of it and a note: `in 1932.` with `12`.
fn ends_with_number_mark(text: &str) -> bool {
    let number = text.trim_end_matches(['.', ',']);
    number.len() < text.len() && number.ends_with(char::is_numeric)
}

/// Letters of scripts without spaces between words.
fn is_ideograph(c: char) -> bool {
    c >= '\u{2e80}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_exponents_do_not_fuse() {
        for (before, raised, after, expected) in [
            ("the end.", "12", "The", "the end.12 The"),
            ("in 1932.", "12", "The", "in 1932. 12 The"),
            ("in 1932", "3", " and", "in 1932 3 and"),
            ("a house", "3", " and", "a house 3 and"),
            ("10", "6", " of", "10 6 of"),
            ("1", "st", " of", "1st of"),
            ("x", "2", "+", "x2+"),
            ("km", "2", ".", "km2."),
            ("", "14", "C", "14C"),
            ("", "1", "The", "1 The"),
            ("tea.", "[1]", "The", "tea.[1] The"),
            ("終わり。", "1", "次", "終わり。1 次"),
        ] {
            let mut text = before.to_owned();
            for (joint, next) in [(Joint::Raised, raised), (Joint::Lowered(0), after)] {
                let joint = if joint == Joint::Raised { joint } else { Joint::Lowered(text.len() - raised.len()) };
                if joint.separates(&text, next) {
                    text.push(' ');
                }
                text.push_str(next);
            }
            assert_eq!(text, expected);
        }
    }
}
