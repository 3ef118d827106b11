//! The best of many stored documents: by their words, and then by the meaning of the passages that have these words.

use std::ops::Range;

use pullquote_core::encoder::cosine::cosines;
use pullquote_core::engine::Work;
use pullquote_core::ranking::terms::{PageTerms, guess_language, query_terms};
use pullquote_core::runtime::call::Check;
use pullquote_core::text::pieces::{Unit, Windows, parse_pieces};
use pullquote_core::tokens::Role;

use crate::app::App;
use crate::http::failure::Failure;
use crate::http::input::Input;
use crate::http::work_memory::TEXT;
use crate::routes::vector_stream::VectorStream;
use crate::store::Stored;

/// Documents whose passages are compared, for each result and at least.
const CANDIDATES: usize = 2;
const MIN_CANDIDATES: usize = 20;

/// Passages of a document that are compared, and their sentences.
const PASSAGES: usize = 2;
const SENTENCES: usize = 3;

/// A document with its id, and the score of its best passage: here its cosine from 0.
pub(in crate::routes) struct Found {
    pub(in crate::routes) id: String,
    pub(in crate::routes) stored: Stored,
    pub(super) score: f32,
}

/// The best documents of the store for a query.
pub(super) fn shortlist(app: &App, input: &Input, query: &str, most: usize) -> Result<(Vec<Found>, Work), Failure> {
    let ids = app.store.search(query, (most * CANDIDATES).max(MIN_CANDIDATES))?;
    if ids.is_empty() {
        return Ok((Vec::new(), Work::default()));
    }
    let call = input.call(None);
    // One document after the other: all of them may be as much as the store.
    let (mut passages, mut counts) = (Vec::new(), Vec::new());
    for id in &ids {
        call.check()?;
        // It may have been deleted since.
        let text = app.store.get(id)?.map_or_else(String::new, |stored| stored.text);
        let _memory = input.memory.try_acquire_large_work(text.len(), TEXT)?;
        let of_page = best_passages(&text, query, &|| call.check())?;
        counts.push(of_page.len());
        passages.extend(of_page.into_iter().map(str::to_owned));
    }
    let passages: Vec<&str> = passages.iter().map(String::as_str).collect();
    let request = VectorStream::of(app, &[query], Role::Query, input.end())?.whole()?;
    let vectors = VectorStream::of(app, &passages, Role::Passage, input.end())?.whole()?;
    let mut scores = cosines(&request.values, &vectors.values).into_iter();
    let mut ranked: Vec<(String, f32)> = Vec::new();
    for (id, count) in ids.into_iter().zip(counts) {
        ranked.push((id, scores.by_ref().take(count).fold(0.0, f32::max)));
    }
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut found = Vec::new();
    for (id, score) in ranked.into_iter().take(most) {
        if let Some(stored) = app.store.get(&id)? {
            input.memory.hold(stored.text.len())?;
            found.push(Found { id, stored, score });
        }
    }
    let mut work = request.work;
    work += vectors.work;
    Ok((found, work))
}

/// The passages of a text with the most of a query's words.
fn best_passages<'text>(text: &'text str, query: &str, check: &Check) -> Result<Vec<&'text str>, Failure> {
    let sentences = parse_pieces(text, Unit::Sentence, Windows::new(1, 1, false)?, check)?;
    let language = guess_language(text);
    let (terms, request) = (PageTerms::new_checked(text, &sentences, language, check)?, query_terms(query, language));
    let last = sentences.len().saturating_sub(SENTENCES);
    let windows: Vec<Range<usize>> = (0..=last)
        .map(|start| start..(start + SENTENCES).min(sentences.len()))
        .filter(|window| !window.is_empty())
        .collect();
    let scores = terms.find(&request).bm25(&windows);
    let mut order: Vec<usize> = (0..windows.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let mut chosen: Vec<usize> = Vec::new();
    for window in order {
        if chosen.len() < PASSAGES && chosen.iter().all(|other| other.abs_diff(window) >= SENTENCES) {
            chosen.push(window);
        }
    }
    let passage = |window: usize| &text[sentences[windows[window].start].start..sentences[windows[window].end - 1].end];
    Ok(chosen.into_iter().map(passage).collect())
}

#[cfg(test)]
mod tests {
    use pullquote_core::runtime::call::unstopped;

    use super::*;

    #[test]
    fn best_passages_have_the_words_of_the_query_and_do_not_overlap() {
        let filler = "The boats lay still. ".repeat(20);
        let text = format!("{filler}Bread is baked from flour. {filler}Flour is milled. {filler}");
        let passages = best_passages(&text, "How is flour made into bread?", &unstopped).unwrap();
        assert_eq!(passages.len(), PASSAGES);
        assert!(passages[0].contains("Bread is baked from flour."), "{passages:?}");
        assert!(passages[1].contains("Flour is milled."), "{passages:?}");
        assert_eq!(best_passages("One sentence.", "two", &unstopped).unwrap(), ["One sentence."]);
        assert!(best_passages(" ", "two", &unstopped).unwrap().is_empty());
    }
}
