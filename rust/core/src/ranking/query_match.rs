//! Query match: what the words of a query say on a page, before any vector.
//!
//! A [`QueryMatch`] is of one page alone: the other pages of a call change neither its passages nor their scores.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::cosine_scale::CosineScale;
use super::parsed_page::{ParsedPage, PreparedPage};
use super::probability::{Calibration, Evidence};
use super::relevance::{self, BM25, LexicalWeight, Scale, UNIT_SPREAD, credit_of_names, join, unknown_script};
use super::static_vectors::StaticVectors;
use super::terms::{
    AddedCoverage, QueryPostings, QueryTerm, Term, asks_for_number, contains, correct_spelling, has_number, numbers,
    query_terms, terms as terms_of,
};
use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::outline::is_question;
use crate::text::pieces::NamedTable;
use crate::tokens::Tokens;

/// What a name of a unit's subject covers counts as covered by the unit, with this weight, in its probability.
const NAME_CREDIT: f32 = 0.5;

/// How much a word of the query counts as covered if only the page's title has it.
const TITLE_CREDIT: f32 = 0.25;

/// A question of the page that has this share of the query asks the same, and does not answer it: it loses the second number
/// in the order of passages. Losses of 3 to 12 order them alike.
const ASKED_AGAIN: (f32, f32) = (0.5, 3.0);

/// An introduction says what its page is about more often than it answers: it loses this in the order of passages.
const INTRODUCTION: f32 = 1.0;

/// How much the words of a table's header count as covered in its rows.
const HEADER_CREDIT: f32 = 0.5;

/// A query of a call, before it is matched with pages.
#[derive(Clone, Debug)]
pub(crate) struct Query<'call> {
    pub(crate) text: &'call str,
    pub(crate) vector: Vec<f32>,
    /// The pages that it searches.
    pub(crate) pages: Range<usize>,
    /// By page, what its title adds to the relevance of its passages (see [`super::titles`]); pages without are missing.
    pub(crate) titles: HashMap<usize, f32>,
}

/// How a call matches queries with pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matching<'call> {
    pub(crate) tokens: &'call Tokens,
    pub(crate) lexical_weight: LexicalWeight,
    /// Whether seeds are units, from which passages grow. Otherwise seeds are windows.
    pub(crate) expands: bool,
    pub(crate) cosine_scale: CosineScale,
    /// They predict cosines better than words alone; see [`super::Effort::Instant`].
    pub(crate) static_vectors: Option<&'call StaticVectors>,
}

/// What the words of a query say on one page.
pub(crate) struct QueryMatch<'page> {
    pub(crate) page: &'page PreparedPage<'page>,
    /// The page's index in the call.
    pub(crate) index: usize,
    /// Added where pages compete: see [`super::titles`].
    pub(crate) title_relevance: f32,
    pub(crate) terms: Vec<QueryTerm>,
    /// For each window its BM25, and the z-score of that; empty with a lexical weight of 0.
    pub(crate) bm25: Vec<f32>,
    pub(crate) bm25_z: Vec<f32>,
    /// The lexical score of each seed, as a z-score; empty with a lexical weight of 0.
    lexical: Vec<f32>,
    /// The weight of words on this page: less than the call's if no unit has a good part of the query.
    pub(crate) lexical_weight: f32,
    /// The same in the order of passages.
    order_weight: f32,
    /// `None` where windows are seeds, and with a lexical weight of 0.
    coverage: Option<UnitCoverage>,
    /// The share of the query in each seed, by the language; empty with a lexical weight of 0.
    language_coverage: Vec<f32>,
    /// Whether each seed lacks the number or date that the query asks for; empty if it asks for none.
    lacks_number: Vec<bool>,
    expands: bool,
    pub(crate) calibration: Calibration,
}

/// The share of the query in each unit, in the paragraph around it, and in what names its subject.
struct UnitCoverage {
    /// Whether the page has any of the query's terms.
    has_terms: bool,
    units: Vec<f32>,
    paragraphs: Vec<f32>,
    /// What the headings above it, the parent item, the question and the lead-in have, and the unit lacks.
    names: Vec<AddedCoverage>,
    asks: Vec<bool>,
    /// The end of the page's introduction.
    introduction: usize,
}

