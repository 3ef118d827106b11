//! The reading of a text: one walk that finds words, numbers and runs of scripts without spaces, and says their terms.

use super::Role;
use super::characters::{ASCII, Class, class, joins};
use super::compounds::Compounds;
use super::endings::korean_noun;
use super::normal::{Normal, hash};
use super::{Language, Term};
use crate::text::page::ByteSpan;
use crate::text::pieces::words;

/// Calls `found` with every term of a text, in order of where they start.
pub(super) fn scan(text: &str, language: Language, found: &mut impl FnMut(Term, ByteSpan, Role)) {
    let bytes = text.as_bytes();
    let mut reader = Reader { text, normal: Normal::new(language), compounds: Compounds::default(), run: Vec::new() };
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii() {
            at = if ASCII[usize::from(byte)].is_word() { reader.token(at, found) } else { at + 1 };
            continue;
        }
        let (class, length) = class_at(text, at);
        at = match class {
            Class::Letter | Class::Capital | Class::Digit => reader.token(at, found),
            Class::Han | Class::Hiragana | Class::Katakana => reader.east_asian(at, found),
            Class::Hangul => reader.hangul(at, found),
            Class::SoutheastAsian => reader.southeast_asian(at, found),
            Class::Other | Class::Joiner | Class::Ignorable => at + length,
        };
    }
}

/// The class of the character at a position, and its length in bytes; nothing at the end of the text.
fn class_at(text: &str, at: usize) -> (Class, usize) {
    text[at..].chars().next().map_or((Class::Other, 0), |c| (class(c), c.len_utf8()))
}

/// A character of a run of Chinese or Japanese.
struct Character {
    start: usize,
    end: usize,
    /// In its normal form: full width, composed.
    c: char,
    class: Class,
}

struct Reader<'text> {
    text: &'text str,
    normal: Normal,
    compounds: Compounds,
    /// The run of characters at hand; kept for its memory.
    run: Vec<Character>,
}

