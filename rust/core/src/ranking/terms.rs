//! Terms: words in a normal form in which those of a query match those of a page, and BM25 over a page's units.
//!
//! A *term* is the hash of a word's normal form: lower case, without accents, stemmed if the page's language is known.
//! Words are runs of letters; numbers; compounds, as a whole and in parts (`compounds` has the table); each two
//! adjacent characters of Chinese, Japanese and Korean; dictionary words of Thai, Lao, Khmer and Burmese. All of this
//! takes time linear in the text, and each page is scanned once.

mod bm25;
mod characters;
mod compounds;
mod irregular;
mod language;
mod language_guess;
mod normalizer;
mod number_words;
mod scan;
mod spelling;
mod stop_words;
mod suffixes;

pub(crate) use bm25::AddedCoverage;
pub use bm25::{PageTerms, QueryPostings};
pub use language::Language;
pub use language_guess::guess_language;

use crate::runtime::call::to_the_end;
use crate::text::page::ByteSpan;
use language_guess::is_stop_word;
pub(crate) use number_words::{asks_for_number, contains, has_number, numbers};
use scan::scan;
pub(crate) use spelling::correct_spelling;

/// How a term relates to the word that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TermRole {
    /// A word, a number, a whole compound, or a pair of characters in scripts without spaces.
    Whole,
    /// A part of a compound whose whole is a term too.
    Part,
    /// The word without its accents, for queries typed without them.
    Unaccented,
    /// A pair of Hiragana, which are mostly grammar.
    Grammar,
    /// A single capital letter with the noun before it: `room B`. The letter alone means little, and is a word of its own.
    Lettered,
}

/// The hash of a word's normal form, so that pages are indexed without strings.
///
/// Two words collide with a chance of 1 in 2^64. A term has no meaning in another build of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

/// A term and its position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The normal form's hash.
    pub term: Term,
    /// The word, in bytes of the text.
    pub span: ByteSpan,
}

/// The terms of a text, in the order of their starts; a compound comes before its parts.
///
/// ```
/// # use pullquote_core::ranking::terms::{Language, terms};
/// let text = "Set max_batch_tokens.";
/// let words: Vec<&str> = terms(text, Language::English).iter().map(|word| word.span.of(text)).collect();
/// assert_eq!(words, ["Set", "max_batch_tokens", "max", "batch", "tokens"]);
/// ```
pub fn terms(text: &str, language: Language) -> Vec<Occurrence> {
    let mut occurrences = Vec::new();
    to_the_end(|check| scan(text, language, check, &mut |term, span, _| occurrences.push(Occurrence { term, span })));
    occurrences
}

/// Characters that are searched for the start of an identifier.
const LONGEST_IDENTIFIER: usize = 64;

/// Whether a span is inside a longer word or an identifier: `E` in `E1040`, `mp` in `mp3`; not `5` in `5kg`.
pub(crate) fn is_inside_word(text: &str, span: ByteSpan) -> bool {
    let is_word = |c: &char| characters::class(*c).is_word();
    let (before, word, after) = (&text[..span.start], span.of(text), &text[span.end..]);
    let (Some(first), Some(last)) = (word.chars().next(), word.chars().next_back()) else { return false };
    let start = before.chars().rev().take(LONGEST_IDENTIFIER).take_while(is_word).last();
    let is_continued = is_word(&last) && after.chars().next().is_some_and(|c| is_word(&c));
    is_word(&first)
        && characters::class(start.unwrap_or(first)) != characters::CharClass::Digit
        && (start.is_some() || is_continued)
}

/// Whether underscores join a span with other words: `name` in `get_name`; not what Markdown's emphasize.
pub(crate) fn is_joined(text: &str, span: ByteSpan) -> bool {
    let (mut before, mut after) = (text[..span.start].chars().rev(), text[span.end..].chars());
    let joins = |mark: Option<char>, beyond: Option<char>| {
        mark == Some('_') && beyond.is_some_and(|c| characters::class(c).is_word())
    };
    joins(before.next(), before.next()) || joins(after.next(), after.next())
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// The normal form's hash.
    pub term: Term,
    /// From 0 to 2: compounds count more than their parts, and what has digits most.
    pub weight: f32,
    /// From 0, for the most frequent words of the language, to 1. [`query_terms`] sets 1; a tokenizer knows better (see
    /// [`crate::tokens::Tokens::rarity`]).
    pub rarity: f32,
    /// As written in the query.
    pub text: String,
}

/// Whether digits follow letters in a word: `E18`, `v2.0`, not `20th`.
fn is_code(word: &str) -> bool {
    word.len() > 2 && word.starts_with(char::is_alphabetic) && word.contains(char::is_numeric)
}

/// The terms of a query, each once, in the order of the query.
///
/// Stop words are left out unless the query has nothing else. A word has weight 1, one of several characters with digits
/// 2 (a year, a train's number tell alike sections and rows apart), a code 3 (`E2041` names one thing), a part of a
/// compound ½ (a query for `max_batch_tokens` wants the whole more than any `batch`), and a pair of Hiragana ¼.
pub fn query_terms(query: &str, language: Language) -> Vec<QueryTerm> {
    let mut all = Vec::new();
    to_the_end(|check| scan(query, language, check, &mut |term, span, role| all.push((term, span, role))));
    let stops = |span: ByteSpan| is_stop_word(span.of(query), language);
    let has_content = all.iter().any(|&(_, span, _)| !stops(span));
    let mut terms: Vec<QueryTerm> = Vec::new();
    let mut index_of = std::collections::HashMap::new();
    for (term, span, role) in all {
        if has_content && role != TermRole::Lettered && stops(span) {
            continue;
        }
        let weight = match role {
            TermRole::Whole if is_code(span.of(query)) => 3.0,
            TermRole::Whole if span.len() > 1 && span.of(query).contains(char::is_numeric) => 2.0,
            TermRole::Whole | TermRole::Lettered => 1.0,
            TermRole::Part => 0.5,
            TermRole::Grammar => 0.25,
            // Only pages need it: this query has the accents.
            TermRole::Unaccented => continue,
        };
        let index = *index_of.entry(term).or_insert(terms.len());
        if let Some(known) = terms.get_mut(index) {
            known.weight = known.weight.max(weight);
        } else {
            let start = match role {
                TermRole::Lettered => query[..span.start].trim_end().rfind(' ').map_or(0, |space| space + 1),
                _ => span.start,
            };
            terms.push(QueryTerm { term, weight, rarity: 1.0, text: query[start..span.end].to_owned() });
        }
    }
    terms
}
