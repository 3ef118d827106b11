//! Where sentences end: which full stops of a block end one.
//!
//! Unicode's rules (UAX #29, by ICU) propose the ends. This module moves them after footnote markers, drops them after
//! abbreviations, and adds those that the rules miss: on pages without capitals, before numbers, without a space, after an
//! ellipsis, a Greek question mark or a mark typed for a full stop. Every search around an end is bounded, so the time is
//! linear.

use std::cell::{Cell, LazyCell, OnceCell};
use std::ops::Range;
use std::sync::LazyLock;

use icu_segmenter::options::SentenceBreakInvariantOptions;
use icu_segmenter::{SentenceSegmenter, SentenceSegmenterBorrowed};

use super::abbreviations::{self, WordClass, first_word, is_word_of, last_word};
use super::amounts::starts_with_amount;
use super::graphemes::Clusters;
use super::inline_items::{BULLETS, inline_items};
use super::joints;
use super::lines::content;
use super::links::Links;
use super::list_marks::Mark;
use super::marks::{
    is_armenian, is_east_asian, is_ethiopic, is_hangul, is_indic, is_opening, is_pictograph, is_terminal,
};
use super::sentence_numbers::{goes_on_counting, is_numbered, is_numbering, is_part_of_date, is_roman};
use super::sentence_quotes::{continues_quote, goes_on_after_quote};
use super::sentence_tails::{attached_end, note_after, spaced_note};
use super::table_captions::is_caption;
use crate::text::page::boundary_from;

static SENTENCES: LazyLock<SentenceSegmenterBorrowed<'static>> =
    LazyLock::new(|| SentenceSegmenter::new(SentenceBreakInvariantOptions::default()));

/// In French a space precedes this closing quote.
const SPACED_CLOSING: char = '»';

/// Bytes of the longest number, initial or unknown abbreviation before a full stop.
const LONGEST_SHORT_WORD: usize = 6;

/// Bytes of the longest mark of an item.
const LONGEST_MARK: usize = 40;

/// Bytes of a remark in parentheses before and after a full stop in it.
const LONGEST_REMARK: usize = 200;

/// First bytes of marks whose ends Unicode's rules may miss.
const MARKS: [bool; 256] = table(b".;\xe2\xcd");
const MARKS_AND_SUBSTITUTES: [bool; 256] = table(b".;\xe2\xcd|:\xd7\xe0\xe1");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let (mut table, mut i) = ([false; 256], 0);
    while i < bytes.len() {
        table[bytes[i] as usize] = true;
        i += 1;
    }
    table
}

/// Characters searched next to a mark for what is attached to it.
const MAX_ATTACHED_CHARS: usize = 64;

/// Most blocks are one sentence and need no links.
type LazyLinks<'text> = LazyCell<Links, Box<dyn FnOnce() -> Links + 'text>>;

/// What the letters of a whole page show.
#[derive(Clone, Copy)]
pub(super) struct Script {
    pub(super) has_capitals: bool,
    /// Whether other marks may stand for full stops.
    pub(super) has_substitutes: bool,
}

/// A block in which every line end is a space.
pub(super) struct Prose<'text> {
    text: &'text str,
    script: Script,
    is_item: bool,
    /// The end of the name of a speaker at its start.
    label: usize,
    /// See [`joints::lacks_spaces`].
    lacks_spaces: OnceCell<bool>,
}

impl<'text> Prose<'text> {
    pub(super) const fn new(text: &'text str, script: Script, is_item: bool, label: usize) -> Self {
        Self { text, script, is_item, label, lacks_spaces: OnceCell::new() }
    }