impl<'page> QueryMatch<'page> {
    /// Finds the query's terms on the page, unless words do not count.
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn new(
        query: &Query,
        index: usize,
        page: &'page PreparedPage<'page>,
        matching: &Matching,
        check: &Check,
    ) -> Result<Self> {
        check()?;
        let (text, parsed, expands) = (page.text.text(), &*page.parsed, matching.expands);
        let units: Vec<Range<usize>> = (0..parsed.units.spans.len()).map(|unit| unit..unit + 1).collect();
        let seeds = if expands { &units } else { &parsed.windows };
        let lacks_number = lacks_number(query.text, page, seeds, expands);
        let mut terms = query_terms(query.text, parsed.language);
        for term in &mut terms {
            term.rarity = matching.tokens.rarity(&term.text);
        }
        let words = terms.iter().filter(|term| term.weight >= 1.0).count();
        let mut calibration =
            Calibration::new(matching.lexical_weight, parsed.characters_per_token, words, matching.cosine_scale);
        let (mut bm25, mut coverage, mut language_coverage) = (Vec::new(), None, Vec::new());
        if let Some(page_terms) = &parsed.terms {
            correct_spelling(&mut terms, page_terms, text, parsed.language, check)?;
            check()?;
            let postings = page_terms.find_checked(&terms, check);
            let windows = without_headers(&parsed.windows, &parsed.units.tables);
            bm25 = postings.bm25_with_names(&windows, &parsed.units.names);
            let title = page.title.map_or_else(Vec::new, |title| terms_of(title, parsed.language));
            let title: Vec<Term> = title.iter().map(|word| word.term).collect();
            language_coverage = postings.language_coverage(seeds, &title, TITLE_CREDIT);
            if language_coverage.iter().all(|coverage| *coverage <= 0.0) {
                calibration = calibration.without_words(parsed.units.spans.len());
            }
            if expands {
                credit_headers(&mut language_coverage, &parsed.units.tables);
                let of_units = UnitCoverage::new(&postings, parsed, &units, text);
                for (covered, names) in language_coverage.iter_mut().zip(&of_units.names) {
                    *covered = (*covered + NAME_CREDIT * names.by_language).min(1.0);
                }
                coverage = Some(of_units);
            }
        }
        check()?;
        let best_coverage = coverage.as_ref().map_or(1.0, UnitCoverage::best);
        let unknown = unknown_script(parsed.characters_per_token, matching.cosine_scale.joining().multilingual);
        let bm25_z = Scale::of(bm25.iter(), BM25).all(&bm25);
        let lexical = coverage.as_ref().map(|of| of.lexical(&parsed.best_around(&bm25_z, 0.0)));
        Ok(Self {
            page,
            index,
            title_relevance: query.titles.get(&index).copied().unwrap_or(0.0),
            terms,
            lexical: lexical.unwrap_or_else(|| bm25_z.clone()),
            lexical_weight: matching.lexical_weight.weight(unknown, best_coverage),
            order_weight: matching.lexical_weight.weight_in_order(unknown, best_coverage),
            bm25,
            bm25_z,
            coverage,
            language_coverage,
            lacks_number,
            expands,
            calibration,
        })
    }

    /// Whether the page has any of the query's terms. False with a lexical weight of 0.
    pub(crate) fn has_query_terms(&self) -> bool {
        let has_bm25 = || self.bm25.iter().any(|score| *score > 0.0);
        self.coverage.as_ref().map_or_else(has_bm25, |coverage| coverage.has_terms)
    }

    /// The share of the query in the unit that has most of it; 1 where windows are seeds.
    pub(crate) fn best_coverage(&self) -> f32 {
        self.coverage.as_ref().map_or(1.0, UnitCoverage::best)
    }

    /// Whether seeds are units, and not windows.
    pub(crate) const fn has_unit_seeds(&self) -> bool {
        self.expands
    }

    pub(crate) fn seed_count(&self) -> usize {
        let ParsedPage { units, windows, .. } = &*self.page.parsed;
        if self.expands { units.spans.len() } else { windows.len() }
    }

