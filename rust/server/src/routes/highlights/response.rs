//! The response: the highlights of each page, with offsets in the unit of the request.

use std::ops::Range;
use std::time::Duration;

use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Answers, Pairing, Rows, Work, note, number, pair};
use pullquote_core::ranking::probability::ANSWERED;
use pullquote_core::runtime::call::Call;
use pullquote_wire::result::{Footer, Highlight, HighlightsUsage, PageError, PageHighlights, Timings};
use serde::Serialize;

use super::blocks::blocks;
use super::marks::Marks;
use super::request::PreparedRequest;
use super::vectors::Written;
use crate::http::answer::{AnswerWriter, Listed};
use crate::http::failure::Failure;
use crate::routes::request_pages::RequestText;

/// What the highlights of a response are made of.
pub(super) struct Frame<'call> {
    request: &'call PreparedRequest,
    answers: &'call Answers,
    call: &'call Call<'static>,
    rows: Rows<'call>,
    /// The pages of the request that these are the answers for.
    range: Range<usize>,
    /// The vector of each passage, if vectors are part of the JSON.
    pub(super) vectors: Option<Written>,
}

/// What the last part of a response says of all pages.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) work: Work,
    /// The highest score; `None` without highlights.
    best: Option<f32>,
    warning: Option<String>,
}

impl Totals {
    pub(super) fn of(answers: &Answers, options: &Options) -> Self {
        let mut totals = Self::default();
        totals.add(answers, options);
        totals
    }

    pub(super) fn add(&mut self, answers: &Answers, options: &Options) {
        self.work += answers.work;
        self.best = answers.scores.iter().copied().chain(self.best).max_by(f32::total_cmp);
        self.warning = self.warning.take().or_else(|| answers.warning(options));
    }

    pub(super) fn footer<'page>(&self, request: &PreparedRequest, queued: Duration) -> Footer<'page> {
        let Self { work, best, warning } = self;
        let of_options = warning.clone().filter(|_| best.is_none());
        let note = note(&request.options, work.windows, *best);
        let warnings: Vec<String> = of_options.into_iter().chain(file_warnings(request)).collect();
        Footer {
            answered: note.is_none(),
            note,
            offsets: request.offsets,
            usage: HighlightsUsage {
                windows: work.windows,
                windows_scored: work.windows_scored,
                encoded: work.encoded,
                tokens: work.tokens,
                truncated: work.truncated,
            },
            timings: Timings {
                queue: queued.as_secs_f64(),
                cutting: work.cutting.as_secs_f64(),
                tokenizing: work.tokenizing.as_secs_f64(),
                waiting: work.waiting.as_secs_f64(),
                ranking: work.ranking.as_secs_f64(),
            },
            warnings: Some(warnings).filter(|warnings| !warnings.is_empty()),
            query_vectors: None,
        }
    }
}

fn file_warnings(request: &PreparedRequest) -> impl Iterator<Item = String> {
    let of_file =
        |(index, page): (usize, &RequestText)| Some(format!("file[{index}]: {}", page.upload()?.warning.as_ref()?));
    request.texts.pages.iter().enumerate().filter_map(of_file)
}

/// Limits an answer, and names the option that makes it large.
pub(super) fn limited(request: &PreparedRequest, answer: AnswerWriter) -> AnswerWriter {
    let PreparedRequest { texts, options, return_texts, return_blocks, marks, .. } = request;
    let queries = if texts.pairing == Pairing::All { texts.queries.len() } else { 1 };
    let options = [
        ("context", options.context > 0),
        ("pre_tags", marks.is_some()),
        ("explain", options.explain),
        ("return_blocks", *return_blocks),
        ("return_texts", *return_texts),
        ("top_k", true),
    ];
    let used: Vec<&str> = options.iter().filter(|(_, is_used)| *is_used).map(|(name, _)| *name).collect();
    let advice = format!("use less of {}, or send fewer documents at once", used.join(", "));
    answer.for_queries(queries).advising(used[0], advice)
}

impl<'call> Frame<'call> {
    /// Answers for all pages.
    pub(super) fn new(request: &'call PreparedRequest, answers: &'call Answers, call: &'call Call<'static>) -> Self {
        Self::of_pages(request, answers, call, 0..request.texts.pages.len())
    }

