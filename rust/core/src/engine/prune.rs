//! Kept sentences: a pruner reads a query with the sentences of a text, and says how likely each of them answers.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::context::CallContext;
use super::{Engine, check_length};
use crate::encoder::Encoder;
use crate::encoder::model::Pruner;
use crate::error::{Error, ErrorKind, Result};
use crate::ranking::kept_sentences::{least_kept, probabilities};
use crate::ranking::probability::score;
use crate::runtime::call::{Call, Check};
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::scheduler::Scheduler;
use crate::scheduler::batches::Wanted;
use crate::text::page::ByteSpan;
use crate::text::pieces::sentences;
use crate::tokens::{PrunerTokens, SentenceIds, TokenPage};

/// A query with a text.
#[derive(Clone, Debug)]
pub struct PrunedText<'call> {
    pub query: &'call str,
    pub text: &'call str,
    /// Those that cover the text: sorted, and each ends where the next one begins. `None` to cut it here.
    pub sentences: Option<Vec<ByteSpan>>,
}

/// What a pruner says of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pruned {
    /// They cover the text.
    pub sentences: Vec<ByteSpan>,
    /// For each sentence.
    pub probabilities: Vec<f32>,
    /// Sentences with this probability or a higher one are kept.
    pub least_kept: f32,
    /// The probability of the best of the text's rows; `None` if the pruner ranks no texts, or there is no token.
    pub score: Option<f32>,
}

/// A text's tokens, in rows with its query.
struct PrunedRows {
    spans: Vec<ByteSpan>,
    sentences: SentenceIds,
    page: Arc<TokenPage>,
    /// Tokens of each row's sentences.
    ranges: Vec<Range<usize>>,
    /// Ids of the query.
    query: usize,
}

/// A text made of its sentences, and where each stands.
pub fn join_sentences<T: AsRef<str>>(sentences: impl IntoIterator<Item = T>) -> (String, Vec<ByteSpan>) {
    let mut text = String::new();
    let add = |sentence: T| {
        let start = text.len();
        text.push_str(sentence.as_ref());
        ByteSpan { start, end: text.len() }
    };
    let spans = sentences.into_iter().map(add).collect();
    (text, spans)
}

impl Engine {
    /// Adds the tokenizer of a pruner whose weights the encoder has, or else `labels`: an encoder that only computes pairs,
    /// with devices of its own.
    ///
    /// # Errors
    /// As [`PrunerTokens::read`]; [`ErrorKind::Internal`] if neither has its weights.
    pub fn with_pruner(mut self, pruner: &Pruner, labels: Option<Box<dyn Encoder>>) -> Result<Self> {
        let pairs = self.add_pairs(labels)?;
        let tokens = PrunerTokens::read(pruner)?;
        tokens.pairs().check_vocabulary(pairs.vocabulary)?;
        self.pruner = Some((tokens, pruner.model.clone()));
        Ok(self)
    }

    /// The tokenizer of the pruner, if there is one.
    pub const fn pruner(&self) -> Option<&PrunerTokens> {
        match &self.pruner {
            Some((tokens, _)) => Some(tokens),
            None => None,
        }
    }

    /// A hash of the pruner's weights, tokenizer and configuration. The first call may read all weights.
    ///
    /// # Errors
    /// As [`Model::id`](crate::encoder::model::Model::id).
    pub fn pruner_id(&self) -> Result<Option<&str>> {
        let Some((_, model)) = &self.pruner else { return Ok(None) };
        if self.pruner_id.get().is_none() {
            let _ = self.pruner_id.set(model.id()?);
        }
        Ok(self.pruner_id.get().map(String::as_str))
    }