    /// Seeds that get no passages.
    pub(crate) fn excluded_seeds(&self) -> &'page [usize] {
        if self.expands { &self.page.parsed.units.boilerplate } else { &[] }
    }

    /// The windows that contain a seed; the seed itself if it is a window.
    pub(crate) fn windows_around(&self, seed: usize) -> Range<usize> {
        if !self.expands {
            return seed..seed + 1;
        }
        let windows = &self.page.parsed.windows;
        let first = windows.partition_point(|window| window.end <= seed);
        first..first + windows[first..].partition_point(|window| window.start <= seed)
    }

    /// The seeds that a window contains.
    pub(crate) fn seeds_in(&self, window: usize) -> Range<usize> {
        if self.expands { self.page.parsed.windows[window].clone() } else { window..window + 1 }
    }

    /// For each seed the best value of the windows around it; `none` for a unit in no window.
    pub(crate) fn best_around(&self, values: &[f32], none: f32) -> Vec<f32> {
        if self.expands { self.page.parsed.best_around(values, none) } else { values.to_vec() }
    }

    pub(crate) fn logit(&self, seed: usize, cosine: f32) -> f32 {
        let coverage = self.language_coverage.get(seed).copied().unwrap_or(0.0);
        self.calibration.logit(Evidence { cosine, coverage, lacks_number: self.lacks_number(seed) })
    }

    /// What a cosine of `MiniLM` adds to a seed's logit, what coverage adds with `MiniLM`'s weight, and all else in it.
    pub(crate) fn parts_of_logit(&self, seed: usize, cosine: f32) -> (f32, f32, f32) {
        let coverage = self.language_coverage.get(seed).copied().unwrap_or(0.0);
        let logit = |evidence: f32| self.calibration.logit_of_evidence(evidence, coverage, self.lacks_number(seed));
        let evidence = self.calibration.model.evidence(cosine);
        let per_cosine = (logit(evidence + 0.01) - logit(evidence - 0.01)) / 0.02;
        let covered = self.calibration.covered(coverage);
        let counted = self.calibration.model.joining().coverage * covered;
        (per_cosine, covered, logit(evidence) - per_cosine * evidence - counted)
    }

    /// The logit of every seed from words and the means of static vectors; `None` without both.
    pub(crate) fn predicted_logits(&self, static_means: &[f32]) -> Option<Vec<f32>> {
        if static_means.is_empty() || self.language_coverage.is_empty() {
            return None;
        }
        let both = self.best_around(static_means, 0.0).into_iter().zip(&self.language_coverage).enumerate();
        let logit = |(seed, (mean, coverage)): (usize, (f32, &f32))| {
            self.calibration.predicted_logit(mean, *coverage, self.lacks_number(seed))
        };
        Some(both.map(logit).collect())
    }

    fn lacks_number(&self, seed: usize) -> bool {
        self.lacks_number.get(seed).copied().unwrap_or(false)
    }

    /// Seeds that may become passages.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = usize> {
        let excluded = self.excluded_seeds();
        (0..self.lexical.len()).filter(|seed| excluded.binary_search(seed).is_err())
    }

    /// The semantic score of each seed, from z-scores of all windows' cosines, and of all units' if they are encoded.
    pub(crate) fn semantic(&self, cosines: &[f32], units: &[f32]) -> Vec<f32> {
        // A unit in no window (a step longer than the window) counts as the mean.
        relevance::semantic(self.best_around(cosines, 0.0), units)
    }

    /// The relevance of every seed.
    pub(crate) fn relevance(&self, semantic: &[f32]) -> Vec<f32> {
        let of_seed =
            |(seed, semantic): (usize, &f32)| self.join(*semantic, self.lexical_of(seed), self.lexical_weight);
        let mut relevance: Vec<f32> = semantic.iter().enumerate().map(of_seed).collect();
        for unit in self.excluded_seeds() {
            relevance[*unit] = relevance[*unit].min(0.0);
        }
        relevance
    }

    /// The value by which the page's passages are ordered, if a seed has this semantic score.
    pub(crate) fn order(&self, seed: usize, semantic: f32, logit: f32, cosine: f32) -> f32 {
        let of_unit = |of: &UnitCoverage| {
            let asked = if of.asks[seed] { ASKED_AGAIN.1 } else { 0.0 };
            (of.names[seed], asked + if seed < of.introduction { INTRODUCTION } else { 0.0 })
        };
        let (names, loss) = self.coverage.as_ref().map_or_else(Default::default, of_unit);
        let lexical = self.lexical_of(seed) + credit_of_names(names.any, names.nearest);
        self.calibration.order(self.join(semantic, lexical, self.order_weight), logit, cosine) - loss
    }

    fn lexical_of(&self, seed: usize) -> f32 {
        self.lexical.get(seed).copied().unwrap_or(0.0)
    }

    /// Both scores of a seed in one, on the scale of windows.
    fn join(&self, semantic: f32, lexical: f32, lexical_weight: f32) -> f32 {
        let joined = join(semantic, lexical, lexical_weight);
        if self.expands { joined / UNIT_SPREAD } else { joined }
    }
}

