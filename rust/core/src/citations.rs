//! What supports each sentence of a written text.
//!
//! [`claims`] cuts the text into sentences and reads the [`markers`] of sources in it. The engine finds passages for all
//! sentences that claim something; each page is read and encoded once. [`evidence`] says how much of a sentence passages have:
//! its words, and its [`facts`] by value and [`units`].

mod claims;
mod evidence;
mod facts;
mod markers;
mod units;

use std::sync::Arc;

use pullquote_wire::citations::{
    Cited, CitedPassage, CitedSentence, FactKind, MarkerStatus, MissingFact, SourceMarker, Support,
};
use pullquote_wire::options::{DedupeOption, Options, PairingOption};
use pullquote_wire::result::{Highlight, OffsetUnit};
use rustc_hash::FxHashMap;

pub use claims::Claims;
use claims::Sentence;
use evidence::{Claim, Contents, Evidence, Passage};
pub use markers::Sources;

use crate::engine::{Answers, Engine, Pairing, Question, Request, Rows, VectorSource, number};
use crate::error::Result;
use crate::ranking::terms::{Language, guess_language};
use crate::runtime::call::{Call, to_the_end};
use crate::text::formats::Format;
use crate::text::page::ByteSpan;
use crate::text::pieces::sentences;
use crate::text::positions::length;

/// Sentences of one call of the engine, which bounds its memory. The cache has the pages for the next ones.
pub const CLAIMS_AT_ONCE: usize = 64;

/// Passages of each page that are compared with a sentence.
const CANDIDATES: i64 = 3;

/// Sentences of a page that are encoded for each sentence of the text, before those that could still be among the best. A
/// sentence has more words than a question, so that words alone nearly find what says it.
const LIKELY: usize = 4;

/// Passages that together may support a sentence.
const MOST_TOGETHER: usize = 3;

/// The best passages that are tried in addition to the best one.
const MOST_TRIED: usize = 16;

/// What a further passage must add to the share of a sentence's words.
const LEAST_GAIN: f32 = 0.08;

/// The share of a sentence's words that each of several passages has.
const LEAST_PART: f32 = 0.25;

/// The probability from which passages are about what a sentence says.
const SUPPORTED: f32 = 0.5;

/// The probability and the share of a sentence's words from which they say a part of it.
const PARTIAL: f32 = 0.2;
const PARTIAL_COVERAGE: f32 = 0.5;

/// Bytes of a page's beginning that names its subject.
const LEAD: usize = 300;

/// Bytes of a page whose language is guessed.
const SAMPLE: usize = 10_000;

/// The pages of a call, and what they are called.
pub struct Pages<'call> {
    pub texts: Vec<&'call str>,
    pub formats: Vec<Format>,
    pub titles: Vec<Option<&'call str>>,
    pub ids: &'call [Option<String>],
}

/// A candidate for a sentence.
struct Candidate {
    row: usize,
    page: usize,
    passage: Passage,
    evidence: Evidence,
}

/// Holds a text against pages.
///
/// # Errors
/// As [`Engine::highlights`].
pub async fn cite(
    engine: &Engine,
    vectors: &VectorSource,
    answer: &str,
    claims: &Claims,
    pages: &Pages<'_>,
    offsets: OffsetUnit,
    call: &Call<'_>,
) -> Result<Cited<'static>> {
    let options = Options {
        top_k: Some(CANDIDATES),
        // The vectors of sentences tell more than those of windows.
        highlight_length: 1,
        context: 2,
        dedupe: DedupeOption::None,
        pairing: PairingOption::All,
        // A reranker scores answers to questions.
        rerank_top: 0,
        ..Options::default()
    };
    let question = Question { likely_windows: Some(LIKELY), ..Question::new(&options)? };
    let places = Places::new(answer, claims, offsets);
    let claiming: Vec<usize> =
        (0..claims.sentences.len()).filter(|one| claims.sentences[*one].query.is_some()).collect();
    let languages: Vec<Language> = pages.texts.iter().map(|text| guess_language(head(text, SAMPLE))).collect();
    let mut cited: Vec<CitedSentence> = claims.sentences.iter().map(|sentence| places.unclaimed(sentence)).collect();
    for chunk in claiming.chunks(CLAIMS_AT_ONCE) {
        let query = |place: &usize| claims.sentences[*place].query.as_deref().unwrap_or_default();
        let request = Request {
            queries: chunk.iter().map(query).collect(),
            pages: pages.texts.clone(),
            formats: pages.formats.clone(),
            titles: pages.titles.clone(),
            pairing: Pairing::All,
        };
        let answers = engine.highlights_with(vectors, &request, &question, call).await?;
        let mut comparison = Comparison::new(pages, &languages, &answers, offsets);
        for (query, &place) in chunk.iter().enumerate() {
            call.check()?;
            let sentence = &claims.sentences[place];
            let text = sentence.span.of(&claims.masked);
            let claim = Claim::new(text, comparison.language(query), engine.tokens());
            comparison.cite(&claim, sentence, query, &places, &mut cited[place]);
        }
    }
    let supported = cited.iter().all(|one| matches!(one.support, Support::Full | Support::NoClaim));
    Ok(Cited { supported, sentences: cited, offsets })
}

