//! One pass over a text that finds words, numbers and runs of scripts without spaces, and emits their terms.

use super::TermRole;
use super::characters::{ASCII, CharClass, class, joins};
use super::compounds::{Compounds, digit_groups, spaced_number};
use super::normalizer::{Normalizer, hash};
use super::suffixes::korean_noun;
use super::{Language, Term};
use crate::error::Result;
use crate::runtime::call::{Check, Checkpoints};
use crate::text::page::ByteSpan;
use crate::text::pieces::words_checked;

/// Calls `emit` with every term of a text, in the order of their starts.
///
/// # Errors
/// Those of `check`.
pub(super) fn scan(
    text: &str,
    language: Language,
    check: &Check,
    emit: &mut impl FnMut(Term, ByteSpan, TermRole),
) -> Result<()> {
    let mut checkpoints = Checkpoints::new(check);
    let bytes = text.as_bytes();
    let normalizer = Normalizer::new(language);
    let mut scanner = Scanner { text, normalizer, compounds: Compounds::default(), run: Vec::new(), last: None };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        checkpoints.reach(at)?;
        if byte.is_ascii() {
            at = if ASCII[usize::from(byte)].is_word() { scanner.token(at, emit) } else { at + 1 };
            continue;
        }
        let (class, length) = class_at(text, at);
        at = match class {
            CharClass::Letter | CharClass::Capital | CharClass::Digit => scanner.token(at, emit),
            CharClass::Han | CharClass::Hiragana | CharClass::Katakana => scanner.east_asian(at, emit),
            CharClass::Hangul => scanner.hangul(at, emit),
            CharClass::SoutheastAsian => scanner.southeast_asian(at, check, emit)?,
            CharClass::Other | CharClass::Joiner | CharClass::Ignorable => at + length,
        };
    }
    Ok(())
}

/// The class of the character at a position and its length in bytes; `(Other, 0)` at the end.
fn class_at(text: &str, at: usize) -> (CharClass, usize) {
    text[at..].chars().next().map_or((CharClass::Other, 0), |c| (class(c), c.len_utf8()))
}

/// Bytes of the shortest word before a single letter that is taken for its noun.
const SHORTEST_NOUN: usize = 3;

/// A character of a run of Chinese or Japanese.
struct Character {
    start: usize,
    end: usize,
    /// Full-width and composed.
    c: char,
    class: CharClass,
}

struct Scanner<'text> {
    text: &'text str,
    normalizer: Normalizer,
    compounds: Compounds,
    /// Reused for the current run of Chinese, Japanese or Korean.
    run: Vec<Character>,
    /// The last word of letters.
    last: Option<(Term, ByteSpan)>,
}

