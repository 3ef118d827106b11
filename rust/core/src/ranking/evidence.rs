//! Evidence for a query on a page: lexical scores at once, cosines as windows are scored, and the relevance that joins
//! both.
//!
//! Scales span all pages of a query, so that scores are comparable between its pages.

use std::ops::Range;

use super::parsed_page::ParsedPage;
use super::relevance::{self, BM25, COSINE, LexicalWeight, Scale, best_around, join, scale_units};
use super::selection::{CosineSample, WindowSelection};
use super::terms::{QueryTerm, query_terms};
use crate::text::page::Page;

/// A query and the evidence for it on each of its pages.
pub(crate) struct QueryEvidence<'page, 'text> {
    /// The query's index in the request.
    pub(crate) query: usize,
    pub(crate) pages: Vec<PageEvidence<'page, 'text>>,
}

pub(crate) struct PageEvidence<'page, 'text> {
    /// The page's index in the request.
    pub(crate) index: usize,
    pub(crate) page: &'page Page<'text>,
    pub(crate) parsed: &'page ParsedPage,
    pub(crate) terms: Vec<QueryTerm>,
    /// For each window; empty with a lexical weight of 0.
    pub(crate) bm25: Vec<f32>,
    coverage: Option<UnitCoverage>,
    /// The lexical score of each seed, as a z-score; empty with a lexical weight of 0.
    pub(crate) lexical: Vec<f32>,
    pub(crate) lexical_weight: f32,
    /// The title's relevance, which is added to that of every passage.
    pub(crate) title: f32,
    /// The windows that estimate the page's cosines; `None` for all scored ones.
    pub(crate) sample: Option<CosineSample>,
    /// The windows to score.
    pub(crate) selection: WindowSelection,
    /// For each row: windows, then units if they are encoded. 0 where a row has no score, which no code may use.
    pub(crate) cosine: Vec<f32>,
    /// For each seed of passages.
    pub(crate) relevance: Vec<f32>,
    /// Whether seeds are units, from which passages grow. Otherwise seeds are windows.
    expands: bool,
}

/// The share of the query in each unit, and in the paragraph around it.
struct UnitCoverage {
    /// Whether the page has any of the query's terms.
    has_terms: bool,
    units: Vec<f32>,
    paragraphs: Vec<f32>,
}

impl<'page, 'text> QueryEvidence<'page, 'text> {
    /// Computes the lexical scores of all pages on one scale. Selects all windows.
    pub(crate) fn new(query: usize, mut pages: Vec<PageEvidence<'page, 'text>>, lexical_weight: LexicalWeight) -> Self {
        let scale = Scale::of(pages.iter().flat_map(|evidence| &evidence.bm25), BM25);
        let coverage = pages.iter().filter_map(|evidence| evidence.coverage.as_ref());
        let best = coverage.flat_map(|coverage| &coverage.units).copied().reduce(f32::max).unwrap_or(1.0);
        for evidence in &mut pages {
            evidence.lexical_weight = lexical_weight.weight(evidence.parsed.characters_per_token, best);
            evidence.set_lexical(&scale.all(&evidence.bm25));
        }
        Self { query, pages }
    }

    /// The scale of all pages' cosines.
    pub(crate) fn cosine_scale(&self) -> Scale {
        let cosines: Vec<(f32, f64)> = self.pages.iter().flat_map(PageEvidence::weighted_cosines).collect();
        Scale::weighted(cosines.into_iter(), COSINE)
    }

    /// Sets the relevance of every seed from the cosines so far.
    pub(crate) fn rank(&mut self) {
        let scale = self.cosine_scale();
        let unit_scale = Scale::of(self.pages.iter().flat_map(PageEvidence::unit_cosines), COSINE);
        for evidence in &mut self.pages {
            evidence.rank(scale, unit_scale);
        }
    }
}

