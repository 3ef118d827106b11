//! Passages of a call's pages, from their ranked seeds: chosen once the ranking is final, and counted before that.

use std::borrow::Cow;

use super::context::CallContext;
use super::{Pairing, Question};
use crate::error::Result;
use crate::highlights::{self, Passage, RankedPage, Seeds};
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::ranked_seeds::{PageRanking, QueryRanking, RankedSeeds};

/// A passage of an answer.
pub(super) struct ChosenPassage<'query> {
    pub(super) passage: Passage,
    /// The query that its seed answers best.
    pub(super) query: usize,
    /// That query's ranking of the page.
    pub(super) ranking: &'query PageRanking<'query>,
}

/// A page's seeds for all queries that share one answer for it.
struct SharedSeeds<'query> {
    /// Pairs of a query's index and its ranking of the page.
    rankings: Vec<(usize, &'query PageRanking<'query>)>,
    /// The best of each seed over the queries.
    seeds: Cow<'query, RankedSeeds>,
    /// The best title's relevance over the queries.
    title: f32,
}

/// Chooses the passages of each answer: on all pages of a query together, for one query after another, or for all
/// queries together with [`Pairing::Fused`]. Pages that are not on the shortlist have none.
pub(super) fn passages_of_answers<'query>(
    context: &CallContext<'_, '_>,
    rankings: &'query [QueryRanking<'query>],
    pages: &[PreparedPage],
) -> Result<Vec<Vec<ChosenPassage<'query>>>> {
    let together: Vec<Vec<(usize, &QueryRanking)>> = if context.request.pairing == Pairing::Fused {
        vec![rankings.iter().enumerate().collect()]
    } else {
        rankings.iter().enumerate().map(|query| vec![query]).collect()
    };
    let mut answers = Vec::new();
    for queries in together {
        let (query, ranking) = queries[0];
        let on_page = |page| queries.iter().map(|(query, ranking)| (*query, &ranking.pages[page])).collect();
        let searched: Vec<SharedSeeds> = (0..ranking.pages.len()).map(|page| SharedSeeds::new(on_page(page))).collect();
        let passages = passages_on(&searched, pages, context)?;
        let mut chosen = searched.iter().zip(passages).peekable();
        for page in context.request.pages_of(query) {
            let chosen = chosen.next_if(|(seeds, _)| seeds.page() == page);
            answers.push(chosen.map_or_else(Vec::new, |(seeds, passages)| {
                passages.into_iter().map(|passage| seeds.chosen(passage)).collect()
            }));
        }
    }
    Ok(answers)
}

/// Chooses passages on pages that share bounds.
fn passages_on(
    searched: &[SharedSeeds],
    pages: &[PreparedPage],
    context: &CallContext<'_, '_>,
) -> Result<Vec<Vec<Passage>>> {
    let (engine, question, call) = (context.engine, context.question, context.call);
    let ranked = searched.iter().map(|seeds| ranked_page(&pages[seeds.page()], &seeds.seeds, seeds.title, question));
    let ranked: Vec<RankedPage> = ranked.collect();
    let check = call.own_checker();
    let mut chosen = if question.bounds.counts_tokens() {
        highlights::choose_counted_passages(&ranked, &question.bounds, &check, |text| engine.budgeted(text, call))?
    } else {
        highlights::choose_passages(&ranked, &question.bounds, &check)?
    };
    for twin in chosen.iter_mut().flatten().flat_map(|passage| &mut passage.twins) {
        twin.page = searched[twin.page].page();
    }
    Ok(chosen)
}

/// For each query and page, the order of the passages that the page would have if only its scored seeds counted. Empty
/// for queries whose pages are all encoded whole.
///
/// Windows are contenders if they could come before the last of these. That is not the order of the last seed: passages
/// take in the seeds around them, drop repeats, and stop at a budget. So only choosing passages tells it.
pub(super) fn provisional_passages(
    context: &CallContext<'_, '_>,
    rankings: &[QueryRanking],
    pages: &[PreparedPage],
) -> Result<Vec<Vec<Vec<f32>>>> {
    let (question, check) = (context.question, context.call.own_checker());
    let of_page = |page: &PageRanking| -> Result<Vec<f32>> {
        let seeds = page.scored_seeds();
        let ranked = ranked_page(&pages[page.page()], &seeds, 0.0, question);
        let chosen = highlights::choose_passages(&[ranked], &question.bounds, &check)?.pop().unwrap_or_default();
        Ok(chosen.into_iter().map(|passage| seeds.order[passage.seed]).filter(|order| order.is_finite()).collect())
    };
    let of_query = |ranking: &QueryRanking| {
        let is_partial = ranking.is_partial();
        ranking.pages.iter().map(|page| if is_partial { of_page(page) } else { Ok(Vec::new()) }).collect()
    };
    rankings.iter().map(of_query).collect()
}

fn ranked_page<'ranked>(
    prepared: &'ranked PreparedPage,
    scores: &'ranked RankedSeeds,
    title: f32,
    question: &Question,
) -> RankedPage<'ranked> {
    let PreparedPage { text, parsed, tokens_before, .. } = prepared;
    let seeds =
        if question.expands() { Seeds::Units(question.max_passage_units()) } else { Seeds::Windows(&parsed.windows) };
    RankedPage { page: text, units: &parsed.units, seeds, scores, title, tokens_before, language: parsed.language }
}

impl<'query> SharedSeeds<'query> {
    fn new(rankings: Vec<(usize, &'query PageRanking<'query>)>) -> Self {
        let (_, first) = rankings[0];
        let best = |best: Cow<'query, RankedSeeds>, (_, ranking): &(usize, &'query PageRanking<'query>)| {
            Cow::Owned(best.best_of(&ranking.seeds))
        };
        let seeds = rankings[1..].iter().fold(Cow::Borrowed(&first.seeds), best);
        let titles = rankings.iter().map(|(_, ranking)| ranking.title_relevance());
        let title = titles.fold(f32::NEG_INFINITY, f32::max);
        Self { rankings, seeds, title }
    }

    fn page(&self) -> usize {
        self.rankings[0].1.page()
    }

    fn chosen(&self, passage: Passage) -> ChosenPassage<'query> {
        let best = self.seeds.order.get(passage.seed);
        let is_best = |(_, ranking): &&(usize, &PageRanking)| ranking.seeds.order.get(passage.seed) == best;
        let (query, ranking) = *self.rankings.iter().find(is_best).unwrap_or(&self.rankings[0]);
        ChosenPassage { passage, query, ranking }
    }
}
