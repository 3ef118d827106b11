//! Terms: the words of a text in a form in which those of a query meet those of a page, and BM25 over a page's units.
//!
//! A *term* is the hash of a word in its normal form: small letters, without accents, brought to its stem where the
//! page's language is known. What counts as a word: runs of letters; numbers; compounds, as a whole and in parts (the
//! table is in `compounds`); every two characters side by side of Chinese, Japanese and Korean; what a dictionary finds
//! in Thai, Lao, Khmer and Burmese. Everything here takes time linear in the text, and a page is read once.

mod bm25;
mod characters;
mod compounds;
mod endings;
mod language;
mod normal;
mod scan;
mod stop_words;

pub use bm25::{Found, PageTerms};
pub use language::{Language, guess_language};

use crate::text::page::ByteSpan;
use language::is_stop_word;
use scan::scan;

/// What a term is to the text around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A word, a number, a whole compound, or a pair of characters where words have no spaces.
    Whole,
    /// A part of a compound whose whole is a term too.
    Part,
    /// A word without the accents that it has in the text: a query typed without them meets it.
    Unaccented,
    /// A pair of Japanese syllables that mostly hold grammar.
    Grammar,
}

/// A word in its normal form, as a hash: pages are indexed without strings.
///
/// Two words share a term by chance once in 2^64. A term means nothing to another build of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

/// A term, and where in a text it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The term.
    pub term: Term,
    /// What it was read from.
    pub span: ByteSpan,
}

/// The terms of a text, in order of where they start; a compound before its parts.
///
/// ```
/// # use pullquote_core::ranking::terms::{Language, terms};
/// let text = "Set max_batch_tokens.";
/// let read: Vec<&str> = terms(text, Language::English).iter().map(|found| found.span.of(text)).collect();
/// assert_eq!(read, ["Set", "max_batch_tokens", "max", "batch", "tokens"]);
/// ```
#[must_use]
pub fn terms(text: &str, language: Language) -> Vec<Occurrence> {
    let mut found = Vec::new();
    scan(text, language, &mut |term, span, _| found.push(Occurrence { term, span }));
    found
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// The term.
    pub term: Term,
    /// How much it counts, from 0 to 1.
    pub weight: f32,
    /// The query's words that it was read from.
    pub text: String,
}

/// The terms of a query, each once, in the order of the query.
///
/// Stop words are left out, unless nothing else is asked. A word counts 1, the part of a compound ½ (a query for
/// `max_batch_tokens` wants the whole more than any `batch`), and two Japanese syllables that mostly hold grammar ¼.
#[must_use]
pub fn query_terms(query: &str, language: Language) -> Vec<QueryTerm> {
    let mut all = Vec::new();
    scan(query, language, &mut |term, span, role| all.push((term, span, role)));
    let stops = |span: ByteSpan| is_stop_word(span.of(query), language);
    let content = all.iter().any(|&(_, span, _)| !stops(span));
    let mut found: Vec<QueryTerm> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (term, span, role) in all {
        if content && stops(span) {
            continue;
        }
        let weight = match role {
            Role::Whole => 1.0,
            Role::Part => 0.5,
            Role::Grammar => 0.25,
            // The page has it for queries without accents; this query has them.
            Role::Unaccented => continue,
        };
        let place = *places.entry(term).or_insert(found.len());
        if let Some(known) = found.get_mut(place) {
            known.weight = known.weight.max(weight);
        } else {
            found.push(QueryTerm { term, weight, text: span.of(query).to_owned() });
        }
    }
    found
}
