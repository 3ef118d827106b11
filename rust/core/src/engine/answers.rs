//! The columns of answers, from their passages.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::options::Options;
use super::passages::ChosenPassage;
use super::{Question, Work, column};
use crate::error::Result;
use crate::highlights::{Budget, MinScore};
use crate::ranking::parsed_page::PreparedPage;
use crate::ranking::probability::{ANSWERED, score};
use crate::ranking::query_match::QueryMatch;
use crate::ranking::terms::{Occurrence, Term, is_inside_word, is_joined, terms};
use crate::runtime::call::Call;
use crate::text::formats::Format;

/// All answers of a call as columns, as Python has them in arrays.
///
/// Answer `i` is rows `ends[i - 1]..ends[i]` of the columns. If every query is paired with every page, the answers for
/// the first query come first, one for each page, then those for the second. Otherwise answer `i` belongs to page `i`.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// For each answer, the end of its rows.
    pub ends: Vec<i64>,
    /// For each highlight, its start and end in characters of the page's text.
    pub spans: Vec<i64>,
    /// As `spans`, in bytes of UTF-8. Empty for answers from a server.
    pub byte_spans: Vec<i64>,
    /// As `spans`, widened by [`Question::context`] units on both sides.
    pub contexts: Vec<i64>,
    /// As `spans`: the names of the columns above a passage that begins in the rows of a table; empty for others.
    pub headers: Vec<i64>,
    /// For each highlight, the end of its breadcrumbs.
    pub breadcrumb_ends: Vec<i64>,
    /// For each breadcrumb, its start and end in characters of the page's text ([`crate::text::pieces::Units::breadcrumbs`]).
    pub breadcrumbs: Vec<i64>,
    /// For each highlight, the end of its twins.
    pub twin_ends: Vec<i64>,
    /// For each twin, its page.
    pub twin_pages: Vec<i64>,
    /// For each twin, its start and end in characters of its page's text.
    pub twins: Vec<i64>,
    /// As `spans`, in characters of the source.
    pub sources: Vec<i64>,
    /// For each page, the extracted text; `None` if the source is the text.
    pub texts: Vec<Option<String>>,
    /// For each page, its format; detected ones are resolved.
    pub formats: Vec<Format>,
    /// For each page, the number of windows, plus units if they are encoded too.
    pub windows: Vec<i64>,
    /// For each page, how many of them were scored against a query.
    pub windows_scored: Vec<i64>,
    /// For each highlight, its score from 0 to 1 (see [`crate::ranking::probability`]).
    pub scores: Vec<f32>,
    /// For each highlight, the best cosine of the windows around its seed.
    pub cosines: Vec<f32>,
    /// For each highlight, the best BM25 score of those windows; 0 with a lexical weight of 0.
    pub bm25_scores: Vec<f32>,
    pub pages: Vec<i64>,
    pub queries: Vec<i64>,
    pub matches: Matches,
    /// The length of the shortest candidate, if there are no highlights within a budget; `None` for answers from a server.
    pub shortest: Option<Budget>,
    pub work: Work,
}

/// Words of highlights that match words of their queries.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// For each highlight, the end of its matches. Empty without [`Question::explain`].
    pub ends: Vec<i64>,
    /// For each match, its start and end in characters of the page's text.
    pub spans: Vec<i64>,
    /// For each match, the index of the query's word in `query_words`.
    pub words: Vec<i64>,
    /// Words as written in the queries: those of each highlight's matches, one after the other.
    pub query_words: Vec<String>,
}

/// Rows that are written between two checks.
const PASSAGES_BETWEEN_CHECKS: usize = 256;

impl Answers {
    /// The columns of highlights: a row for each passage of each answer.
    ///
    /// # Errors
    /// Those of [`Call::check`].
    pub(super) fn new(
        answers: &[Vec<ChosenPassage>],
        pages: &[PreparedPage],
        question: &Question,
        call: &Call,
    ) -> Result<Self> {
        let check = call.own_checker();
        let mut columns = Self::default();
        for passages in answers {
            for (number, chosen) in passages.iter().enumerate() {
                if number % PASSAGES_BETWEEN_CHECKS == 0 {
                    check()?;
                }
                columns.push(chosen, pages, question);
            }
            columns.ends.push(column(columns.scores.len()));
        }
        if columns.scores.is_empty() && question.bounds.has_budget() {
            columns.shortest =
                pages.iter().flat_map(|page| candidates(page, question)).min_by_key(|length| length.chars);
        }
        Ok(columns)
    }

    /// A warning if there are no highlights because budgets are smaller than any sentence.
    pub fn warning(&self, options: &Options) -> Option<String> {
        let has_least = options.min_score.is_some_and(|least| least != MinScore::Score(0.0));
        if !self.scores.is_empty() || has_least || self.windows.iter().all(|windows| *windows == 0) {
            return None;
        }
        let named = named_budgets(options);
        if named.is_empty() {
            return None;
        }
        Some(match self.shortest {
            Some(Budget { chars, tokens }) if options.max_tokens.or(options.max_total_tokens).is_some() => {
                format!("no passage fits {named}: the shortest has {chars} characters and {tokens} tokens; allow more")
            }
            Some(Budget { chars, .. }) => {
                format!("no passage fits {named}: the shortest has {chars} characters; allow more")
            }
            None => format!("no passage fits {named}: every one is longer; allow more"),
        })
    }

