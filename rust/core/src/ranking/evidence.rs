//! Evidence for a query on a page: lexical scores at once, cosines as windows are scored, and the relevance that joins
//! both.
//!
//! Scales span all listed pages of a query, so that scores are comparable between its pages.

use std::ops::Range;

use super::parsed_page::ParsedPage;
use super::prediction::{Correction, predict};
use super::probability::{Calibration, Evidence};
use super::relevance::{
    self, BM25, COSINE, LexicalWeight, Scale, UNIT_SPREAD, best_around, heading_credit, join, scale_units,
};
use super::selection::{CosineSample, WindowSelection};
use super::static_vectors::StaticVectors;
use super::terms::{
    PageTerms, QueryTerm, Term, asks_for_number, closest_terms, has_number, may_be_misspelled, query_terms,
    terms as words,
};
use crate::text::page::{ByteSpan, PageText};
use crate::text::pieces::NamedTable;
use crate::tokens::Tokens;

/// How much a word of the query counts as covered if only the page's title has it.
const TITLE_CREDIT: f32 = 0.25;

/// How much the words of a table's header count as covered in its rows.
const HEADER_CREDIT: f32 = 0.5;

/// Weight of a word of the page that is only close to one of the query.
const CORRECTED_WEIGHT: f32 = 0.8;

pub(crate) struct QueryEvidence<'page, 'text> {
    pub(crate) query: usize,
    pub(crate) pages: Vec<PageEvidence<'page, 'text>>,
}

pub(crate) struct PageEvidence<'page, 'text> {
    pub(crate) index: usize,
    pub(crate) page: &'page PageText<'text>,
    pub(crate) parsed: &'page ParsedPage,
    pub(crate) terms: Vec<QueryTerm>,
    /// For each window; empty with a lexical weight of 0.
    pub(crate) bm25: Vec<f32>,
    coverage: Option<UnitCoverage>,
    /// The share of the query in each seed, by the language; empty with a lexical weight of 0.
    language_coverage: Vec<f32>,
    /// The lexical score of each seed, as a z-score; empty with a lexical weight of 0.
    pub(crate) lexical: Vec<f32>,
    pub(crate) lexical_weight: f32,
    /// The title's relevance, which is added where pages compete.
    pub(crate) title: f32,
    /// Whether the page may have passages. Otherwise all its cosines are predicted, and its seeds have no scores.
    pub(crate) is_listed: bool,
    /// Whether only a preview of the page is selected so far.
    pub(crate) is_previewed: bool,
    /// The windows that estimate the page's cosines; `None` for all scored ones.
    pub(crate) sample: Option<CosineSample>,
    /// For each window, the mean of static vectors' cosines; empty without such vectors.
    static_means: Vec<f32>,
    /// The cosine of each window as its words, or its static vectors, predict it.
    pub(crate) predicted: Vec<f32>,
    /// How the page's cosines differ from that.
    pub(crate) correction: Correction,
    /// The windows to score.
    pub(crate) selection: WindowSelection,
    /// For each row: windows, then units if they are encoded. 0 where a row has no score, which no code may use.
    pub(crate) cosine: Vec<f32>,
    /// For each seed of passages.
    pub(crate) relevance: Vec<f32>,
    /// For each seed, of the probability that it answers the query: no higher than that of a seed before it in order.
    pub(crate) logits: Vec<f32>,
    /// For each seed: the value by which the page's passages are ordered.
    pub(crate) order: Vec<f32>,
    /// Whether seeds are units, from which passages grow. Otherwise seeds are windows.
    expands: bool,
    /// Whether each seed lacks the number or date that the query asks for; empty if it asks for none.
    lacks_number: Vec<bool>,
    calibration: Calibration,
}

/// A page's title, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageTitle<'title> {
    pub(crate) text: Option<&'title str>,
    /// Added where pages compete: see [`super::titles`].
    pub(crate) relevance: f32,
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

/// Adds the coverage of a table's header to its rows that cover something themselves.
fn credit_headers(coverage: &mut [f32], tables: &[NamedTable]) {
    for NamedTable { header, rows } in tables {
        let credit = HEADER_CREDIT * coverage[header.clone()].iter().copied().fold(0.0, f32::max);
        for row in coverage[rows.clone()].iter_mut().filter(|row| **row > 0.0) {
            *row = (*row + credit).min(1.0);
        }
    }
}

