//! Passages of a call's pages, from their ranked seeds: chosen once the ranking is final, and counted before that.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::context::CallContext;
use super::prune::{self, PrunedText};
use super::rerank::{self, QueryPassages};
use super::{Pairing, Question};
use crate::error::Result;
use crate::highlights::{self, Passage, RankedPage, Seeds};
use crate::ranking::kept_sentences::{least_kept, logit_of};
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::ranked_seeds::{PageRanking, QueryRanking, RankedSeeds, Rescored};
use crate::runtime::tasks::yield_now;
use crate::text::page::ByteSpan;

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
    /// With the scores of a reranker or a pruner.
    rescored: Option<RankedSeeds>,
    /// Whether a pruner says which seeds are passages.
    is_pruned: bool,
    /// The best title's relevance over the queries.
    title: f32,
}

/// The pages on which passages are chosen together.
pub(super) struct SharedPages<'query>(Vec<SharedSeeds<'query>>);

impl<'query> SharedPages<'query> {
    /// All pages of a query, for one query after another, or for all queries together with [`Pairing::Fused`].
    pub(super) fn of(context: &CallContext<'_, '_>, rankings: &'query [QueryRanking<'query>]) -> Vec<Self> {
        let together: Vec<Vec<(usize, &QueryRanking)>> = if context.request.pairing == Pairing::Fused {
            vec![rankings.iter().enumerate().collect()]
        } else {
            rankings.iter().enumerate().map(|query| vec![query]).collect()
        };
        let shared = |queries: Vec<(usize, &'query QueryRanking<'query>)>| {
            let on_page = |page| queries.iter().map(|(query, ranking)| (*query, &ranking.pages[page])).collect();
            Self((0..queries[0].1.pages.len()).map(|page| SharedSeeds::new(on_page(page))).collect())
        };
        together.into_iter().map(shared).collect()
    }
}

