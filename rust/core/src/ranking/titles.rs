//! Titles: which of several pages a query is about.
//!
//! A page on Genghis Khan says "he" where it says when he was born. So the title's relevance for the query is added to
//! the relevance of every unit of its page. It changes nothing between the units of one page.

use std::collections::HashMap;

use super::relevance::{BM25, LexicalWeight, Prior, Scale, join};
use super::terms::{PageTerms, guess_language, query_terms};
use crate::text::page::ByteSpan;

/// Weight of the title's relevance. docs/decisions/0001-passages-and-relevance.md has the trial.
const TITLE_WEIGHT: f32 = 0.75;

/// The most deviations that count. One matching title of 400 may lie 20 deviations above the others, which puts every
/// passage of its page above the best answer of the rest.
const MAX_DEVIATIONS: f32 = 2.0;

/// For each query, by page: the weighted relevance of the page's title, which is added to its passages'.
///
/// `titled` pairs pages with titles; `cosines` has one value for each query and title,
/// of which `prior` is assumed.
pub(crate) fn title_relevance(
    titled: &[(usize, &str)],
    cosines: Vec<Vec<f32>>,
    queries: &[&str],
    lexical_weight: LexicalWeight,
    prior: Prior,
) -> Vec<HashMap<usize, f32>> {
    let (text, spans) = join_lines(titled);
    let language = guess_language(&text);
    let terms = PageTerms::new(&text, &spans, language);
    let ranges: Vec<_> = (0..spans.len()).map(|title| title..title + 1).collect();
    let relevance = cosines.into_iter().zip(queries).map(|(cosines, query)| {
        let bm25 = terms.find(&query_terms(query, language)).bm25(&ranges);
        let (of_cosines, of_bm25) = (Scale::of(cosines.iter(), prior), Scale::of(bm25.iter(), BM25));
        let z_scores = of_cosines.all(&cosines).into_iter().zip(of_bm25.all(&bm25));
        let joined = z_scores.map(|(cosine, bm25)| join(cosine, bm25, lexical_weight.title_weight()));
        let weigh = |relevance: f32| TITLE_WEIGHT * relevance.min(MAX_DEVIATIONS);
        titled.iter().zip(joined).map(|((page, _), relevance)| (*page, weigh(relevance))).collect()
    });
    relevance.collect()
}

/// Joins the titles into one text, and returns the span of each.
fn join_lines(titled: &[(usize, &str)]) -> (String, Vec<ByteSpan>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::relevance::COSINE;

    #[test]
    fn one_matching_title_of_many_counts_as_much_as_one_of_few() {
        let relevance_of_match = |others: usize| {
            let names: Vec<String> = (0..others).map(|other| format!("Page {other}")).collect();
            let titled: Vec<(usize, &str)> =
                names.iter().map(String::as_str).chain(["Family Guy"]).enumerate().collect();
            let cosines = (0..=others).map(|title| if title == others { 0.8 } else { 0.1 }).collect();
            let query = "In which episode of Family Guy does Meg appear?";
            title_relevance(&titled, vec![cosines], &[query], LexicalWeight::Auto, COSINE)[0][&others]
        };
        let of_few = relevance_of_match(9);
        assert!(of_few > 1.0, "{of_few}");
        assert!((relevance_of_match(400) - of_few).abs() < 1e-6);
    }
}
