//! What speaks for a query on a page: its words at once, the cosines of its windows as they come, and relevance from both.
//!
//! Scales are those of all pages that are asked together, so that scores can be compared between them.

use std::ops::Range;

use super::effort::{Sample, View, sample};
use super::prepared::Prepared;
use super::titles::Titles;
use super::{Question, Request};
use crate::scores::relevance::{self, BM25, COSINE, Scale, best_around, join, of_units};
use crate::terms::{QueryTerm, query_terms};

/// A query, and the pages it is asked of together.
pub(super) struct Inquiry<'page, 'text> {
    /// Which query.
    pub(super) query: usize,
    pub(super) spoken: Vec<Spoken<'page, 'text>>,
}

/// What speaks for a query on a page.
pub(super) struct Spoken<'page, 'text> {
    pub(super) page: usize,
    pub(super) prepared: &'page Prepared<'text>,
    pub(super) terms: Vec<QueryTerm>,
    /// BM25 of each window; empty where words do not count.
    pub(super) lexical: Vec<f32>,
    covered: Option<Covered>,
    /// What words say of each seed, on their scale; empty where they do not count.
    pub(super) words: Vec<f32>,
    /// How much that counts against meaning.
    pub(super) weight: f32,
    /// What the page's title adds to all of them.
    pub(super) title: f32,
    /// The windows that tell how cosines lie on the page; all of them where there are none.
    pub(super) sample: Option<Sample>,
    /// The windows that the query is compared with: those and, as far as effort goes, others.
    pub(super) view: View,
    /// Of each row; what was not looked at is 0, and nobody reads it.
    pub(super) cosine: Vec<f32>,
    /// Of each seed of passages.
    pub(super) relevance: Vec<f32>,
    grows: bool,
}

/// How much of the query each unit holds, and the paragraph that it stands in.
struct Covered {
    /// Whether the page has any of the query's words.
    any: bool,
    units: Vec<f32>,
    paragraphs: Vec<f32>,
}

impl<'page, 'text> Inquiry<'page, 'text> {
    /// A query and what each page says of it in words; looks at everything until it is told otherwise.
    pub(super) fn new(query: usize, mut spoken: Vec<Spoken<'page, 'text>>, question: &Question) -> Self {
        let lexical = Scale::of(spoken.iter().flat_map(|spoken| &spoken.lexical), BM25);
        let covered = spoken.iter().filter_map(|spoken| spoken.covered.as_ref());
        let found = covered.flat_map(|covered| &covered.units).copied().reduce(f32::max).unwrap_or(1.0);
        for spoken in &mut spoken {
            spoken.weight = question.lexical.weight(spoken.prepared.reading.characters_per_token, found);
            spoken.put_words(&lexical.all(&spoken.lexical));
            spoken.sample = sample(spoken);
        }
        Self { query, spoken }
    }

    /// The scale of the pages' cosines.
    pub(super) fn cosine_scale(&self) -> Scale {
        let cosines: Vec<(f32, f64)> = self.spoken.iter().flat_map(Spoken::weighted_cosines).collect();
        Scale::weighted(cosines.into_iter(), COSINE)
    }

    /// Sets the relevance of every seed, by what was looked at.
    pub(super) fn judge(&mut self) {
        let scale = self.cosine_scale();
        let own_scale = Scale::of(self.spoken.iter().flat_map(Spoken::own_cosine), COSINE);
        for spoken in &mut self.spoken {
            spoken.judge(scale, own_scale);
        }
    }
}