/// Scores the best passages of each answer again with the reranker. From then on they are in its order, and the others
/// follow.
pub(super) async fn rescore(
    context: &mut CallContext<'_, '_>,
    shared: &mut [SharedPages<'_>],
    pages: &[PreparedPage<'_>],
) -> Result<()> {
    let mut candidates: Vec<(usize, Vec<(usize, Passage)>)> = Vec::new();
    let mut asked: Vec<QueryPassages> = Vec::new();
    for (number, SharedPages(searched)) in shared.iter().enumerate() {
        let best = context.ranking(|context| candidates_on(searched, pages, context))?;
        let mut of_query: BTreeMap<usize, Vec<(usize, Passage)>> = BTreeMap::new();
        for (place, passage) in best {
            of_query.entry(searched[place].query_of(passage.seed)).or_default().push((place, passage));
        }
        for (query, best) in of_query {
            let text = |(place, passage): &(usize, Passage)| pair_text(&pages[searched[*place].page()], &passage.units);
            asked.push(QueryPassages {
                query: context.request.queries[query],
                passages: best.iter().map(text).collect(),
            });
            candidates.push((number, best));
        }
    }
    yield_now().await;
    let logits = rerank::score(context, &asked).await?;
    context.ranking(|_| {
        let scored = candidates.into_iter().zip(logits).flat_map(|((number, best), logits)| {
            best.into_iter().zip(logits).map(move |((place, passage), logit)| (number, place, passage.seed, logit))
        });
        let mut of_answer: BTreeMap<usize, BTreeMap<usize, FxHashMap<usize, f32>>> = BTreeMap::new();
        for (number, place, seed, logit) in scored {
            of_answer.entry(number).or_default().entry(place).or_default().insert(seed, logit);
        }
        for (number, of_page) in of_answer {
            shared[number].rescore(&of_page);
        }
        Ok(())
    })
}

/// Units on each side of a candidate that a pruner reads with it.
const UNITS_AROUND: usize = 3;

/// Units of a page, and what a pruner reads of them.
struct ReadUnits {
    /// Of the answer.
    number: usize,
    /// Of the page.
    place: usize,
    units: Range<usize>,
}

/// Reads the best passages of each answer with the pruner, and the sentences around them. From then on, passages are runs of
/// sentences that it keeps.
pub(super) async fn prune(
    context: &mut CallContext<'_, '_>,
    shared: &mut [SharedPages<'_>],
    pages: &[PreparedPage<'_>],
) -> Result<()> {
    let Some(pruner) = context.engine.pruner() else { return Ok(()) };
    let own = context.question.bounds.own_min_score();
    let (mut read, mut texts) = (Vec::new(), Vec::new());
    for (number, SharedPages(searched)) in shared.iter().enumerate() {
        let best = context.ranking(|context| candidates_on(searched, pages, context))?;
        let mut of_page: BTreeMap<(usize, usize), Vec<Range<usize>>> = BTreeMap::new();
        for (place, passage) in best {
            let query = searched[place].query_of(passage.seed);
            of_page.entry((query, place)).or_default().push(passage.units);
        }
        for ((query, place), candidates) in of_page {
            let prepared = &pages[searched[place].page()];
            for units in with_units_around(candidates, prepared.parsed.units.spans.len()) {
                let (text, sentences) = sentences_of(prepared, &units);
                texts.push(PrunedText { query: context.request.queries[query], text, sentences: Some(sentences) });
                read.push(ReadUnits { number, place, units });
            }
        }
    }
    yield_now().await;
    let answers = prune::read(context, &texts, own).await?;
    context.ranking(|_| {
        let mut of_answer: BTreeMap<(usize, usize), FxHashMap<usize, f32>> = BTreeMap::new();
        for (ReadUnits { number, place, units }, answer) in read.into_iter().zip(answers) {
            let of_page = of_answer.entry((number, place)).or_default();
            for (unit, probability) in units.zip(answer.probabilities) {
                let best = of_page.entry(unit).or_insert(0.0);
                *best = best.max(probability);
            }
        }
        for (number, SharedPages(searched)) in shared.iter_mut().enumerate() {
            for (place, seeds) in searched.iter_mut().enumerate() {
                let units = of_answer.remove(&(number, place)).unwrap_or_default();
                let least = least_kept(pruner, units.values().copied(), own);
                seeds.prune(&units, least, &pages[seeds.page()], context.question);
            }
        }
        Ok(())
    })
}

/// The units of candidates with those around them; together where they meet.
fn with_units_around(mut candidates: Vec<Range<usize>>, count: usize) -> Vec<Range<usize>> {
    candidates.sort_unstable_by_key(|units| units.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for units in candidates {
        let around = units.start.saturating_sub(UNITS_AROUND)..(units.end + UNITS_AROUND).min(count);
        match merged.last_mut().filter(|last| last.end >= around.start) {
            Some(last) => last.end = last.end.max(around.end),
            None => merged.push(around),
        }
    }
    merged
}

/// The text of units, and the sentences that cover it.
fn sentences_of<'page>(prepared: &'page PreparedPage, run: &Range<usize>) -> (&'page str, Vec<ByteSpan>) {
    let units = &prepared.parsed.units;
    let whole = units.span(run);
    let starts = units.spans[run.clone()].iter().map(|span| span.start - whole.start);
    let ends = starts.clone().skip(1).chain([whole.end - whole.start]);
    (whole.of(prepared.text.text()), starts.zip(ends).map(|(start, end)| ByteSpan { start, end }).collect())
}

/// The best passages of all pages, as pairs of a place in `searched` and a passage.
fn candidates_on(
    searched: &[SharedSeeds],
    pages: &[PreparedPage],
    context: &CallContext<'_, '_>,
) -> Result<Vec<(usize, Passage)>> {
    let question = context.question;
    let ranked: Vec<RankedPage> = searched.iter().map(|seeds| seeds.ranked(pages, question)).collect();
    let bounds = question.bounds.candidates(question.rerank_top);
    let chosen = highlights::choose_passages(&ranked, &bounds, &context.call.own_checker())?;
    let of_page = |(place, passages): (usize, Vec<Passage>)| passages.into_iter().map(move |passage| (place, passage));
    Ok(chosen.into_iter().enumerate().flat_map(of_page).collect())
}

/// What a reranker reads of a passage: the headings above it, and its text.
fn pair_text(prepared: &PreparedPage, run: &Range<usize>) -> String {
    let (text, units) = (prepared.text.text(), &prepared.parsed.units);
    let lines = units.breadcrumbs(run).into_iter().chain([units.span(run)]);
    lines.map(|span| span.of(text)).collect::<Vec<_>>().join("\n")
}

impl SharedPages<'_> {
    /// Replaces the seeds' order and logits by a reranker's. `scores` are by the page's place and the seed.
    fn rescore(&mut self, scores: &BTreeMap<usize, FxHashMap<usize, f32>>) {
        let least = scores.values().flat_map(FxHashMap::values).copied().fold(f32::INFINITY, f32::min);
        let none = FxHashMap::default();
        let of_page = |place: usize| scores.get(&place).unwrap_or(&none);
        let others = self.0.iter().enumerate().flat_map(|(place, seeds)| {
            let logits = seeds.seeds.logits.iter().enumerate();
            logits.filter(move |(seed, _)| !of_page(place).contains_key(seed)).map(|(_, logit)| *logit)
        });
        let all = Rescored { least, best_other: others.fold(f32::NEG_INFINITY, f32::max) };
        for (place, seeds) in self.0.iter_mut().enumerate() {
            seeds.rescored = Some(seeds.seeds.rescored(of_page(place), all));
        }
    }
}

/// Chooses the passages of each answer. Pages that are not on the shortlist have none.
pub(super) fn passages_of_answers<'query>(
    context: &CallContext<'_, '_>,
    shared: &[SharedPages<'query>],
    pages: &[PreparedPage],
) -> Result<Vec<Vec<ChosenPassage<'query>>>> {
    let mut answers = Vec::new();
    for (query, SharedPages(searched)) in shared.iter().enumerate() {
        let passages = passages_on(searched, pages, context)?;
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
    let ranked: Vec<RankedPage> = searched.iter().map(|seeds| seeds.ranked(pages, question)).collect();
    let check = call.own_checker();
    let is_pruned = searched.iter().any(|seeds| seeds.is_pruned);
    let bounds = if is_pruned { question.bounds.of_kept() } else { question.bounds };
    let mut chosen = if bounds.counts_tokens() {
        highlights::choose_counted_passages(&ranked, &bounds, &check, |text| engine.budgeted(text, call))?
    } else {
        highlights::choose_passages(&ranked, &bounds, &check)?
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
        Self { rankings, seeds, rescored: None, is_pruned: false, title }
    }

    fn page(&self) -> usize {
        self.rankings[0].1.page()
    }

    /// The page with its seeds. A reranker's scores say all that a title could add.
    fn ranked<'ranked>(&'ranked self, pages: &'ranked [PreparedPage], question: &Question) -> RankedPage<'ranked> {
        let prepared = &pages[self.page()];
        match &self.rescored {
            Some(kept) if self.is_pruned && question.expands() => {
                RankedPage { seeds: Seeds::Kept, ..ranked_page(prepared, kept, 0.0, question) }
            }
            Some(rescored) => ranked_page(prepared, rescored, 0.0, question),
            None => ranked_page(prepared, &self.seeds, self.title, question),
        }
    }

    /// Keeps the seeds with a unit of at least this probability.
    fn prune(&mut self, units: &FxHashMap<usize, f32>, least: f32, prepared: &PreparedPage, question: &Question) {
        let is_kept = |probability: &f32| *probability >= least;
        let kept: FxHashMap<usize, f32> = if question.expands() {
            units
                .iter()
                .filter(|(_, probability)| is_kept(probability))
                .map(|(unit, p)| (*unit, logit_of(*p)))
                .collect()
        } else {
            let best =
                |window: &Range<usize>| window.clone().filter_map(|unit| units.get(&unit)).copied().reduce(f32::max);
            let windows = prepared.parsed.windows.iter().enumerate();
            windows.filter_map(|(seed, window)| Some((seed, logit_of(best(window).filter(is_kept)?)))).collect()
        };
        (self.rescored, self.is_pruned) = (Some(self.seeds.kept(&kept)), true);
    }

    /// The query that a seed answers best, and its ranking of the page.
    fn best_ranking(&self, seed: usize) -> (usize, &'query PageRanking<'query>) {
        let best = self.seeds.order.get(seed);
        let is_best = |(_, ranking): &&(usize, &PageRanking)| ranking.seeds.order.get(seed) == best;
        *self.rankings.iter().find(is_best).unwrap_or(&self.rankings[0])
    }

    fn query_of(&self, seed: usize) -> usize {
        self.best_ranking(seed).0
    }

    fn chosen(&self, passage: Passage) -> ChosenPassage<'query> {
        let (query, ranking) = self.best_ranking(passage.seed);
        ChosenPassage { passage, query, ranking }
    }
}