impl Scanner<'_> {
    /// Scans a word, number or compound. Returns its end, as all methods below.
    fn token(&mut self, start: usize, emit: &mut impl FnMut(Term, ByteSpan, TermRole)) -> usize {
        let (end, kind) = token_end(self.text, start);
        let span = ByteSpan { start, end };
        match kind {
            TokenKind::Letters => {
                let word = span.of(self.text);
                let term = self.normalizer.word(word);
                emit(term, span, TermRole::Whole);
                if let [letter @ b'A'..=b'Z'] = word.as_bytes()
                    && let Some(noun) = self.noun_before(start)
                {
                    let mut bytes = [0; 9];
                    bytes[..8].copy_from_slice(&noun.0.to_le_bytes());
                    bytes[8] = *letter;
                    emit(Term(hash(&bytes)), span, TermRole::Lettered);
                }
                self.last = Some((term, span));
                if let Some(term) = self.normalizer.unaccented(word) {
                    emit(term, span, TermRole::Unaccented);
                }
            }
            TokenKind::Digits => {
                let spaced = spaced_number(self.text, start, end).or_else(|| digit_groups(self.text, start));
                let Some((value, end)) = spaced else {
                    emit(Term(hash(span.of(self.text).as_bytes())), span, TermRole::Whole);
                    return end;
                };
                emit(Term(hash(value.as_bytes())), ByteSpan { start, end }, TermRole::Whole);
                let mut at = start;
                for part in self.text[start..end].split_inclusive(|c: char| !c.is_ascii_digit()) {
                    let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
                    let span = ByteSpan { start: at, end: at + digits.len() };
                    emit(Term(hash(digits.as_bytes())), span, TermRole::Part);
                    at += part.len();
                }
                return end;
            }
            TokenKind::Compound => self.compounds.scan(self.text, span, &mut self.normalizer, emit),
        }
        end
    }

    /// The word that a space separates from a single letter at `start`: the noun of `room B`.
    fn noun_before(&self, start: usize) -> Option<Term> {
        let bytes = self.text.as_bytes();
        let (term, word) = self.last.filter(|(_, word)| word.end + 1 == start && word.len() >= SHORTEST_NOUN)?;
        // In `and I went` it is a pronoun.
        let is_pronoun = bytes[start] == b'I' && bytes[start + 1..].starts_with(b" ");
        (bytes[word.end] == b' ' && !is_pronoun).then_some(term)
    }

    /// Emits each two adjacent characters of Chinese and Japanese, and whole Katakana words.
    fn east_asian(&mut self, start: usize, emit: &mut impl FnMut(Term, ByteSpan, TermRole)) -> usize {
        self.run.clear();
        let end = self.gather(start, CharClass::is_east_asian);
        let run = &self.run;
        if let [only] = &run[..] {
            emit(characters_term(&[only.c]), ByteSpan { start, end }, TermRole::Whole);
            return end;
        }
        let mut katakana_end = 0;
        for (i, pair) in run.windows(2).enumerate() {
            if i >= katakana_end && pair[0].class == CharClass::Katakana {
                katakana_end = i + run[i..].iter().take_while(|next| next.class == CharClass::Katakana).count();
                if katakana_end - i > 2 {
                    let word: String = run[i..katakana_end].iter().map(|character| character.c).collect();
                    let span = ByteSpan { start: pair[0].start, end: run[katakana_end - 1].end };
                    emit(Term(hash(word.as_bytes())), span, TermRole::Whole);
                }
            }
            let role = match (pair[0].class, pair[1].class) {
                (CharClass::Hiragana, CharClass::Hiragana) => TermRole::Grammar,
                (CharClass::Katakana, CharClass::Katakana) if is_within_word(run, i, katakana_end) => TermRole::Part,
                _ => TermRole::Whole,
            };
            let span = ByteSpan { start: pair[0].start, end: pair[1].end };
            emit(characters_term(&[pair[0].c, pair[1].c]), span, role);
        }
        end
    }

    /// Emits a Korean word as a whole, without its particle, and each two adjacent syllables.
    fn hangul(&mut self, start: usize, emit: &mut impl FnMut(Term, ByteSpan, TermRole)) -> usize {
        self.run.clear();
        let end = self.gather(start, |class| class == CharClass::Hangul);
        let span = ByteSpan { start, end };
        let noun = korean_noun(span.of(self.text)).map(|length| ByteSpan { start, end: start + length });
        if let [first, second] = &self.run[..] {
            emit(characters_term(&[first.c, second.c]), span, TermRole::Whole);
        } else {
            emit(Term(hash(span.of(self.text).as_bytes())), span, TermRole::Whole);
        }
        // A noun of two syllables is one of the pairs.
        if let Some(noun) = noun.filter(|noun| noun.of(self.text).chars().count() != 2) {
            emit(Term(hash(noun.of(self.text).as_bytes())), noun, TermRole::Part);
        }
        if self.run.len() == 2 {
            return end;
        }
        for pair in self.run.windows(2) {
            let span = ByteSpan { start: pair[0].start, end: pair[1].end };
            emit(characters_term(&[pair[0].c, pair[1].c]), span, TermRole::Part);
        }
        end
    }

    /// Emits the dictionary words of Thai, Lao, Khmer or Burmese.
    fn southeast_asian(
        &self,
        start: usize,
        check: &Check,
        emit: &mut impl FnMut(Term, ByteSpan, TermRole),
    ) -> Result<usize> {
        let mut end = start;
        loop {
            let (class, length) = class_at(self.text, end);
            if !matches!(class, CharClass::SoutheastAsian | CharClass::Ignorable) {
                break;
            }
            end += length;
        }
        for word in words_checked(&self.text[start..end], check)? {
            let span = ByteSpan { start: start + word.start, end: start + word.end };
            emit(Term(hash(span.of(self.text).as_bytes())), span, TermRole::Whole);
        }
        Ok(end)
    }

    /// Collects the characters of a run in `self.run`.
    fn gather(&mut self, start: usize, belongs: impl Fn(CharClass) -> bool) -> usize {
        let mut at = start;
        for c in self.text[start..].chars() {
            let class = class(c);
            if (!belongs(class) && class != CharClass::Ignorable) || at >= start + LONGEST_RUN {
                break;
            }
            let begin = at;
            at += c.len_utf8();
            if class == CharClass::Ignorable {
                continue;
            }
            // Half-width sound marks belong to the syllable before them.
            let mark = match c {
                '\u{ff9e}' => Some('\u{3099}'),
                '\u{ff9f}' => Some('\u{309a}'),
                _ => None,
            };
            if let (Some(mark), Some(last)) = (mark, self.run.last_mut())
                && let Some(composed) = unicode_normalization::char::compose(last.c, mark)
            {
                (last.c, last.end) = (composed, at);
                continue;
            }
            self.run.push(Character { start: begin, end: at, c: full_width(c), class });
        }
        at
    }
}

/// Whether the pair at `i` is within a Katakana word that has a term of its own.
fn is_within_word(run: &[Character], i: usize, katakana_end: usize) -> bool {
    let is_katakana = |at: usize| run.get(at).is_some_and(|character| character.class == CharClass::Katakana);
    i + 2 < katakana_end || (i > 0 && is_katakana(i - 1))
}

