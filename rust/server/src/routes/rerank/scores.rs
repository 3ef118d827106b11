//! The scores of documents: a reranker's, `MaxSim` of a late-interaction model, or the cosines of vectors.

use std::time::{Duration, Instant};

use pullquote_core::encoder::cosine::cosines;
use pullquote_core::engine::{PairLimits, Work};
use pullquote_core::ranking::probability;
use pullquote_core::tokens::{PairTokens, Role, Row, TruncationSide};

use crate::app::App;
use crate::http::failure::{Amount, Failure, refused};
use crate::http::input::Input;
use crate::routes::vector_stream::VectorStream;
use crate::routes::vectors::{FieldInputs, Item, Truncation};

/// The most tokens of a window of a long document for cosines: other text in a window makes it less similar to the query.
const WINDOW_TOKENS: usize = 128;

/// A query, and how it is truncated.
pub(super) struct Query {
    pub(super) text: String,
    pub(super) truncation: Truncation,
}

/// Scores in the order of the documents.
#[derive(Default)]
pub(in crate::routes) struct Scored {
    pub(in crate::routes) scores: Vec<f32>,
    pub(in crate::routes) work: Work,
    /// How long all texts were tokenized.
    pub(in crate::routes) tokenization: Duration,
}

/// Refuses a raw score where scores are cosines.
pub(in crate::routes) fn check_raw(app: &App, is_raw: bool, field: &str) -> Result<(), Failure> {
    if is_raw && app.engine.reranker().is_none() && !app.engine.is_late_interaction() {
        return refused(
            field,
            "a score is a cosine, which has no other form; leave it out, or start the server with --reranker",
        );
    }
    Ok(())
}

/// The scores of documents for a query, by the reranker if there is one.
pub(super) fn score(
    app: &App,
    query: &Query,
    texts: &[&str],
    limits: PairLimits,
    is_raw: bool,
    input: &Input,
) -> Result<Scored, Failure> {
    if app.engine.reranker().is_some() {
        return by_reranker(app, &[(Some(&query.text), texts)], query.truncation, limits, is_raw, ("query", input));
    }
    let items = vec![Item::Text(query.text.clone())];
    let inputs = FieldInputs { field: "query", items, role: Role::Query, truncation: query.truncation };
    if app.engine.is_late_interaction() {
        return by_maxsim(app, &inputs, texts, limits, is_raw, input);
    }
    let began = Instant::now();
    let request = VectorStream::of_field(app, &inputs, input.end())?;
    let window = WINDOW_TOKENS.min(app.engine.max_tokens());
    let mut documents = app.engine.window_rows(texts, Role::Passage, window, limits.tokens, &input.call(None))?;
    let tokenization = began.elapsed();
    let request = request.whole()?;
    for windows in &mut documents {
        windows.truncate(limits.windows);
    }
    let counts: Vec<usize> = documents.iter().map(Vec::len).collect();
    let rows = documents.into_iter().flatten().map(Row::whole).collect();
    let rows = app.engine.embed_rows(rows, &input.call(None))?;
    let mut work = Work { windows: rows.rows(), encoded: rows.rows(), tokens: rows.tokens(), ..request.work };
    work.tokens += request.work.tokens;
    let mut cosines = cosines(&request.values, &rows.collect(&input.call(None))?).into_iter();
    let best = |count: &usize| cosines.by_ref().take(*count).fold(f32::NEG_INFINITY, f32::max);
    Ok(Scored { scores: counts.iter().map(best).collect(), work, tokenization })
}

/// `MaxSim` of each query's documents, one after the other: the mean over the query's tokens, or their sum where `is_raw`.
/// A single query has all documents, and otherwise each its own.
pub(in crate::routes) fn by_maxsim(
    app: &App,
    queries: &FieldInputs,
    texts: &[&str],
    limits: PairLimits,
    is_raw: bool,
    input: &Input,
) -> Result<Scored, Failure> {
    let (call, began) = (input.call(None), Instant::now());
    let rows = queries.rows(app, &input.end())?;
    let truncated = rows.iter().filter(|row| row.is_truncated()).count();
    queries.check_truncated(app, truncated)?;
    let windows = app.engine.passage_windows(texts, limits, &call)?;
    let (count, tokenization) = (windows.iter().map(Vec::len).sum(), began.elapsed());
    let each = if rows.len() == 1 { texts.len() } else { 1 };
    let mut windows = windows.into_iter();
    let asked = rows.into_iter().map(|row| (row, windows.by_ref().take(each).collect())).collect();
    let (scores, encoded) = app.engine.wait(&call, app.engine.maxsim(asked, is_raw, &call))?;
    let work = Work { windows: count, encoded: count, tokens: encoded, truncated, ..Work::default() };
    Ok(Scored { scores, work, tokenization })
}

/// The reranker's scores of each query's documents, one after the other, or of documents alone: probabilities, or logits
/// where `is_raw`.
pub(in crate::routes) fn by_reranker(
    app: &App,
    asked: &[(Option<&str>, &[&str])],
    truncation: Truncation,
    limits: PairLimits,
    is_raw: bool,
    (field, input): (&str, &Input),
) -> Result<Scored, Failure> {
    let call = input.call(None);
    let answer = app.engine.wait(&call, app.engine.score_passages(asked, limits, &call))?;
    if answer.truncated_query.is_some() {
        let limit = app.engine.reranker().map_or(0, PairTokens::max_tokens);
        if !truncation.is_allowed {
            let message = format!("the query is longer than the reranker's limit of {limit} tokens; truncate it");
            return Err(Failure::of_amount(Amount::TooMuch, field, message));
        }
        if truncation.options.side == TruncationSide::Left {
            return refused(field, "a reranker reads the beginning of a query, so that no other end of it can be kept");
        }
    }
    let work = Work {
        windows: answer.logits.len(),
        encoded: answer.encoded,
        tokens: answer.tokens,
        truncated: usize::from(answer.truncated_query.is_some()),
        ..Work::default()
    };
    let score = if is_raw { |logit| logit } else { probability::score };
    let scores = answer.logits.into_iter().map(score).collect();
    Ok(Scored { scores, work, tokenization: answer.tokenizing })
}