    /// Calls `emit` with the start and end of each sentence, in order, including the white space between them.
    pub(super) fn split(&self, mut emit: impl FnMut(usize, usize)) {
        let mut clusters = Clusters::new(self.text);
        let links: LazyLinks = LazyCell::new(Box::new(|| Links::new(self.text)));
        let start = Cell::new(0);
        let mut cut = |proposed: usize| {
            if proposed <= start.get() || proposed == self.text.len() {
                return;
            }
            let Some(end) = links.end_outside(proposed).filter(|&end| end < self.text.len()) else { return };
            if self.ends_sentence(start.get(), end, &links) && clusters.may_cut(end) {
                emit(start.get(), end);
                start.set(end);
            }
        };
        let mut items = inline_items(self.text).into_iter().peekable();
        let mut last = 0;
        for end in SENTENCES.segment_str(self.text).skip(1) {
            while let Some(item) = items.next_if(|&item| item < end) {
                self.propose_missed(&start, last..item, &links, &mut cut);
                cut(item);
                last = item;
            }
            self.propose_missed(&start, last..end, &links, &mut cut);
            cut(self.adjusted(end));
            last = end;
        }
        if start.get() < self.text.len() {
            emit(start.get(), self.text.len());
        }
    }

    /// Proposes ends within what Unicode's rules consider one sentence. `start` is that of the sentence, which moves as
    /// `propose` ends it.
    fn propose_missed(
        &self,
        start: &Cell<usize>,
        Range { start: from, end: to }: Range<usize>,
        links: &LazyLinks,
        propose: &mut impl FnMut(usize),
    ) {
        let bytes = self.text.as_bytes();
        let candidates = if self.script.has_substitutes { &MARKS_AND_SUBSTITUTES } else { &MARKS };
        let mut at = from;
        while let Some(step) = bytes[at..to].iter().position(|&byte| candidates[usize::from(byte)]) {
            at += step;
            let mark_end = match bytes[at..to] {
                // Two colons, Amharic's full stop as typed; U+037E, the Greek question mark; U+05C3, the Hebrew sof pasuq.
                [b':', b':', ..] | [0xcd, 0xbe, ..] | [0xd7, 0x83, ..] => at + 2,
                [b'.' | b';' | b'|' | b':', ..] => at + 1,
                // U+2026, the ellipsis, and U+0F0D and U+0F0E, the Tibetan shads.
                [0xe2, 0x80, 0xa6, ..] | [0xe0, 0xbc, 0x8d | 0x8e, ..] => at + 3,
                // Two of U+1361, Amharic's space, for its full stop.
                [0xe1, 0x8d, 0xa1, 0xe1, 0x8d, 0xa1, ..] => at + 6,
                _ => {
                    at += 1;
                    continue;
                }
            };
            let mut end = attached_end(self.text, mark_end);
            if self.text[..end].ends_with(']') {
                end = links.end_outside(end).unwrap_or(end);
            }
            let after = &self.text[end..];
            let next = after.trim_start();
            let is_missed = if next.len() < after.len() {
                self.is_missed(at, mark_end, end, next)
            } else {
                bytes[at] == b'.' && self.is_joint(start.get(), at, after)
            };
            if is_missed {
                propose(end);
            }
            at = mark_end;
        }
    }