impl<'page, 'text> PageEvidence<'page, 'text> {
    /// Finds the query's terms on the page, unless words do not count.
    pub(crate) fn new(
        index: usize,
        (page, parsed): (&'page Page<'text>, &'page ParsedPage),
        query: &str,
        expands: bool,
        title: f32,
    ) -> Self {
        let terms = query_terms(query, parsed.language);
        let (mut bm25, mut coverage) = (Vec::new(), None);
        if let Some(page_terms) = &parsed.terms {
            let postings = page_terms.find(&terms);
            bm25 = postings.bm25(&parsed.windows);
            coverage = expands.then(|| {
                let units: Vec<Range<usize>> = (0..parsed.units.spans.len()).map(|unit| unit..unit + 1).collect();
                let paragraphs = &parsed.units.paragraphs;
                let of_paragraphs = paragraphs.iter().zip(postings.coverage(paragraphs));
                let of_units = of_paragraphs.flat_map(|(run, coverage)| std::iter::repeat_n(coverage, run.len()));
                let paragraphs = of_units.collect();
                UnitCoverage { has_terms: postings.any(), units: postings.coverage(&units), paragraphs }
            });
        }
        Self {
            index,
            page,
            parsed,
            terms,
            bm25,
            coverage,
            lexical: Vec::new(),
            lexical_weight: 0.0,
            title,
            sample: None,
            selection: WindowSelection::All,
            cosine: vec![0.0; parsed.rows],
            relevance: Vec::new(),
            expands,
        }
    }

    fn set_lexical(&mut self, bm25: &[f32]) {
        self.lexical = match &self.coverage {
            Some(UnitCoverage { units, paragraphs, .. }) => {
                relevance::lexical(&best_around(units.len(), &self.parsed.windows, bm25, 0.0), units, paragraphs)
            }
            None => bm25.to_vec(),
        };
    }

    /// Whether the page has any of the query's terms. False with a lexical weight of 0.
    pub(crate) fn has_query_terms(&self) -> bool {
        let has_bm25 = || self.bm25.iter().any(|score| *score > 0.0);
        self.coverage.as_ref().map_or_else(has_bm25, |coverage| coverage.has_terms)
    }

    /// Seeds that may become passages, by descending lexical score; ties go to the earlier one.
    pub(crate) fn seeds_by_lexical(&self) -> Vec<usize> {
        let never = if self.expands { self.parsed.units.boilerplate.as_slice() } else { &[] };
        let mut seeds: Vec<usize> = (0..self.lexical.len()).filter(|seed| never.binary_search(seed).is_err()).collect();
        seeds.sort_by(|a, b| self.lexical[*b].total_cmp(&self.lexical[*a]));
        seeds
    }

    /// The windows that contain a seed; the seed itself if it is a window.
    pub(crate) fn windows_around(&self, seed: usize) -> Range<usize> {
        if !self.expands {
            return seed..seed + 1;
        }
        let windows = &self.parsed.windows;
        let first = windows.partition_point(|window| window.end <= seed);
        first..first + windows[first..].partition_point(|window| window.start <= seed)
    }

    /// For each unit; empty unless units are encoded.
    fn unit_cosines(&self) -> &[f32] {
        &self.cosine[self.parsed.windows.len()..]
    }

    /// The cosines that estimate those of the whole page, each with the number of windows that it stands for.
    pub(crate) fn weighted_cosines(&self) -> Vec<(f32, f64)> {
        let all = self.parsed.windows.len();
        let each = |windows: &[usize], weight: f64| -> Vec<(f32, f64)> {
            windows.iter().map(|window| (self.cosine[*window], weight)).collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "numbers of windows")]
        let ratio = |all: usize, sampled: usize| all as f64 / sampled.max(1) as f64;
        match (&self.sample, &self.selection) {
            (Some(CosineSample { lexical, others }), _) => {
                [each(lexical, 1.0), each(others, ratio(all - lexical.len(), others.len()))].concat()
            }
            (None, WindowSelection::All) => self.cosine[..all].iter().map(|cosine| (*cosine, 1.0)).collect(),
            // Words selected none of these, so they are as good as a random sample.
            (None, WindowSelection::Only(windows)) => each(windows, ratio(all, windows.len())),
        }
    }

    fn rank(&mut self, scale: Scale, unit_scale: Scale) {
        let Self { parsed, lexical, selection, cosine, .. } = self;
        let (units, windows) = (&parsed.units, &parsed.windows);
        let scored = selection.rows(windows.len());
        let cosines: Vec<f32> = scored.iter().map(|window| scale.z(f64::from(cosine[*window]))).collect();
        // A window without a score counts as the mean, z = 0; so does a unit in no window (a step longer than the window).
        let semantic = if self.expands {
            let scored: Vec<Range<usize>> = scored.iter().map(|window| windows[*window].clone()).collect();
            let around = best_around(units.spans.len(), &scored, &cosines, 0.0);
            relevance::semantic(&around, &unit_scale.all(&cosine[windows.len()..]))
        } else if *selection == WindowSelection::All {
            cosines
        } else {
            let mut all = vec![0.0; windows.len()];
            scored.iter().zip(cosines).for_each(|(window, cosine)| all[*window] = cosine);
            all
        };
        let joined = if lexical.is_empty() { semantic } else { join(&semantic, lexical, self.lexical_weight) };
        self.relevance = if self.expands { scale_units(&joined) } else { joined };
        if self.expands {
            for unit in &units.boilerplate {
                self.relevance[*unit] = self.relevance[*unit].min(0.0);
            }
        }
    }

    /// Whether any window around a seed has a score.
    pub(crate) fn is_scored(&self) -> impl Fn(usize) -> bool {
        let all = self.parsed.windows.len();
        let mut scored_before = vec![0_usize; all + 1];
        for window in self.selection.rows(all) {
            scored_before[window + 1] = 1;
        }
        for window in 0..all {
            scored_before[window + 1] += scored_before[window];
        }
        move |seed| {
            let around = self.windows_around(seed);
            scored_before[around.end] > scored_before[around.start]
        }
    }

    /// The best cosine and the best BM25 of the windows around a seed. The cosine includes the unit's own, if it is encoded.
    pub(crate) fn best_scores(&self, seed: usize) -> (f32, f32) {
        let around = self.windows_around(seed);
        let best = |values: &mut dyn Iterator<Item = f32>| values.reduce(f32::max);
        let is_scored = |window: &usize| match &self.selection {
            WindowSelection::All => true,
            WindowSelection::Only(windows) => windows.binary_search(window).is_ok(),
        };
        let cosine = best(&mut around.clone().filter(is_scored).map(|window| self.cosine[window]));
        let own = if self.expands { self.unit_cosines().get(seed).copied() } else { None };
        let bm25 = best(&mut self.bm25.get(around).unwrap_or_default().iter().copied());
        (cosine.into_iter().chain(own).reduce(f32::max).unwrap_or(0.0), bm25.unwrap_or(0.0))
    }
}