    fn push(&mut self, chosen: &ChosenPassage, pages: &[PreparedPage], question: &Question) {
        let ChosenPassage { passage, query, ranking } = chosen;
        let prepared = &pages[ranking.page()];
        let (units, run) = (&prepared.parsed.units, &passage.units);
        let push = |columns: &mut Vec<i64>, run: &Range<usize>| {
            let span = prepared.text.chars(units.span(run));
            columns.extend([column(span.start), column(span.end)]);
        };
        push(&mut self.spans, run);
        let bytes = units.span(run);
        self.byte_spans.extend([column(bytes.start), column(bytes.end)]);
        let around = run.start.saturating_sub(question.context)
            ..(run.end.saturating_add(question.context)).min(units.spans.len());
        push(&mut self.contexts, &around);
        let header = units.header(run).map_or((0, 0), |header| {
            let header = prepared.text.chars(header);
            (column(header.start), column(header.end))
        });
        self.headers.extend([header.0, header.1]);
        for breadcrumb in units.breadcrumbs(run) {
            let breadcrumb = prepared.text.chars(breadcrumb);
            self.breadcrumbs.extend([column(breadcrumb.start), column(breadcrumb.end)]);
        }
        self.breadcrumb_ends.push(column(self.breadcrumbs.len() / 2));
        for twin in &passage.twins {
            let page = &pages[twin.page];
            let span = page.text.chars(page.parsed.units.span(&twin.units));
            self.twin_pages.push(column(twin.page));
            self.twins.extend([column(span.start), column(span.end)]);
        }
        self.twin_ends.push(column(self.twin_pages.len()));
        let source = prepared.document.source_span(units.span(run));
        let source = prepared.source.as_ref().unwrap_or(&prepared.text).chars(source);
        self.sources.extend([column(source.start), column(source.end)]);
        if question.explain {
            self.explain(&ranking.scored.prediction.matched, prepared, run);
        }
        self.scores.push(score(passage.logit));
        let (cosine, bm25) = ranking.scored.best_scores(passage.seed);
        self.cosines.push(cosine);
        self.bm25_scores.push(bm25);
        self.pages.push(column(ranking.page()));
        self.queries.push(column(*query));
    }

    /// Finds the passage's words that are in the query too. Of a compound and its parts, only the longest match counts; a
    /// part inside a word is none, and one that underscores join only if the passage has the word nowhere else.
    fn explain(&mut self, matched: &QueryMatch, prepared: &PreparedPage, run: &Range<usize>) {
        let span = prepared.parsed.units.span(run);
        let index_of: FxHashMap<Term, usize> =
            matched.terms.iter().enumerate().rev().map(|(index, term)| (term.term, index)).collect();
        // By the query's word: its index in `query_words`.
        let mut written: FxHashMap<usize, usize> = FxHashMap::default();
        let query_words = &mut self.matches.query_words;
        let mut matched_to = 0;
        let passage = span.of(prepared.text.text());
        let mut words = terms(passage, prepared.parsed.language);
        words.retain(|word| index_of.contains_key(&word.term) && !is_inside_word(passage, word.span));
        let is_whole = |word: &&Occurrence| !is_joined(passage, word.span);
        let whole: FxHashSet<Term> = words.iter().filter(is_whole).map(|word| word.term).collect();
        for word in &words {
            let Some(index) = index_of.get(&word.term) else { continue };
            if word.span.start < matched_to || (whole.contains(&word.term) && !is_whole(&word)) {
                continue;
            }
            matched_to = word.span.end;
            let start = span.start + word.span.start;
            let chars = prepared.text.chars(crate::text::page::ByteSpan { start, end: span.start + word.span.end });
            self.matches.spans.extend([column(chars.start), column(chars.end)]);
            let written = *written.entry(*index).or_insert_with(|| {
                query_words.push(matched.terms[*index].text.clone());
                query_words.len() - 1
            });
            self.matches.words.push(column(written));
        }
        self.matches.ends.push(column(self.matches.words.len()));
    }
}

/// Why nothing answers on pages of this number of windows, as Python's `Highlights.note`. `best` is the highest score,
/// `None` without passages.
#[must_use]
pub fn note(options: &Options, windows: usize, best: Option<f32>) -> Option<String> {
    let budgets = named_budgets(options);
    Some(match (best, options.min_score) {
        (Some(score), _) if score >= ANSWERED => return None,
        (Some(_), _) => "no passage says it in these words".to_owned(),
        _ if windows == 0 => "there is no text".to_owned(),
        (None, Some(MinScore::Auto)) => "no passage reaches min_score=auto".to_owned(),
        (None, Some(MinScore::Score(least))) if least > 0.0 => format!("no passage reaches min_score={least}"),
        _ if budgets.is_empty() => "no passage".to_owned(),
        _ => format!("no passage is within {budgets}"),
    })
}

/// The budgets of a call, as they were passed.
fn named_budgets(options: &Options) -> String {
    let budgets = [
        ("max_chars", options.max_chars),
        ("max_tokens", options.max_tokens),
        ("max_total_chars", options.max_total_chars),
        ("max_total_tokens", options.max_total_tokens),
    ];
    let named: Vec<String> = budgets.iter().filter_map(|(name, most)| Some(format!("{name}={}", (*most)?))).collect();
    named.join(", ")
}

/// The lengths of the shortest passages that a page could have.
fn candidates(page: &PreparedPage, question: &Question) -> impl Iterator<Item = Budget> {
    let units = &page.parsed.units;
    let count = if question.expands() { units.spans.len() } else { page.parsed.windows.len() };
    (0..count).map(move |number| {
        let run = if question.expands() { number..number + 1 } else { page.parsed.windows[number].clone() };
        let before = |unit: usize| page.tokens_before.get(unit).copied().unwrap_or(0);
        Budget { chars: page.text.chars(units.span(&run)).len(), tokens: before(run.end) - before(run.start) }
    })
}
