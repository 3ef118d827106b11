//! Evidence for a query on a page: its words at once, the cosines of its windows as they come, and relevance from both.
//!
//! Scales are those of all pages that are asked together, so that scores can be compared between them.

use std::ops::Range;

use super::reading::PageReading;
use super::relevance::{self, BM25, COSINE, LexicalWeight, Scale, best_around, join, of_units};
use super::terms::{QueryTerm, query_terms};
use super::views::{Sample, View};
use crate::text::page::Page;

/// A query, and the pages it is asked of together.
pub(crate) struct QueryEvidence<'page, 'text> {
    /// Which query.
    pub(crate) query: usize,
    pub(crate) evidence: Vec<PageEvidence<'page, 'text>>,
}

/// The evidence for a query on a page.
pub(crate) struct PageEvidence<'page, 'text> {
    /// Which page of the request it is.
    pub(crate) index: usize,
    pub(crate) page: &'page Page<'text>,
    pub(crate) reading: &'page PageReading,
    pub(crate) terms: Vec<QueryTerm>,
    /// BM25 of each window; empty where words do not count.
    pub(crate) bm25: Vec<f32>,
    covered: Option<Covered>,
    /// What words say of each seed, on their scale; empty where they do not count.
    pub(crate) words: Vec<f32>,
    /// How much that counts against meaning.
    pub(crate) weight: f32,
    /// What the page's title adds to all of them.
    pub(crate) title: f32,
    /// The windows that tell how cosines lie on the page; all of them where there are none.
    pub(crate) sample: Option<Sample>,
    /// The windows that the query is compared with: those and, as far as effort goes, others.
    pub(crate) view: View,
    /// Of each row; what was not looked at is 0, and nobody reads it.
    pub(crate) cosine: Vec<f32>,
    /// Of each seed of passages.
    pub(crate) relevance: Vec<f32>,
    grows: bool,
}

/// How much of the query each unit holds, and the paragraph that it stands in.
struct Covered {
    /// Whether the page has any of the query's words.
    any: bool,
    units: Vec<f32>,
    paragraphs: Vec<f32>,
}

impl<'page, 'text> QueryEvidence<'page, 'text> {
    /// A query and what each page says of it in words; looks at everything until it is told otherwise.
    pub(crate) fn new(
        query: usize,
        mut evidence: Vec<PageEvidence<'page, 'text>>,
        lexical_weight: LexicalWeight,
    ) -> Self {
        let scale = Scale::of(evidence.iter().flat_map(|evidence| &evidence.bm25), BM25);
        let covered = evidence.iter().filter_map(|evidence| evidence.covered.as_ref());
        let found = covered.flat_map(|covered| &covered.units).copied().reduce(f32::max).unwrap_or(1.0);
        for evidence in &mut evidence {
            evidence.weight = lexical_weight.weight(evidence.reading.characters_per_token, found);
            evidence.put_words(&scale.all(&evidence.bm25));
        }
        Self { query, evidence }
    }

    /// The scale of the pages' cosines.
    pub(crate) fn cosine_scale(&self) -> Scale {
        let cosines: Vec<(f32, f64)> = self.evidence.iter().flat_map(PageEvidence::weighted_cosines).collect();
        Scale::weighted(cosines.into_iter(), COSINE)
    }

    /// Sets the relevance of every seed, by what was looked at.
    pub(crate) fn rank(&mut self) {
        let scale = self.cosine_scale();
        let own_scale = Scale::of(self.evidence.iter().flat_map(PageEvidence::own_cosine), COSINE);
        for evidence in &mut self.evidence {
            evidence.rank(scale, own_scale);
        }
    }
}

