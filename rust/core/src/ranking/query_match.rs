//! Query match: what the words of a query say on a page, before any vector.
//!
//! A [`WordMatch`] has the raw scores. A [`PageMatch`] adds their scale and weight. Both are of one page alone: the
//! other pages of a call change neither its passages nor their scores.

use std::ops::Range;

use super::parsed_page::{ParsedPage, PreparedPage};
use super::probability::{Calibration, CosineScale, Evidence};
use super::relevance::{self, BM25, LexicalWeight, Scale, UNIT_SPREAD, best_around, heading_credit, join, scale_units};
use super::terms::{
    QueryPostings, QueryTerm, Term, asks_for_number, contains, correct_spelling, has_number, numbers, query_terms,
    terms as terms_of,
};
use crate::error::Result;
use crate::runtime::call::Check;
use crate::text::pieces::NamedTable;
use crate::tokens::Tokens;

/// How much a word of the query counts as covered if only the page's title has it.
const TITLE_CREDIT: f32 = 0.25;

/// How much the words of a table's header count as covered in its rows.
const HEADER_CREDIT: f32 = 0.5;

/// How a call matches queries with pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matching<'call> {
    pub(crate) tokens: &'call Tokens,
    pub(crate) lexical_weight: LexicalWeight,
    /// Whether seeds are units, from which passages grow. Otherwise seeds are windows.
    pub(crate) expands: bool,
    pub(crate) cosine_scale: CosineScale,
}

/// What the words of a query say on one page.
pub(crate) struct WordMatch<'page> {
    pub(crate) page: &'page PreparedPage<'page>,
    /// The page's index in the call.
    pub(crate) index: usize,
    /// Added where pages compete: see [`super::titles`].
    pub(crate) title_relevance: f32,
    pub(crate) terms: Vec<QueryTerm>,
    /// For each window; empty with a lexical weight of 0.
    pub(crate) bm25: Vec<f32>,
    /// `None` where windows are seeds, and with a lexical weight of 0.
    coverage: Option<UnitCoverage>,
    /// The share of the query in each seed, by the language; empty with a lexical weight of 0.
    language_coverage: Vec<f32>,
    /// Whether each seed lacks the number or date that the query asks for; empty if it asks for none.
    lacks_number: Vec<bool>,
    expands: bool,
    pub(crate) calibration: Calibration,
}

/// The share of the query in each unit, in the paragraph around it, and in the heading above it.
struct UnitCoverage {
    /// Whether the page has any of the query's terms.
    has_terms: bool,
    units: Vec<f32>,
    paragraphs: Vec<f32>,
    /// The share of the query that the heading of its section has and the unit lacks.
    headings: Vec<f32>,
}

/// A match whose scores have the scale of the page's windows.
pub(crate) struct PageMatch<'page> {
    pub(crate) words: WordMatch<'page>,
    pub(crate) lexical_weight: f32,
    /// For each window, the z-score of its BM25; empty with a lexical weight of 0.
    pub(crate) bm25: Vec<f32>,
    /// The lexical score of each seed, as a z-score; empty with a lexical weight of 0.
    lexical: Vec<f32>,
}