impl Reader<'_> {
    /// Reads the word, number or compound at a position; returns where it ends.
    fn token(&mut self, start: usize, found: &mut impl FnMut(Term, ByteSpan, Role)) -> usize {
        let (end, kind) = token_end(self.text, start);
        let span = ByteSpan { start, end };
        match kind {
            Kind::Letters => {
                let word = span.of(self.text);
                found(self.normal.word(word), span, Role::Whole);
                if let Some(term) = self.normal.unaccented(word) {
                    found(term, span, Role::Unaccented);
                }
            }
            Kind::Digits => found(Term(hash(span.of(self.text).as_bytes())), span, Role::Whole),
            Kind::Compound => self.compounds.read(self.text, span, &mut self.normal, found),
        }
        end
    }

    /// Reads a run of Chinese and Japanese: every two characters side by side, and whole words in Katakana.
    fn east_asian(&mut self, start: usize, found: &mut impl FnMut(Term, ByteSpan, Role)) -> usize {
        self.run.clear();
        let end = self.gather(start, Class::is_east_asian);
        let run = &self.run;
        if let [only] = &run[..] {
            found(characters_term(&[only.c]), ByteSpan { start, end }, Role::Whole);
            return end;
        }
        let mut katakana_end = 0;
        for (i, pair) in run.windows(2).enumerate() {
            if i >= katakana_end && pair[0].class == Class::Katakana {
                katakana_end = i + run[i..].iter().take_while(|next| next.class == Class::Katakana).count();
                if katakana_end - i > 2 {
                    let word: String = run[i..katakana_end].iter().map(|character| character.c).collect();
                    let span = ByteSpan { start: pair[0].start, end: run[katakana_end - 1].end };
                    found(Term(hash(word.as_bytes())), span, Role::Whole);
                }
            }
            let role = match (pair[0].class, pair[1].class) {
                (Class::Hiragana, Class::Hiragana) => Role::Grammar,
                (Class::Katakana, Class::Katakana) if run_is_long(run, i, katakana_end) => Role::Part,
                _ => Role::Whole,
            };
            let span = ByteSpan { start: pair[0].start, end: pair[1].end };
            found(characters_term(&[pair[0].c, pair[1].c]), span, role);
        }
        end
    }

    /// Reads a Korean word: whole, without the particle that hangs on its end, and every two syllables side by side.
    fn hangul(&mut self, start: usize, found: &mut impl FnMut(Term, ByteSpan, Role)) -> usize {
        self.run.clear();
        let end = self.gather(start, |class| class == Class::Hangul);
        let span = ByteSpan { start, end };
        let noun = korean_noun(span.of(self.text)).map(|length| ByteSpan { start, end: start + length });
        if let [first, second] = &self.run[..] {
            found(characters_term(&[first.c, second.c]), span, Role::Whole);
        } else {
            found(Term(hash(span.of(self.text).as_bytes())), span, Role::Whole);
        }
        // A noun of two syllables is one of the pairs.
        if let Some(noun) = noun.filter(|noun| noun.of(self.text).chars().count() != 2) {
            found(Term(hash(noun.of(self.text).as_bytes())), noun, Role::Part);
        }
        if self.run.len() == 2 {
            return end;
        }
        for pair in self.run.windows(2) {
            let span = ByteSpan { start: pair[0].start, end: pair[1].end };
            found(characters_term(&[pair[0].c, pair[1].c]), span, Role::Part);
        }
        end
    }

    /// Reads a run of Thai, Lao, Khmer or Burmese: the words that a dictionary finds.
    fn southeast_asian(&self, start: usize, found: &mut impl FnMut(Term, ByteSpan, Role)) -> usize {
        let mut end = start;
        loop {
            let (class, length) = class_at(self.text, end);
            if !matches!(class, Class::SoutheastAsian | Class::Ignorable) {
                break;
            }
            end += length;
        }
        for word in words(&self.text[start..end]) {
            let span = ByteSpan { start: start + word.start, end: start + word.end };
            found(Term(hash(span.of(self.text).as_bytes())), span, Role::Whole);
        }
        end
    }

    /// Gathers the characters of a run; returns where it ends.
    fn gather(&mut self, start: usize, belongs: impl Fn(Class) -> bool) -> usize {
        let mut at = start;
        for c in self.text[start..].chars() {
            let class = class(c);
            if !belongs(class) && class != Class::Ignorable {
                break;
            }
            let begin = at;
            at += c.len_utf8();
            if class == Class::Ignorable {
                continue;
            }
            // Half-width sound marks belong to the syllable before.
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

/// Whether the pair at `i` lies in a Katakana word that is a term of its own.
fn run_is_long(run: &[Character], i: usize, katakana_end: usize) -> bool {
    let another = |at: usize| run.get(at).is_some_and(|character| character.class == Class::Katakana);
    i + 2 < katakana_end || (i > 0 && another(i - 1))
}

/// The usual form of a half-width syllable or of a Chinese character encoded twice.
fn full_width(c: char) -> char {
    if !matches!(c, '\u{ff66}'..='\u{ff9f}' | '\u{f900}'..='\u{faff}' | '\u{2e80}'..='\u{2fdf}') {
        return c;
    }
    let mut plain = None;
    unicode_normalization::char::decompose_compatible(c, |part| plain = plain.or(Some(part)));
    plain.unwrap_or(c)
}

/// The term of characters that stand side by side.
fn characters_term(characters: &[char]) -> Term {
    let mut bytes = [0; 8];
    let mut length = 0;
    for c in characters {
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    Term(hash(&bytes[..length]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Letters alone, with a capital at most in front.
    Letters,
    /// ASCII digits alone.
    Digits,
    /// Anything that has to be looked at again.
    Compound,
}

/// Where the token at a position ends, and what it is.
fn token_end(text: &str, start: usize) -> (usize, Kind) {
    let bytes = text.as_bytes();
    let (mut at, mut before) = (start, Class::Other);
    let mut kind = if bytes[start].is_ascii_digit() { Kind::Digits } else { Kind::Letters };
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_lowercase) {
            if before == Class::Digit {
                kind = Kind::Compound;
            }
            before = Class::Letter;
            at += 1;
        }
        let (now, length) = class_at(text, at);
        match now {
            Class::Letter if before != Class::Digit => {}
            Class::Capital if at == start => {}
            Class::Digit if bytes[at].is_ascii() && kind == Kind::Digits => {}
            Class::Letter | Class::Capital | Class::Digit => kind = Kind::Compound,
            Class::Joiner => {
                let joiner = text[at..].chars().next().unwrap_or_default();
                let after = text[at + length..].chars().next().map_or(Class::Other, class);
                if !joins(before, joiner, after) {
                    let wrap = wrap(text, at + length);
                    if wrap == 0 || !matches!(joiner, '-' | '\u{2010}') || before == Class::Digit {
                        break;
                    }
                    at += wrap;
                }
                kind = Kind::Compound;
            }
            // Soft hyphens vanish inside a word; `before` stays what it was.
            Class::Ignorable => {
                let wrap = if text[at..].starts_with('\u{ad}') && before != Class::Digit {
                    wrap(text, at + length)
                } else {
                    0
                };
                if wrap > 0 {
                    kind = Kind::Compound;
                }
                at += length + wrap;
                continue;
            }
            Class::Other if is_gershayim(text, at, length) => kind = Kind::Compound,
            _ => break,
        }
        before = now;
        at += length;
    }
    if kind != Kind::Compound && is_marked_letter(bytes, start, at) {
        return (at + if bytes[at] == b'#' { 1 } else { 2 }, Kind::Compound);
    }
    (at, kind)
}

/// The white space of a few bytes to look for behind a hyphen: a line end and the next line's indentation.
const WIDEST_WRAP: usize = 64;

/// How many bytes of white space part the two halves of a word that was hyphenated at the end of a line; none where it was
/// not: no line ends here, or no letter follows.
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
    if line_ends == 1 && matches!(next, Class::Letter | Class::Capital) { length } else { 0 }
}

/// Whether this is the mark inside a Hebrew acronym, for which a plain quote is typed: `צה"ל`.
fn is_gershayim(text: &str, at: usize, length: usize) -> bool {
    let is_hebrew = |c: char| matches!(c, '\u{5d0}'..='\u{5ea}');
    matches!(&text[at..at + length], "\"" | "\u{5f4}")
        && text[..at].ends_with(is_hebrew)
        && text[at + length..].starts_with(is_hebrew)
}

/// Whether a token is one letter with `#` or `++` behind it, as names of programming languages are: `C++`, `F#`.
fn is_marked_letter(bytes: &[u8], start: usize, end: usize) -> bool {
    let marked = bytes[end..].starts_with(b"++") || bytes.get(end) == Some(&b'#');
    let word_behind = || bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
    marked && end - start == 1 && bytes[start].is_ascii_alphabetic() && !word_behind()
}