/// Replaces the terms that the page lacks, and the model's vocabulary too, by the page's closest ones.
fn correct_spelling(terms: &mut [QueryTerm], page_terms: &PageTerms, page: &PageText, parsed: &ParsedPage) {
    let missing = page_terms.find(terms).missing();
    let is_misspelled =
        |(term, missing): &(&mut QueryTerm, bool)| *missing && term.rarity >= 1.0 && may_be_misspelled(&term.text);
    let misspelled: Vec<&mut QueryTerm> =
        terms.iter_mut().zip(missing).filter(is_misspelled).map(|(term, _)| term).collect();
    if misspelled.is_empty() {
        return;
    }
    let words: Vec<&str> = misspelled.iter().map(|term| term.text.as_str()).collect();
    let closest = closest_terms(&words, page.text(), parsed.language);
    for (term, closest) in misspelled.into_iter().zip(closest) {
        if let Some(closest) = closest {
            (term.term, term.weight) = (closest, CORRECTED_WEIGHT * term.weight);
        }
    }
}

/// The scale of all windows' BM25.
fn bm25_scale<'evidence>(pages: impl Iterator<Item = &'evidence PageEvidence<'evidence, 'evidence>>) -> Scale {
    Scale::of(pages.flat_map(|evidence| &evidence.bm25), BM25)
}

impl<'page, 'text> QueryEvidence<'page, 'text> {
    /// Computes the lexical scores of all pages on one scale. Selects all windows.
    pub(crate) fn new(query: usize, mut pages: Vec<PageEvidence<'page, 'text>>, lexical_weight: LexicalWeight) -> Self {
        let scale = bm25_scale(pages.iter());
        let coverage = pages.iter().filter_map(|evidence| evidence.coverage.as_ref());
        let best = coverage.flat_map(|coverage| &coverage.units).copied().reduce(f32::max).unwrap_or(1.0);
        for evidence in &mut pages {
            evidence.lexical_weight = lexical_weight.weight(evidence.parsed.characters_per_token, best);
            let bm25 = scale.all(&evidence.bm25);
            evidence.predict(&bm25);
            evidence.set_lexical(&bm25);
        }
        Self { query, pages }
    }

    /// Leaves only the listed pages to be searched, as in a call of their own: they are compared with one another, by
    /// words and not by static vectors. The others get no passages.
    pub(crate) fn keep_pages(&mut self, is_listed: &[bool]) {
        for (evidence, is_listed) in self.pages.iter_mut().zip(is_listed) {
            evidence.is_listed = *is_listed;
            evidence.static_means.clear();
            evidence.sample = None;
            evidence.selection = WindowSelection::Only(Vec::new());
            (evidence.relevance, evidence.order, evidence.logits) = (Vec::new(), Vec::new(), Vec::new());
        }
        let scale = bm25_scale(self.listed());
        for evidence in self.listed_mut() {
            let bm25 = scale.all(&evidence.bm25);
            evidence.predict(&bm25);
            evidence.set_lexical(&bm25);
        }
    }

    pub(crate) fn listed(&self) -> impl Iterator<Item = &PageEvidence<'page, 'text>> {
        self.pages.iter().filter(|evidence| evidence.is_listed)
    }

    pub(crate) fn listed_mut(&mut self) -> impl Iterator<Item = &mut PageEvidence<'page, 'text>> {
        self.pages.iter_mut().filter(|evidence| evidence.is_listed)
    }

    /// The scale of the listed pages' cosines.
    pub(crate) fn cosine_scale(&self) -> Scale {
        let (mut cosines, mut squares) = (Vec::new(), 0.0);
        for evidence in self.listed() {
            let (sample, predicted) = (evidence.scale_windows(), evidence.parsed.windows.len());
            #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
            let predicted = predicted.saturating_sub(sample.len()) as f64;
            squares += predicted * evidence.correction.deviation.powi(2);
            cosines.extend(evidence.estimates(&sample));
        }
        Scale::with_squares(&cosines, squares, COSINE)
    }

    /// The logit of the likeliest scored seed; negative infinity without one.
    pub(crate) fn best_logit(&self) -> f32 {
        self.pages.iter().filter_map(PageEvidence::best_logit).fold(f32::NEG_INFINITY, f32::max)
    }

    /// Sets the relevance and the logit of every seed from the cosines so far.
    pub(crate) fn rank(&mut self) {
        self.pages.iter_mut().for_each(PageEvidence::correct);
        let scale = self.cosine_scale();
        let unit_scale = Scale::of(self.pages.iter().flat_map(PageEvidence::unit_cosines), COSINE);
        for evidence in self.listed_mut() {
            let cosines = evidence.estimates(&evidence.selection.rows(evidence.parsed.windows.len()));
            evidence.rank(&cosines, scale, unit_scale);
            evidence.set_logits(cosines);
        }
    }
}