impl<'page, 'text> Spoken<'page, 'text> {
    /// Reads the page's words, where they count.
    pub(super) fn new(
        prepared: &'page Prepared<'text>,
        (page, query): (usize, usize),
        request: &Request,
        question: &Question,
        titles: &Titles,
    ) -> Self {
        let reading = &prepared.reading;
        let terms = query_terms(request.queries[query], reading.language);
        let (mut lexical, mut covered) = (Vec::new(), None);
        if let Some(of_page) = &reading.terms {
            let found = of_page.find(&terms);
            lexical = found.bm25(&reading.ranges);
            covered = question.grows().then(|| {
                let units: Vec<Range<usize>> = (0..reading.units.spans.len()).map(|unit| unit..unit + 1).collect();
                let paragraphs = &reading.units.paragraphs;
                let each = paragraphs.iter().zip(found.coverage(paragraphs));
                let of_paragraphs = each.flat_map(|(run, covered)| std::iter::repeat_n(covered, run.len())).collect();
                Covered { any: found.any(), units: found.coverage(&units), paragraphs: of_paragraphs }
            });
        }
        Self {
            page,
            prepared,
            terms,
            lexical,
            covered,
            words: Vec::new(),
            weight: 0.0,
            title: titles.of(query, page),
            sample: None,
            view: View::Whole,
            cosine: vec![0.0; reading.rows],
            relevance: Vec::new(),
            grows: question.grows(),
        }
    }

    fn put_words(&mut self, lexical: &[f32]) {
        self.words = match &self.covered {
            Some(Covered { units, paragraphs, .. }) => {
                let ranges = &self.prepared.reading.ranges;
                relevance::words(&best_around(units.len(), ranges, lexical, 0.0), units, paragraphs)
            }
            None => lexical.to_vec(),
        };
    }

    /// Whether the page has any of the query's words, and they count.
    pub(super) fn has_words(&self) -> bool {
        self.covered.as_ref().map_or_else(|| self.lexical.iter().any(|bm25| *bm25 > 0.0), |covered| covered.any)
    }

    /// The seeds that may become passages for their words, the most telling first; ties go to what stands first.
    pub(super) fn by_words(&self) -> Vec<usize> {
        let quiet = if self.grows { self.prepared.reading.units.quiet.as_slice() } else { &[] };
        let mut seeds: Vec<usize> = (0..self.words.len()).filter(|seed| quiet.binary_search(seed).is_err()).collect();
        seeds.sort_by(|a, b| self.words[*b].total_cmp(&self.words[*a]));
        seeds
    }

    /// The windows around a seed; it itself, where windows are the seeds.
    pub(super) fn around(&self, seed: usize) -> Range<usize> {
        if !self.grows {
            return seed..seed + 1;
        }
        let ranges = &self.prepared.reading.ranges;
        let first = ranges.partition_point(|window| window.end <= seed);
        first..first + ranges[first..].partition_point(|window| window.start <= seed)
    }

    /// Of each unit, where they are encoded.
    fn own_cosine(&self) -> &[f32] {
        &self.cosine[self.prepared.reading.ranges.len()..]
    }

    /// The cosines that tell how all of the page lie, and how many of its windows each stands for.
    pub(super) fn weighted_cosines(&self) -> Vec<(f32, f64)> {
        let all = self.prepared.reading.ranges.len();
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

    fn judge(&mut self, scale: Scale, own_scale: Scale) {
        let Self { prepared, words, view, cosine, .. } = self;
        let (units, ranges) = (&prepared.reading.units, &prepared.reading.ranges);
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
    pub(super) fn is_seen(&self) -> impl Fn(usize) -> bool {
        let all = self.prepared.reading.ranges.len();
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
    pub(super) fn evidence(&self, seed: usize) -> (f32, f32) {
        let around = self.around(seed);
        let best = |values: &mut dyn Iterator<Item = f32>| values.reduce(f32::max);
        let looked_at = |window: &usize| match &self.view {
            View::Whole => true,
            View::Part(windows) => windows.binary_search(window).is_ok(),
        };
        let cosine = best(&mut around.clone().filter(looked_at).map(|window| self.cosine[window]));
        let own = if self.grows { self.own_cosine().get(seed).copied() } else { None };
        let lexical = best(&mut self.lexical.get(around).unwrap_or_default().iter().copied());
        (cosine.into_iter().chain(own).reduce(f32::max).unwrap_or(0.0), lexical.unwrap_or(0.0))
    }
}