    /// Whether Unicode's rules miss the end at this mark, which white space and `next` follow.
    fn is_missed(&self, mark: usize, mark_end: usize, attached_end: usize, next: &str) -> bool {
        let Some(first) = next.trim_start_matches(is_opening).chars().next() else { return false };
        let between = |is_letter: fn(char) -> bool| {
            is_letter(first) && self.text[..mark].trim_end().chars().next_back().is_some_and(is_letter)
        };
        match &self.text[mark..mark_end] {
            "." if attached_end > mark_end && first.is_alphabetic() && !first.is_lowercase() => true,
            "." if starts_speech(next) => true,
            "." if first.is_ascii_digit() => {
                is_plain_word(last_word(&self.text[..mark])) && note_after(&self.text[..mark_end], next) == 0
            }
            "." => !self.script.has_capitals && first.is_lowercase(),
            "…" => first.is_alphabetic() && !first.is_lowercase(),
            "|" => between(is_indic),
            ":" => between(is_armenian) && !first.is_lowercase(),
            "::" | "፡፡" => between(is_ethiopic),
            "׃" | "།" | "༎" => true,
            _ => {
                let is_greek = |c: char| matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}');
                self.text[..mark].ends_with(is_greek) && is_greek(first) && first.is_uppercase()
            }
        }
    }

    /// Whether a sentence starts right after the mark at `mark`, without a space. Reads nothing before the sentence that
    /// began at `start`: a part of a block may begin there, and must be cut in the same places.
    fn is_joint(&self, start: usize, mark: usize, after: &str) -> bool {
        let lacks_spaces = || *self.lacks_spaces.get_or_init(|| joints::lacks_spaces(self.text));
        joints::is_joint(&self.text[start.min(mark)..mark], &self.text[mark..], after, lacks_spaces)
    }

    /// Moves an end that Unicode's rules propose to where a reader sees it.
    ///
    /// The rules take opening quotes and brackets for closing ones (`。「|`, `.[|12]`), and miss that French puts a space
    /// before a closing quote (`? |»`). German opens quotes with the same mark, but puts no space after it.
    fn adjusted(&self, proposed: usize) -> usize {
        let before = &self.text[..proposed];
        if before.ends_with(char::is_whitespace) {
            let after = &self.text[proposed..];
            let closes = match after.strip_prefix(SPACED_CLOSING) {
                Some(after) => after.chars().next().is_none_or(char::is_whitespace),
                None => after == "\"",
            };
            let length =
                if closes { after.chars().next().map_or(0, char::len_utf8) } else { note_after(before, after) };
            let spaced = if before.ends_with(' ') { spaced_note(after).unwrap_or(0) } else { 0 };
            return proposed + length.max(spaced);
        }
        attached_end(self.text, before.trim_end_matches(is_opening).len())
    }

    /// Whether the sentence from `start` ends at `end`, which a mark precedes.
    fn ends_sentence(&self, start: usize, end: usize, links: &LazyLinks) -> bool {
        let (before, after) = (self.text[start..end].trim_end(), self.text[end..].trim_start());
        let Some(next) = after.chars().next() else { return false };
        let is_spaced = start + before.len() < end || after.len() < self.text.len() - end;
        // A link that ends where the sentence starts is not part of it.
        let before = match links.ending_at(start + before.len()).filter(|link| link.text_end > start) {
            Some(link) => self.text[start..link.text_end].trim_end(),
            None => before,
        };
        let body = before.strip_suffix(SPACED_CLOSING).map_or(before, str::trim_end);
        let body = &body[..mark_end(body)];
        let is_closed = body.len() < before.len();
        let continues = self.script.has_capitals && next.is_lowercase();
        // Only marks so far: `!!! note`, `[...] and`.
        if body.chars().take(MAX_ATTACHED_CHARS).all(|c| is_opening(c) || is_terminal(c)) {
            return false;
        }
        // An omission: `[...] (Smith 55)`.
        if is_closed && body.trim_end_matches(['.', '…']).ends_with(['[', '(']) && !next.is_uppercase() {
            return false;
        }
        if self.is_mark(start, end) {
            return false;
        }
        let stopped = &body[..body.len() - body.chars().next_back().map_or(0, char::len_utf8)];
        match body.chars().next_back() {
            Some('.' | '!' | '?') if !is_spaced && is_pictograph(next) => true,
            // Korean: a particle follows a quote.
            Some('.' | '!' | '?') if is_closed && !is_spaced && is_hangul(next) => false,
            Some('.') if !is_spaced => {
                (is_east_asian(next) || self.is_joint(start, start + stopped.len(), after))
                    && self.full_stop_ends(stopped, after)
            }
            // A line to be filled in.
            Some('.') if body.ends_with(".....") => false,
            Some('.') if body.ends_with("..") || is_closed => {
                !(continues || is_closed && continues_quote(after) || repeats_argument(body, after))
            }
            Some('.') => self.full_stop_ends(stopped, after) && !self.is_in_parentheses(start, end),
            // A title inside a Japanese sentence: `『PUSH!!』に`.
            Some('!' | '?') if !is_spaced => {
                (!is_closed && is_east_asian(next))
                    || (is_opening(next) && !next.is_ascii())
                    || self.is_joint(start, start + stopped.len(), after)
            }
            Some('!' | '?') if is_closed => !continues && !continues_quote(after),
            Some('!' | '?') if is_word_of(WordClass::Exclaimed, last_word(stopped)) => {
                !continues && abbreviations::is_opener(first_word(after).0)
            }
            // `n! / k!`
            Some('!') if starts_with_operator(after) => false,
            Some('!' | '?') => !continues,
            Some('…') => !continues && !repeats_argument(body, after),
            // Burmese: a comma.
            Some('၊') => false,
            // Khmer: `។ល។`, and so on.
            Some('។') if after.starts_with("ល។") => false,
            Some('。' | '！' | '？') if is_closed && !is_spaced => !goes_on_after_quote(before, after),
            _ => true,
        }
    }

    /// Whether a short remark in parentheses, which began inside the sentence, goes on after this place:
    /// `(cf. Ac. do S.T.J. of 9 June)`.
    fn is_in_parentheses(&self, start: usize, end: usize) -> bool {
        let from = boundary_from(self.text, end.saturating_sub(LONGEST_REMARK).max(start));
        let before = &self.text[from..end];
        let Some(opening) = before.rfind('(').filter(|opening| !before[*opening..].contains(')')) else { return false };
        let begins_inside = from + opening > start && before[..opening].ends_with(' ');
        let rest = self.text[end..].bytes().take(LONGEST_REMARK).find(|byte| matches!(byte, b'(' | b')'));
        begins_inside && rest == Some(b')')
    }

    /// Whether this is only the mark of an item: `(1.) `, `Step 1. `. A word and a number that are no sure mark end a
    /// sentence outside lists.
    fn is_mark(&self, start: usize, end: usize) -> bool {
        if start == 0 && self.text[..end].trim_end().len() <= self.label {
            return true;
        }
        if end - start > LONGEST_MARK {
            return false;
        }
        let text = without_bold(content(&self.text[start..end])).trim_end();
        let is_mark = |mark: Mark| {
            // `A1. No, it is not.`
            let is_letter = mark.style.label.chars().nth(1).is_none();
            mark.is_sure
                || mark.style.label.is_empty()
                || (start == 0 && (self.is_item || is_letter || mark.names_statement()))
        };
        // The number of a caption: `Table 2. Mills by year.`
        if start == 0 && is_caption(text) && text.split_whitespace().nth(2).is_none() {
            return true;
        }
        let beginning = without_bold(content(&self.text[start..boundary_from(self.text, end + LONGEST_MARK)]));
        Mark::at_start(beginning).is_some_and(is_mark) && Mark::end_of_all(beginning) >= text.len()
    }

    /// Whether a full stop ends the sentence before it, with white space and `after` following.
    fn full_stop_ends(&self, sentence: &str, after: &str) -> bool {
        // `Compl. ¶ 12`
        if after.starts_with('¶') {
            return false;
        }
        let word = last_word(sentence);
        // In a price list, an abbreviation: sentences start with no amount.
        if after.starts_with(|c: char| !c.is_alphabetic()) && starts_with_amount(after) {
            return false;
        }
        let ends = |rule| abbreviations::ends(rule, sentence, word, after, self.script.has_capitals);
        // Most words: too long for all that follows.
        if word.len() > LONGEST_SHORT_WORD && word.is_ascii() {
            return abbreviations::rule_of(word).is_none_or(ends) && !after.starts_with("& ");
        }
        // Only a number so far: `1. Introduction`.
        let label = sentence[..sentence.len() - word.len()].trim_end();
        let is_marker = label.is_empty() && is_numbering(word.trim_start_matches(BULLETS).trim_start_matches('Q'));
        let counts = word.len() <= 3 && word.bytes().all(|byte| byte.is_ascii_digit()) || is_roman(word);
        let before = || last_word(label);
        let is_ordinal = !word.is_empty() && counts && {
            let (next, _) = first_word(after);
            is_word_of(WordClass::OrdinalNoun, next)
                || (is_word_of(WordClass::Article, before()) || goes_on_counting(label))
                    && !abbreviations::is_opener(next)
        };
        // `ש"ח`: the last letter of an acronym is not an initial.
        let is_acronym = sentence[..sentence.len() - word.len()]
            .strip_suffix(['"', '\'', '’'])
            .is_some_and(|before| before.ends_with(|c| matches!(c, '\u{5d0}'..='\u{5ea}')));
        if is_acronym {
            return true;
        }
        let is_cited = || {
            after.starts_with("& ")
                || is_numbered(word, after)
                || abbreviations::is_short_for_reference(label, word, after)
        };
        let is_part = || is_part_of_date(label, word, after);
        if is_marker || is_ordinal || is_part() || is_cited() || abbreviations::ends_in_consonants(sentence) {
            return false;
        }
        if is_plain_letter(sentence, word) {
            // `à 10 h. 30`
            return !after.starts_with(|c: char| c.is_ascii_digit());
        }
        // `Take vitamin C. It helps`, but `Plan B. Hope`.
        let is_lettered = word.len() == 1 && label.len() > before().len() && is_word_of(WordClass::Lettered, before());
        let rule = abbreviations::rule_of(word).filter(|_| !is_lettered);
        rule.is_none_or(ends)
    }
}

