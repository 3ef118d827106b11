//! Titles: which of several pages a query is about.
//!
//! A page on Genghis Khan says "he", and not "Genghis Khan", where it says when he was born. A title speaks for all of its page:
//! what it says of the query, by meaning and by words, is added to the relevance of every unit of the page. Between the
//! units of one page it changes nothing.

use std::collections::HashMap;

use super::relevance::{BM25, COSINE, LexicalWeight, Scale, join};
use super::terms::{PageTerms, guess_language, query_terms};
use crate::text::page::ByteSpan;

/// How much a title counts against what the page itself says. Chosen by trial, see docs/decisions/0001-passages-and-relevance.md.
const TITLE: f32 = 0.75;

/// What the titles add.
#[derive(Debug, Default)]
pub(crate) struct Titles {
    /// For each query, for each page that has a title.
    added: Vec<HashMap<usize, f32>>,
}

impl Titles {
    /// Reads the pages' titles; `cosines` has for each query one value for each title.
    pub(crate) fn read(
        titled: &[(usize, &str)],
        cosines: Vec<Vec<f32>>,
        queries: &[&str],
        lexical_weight: LexicalWeight,
    ) -> Self {
        let (text, spans) = one_line_each(titled);
        let language = guess_language(&text);
        let terms = PageTerms::new(&text, &spans, language);
        let ranges: Vec<_> = (0..spans.len()).map(|title| title..title + 1).collect();
        let added = cosines.into_iter().zip(queries).map(|(cosines, query)| {
            let words = terms.find(&query_terms(query, language)).bm25(&ranges);
            let added = join(
                &Scale::of(cosines.iter(), COSINE).all(&cosines),
                &Scale::of(words.iter(), BM25).all(&words),
                lexical_weight.weight_of_names(),
            );
            titled.iter().zip(added).map(|((page, _), added)| (*page, TITLE * added)).collect()
        });
        Self { added: added.collect() }
    }

    /// What is added to the relevance of a page's units for a query.
    pub(crate) fn of(&self, query: usize, page: usize) -> f32 {
        self.added.get(query).and_then(|pages| pages.get(&page)).copied().unwrap_or(0.0)
    }
}

/// All titles as one text, and where each lies in it.
fn one_line_each(titled: &[(usize, &str)]) -> (String, Vec<ByteSpan>) {
    let mut text = String::new();
    let spans = titled.iter().map(|(_, title)| {
        let start = text.len();
        text.push_str(title);
        let span = ByteSpan { start, end: text.len() };
        text.push('\n');
        span
    });
    let spans = spans.collect();
    (text, spans)
}