/// Places in the answer in the unit of the caller.
struct Places<'answer> {
    answer: &'answer str,
    unit: OffsetUnit,
    /// The bytes at which sentences and markers begin, and their counts. In order.
    known: Vec<(usize, usize)>,
}

/// The sentences of a passage, the names above it, and the text around it.
type ReadPassage = (Arc<Vec<Contents>>, Arc<Contents>, Arc<Contents>);

/// The passages of one call of the engine.
struct Comparison<'call> {
    pages: &'call Pages<'call>,
    languages: &'call [Language],
    answers: &'call Answers,
    rows: Rows<'call>,
    unit: OffsetUnit,
    /// The contents of passages and of their contexts by page and span: sentences share them.
    read: FxHashMap<(usize, usize, usize), ReadPassage>,
}

impl<'call> Comparison<'call> {
    fn new(
        pages: &'call Pages<'call>,
        languages: &'call [Language],
        answers: &'call Answers,
        unit: OffsetUnit,
    ) -> Self {
        let rows = Rows::new(answers, 0..answers.scores.len(), |page| pages.texts[page]);
        Self { pages, languages, answers, rows, unit, read: FxHashMap::default() }
    }

    fn rows_of(&self, query: usize) -> impl Iterator<Item = usize> + use<'call> {
        let (answers, pages) = (self.answers, self.pages.texts.len());
        (query * pages..(query + 1) * pages).flat_map(move |answer| answers.rows_of(answer))
    }

    /// The language of the page with the best passage.
    fn language(&self, query: usize) -> Language {
        let best = self.rows_of(query).max_by(|a, b| self.answers.cosines[*a].total_cmp(&self.answers.cosines[*b]));
        best.map_or(Language::default(), |row| self.languages[number(self.answers.pages[row])])
    }

    fn passage(&mut self, row: usize) -> Passage {
        let highlight = self.rows.highlight(row, OffsetUnit::Codepoint);
        let page = number(self.answers.pages[row]);
        let (answers, pages, language) = (self.answers, self.pages, self.languages[page]);
        let read = self.read.entry((page, highlight.start, highlight.end)).or_insert_with(|| {
            let text = answers.texts[page].as_deref().unwrap_or(pages.texts[page]);
            let title = pages.titles.get(page).copied().flatten();
            let names = highlight.breadcrumbs.iter().flatten().map(|one| without_number(&one.text));
            let names: Vec<&str> = names.chain(highlight.header.as_deref()).chain(title).collect();
            let around = format!("{}\n{}", highlight.before.as_deref().unwrap_or_default(), head(text, LEAD));
            let contents = |text: &str| Contents::new(text, language);
            let cut = to_the_end(|check| sentences(&highlight.text, check));
            let of_sentences = cut.iter().map(|sentence| contents(sentence.of(&highlight.text))).collect();
            (Arc::new(of_sentences), Arc::new(contents(&names.join("\n"))), Arc::new(contents(&around)))
        });
        let (sentences, names, around) = read.clone();
        Passage { sentences, names, around, cosine: answers.cosines[row] }
    }

    fn cite(
        &mut self,
        claim: &Claim,
        sentence: &Sentence,
        query: usize,
        places: &Places,
        cited: &mut CitedSentence<'static>,
    ) {
        let rows: Vec<usize> = self.rows_of(query).collect();
        let candidate = |row: usize| {
            let passage = self.passage(row);
            let evidence = claim.evidence(&[&passage]);
            Candidate { row, page: number(self.answers.pages[row]), passage, evidence }
        };
        let mut candidates: Vec<Candidate> = rows.into_iter().map(candidate).collect();
        candidates.sort_by(|a, b| b.evidence.order.total_cmp(&a.evidence.order));
        let Some(first) = candidates.first() else {
            cited.support = Support::None;
            cited.missing = places.missing(claim, sentence, &(0..claim.facts.len()).collect::<Vec<_>>(), false);
            for marker in &mut cited.markers {
                marker.status = if marker.page.is_some() { MarkerStatus::Unsupported } else { MarkerStatus::Unknown };
            }
            return;
        };
        // The best passage, and those that add to it.
        let (mut together, mut chosen) = (vec![&first.passage], vec![0]);
        let mut evidence = claim.evidence(&together);
        while chosen.len() < MOST_TOGETHER {
            let with = |place: usize| claim.evidence(&[together.as_slice(), &[&candidates[place].passage]].concat());
            // A passage with nothing but a name of the sentence says nothing of it.
            let has_part = |place: &usize| candidates[*place].evidence.coverage >= LEAST_PART;
            let others = (0..candidates.len().min(MOST_TRIED)).filter(|place| !chosen.contains(place)).filter(has_part);
            let more = others.map(|place| (place, with(place)));
            let gains = |(_, more): &(usize, Evidence)| more.coverage > evidence.coverage + LEAST_GAIN;
            let better = |a: &(usize, Evidence), b: &(usize, Evidence)| a.1.order.total_cmp(&b.1.order);
            let Some((place, more)) = more.filter(gains).max_by(better) else { break };
            if more.order <= evidence.order {
                break;
            }
            chosen.push(place);
            together.push(&candidates[place].passage);
            evidence = more;
        }
        let has_all = evidence.missing.is_empty() && !evidence.is_denied;
        cited.support = match evidence.related {
            SUPPORTED.. if has_all => Support::Full,
            SUPPORTED.. => Support::Partial,
            _ if evidence.coverage >= PARTIAL_COVERAGE && evidence.related >= PARTIAL => Support::Partial,
            _ => Support::None,
        };
        cited.score = evidence.probability;
        cited.missing = places.missing(claim, sentence, &evidence.missing, evidence.is_denied);
        // Of each page that a marker means, its own best passage that supports the sentence alone.
        let mut of_pages: FxHashMap<usize, MarkerStatus> = FxHashMap::default();
        for marker in &mut cited.markers {
            let Some(page) = marker.page else { continue };
            marker.status = *of_pages.entry(page).or_insert_with(|| {
                let own = candidates.iter().position(|candidate| candidate.page == page);
                let own = own.filter(|place| candidates[*place].evidence.related >= SUPPORTED);
                chosen.extend(own.filter(|place| !chosen.contains(place)));
                let is_here = chosen.iter().any(|place| candidates[*place].page == page);
                match cited.support {
                    Support::Full if is_here => MarkerStatus::Supported,
                    Support::Partial if is_here => MarkerStatus::Partial,
                    Support::Full | Support::Partial => MarkerStatus::OtherPage,
                    Support::None | Support::NoClaim => MarkerStatus::Unsupported,
                }
            });
        }
        if cited.support != Support::None {
            cited.passages = chosen.iter().map(|place| self.cited_passage(&candidates[*place])).collect();
        }
    }

    fn cited_passage(&self, candidate: &Candidate) -> CitedPassage<'static> {
        let highlight: Highlight = self.rows.highlight(candidate.row, self.unit);
        let id = self.pages.ids.get(candidate.page).cloned().flatten();
        let owned = |one: pullquote_wire::result::Breadcrumb| pullquote_wire::result::Breadcrumb {
            text: one.text.into_owned().into(),
            start: one.start,
            end: one.end,
        };
        CitedPassage {
            text: highlight.text.into_owned().into(),
            start: highlight.start,
            end: highlight.end,
            page: candidate.page,
            id: id.map(Into::into),
            score: candidate.evidence.probability,
            breadcrumbs: highlight.breadcrumbs.into_iter().flatten().map(owned).collect(),
            source_start: highlight.source_start.unwrap_or(highlight.start),
            source_end: highlight.source_end.unwrap_or(highlight.end),
        }
    }
}