/// The end of a text's last mark, before what is attached to it; the text's end without a mark.
fn mark_end(text: &str) -> usize {
    let mark = text.char_indices().rev().take(MAX_ATTACHED_CHARS).find(|&(_, c)| is_terminal(c));
    let mark_end = mark.map(|(at, c)| at + c.len_utf8());
    mark_end.filter(|&end| attached_end(text, end) == text.len()).unwrap_or(text.len())
}

/// `**3. Where?**` begins with a number, too.
fn without_bold(text: &str) -> &str {
    text.strip_prefix("**").unwrap_or(text)
}

/// Whether a number after this word and its full stop starts a sentence, because the word is no abbreviation.
fn is_plain_word(word: &str) -> bool {
    // `last_word` returns nothing for long words, which are not abbreviations.
    if word.is_empty() {
        return true;
    }
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let digits = word.chars().filter(char::is_ascii_digit).count();
    abbreviations::rule_of(word).is_none() && (letters >= 4 || digits >= 3)
}

/// Whether the single letter at the end of a sentence is not an abbreviation: `at 5 h`, `Israel's`, `c’è`.
fn is_plain_letter(sentence: &str, letter: &str) -> bool {
    let before = &sentence[..sentence.len() - letter.len()];
    let is_single = letter.starts_with(char::is_lowercase) && letter.chars().nth(1).is_none();
    let is_measure = matches!(letter, "h" | "m" | "s" | "g" | "l" | "t");
    is_single && before.ends_with(['\'', '’'])
        || is_measure && before.trim_end_matches(' ').ends_with(|c: char| c.is_ascii_digit())
}