impl<'page> WordMatch<'page> {
    /// Finds the query's terms on the page, unless words do not count.
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn new(
        query: &str,
        index: usize,
        page: &'page PreparedPage<'page>,
        title_relevance: f32,
        matching: &Matching,
        check: &Check,
    ) -> Result<Self> {
        check()?;
        let (text, parsed, expands) = (page.text.text(), &*page.parsed, matching.expands);
        let mut terms = query_terms(query, parsed.language);
        for term in &mut terms {
            term.rarity = matching.tokens.rarity(&term.text);
        }
        let words = terms.iter().filter(|term| term.weight >= 1.0).count();
        let mut calibration =
            Calibration::new(matching.lexical_weight, parsed.characters_per_token, words, matching.cosine_scale);
        let units: Vec<Range<usize>> = (0..parsed.units.spans.len()).map(|unit| unit..unit + 1).collect();
        let seeds = if expands { &units } else { &parsed.windows };
        let lacks_number = match asks_for_number(query) {
            false => Vec::new(),
            true if expands => seeds.iter().map(|seed| !has_number(parsed.units.span(seed).of(text))).collect(),
            // Windows overlap: the text is searched once.
            true => {
                let numbers = numbers(text);
                seeds.iter().map(|seed| !contains(&numbers, parsed.units.span(seed))).collect()
            }
        };
        let (mut bm25, mut coverage, mut language_coverage) = (Vec::new(), None, Vec::new());
        if let Some(page_terms) = &parsed.terms {
            correct_spelling(&mut terms, page_terms, text, parsed.language, check)?;
            check()?;
            let postings = page_terms.find_checked(&terms, check);
            bm25 = postings.bm25(&parsed.windows);
            let title = page.title.map_or_else(Vec::new, |title| terms_of(title, parsed.language));
            let title: Vec<Term> = title.iter().map(|word| word.term).collect();
            language_coverage = postings.language_coverage(seeds, &title, TITLE_CREDIT);
            if language_coverage.iter().all(|coverage| *coverage <= 0.0) {
                calibration = calibration.without_words(parsed.units.spans.len());
            }
            if expands {
                credit_headers(&mut language_coverage, &parsed.units.tables);
                coverage = Some(UnitCoverage::new(&postings, parsed, &units));
            }
        }
        check()?;
        Ok(Self {
            page,
            index,
            title_relevance,
            terms,
            bm25,
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
        self.coverage.as_ref().map_or(1.0, |coverage| coverage.units.iter().copied().fold(0.0, f32::max))
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
        let ParsedPage { units, windows, .. } = &*self.page.parsed;
        if self.expands { best_around(units.spans.len(), windows, values, none) } else { values.to_vec() }
    }

    pub(crate) fn logit(&self, seed: usize, cosine: f32) -> f32 {
        let coverage = self.language_coverage.get(seed).copied().unwrap_or(0.0);
        self.calibration.logit(Evidence { cosine, coverage, lacks_number: self.lacks_number(seed) })
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
}

impl UnitCoverage {
    fn new(postings: &QueryPostings, parsed: &ParsedPage, units: &[Range<usize>]) -> Self {
        let paragraphs = &parsed.units.paragraphs;
        let of_paragraphs = paragraphs.iter().zip(postings.coverage(paragraphs));
        let paragraphs = of_paragraphs.flat_map(|(run, coverage)| std::iter::repeat_n(coverage, run.len()));
        let mut of_units = postings.coverage(units);
        credit_headers(&mut of_units, &parsed.units.tables);
        let headings = postings.added_coverage(units, &parsed.units.section_headings());
        Self { has_terms: postings.any(), units: of_units, paragraphs: paragraphs.collect(), headings }
    }
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

impl<'page> PageMatch<'page> {
    /// Words weigh less if no unit has a good part of the query.
    pub(crate) fn new(words: WordMatch<'page>, weight: LexicalWeight) -> Self {
        let lexical_weight = weight.weight(words.page.parsed.characters_per_token, words.best_coverage());
        let bm25 = Scale::of(words.bm25.iter(), BM25).all(&words.bm25);
        let lexical = match &words.coverage {
            Some(UnitCoverage { units, paragraphs, headings, .. }) => {
                relevance::lexical(&words.best_around(&bm25, 0.0), units, paragraphs, headings)
            }
            None => bm25.clone(),
        };
        Self { words, lexical_weight, bm25, lexical }
    }

    /// Seeds that may become passages.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = usize> {
        let excluded = self.words.excluded_seeds();
        (0..self.lexical.len()).filter(|seed| excluded.binary_search(seed).is_err())
    }

    /// The relevance of each seed, before [`scale_units`], from z-scores of all windows' cosines, and of all units' if
    /// they are encoded.
    pub(crate) fn join(&self, cosines: &[f32], units: &[f32]) -> Vec<f32> {
        // A unit in no window (a step longer than the window) counts as the mean.
        let semantic = relevance::semantic(self.words.best_around(cosines, 0.0), units);
        if self.lexical.is_empty() { semantic } else { join(&semantic, &self.lexical, self.lexical_weight) }
    }

    /// The relevance of every seed from z-scores as in [`Self::join`].
    pub(crate) fn relevance(&self, cosines: &[f32], units: &[f32]) -> Vec<f32> {
        let joined = self.join(cosines, units);
        if !self.words.expands {
            return joined;
        }
        let mut relevance = scale_units(&joined);
        for unit in self.words.excluded_seeds() {
            relevance[*unit] = relevance[*unit].min(0.0);
        }
        relevance
    }

    /// The relevance of a seed if this is the z-score of the best cosine around it.
    pub(crate) fn relevance_of(&self, seed: usize, cosine: f32) -> f32 {
        let joined = (1.0 - self.lexical_weight) * cosine + self.lexical_weight * self.lexical[seed];
        if self.words.expands { joined / UNIT_SPREAD } else { joined }
    }

    /// The value by which the page's passages are ordered.
    pub(crate) fn order(&self, seed: usize, relevance: f32, logit: f32, cosine: f32) -> f32 {
        let heading = self.words.coverage.as_ref().map_or(0.0, |coverage| coverage.headings[seed]);
        let relevance = relevance + heading_credit(heading, self.lexical_weight);
        self.words.calibration.order(relevance, logit, cosine)
    }
}