impl<'page, 'text> PageEvidence<'page, 'text> {
    /// Reads the page's words, where they count.
    pub(crate) fn new(
        index: usize,
        (page, reading): (&'page Page<'text>, &'page PageReading),
        query: &str,
        grows: bool,
        title: f32,
    ) -> Self {
        let terms = query_terms(query, reading.language);
        let (mut bm25, mut covered) = (Vec::new(), None);
        if let Some(of_page) = &reading.terms {
            let found = of_page.find(&terms);
            bm25 = found.bm25(&reading.ranges);
            covered = grows.then(|| {
                let units: Vec<Range<usize>> = (0..reading.units.spans.len()).map(|unit| unit..unit + 1).collect();
                let paragraphs = &reading.units.paragraphs;
                let each = paragraphs.iter().zip(found.coverage(paragraphs));
                let of_paragraphs = each.flat_map(|(run, covered)| std::iter::repeat_n(covered, run.len())).collect();
                Covered { any: found.any(), units: found.coverage(&units), paragraphs: of_paragraphs }
            });
        }
        Self {
            index,
            page,
            reading,
            terms,
            bm25,
            covered,
            words: Vec::new(),
            weight: 0.0,
            title,
            sample: None,
            view: View::Whole,
            cosine: vec![0.0; reading.rows],
            relevance: Vec::new(),
            grows,
        }
    }

    fn put_words(&mut self, bm25: &[f32]) {
        self.words = match &self.covered {
            Some(Covered { units, paragraphs, .. }) => {
                let ranges = &self.reading.ranges;
                relevance::words(&best_around(units.len(), ranges, bm25, 0.0), units, paragraphs)
            }
            None => bm25.to_vec(),
        };
    }

    /// Whether the page has any of the query's words, and they count.
    pub(crate) fn has_words(&self) -> bool {
        self.covered.as_ref().map_or_else(|| self.bm25.iter().any(|score| *score > 0.0), |covered| covered.any)
    }

    /// The seeds that may become passages for their words, the most telling first; ties go to what stands first.
    pub(crate) fn by_words(&self) -> Vec<usize> {
        let quiet = if self.grows { self.reading.units.quiet.as_slice() } else { &[] };
        let mut seeds: Vec<usize> = (0..self.words.len()).filter(|seed| quiet.binary_search(seed).is_err()).collect();
        seeds.sort_by(|a, b| self.words[*b].total_cmp(&self.words[*a]));
        seeds
    }

    /// The windows around a seed; it itself, where windows are the seeds.
    pub(crate) fn around(&self, seed: usize) -> Range<usize> {
        if !self.grows {
            return seed..seed + 1;
        }
        let ranges = &self.reading.ranges;
        let first = ranges.partition_point(|window| window.end <= seed);
        first..first + ranges[first..].partition_point(|window| window.start <= seed)
    }

    /// Of each unit, where they are encoded.
    fn own_cosine(&self) -> &[f32] {
        &self.cosine[self.reading.ranges.len()..]
    }

    /// The cosines that tell how all of the page lie, and how many of its windows each stands for.
    pub(crate) fn weighted_cosines(&self) -> Vec<(f32, f64)> {
        let all = self.reading.ranges.len();
        let each = |windows: &[usize], weight: f64| -> Vec<(f32, f64)> {
            windows.iter().map(|window| (self.cosine[*window], weight)).collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "numbers of windows")]
        let stands_for = |all: usize, some: usize| all as f64 / some.max(1) as f64;
        match (&self.sample, &self.view) {
            (Some(Sample { chosen, others }), _) => {
                [each(chosen, 1.0), each(others, stands_for(all - chosen.len(), others.len()))].concat()
            }
            (None, View::Whole) => self.cosine[..all].iter().map(|cosine| (*cosine, 1.0)).collect(),
            // Words point at nothing here, so what was looked at is as good as a sample.
            (None, View::Part(windows)) => each(windows, stands_for(all, windows.len())),
        }
    }

    fn rank(&mut self, scale: Scale, own_scale: Scale) {
        let Self { reading, words, view, cosine, .. } = self;
        let (units, ranges) = (&reading.units, &reading.ranges);
        let is_whole = *view == View::Whole;
        let windows = view.rows(ranges.len());
        let cosines: Vec<f32> = windows.iter().map(|window| scale.z(f64::from(cosine[*window]))).collect();
        // What nobody looked at is like the mean; so is a unit in no window (a step over the length).
        let meaning = if self.grows {
            let seen: Vec<Range<usize>> = windows.iter().map(|window| ranges[*window].clone()).collect();
            let around = best_around(units.spans.len(), &seen, &cosines, 0.0);
            relevance::meaning(&around, &own_scale.all(&cosine[ranges.len()..]))
        } else if is_whole {
            cosines
        } else {
            let mut all = vec![0.0; ranges.len()];
            windows.iter().zip(cosines).for_each(|(window, cosine)| all[*window] = cosine);
            all
        };
        let joined = if words.is_empty() { meaning } else { join(&meaning, words, self.weight) };
        self.relevance = if self.grows { of_units(&joined) } else { joined };
        if self.grows {
            for unit in &units.quiet {
                self.relevance[*unit] = self.relevance[*unit].min(0.0);
            }
        }
    }

    /// Whether any window around a seed was looked at.
    pub(crate) fn is_seen(&self) -> impl Fn(usize) -> bool {
        let all = self.reading.ranges.len();
        let mut seen = vec![0_usize; all + 1];
        for window in self.view.rows(all) {
            seen[window + 1] = 1;
        }
        for window in 0..all {
            seen[window + 1] += seen[window];
        }
        move |seed| {
            let around = self.around(seed);
            seen[around.end] > seen[around.start]
        }
    }

    /// The best cosine and the best BM25 of the windows around a seed; and of the unit, where it was encoded.
    pub(crate) fn best_scores(&self, seed: usize) -> (f32, f32) {
        let around = self.around(seed);
        let best = |values: &mut dyn Iterator<Item = f32>| values.reduce(f32::max);
        let looked_at = |window: &usize| match &self.view {
            View::Whole => true,
            View::Part(windows) => windows.binary_search(window).is_ok(),
        };
        let cosine = best(&mut around.clone().filter(looked_at).map(|window| self.cosine[window]));
        let own = if self.grows { self.own_cosine().get(seed).copied() } else { None };
        let bm25 = best(&mut self.bm25.get(around).unwrap_or_default().iter().copied());
        (cosine.into_iter().chain(own).reduce(f32::max).unwrap_or(0.0), bm25.unwrap_or(0.0))
    }
}