/// Whether dots after an argument say that it may be repeated: `cp [OPTION]... SOURCE... DIRECTORY`.
fn repeats_argument(body: &str, after: &str) -> bool {
    let is_argument = |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase() || b"_-".contains(&b));
    let argument = last_word(body.trim_end_matches(['.', '…']));
    let next = after.split(char::is_whitespace).next().unwrap_or_default().trim_end_matches(['.', '…']);
    (argument.ends_with([']', '>', '}']) || is_argument(argument))
        && (next.starts_with(['[', '<', '{', '-']) || is_argument(next))
}

/// Whether a text starts with a mark of speech that Unicode's rules take for one inside a sentence: a dash before several
/// words, not before a name (`Be brave. - Ann Lee`), or two commas for a low quote.
fn starts_speech(text: &str) -> bool {
    let speech = text.strip_prefix("- ").or_else(|| text.strip_prefix("– "));
    // Wrapping may leave two spaces after it.
    let is_said = |speech: &str| speech.starts_with(char::is_uppercase) && speech.split_whitespace().nth(4).is_some();
    speech.is_some_and(|speech| is_said(speech.trim_start())) || text.starts_with(",,")
}

/// Whether a formula goes on here: `/ k!`, `= 120`.
fn starts_with_operator(text: &str) -> bool {
    let rest = text.strip_prefix(['/', '=', '*', '+', '×', '·', '<', '>']).and_then(|rest| rest.strip_prefix(' '));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '('))
}