impl<'page, 'text> PageEvidence<'page, 'text> {
    /// Finds the query's terms on the page, unless words do not count.
    pub(crate) fn new(
        index: usize,
        (page, parsed): (&'page PageText<'text>, &'page ParsedPage),
        query: &str,
        expands: bool,
        title: PageTitle,
        tokens: &Tokens,
        calibration: Calibration,
    ) -> Self {
        let mut terms = query_terms(query, parsed.language);
        for term in &mut terms {
            term.rarity = tokens.rarity(&term.text);
        }
        let calibration = calibration.with_words(terms.iter().filter(|term| term.weight >= 1.0).count());
        let (mut bm25, mut coverage, mut language_coverage) = (Vec::new(), None, Vec::new());
        if let Some(page_terms) = &parsed.terms {
            correct_spelling(&mut terms, page_terms, page, parsed);
            let postings = page_terms.find(&terms);
            bm25 = postings.bm25(&parsed.windows);
            let units: Vec<Range<usize>> = (0..parsed.units.spans.len()).map(|unit| unit..unit + 1).collect();
            let in_title: Vec<Term> = title
                .text
                .map_or_else(Vec::new, |title| words(title, parsed.language))
                .iter()
                .map(|word| word.term)
                .collect();
            language_coverage =
                postings.language_coverage(if expands { &units } else { &parsed.windows }, &in_title, TITLE_CREDIT);
            coverage = expands.then(|| {
                let paragraphs = &parsed.units.paragraphs;
                let of_paragraphs = paragraphs.iter().zip(postings.coverage(paragraphs));
                let of_units = of_paragraphs.flat_map(|(run, coverage)| std::iter::repeat_n(coverage, run.len()));
                let paragraphs = of_units.collect();
                let mut of_units = postings.coverage(&units);
                credit_headers(&mut of_units, &parsed.units.tables);
                credit_headers(&mut language_coverage, &parsed.units.tables);
                let headings = postings.added_coverage(&units, &parsed.units.section_headings());
                UnitCoverage { has_terms: postings.any(), units: of_units, paragraphs, headings }
            });
        }
        let lacks_number = if asks_for_number(query) {
            let units = &parsed.units;
            let lacks = |span: ByteSpan| !has_number(span.of(page.text()));
            if expands {
                units.spans.iter().copied().map(lacks).collect()
            } else {
                parsed.windows.iter().map(|window| lacks(units.span(window))).collect()
            }
        } else {
            Vec::new()
        };
        Self {
            index,
            page,
            parsed,
            terms,
            bm25,
            coverage,
            language_coverage,
            lexical: Vec::new(),
            lexical_weight: 0.0,
            title: title.relevance,
            is_listed: true,
            is_previewed: false,
            sample: None,
            static_means: Vec::new(),
            predicted: Vec::new(),
            correction: Correction::default(),
            selection: WindowSelection::All,
            cosine: vec![0.0; parsed.rows],
            relevance: Vec::new(),
            logits: Vec::new(),
            order: Vec::new(),
            expands,
            lacks_number,
            calibration,
        }
    }

    /// Predicts cosines from static vectors.
    pub(crate) fn with_static_vectors(mut self, vectors: &StaticVectors, query: &[f32]) -> Self {
        if let Some(tokens) = &self.parsed.tokens {
            self.static_means = vectors.means(query, tokens, &self.parsed.windows);
        }
        self
    }

    /// Predicts every window's cosine from z-scores of its BM25, and from static vectors if there are any.
    fn predict(&mut self, bm25: &[f32]) {
        self.predicted = predict(bm25, &self.static_means, self.parsed.windows.len(), self.calibration.model);
    }

    /// Takes every window's cosine as predicted.
    pub(crate) fn accept_predictions(&mut self) {
        self.sample = Some(CosineSample::default());
        self.cosine.clone_from(&self.predicted);
    }

    fn set_lexical(&mut self, bm25: &[f32]) {
        self.lexical = match &self.coverage {
            Some(UnitCoverage { units, paragraphs, headings, .. }) => {
                let bm25 = best_around(units.len(), &self.parsed.windows, bm25, 0.0);
                relevance::lexical(&bm25, units, paragraphs, headings)
            }
            None => bm25.to_vec(),
        };
    }

    /// Whether the page has any of the query's terms. False with a lexical weight of 0.
    pub(crate) fn has_query_terms(&self) -> bool {
        let has_bm25 = || self.bm25.iter().any(|score| *score > 0.0);
        self.coverage.as_ref().map_or_else(has_bm25, |coverage| coverage.has_terms)
    }

    /// Seeds that may become passages, by descending relevance if cosines are as predicted; ties go to the earlier one.
    pub(crate) fn seeds_by_prediction(&self) -> Vec<usize> {
        let count = self.predicted.len();
        #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
        let squares = count as f64 * self.correction.deviation.powi(2);
        let relevance = self.join(&Scale::with_squares(&self.predicted, squares, COSINE).all(&self.predicted), &[]);
        let mut seeds: Vec<usize> = self.seeds().collect();
        seeds.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]));
        seeds
    }

    /// The share of the query in the unit that has most of it; 1 where windows are seeds.
    pub(crate) fn best_coverage(&self) -> f32 {
        self.coverage.as_ref().map_or(1.0, |coverage| coverage.units.iter().copied().fold(0.0, f32::max))
    }

    /// Seeds that may become passages.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = usize> {
        let never = if self.expands { self.parsed.units.boilerplate.as_slice() } else { &[] };
        (0..self.lexical.len()).filter(|seed| never.binary_search(seed).is_err())
    }

    /// The relevance of each seed, before [`scale_units`], from z-scores of all windows' cosines, and of all units' if
    /// they are encoded.
    pub(crate) fn join(&self, cosines: &[f32], units: &[f32]) -> Vec<f32> {
        let semantic = if self.expands {
            // A unit in no window (a step longer than the window) counts as the mean.
            let around = best_around(self.parsed.units.spans.len(), &self.parsed.windows, cosines, 0.0);
            relevance::semantic(&around, units)
        } else {
            cosines.to_vec()
        };
        if self.lexical.is_empty() { semantic } else { join(&semantic, &self.lexical, self.lexical_weight) }
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

    /// The windows that estimate the page's cosines, which are the same for every effort.
    fn scale_windows(&self) -> Vec<usize> {
        match &self.sample {
            Some(CosineSample { best, others }) => [best.as_slice(), others].concat(),
            None => self.selection.rows(self.parsed.windows.len()),
        }
    }

    fn correct(&mut self) {
        let unselected = match (&self.sample, &self.selection) {
            (Some(CosineSample { others, .. }), _) => others.as_slice(),
            // Words selected none of these, so they are as good as a random sample.
            (None, WindowSelection::Only(windows)) => windows,
            (None, WindowSelection::All) => &[],
        };
        let pairs: Vec<(f32, f32)> =
            unselected.iter().map(|window| (self.cosine[*window], self.predicted[*window])).collect();
        self.correction = Correction::of(&pairs, self.calibration.model);
    }

    /// The cosine of each window: as it is for those of `scored`, which have one, and else as predicted.
    pub(crate) fn estimates(&self, scored: &[usize]) -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let offset = self.correction.offset as f32;
        let mut cosines: Vec<f32> = self.predicted.iter().map(|predicted| predicted + offset).collect();
        for window in scored {
            cosines[*window] = self.cosine[*window];
        }
        cosines
    }

    /// Sets the relevance of every seed from all windows' cosines.
    fn rank(&mut self, cosines: &[f32], scale: Scale, unit_scale: Scale) {
        let joined = self.join(&scale.all(cosines), &unit_scale.all(self.unit_cosines()));
        self.relevance = if self.expands { scale_units(&joined) } else { joined };
        if self.expands {
            for unit in &self.parsed.units.boilerplate {
                self.relevance[*unit] = self.relevance[*unit].min(0.0);
            }
        }
    }

    fn logit(&self, seed: usize, cosine: f32) -> f32 {
        let coverage = self.language_coverage.get(seed).copied().unwrap_or(0.0);
        self.calibration.logit(Evidence { cosine, coverage, lacks_number: self.lacks_number(seed) })
    }

    fn order_of(&self, seed: usize, relevance: f32, logit: f32, cosine: f32) -> f32 {
        let heading = self.coverage.as_ref().map_or(0.0, |coverage| coverage.headings[seed]);
        let relevance = relevance + heading_credit(heading, self.lexical_weight);
        self.calibration.order(relevance, logit, cosine)
    }

    fn lacks_number(&self, seed: usize) -> bool {
        self.lacks_number.get(seed).copied().unwrap_or(false)
    }

    /// The logit of every seed from words and static vectors.
    fn predicted_logits(&self) -> Vec<f32> {
        let means = if self.expands {
            best_around(self.parsed.units.spans.len(), &self.parsed.windows, &self.static_means, 0.0)
        } else {
            self.static_means.clone()
        };
        let both = means.into_iter().zip(&self.language_coverage).enumerate();
        let logit = |(seed, (mean, coverage)): (usize, (f32, &f32))| {
            self.calibration.predicted_logit(mean, *coverage, self.lacks_number(seed))
        };
        both.map(logit).collect()
    }

    /// Sets the logit and the order of every seed from all windows' cosines.
    fn set_logits(&mut self, mut cosines: Vec<f32>) {
        let (windows, units) = (&self.parsed.windows, self.parsed.units.spans.len());
        if self.expands {
            #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
            let mean = Scale::of(cosines.iter(), COSINE).at(0.0) as f32;
            cosines = best_around(units, windows, &cosines, mean);
            cosines.iter_mut().zip(self.unit_cosines()).for_each(|(cosine, own)| *cosine = cosine.max(*own));
        }
        let mut logits: Vec<f32> = cosines.iter().enumerate().map(|(seed, cosine)| self.logit(seed, *cosine)).collect();
        let exclude_boilerplate = |logits: &mut [f32]| {
            if self.expands {
                self.parsed.units.boilerplate.iter().for_each(|unit| logits[*unit] = f32::NEG_INFINITY);
            }
        };
        exclude_boilerplate(&mut logits);
        let order: Vec<f32> = (0..logits.len())
            .map(|seed| self.order_of(seed, self.relevance[seed], logits[seed], cosines[seed]))
            .collect();
        if !self.static_means.is_empty() && !self.language_coverage.is_empty() {
            logits = self.predicted_logits();
            exclude_boilerplate(&mut logits);
        }
        let mut seeds: Vec<usize> = (0..logits.len()).collect();
        seeds.sort_by(|a, b| order[*b].total_cmp(&order[*a]));
        // No seed is likelier than a better one, if that has a score.
        let is_scored = self.is_scored();
        let mut least = f32::INFINITY;
        for seed in seeds {
            logits[seed] = logits[seed].min(least);
            if is_scored(seed) {
                least = logits[seed];
            }
        }
        drop(is_scored);
        self.logits = logits;
        self.order = order;
    }

    /// The order of a seed if the cosine of a window around it lies `deviations` above its prediction.
    pub(crate) fn order_bound(&self, scale: Scale, deviations: f64) -> impl Fn(usize, usize) -> f32 {
        let cosines = self.bounds(deviations);
        let z = scale.all(&cosines);
        move |seed, window| {
            let joined = (1.0 - self.lexical_weight) * z[window] + self.lexical_weight * self.lexical[seed];
            let relevance = if self.expands { joined / UNIT_SPREAD } else { joined };
            self.order_of(seed, relevance, self.logit(seed, cosines[window]), cosines[window])
        }
    }

    /// The logit of a seed if the cosine of a window around it lies `deviations` above its prediction.
    pub(crate) fn logit_bound(&self, deviations: f64) -> impl Fn(usize, usize) -> f32 {
        let cosines = self.bounds(deviations);
        move |seed, window| self.logit(seed, cosines[window])
    }

    /// The highest logit of a seed, scored or with a cosine that lies `deviations` above its prediction.
    pub(crate) fn highest_logit(&self, deviations: f64) -> f32 {
        let bound = self.logit_bound(deviations);
        let bounds = self.seeds().flat_map(|seed| self.windows_around(seed).map(move |window| (seed, window)));
        let highest = bounds.map(|(seed, window)| bound(seed, window)).fold(f32::NEG_INFINITY, f32::max);
        self.best_logit().map_or(highest, |best| highest.max(best))
    }

    /// The cosine of each window, `deviations` above its prediction.
    fn bounds(&self, deviations: f64) -> Vec<f32> {
        #[expect(clippy::cast_possible_truncation, reason = "cosines are single precision")]
        let above = (deviations * self.correction.deviation) as f32;
        self.estimates(&[]).iter().map(|cosine| cosine + above).collect()
    }

    /// The logit of the likeliest scored seed.
    fn best_logit(&self) -> Option<f32> {
        let is_scored = self.is_scored();
        self.logits.iter().enumerate().filter(|(seed, _)| is_scored(*seed)).map(|(_, logit)| *logit).reduce(f32::max)
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

    /// The best cosine and the best BM25 of the windows around a seed. The cosine includes the unit's own, if it is
    /// encoded.
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