/// Whether each seed lacks the number or date that the query asks for; empty if it asks for none.
fn lacks_number(query: &str, page: &PreparedPage, seeds: &[Range<usize>], expands: bool) -> Vec<bool> {
    let (text, units) = (page.text.text(), &page.parsed.units);
    match asks_for_number(query) {
        false => Vec::new(),
        true if expands => seeds.iter().map(|seed| !has_number(units.span(seed).of(text))).collect(),
        // Windows overlap: the text is searched once.
        true => {
            let numbers = numbers(text);
            seeds.iter().map(|seed| !contains(&numbers, units.span(seed))).collect()
        }
    }
}

impl UnitCoverage {
    fn new(postings: &QueryPostings, parsed: &ParsedPage, units: &[Range<usize>], text: &str) -> Self {
        let paragraphs = &parsed.units.paragraphs;
        let of_paragraphs = paragraphs.iter().zip(postings.coverage(paragraphs));
        let paragraphs = of_paragraphs.flat_map(|(run, coverage)| std::iter::repeat_n(coverage, run.len()));
        let mut of_units = postings.coverage(units);
        let asks = asks(parsed, &of_units, text);
        credit_headers(&mut of_units, &parsed.units.tables);
        let names = postings.added_coverage(&parsed.units.names);
        let introduction = parsed.units.introduction();
        Self { has_terms: postings.any(), units: of_units, paragraphs: paragraphs.collect(), names, asks, introduction }
    }

    /// Of the unit that has most of the query.
    fn best(&self) -> f32 {
        self.units.iter().copied().fold(0.0, f32::max)
    }

    /// The lexical score of each unit, from the best z-score of BM25 around it.
    fn lexical(&self, bm25_z: &[f32]) -> Vec<f32> {
        let nearest: Vec<f32> = self.names.iter().map(|names| names.nearest).collect();
        relevance::lexical(bm25_z, &self.units, &self.paragraphs, &nearest)
    }
}

/// For each unit, whether it asks what the query asks: a question, what else its speaker says, or the title of the thread above.
fn asks(parsed: &ParsedPage, coverage: &[f32], text: &str) -> Vec<bool> {
    let is_like = |unit: usize| coverage[unit] >= ASKED_AGAIN.0;
    let spans = &parsed.units.spans;
    let mut asks: Vec<bool> = (0..spans.len()).map(|unit| is_like(unit) && is_question(spans[unit].of(text))).collect();
    for turn in parsed.units.turns() {
        let names_turn =
            |above: &usize| parsed.units.names.above(turn.start).next().is_some_and(|name| name.contains(above));
        if let Some(title) = turn.start.checked_sub(1).filter(names_turn) {
            asks[title] |= is_like(title);
        }
        // The last turn of a page has no answer.
        if turn.end < spans.len() && asks[turn.clone()].contains(&true) {
            turn.for_each(|unit| asks[unit] = is_like(unit));
        }
    }
    asks
}

/// Windows without the header of a long table, whose words are about each of its rows: else they are about the first.
fn without_headers<'page>(windows: &'page [Range<usize>], tables: &[NamedTable]) -> Cow<'page, [Range<usize>]> {
    let mut windows = Cow::Borrowed(windows);
    for NamedTable { header, rows } in tables.iter().filter(|table| table.is_long()) {
        let first = windows.partition_point(|window| window.end <= rows.start);
        let last = windows.partition_point(|window| window.start < rows.start);
        if first < last {
            let over = &mut windows.to_mut()[first..last];
            over.iter_mut().filter(|window| window.start >= header.start).for_each(|window| window.start = rows.start);
        }
    }
    windows
}

/// Adds the coverage of a table's header to its rows that cover something themselves.
fn credit_headers(coverage: &mut [f32], tables: &[NamedTable]) {
    for NamedTable { header, rows } in tables {
        let credit = HEADER_CREDIT * coverage[header.clone()].iter().copied().fold(0.0, f32::max);
        for row in coverage[rows.clone()].iter_mut().filter(|row| **row > 0.0) {
            *row = (*row + credit).min(1.0);
        }
    }
}