impl<'answer> Places<'answer> {
    fn new(answer: &'answer str, claims: &Claims, unit: OffsetUnit) -> Self {
        let of_sentence = |sentence: &Sentence| {
            let markers: Vec<usize> = sentence.markers.iter().map(|marker| marker.span.start).collect();
            std::iter::once(sentence.span.start).chain(markers)
        };
        let mut bytes: Vec<usize> = claims.sentences.iter().flat_map(of_sentence).collect();
        bytes.sort_unstable();
        let mut known: Vec<(usize, usize)> = vec![(0, 0)];
        for byte in bytes {
            let (before, count) = known.last().copied().unwrap_or_default();
            known.push((byte, count + length(&answer[before..byte], unit)));
        }
        Self { answer, unit, known }
    }

    fn count(&self, byte: usize) -> usize {
        let after = self.known.partition_point(|(known, _)| *known <= byte);
        let (known, count) = self.known[after - 1];
        count + length(&self.answer[known..byte], self.unit)
    }

    fn span(&self, span: ByteSpan) -> (String, usize, usize) {
        (span.of(self.answer).to_owned(), self.count(span.start), self.count(span.end))
    }

    /// A sentence before it is compared.
    fn unclaimed(&self, sentence: &Sentence) -> CitedSentence<'static> {
        let (text, start, end) = self.span(sentence.span);
        let marker = |marker: &markers::Marker| {
            let (text, start, end) = self.span(marker.span);
            let status = if marker.page.is_some() { MarkerStatus::NoClaim } else { MarkerStatus::Unknown };
            SourceMarker {
                text: text.into(),
                start,
                end,
                label: marker.label.clone().into(),
                page: marker.page,
                status,
            }
        };
        CitedSentence {
            text: text.into(),
            start,
            end,
            support: Support::NoClaim,
            score: 0.0,
            passages: Vec::new(),
            missing: Vec::new(),
            markers: sentence.markers.iter().map(marker).collect(),
        }
    }

    /// The facts of a sentence that no passage has; names next to each other are one.
    fn missing(
        &self,
        claim: &Claim,
        sentence: &Sentence,
        missing: &[usize],
        is_denied: bool,
    ) -> Vec<MissingFact<'static>> {
        let mut spans: Vec<(FactKind, ByteSpan)> = Vec::new();
        for fact in missing.iter().map(|place| &claim.facts[*place]) {
            match spans.last_mut() {
                Some((FactKind::Name, last)) if fact.kind == FactKind::Name && fact.span.start <= last.end + 1 => {
                    last.end = fact.span.end;
                }
                _ => spans.push((fact.kind, fact.span)),
            }
        }
        let whole = ByteSpan { start: 0, end: sentence.span.end - sentence.span.start };
        spans.extend(is_denied.then(|| (FactKind::Negation, claim.negation().unwrap_or(whole))));
        spans.sort_by_key(|(_, span)| span.start);
        let fact = |(kind, span): (FactKind, ByteSpan)| {
            let start = sentence.span.start;
            let (text, start, end) = self.span(ByteSpan { start: start + span.start, end: start + span.end });
            MissingFact { kind, text: text.into(), start, end }
        };
        spans.into_iter().map(fact).collect()
    }
}

/// A heading without its number: in `2.3.1. Header`, 2, 3 and 1 are not numbers that the text below it states.
fn without_number(heading: &str) -> &str {
    let text = heading.trim_start_matches(['#', ' ', '>']);
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if text[..text.len() - rest.len()].contains('.') { rest } else { text }
}

/// The beginning of a text, at most this number of bytes.
fn head(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