    /// Reads texts whole with the pruner, as a future that a driver runs. A threshold is for layouts whose probabilities
    /// depend on it; `None` is the pruner's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] without a pruner; [`ErrorKind::InvalidText`] for a text over
    /// [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES); errors of the encoder and of [`Call::check`].
    pub async fn prune(
        &self,
        texts: &[PrunedText<'_>],
        threshold: Option<f32>,
        call: &Call<'_>,
    ) -> Result<Vec<Pruned>> {
        let scheduler = self.scheduler()?;
        let call = &call.with_shutdown(&self.shutdown);
        texts.iter().flat_map(|text| [text.query, text.text]).try_for_each(check_length)?;
        let count = |tokens| call.check_tokens(tokens);
        Ok(self.read_texts(&scheduler, texts, threshold, call, count).await?.0)
    }

    /// What the pruner says of texts, and the times of tokenizing and waiting. `count` learns the tokens that are encoded.
    async fn read_texts(
        &self,
        scheduler: &Scheduler,
        texts: &[PrunedText<'_>],
        threshold: Option<f32>,
        call: &Call<'_>,
        count: impl FnOnce(usize) -> Result<()>,
    ) -> Result<(Vec<Pruned>, [Duration; 2])> {
        let none = || Error::new(ErrorKind::InvalidArgument, "there is no pruner; name one with pruner=");
        let pruner = self.pruner().ok_or_else(none)?;
        let began = Instant::now();
        let bytes = texts.iter().map(|text| text.text.len()).sum();
        let rows = self.pool.run(call, bytes, |check| text_pool::map(texts, |text| tokenize(pruner, text, check)))?;
        let tokenizing = self.profiler.record_call(Stage::Tokenize, began);
        let began = Instant::now();
        let pages = rows.iter().map(|rows| Arc::clone(&rows.page)).collect();
        let encoded = self.encode_pairs(scheduler, Wanted::Labels, pages, call, |_, tokens| count(tokens)).await?;
        let waiting = self.profiler.record_call(Stage::Wait, began);
        let mut encoded = encoded.into_iter();
        let read = texts.iter().zip(rows).map(|(text, rows)| {
            let PrunedRows { spans, sentences, page, ranges, query } = rows;
            let mut logits = vec![0.0; sentences.len()];
            let mut best: Option<f32> = None;
            for (row, (range, labels)) in ranges.iter().zip(encoded.by_ref()).enumerate() {
                logits[range.clone()].copy_from_slice(&labels[page.passage(row)]);
                best = Some(best.map_or(labels[0], |best| best.max(labels[0])));
            }
            let least = threshold.unwrap_or(pruner.threshold());
            let probabilities = probabilities(pruner, text.text, &sentences, &logits, query, least);
            Pruned {
                sentences: spans,
                least_kept: least_kept(pruner, probabilities.iter().copied(), threshold),
                probabilities,
                score: best.filter(|_| pruner.ranks()).map(score),
            }
        });
        Ok((read.collect(), [tokenizing, waiting]))
    }
}

fn tokenize(pruner: &PrunerTokens, text: &PrunedText, check: &Check) -> Result<PrunedRows> {
    check()?;
    let query = pruner.query(text.query, check)?;
    let spans = text.sentences.clone().map_or_else(|| cover(text.text, check), Ok)?;
    let sentences = pruner.sentences(text.text, &spans, check)?;
    let (page, ranges) = pruner.rows(&query, &sentences);
    Ok(PrunedRows { spans, sentences, page: Arc::new(page), ranges, query: query.len() })
}

/// The sentences of a text, each with the white space after it, and the first one with that before it.
fn cover(text: &str, check: &Check) -> Result<Vec<ByteSpan>> {
    let starts: Vec<usize> = sentences(text, check)?.into_iter().skip(1).map(|sentence| sentence.start).collect();
    let ends = starts.iter().copied().chain(std::iter::once(text.len()));
    let spans = std::iter::once(0).chain(starts.iter().copied()).zip(ends);
    Ok(spans.filter(|(start, end)| start < end).map(|(start, end)| ByteSpan { start, end }).collect())
}

/// The probabilities of the sentences of all texts of a call, in one job.
pub(super) async fn read(
    context: &mut CallContext<'_, '_>,
    texts: &[PrunedText<'_>],
    threshold: Option<f32>,
) -> Result<Vec<Pruned>> {
    let (engine, call, scheduler) = (context.engine, context.call, Arc::clone(&context.scheduler));
    let work = &mut context.work;
    let count = |tokens: usize| {
        work.tokens += tokens;
        call.check_tokens(work.tokens)
    };
    let (read, [tokenizing, waiting]) = engine.read_texts(&scheduler, texts, threshold, call, count).await?;
    context.work.tokenizing += tokenizing;
    context.work.waiting += waiting;
    Ok(read)
}