    /// Answers for some pages.
    pub(super) fn of_pages(
        request: &'call PreparedRequest,
        answers: &'call Answers,
        call: &'call Call<'static>,
        range: Range<usize>,
    ) -> Self {
        let pages = &request.texts.pages[range.clone()];
        let rows = Rows::new(answers, 0..answers.scores.len(), |page| pages[page].as_ref());
        Self { request, answers, call, rows, range, vectors: None }
    }

    /// Refuses tags that would make a highlight too large, which is in memory as a whole.
    pub(super) fn check_marks(&self, answer: &AnswerWriter) -> Result<(), Failure> {
        let bytes = |marks: &Marks| self.answers.matches.words.len().saturating_mul(marks.bytes());
        self.request.marks.as_ref().map_or(Ok(()), |marks| answer.check(bytes(marks)))
    }

    /// The highlights of each page, in the order of the answers.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageHighlights<'_, impl Serialize>> {
        (0..self.answers.ends.len()).map(|answer| self.page(answer))
    }

    /// The text of each passage, in the order of the answers' columns.
    pub(super) fn passages(&self) -> Vec<&'call str> {
        let text = |row| {
            let [start, end] = pair(&self.answers.spans, row);
            self.rows.positions(row).between(start, end)
        };
        (0..self.answers.scores.len()).map(text).collect()
    }

    fn page(&self, answer: usize) -> PageHighlights<'_, impl Serialize> {
        let (request, pages) = (self.request, self.range.len());
        let (query, page) = match request.texts.pairing {
            Pairing::All => (answer / pages, answer % pages),
            Pairing::Each => (self.range.start + answer, answer),
            Pairing::Fused => (0, answer),
        };
        let index = self.range.start + page;
        let (rows, format) = (self.answers.rows_of(answer), self.answers.formats[page]);
        let source = request.texts.pages[index].as_ref();
        // What does not depend on the query is said once.
        let is_first = answer == page;
        PageHighlights {
            index,
            id: request.ids[index].as_deref().map(Into::into),
            query: (request.listed && request.texts.pairing != Pairing::Fused).then_some(query),
            error: request.missing[index]
                .as_ref()
                .map(|failure| PageError { kind: failure.cause.row().name, message: failure.message.as_str().into() }),
            text_hash: request.text_hashes[index].as_str().into(),
            format: format.name().into(),
            windows: self.answers.windows[page],
            windows_scored: self.answers.windows_scored[page],
            answered: is_answered(&self.answers.scores[rows.clone()]),
            text: (request.return_texts && is_first)
                .then(|| self.answers.texts[page].as_deref().unwrap_or(source).into()),
            // Of a call that has ended, no answer is sent: the writer checks that at its end.
            blocks: (request.return_blocks && is_first)
                .then(|| blocks(source, format, request.offsets, &|| self.call.check()).unwrap_or_default()),
            highlights: Listed(move || rows.clone().map(move |row| self.highlight(page, row))),
        }
    }

    /// A row's highlight with the fields that the request asks for; of one of these pages.
    fn highlight(&self, page: usize, row: usize) -> Highlight<'_> {
        let (request, answers) = (self.request, self.answers);
        let mut highlight = self.rows.highlight(row, request.offsets);
        highlight.twins.iter_mut().flatten().for_each(|twin| twin.page += self.range.start);
        highlight.query = (request.texts.pairing == Pairing::Fused).then(|| number(answers.queries[row]));
        if request.options.context == 0 {
            (highlight.before, highlight.after) = (None, None);
        }
        if !request.options.explain {
            highlight.matches = None;
        }
        if answers.texts[page].is_none() {
            (highlight.source_start, highlight.source_end) = (None, None);
        }
        let ([start, end], positions) = (pair(&answers.spans, row), self.rows.positions(row));
        highlight.marked = request.marks.as_ref().map(|marks| {
            let words = answers.matches_of(row).map(|found| pair(&answers.matches.spans, found));
            marks.around(positions, start..end, words)
        });
        if let Some(document) =
            request.texts.pages[self.range.start + page].upload().filter(|document| !document.page_starts.is_empty())
        {
            highlight.page_number = document.page_number(start);
            highlight.rectangles = Some(document.rectangles(start, positions.between(start, end)));
        }
        highlight.vector = self.vectors.as_ref().and_then(|vectors| vectors.row(row));
        highlight
    }
}

/// Whether any of these scores is that of an answer.
pub(in crate::routes) fn is_answered(scores: &[f32]) -> bool {
    scores.iter().any(|score| *score >= ANSWERED)
}