/// The usual form of a half-width syllable, or of a Chinese character that Unicode encodes twice.
fn full_width(c: char) -> char {
    if !matches!(c, '\u{ff66}'..='\u{ff9f}' | '\u{f900}'..='\u{faff}' | '\u{2e80}'..='\u{2fdf}') {
        return c;
    }
    let mut plain = None;
    unicode_normalization::char::decompose_compatible(c, |part| plain = plain.or(Some(part)));
    plain.unwrap_or(c)
}

/// The term of adjacent characters.
fn characters_term(characters: &[char]) -> Term {
    let mut bytes = [0; 8];
    let mut length = 0;
    for c in characters {
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    Term(hash(&bytes[..length]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    /// Letters, of which only the first may be a capital.
    Letters,
    /// ASCII digits.
    Digits,
    /// Anything else; [`Compounds`] splits it.
    Compound,
}

/// Bytes after which a word, or a run of a script without spaces, is cut: a call may end there.
const LONGEST_RUN: usize = 64 * 1024;

/// The end and the kind of the token at a position.
fn token_end(text: &str, start: usize) -> (usize, TokenKind) {
    let bytes = text.as_bytes();
    let (mut at, mut before) = (start, CharClass::Other);
    let mut kind = if bytes[start].is_ascii_digit() { TokenKind::Digits } else { TokenKind::Letters };
    while at < start + LONGEST_RUN {
        while at < start + LONGEST_RUN && bytes.get(at).is_some_and(u8::is_ascii_lowercase) {
            if before == CharClass::Digit {
                kind = TokenKind::Compound;
            }
            before = CharClass::Letter;
            at += 1;
        }
        let (now, length) = class_at(text, at);
        match now {
            CharClass::Letter if before != CharClass::Digit => {}
            CharClass::Capital if at == start => {}
            CharClass::Digit if bytes[at].is_ascii() && kind == TokenKind::Digits => {}
            CharClass::Letter | CharClass::Capital | CharClass::Digit => kind = TokenKind::Compound,
            CharClass::Joiner => {
                let joiner = text[at..].chars().next().unwrap_or_default();
                let after = text[at + length..].chars().next().map_or(CharClass::Other, class);
                if !joins(before, joiner, after) {
                    let wrap = wrap(text, at + length);
                    if wrap == 0 || !matches!(joiner, '-' | '\u{2010}') || before == CharClass::Digit {
                        break;
                    }
                    at += wrap;
                }
                kind = TokenKind::Compound;
            }
            // A soft hyphen inside a word counts as absent, so `before` stays unchanged.
            CharClass::Ignorable => {
                let wrap = if text[at..].starts_with('\u{ad}') && before != CharClass::Digit {
                    wrap(text, at + length)
                } else {
                    0
                };
                if wrap > 0 {
                    kind = TokenKind::Compound;
                }
                at += length + wrap;
                continue;
            }
            CharClass::Other if is_gershayim(text, at, length) => kind = TokenKind::Compound,
            _ => break,
        }
        before = now;
        at += length;
    }
    if kind != TokenKind::Compound && is_marked_letter(bytes, start, at) {
        return (at + if bytes[at] == b'#' { 1 } else { 2 }, TokenKind::Compound);
    }
    (at, kind)
}

/// The most white space searched after a hyphen, in bytes: a line end and the next line's indentation.
const WIDEST_WRAP: usize = 64;

/// The bytes of white space inside a word that is hyphenated at the end of a line; 0 if no line ends here or no letter
/// follows.
fn wrap(text: &str, at: usize) -> usize {
    let (mut length, mut line_ends) = (0, 0);
    for byte in text.as_bytes()[at..].iter().take(WIDEST_WRAP) {
        match byte {
            b' ' | b'\t' => {}
            b'\n' => line_ends += 1,
            b'\r' => line_ends += usize::from(text.as_bytes().get(at + length + 1) != Some(&b'\n')),
            _ => break,
        }
        length += 1;
    }
    let (next, _) = class_at(text, at + length);
    if line_ends == 1 && matches!(next, CharClass::Letter | CharClass::Capital) { length } else { 0 }
}

/// Whether this is the mark inside a Hebrew acronym, often typed as a plain quote: `צה"ל`.
fn is_gershayim(text: &str, at: usize, length: usize) -> bool {
    let is_hebrew = |c: char| matches!(c, '\u{5d0}'..='\u{5ea}');
    matches!(&text[at..at + length], "\"" | "\u{5f4}")
        && text[..at].ends_with(is_hebrew)
        && text[at + length..].starts_with(is_hebrew)
}

/// Whether a token is one letter followed by `#` or `++`, as in `C++` and `F#`.
fn is_marked_letter(bytes: &[u8], start: usize, end: usize) -> bool {
    let marked = bytes[end..].starts_with(b"++") || bytes.get(end) == Some(&b'#');
    let word_follows = || bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
    marked && end - start == 1 && bytes[start].is_ascii_alphabetic() && !word_follows()
}
