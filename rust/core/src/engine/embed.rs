//! Embeds texts: in one job, or in parts, so that the first vectors are available before the last are encoded.
//!
//! A part holds enough rows to keep every device busy. So two parts at the scheduler are as fast as one job with all
//! rows, and take no more turns than a large call for highlights.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::comparison::JOBS_IN_FLIGHT;
use super::{Engine, check_length, token_count};
use crate::encoder::{Batching, EncoderSpec};
use crate::error::Result;
use crate::runtime::call::{Call, Check, Stop};
use crate::runtime::profiling::Stage;
use crate::runtime::text_pool;
use crate::scheduler::batches::RowSource;
use crate::scheduler::{Pending, Scheduler, block_on};
use crate::tokens::{Role, Row, RowOptions, TextOrIds, TokenPage};

#[derive(Clone, Debug)]
pub struct Embeddings {
    /// Concatenated in the order of the texts.
    pub vectors: Vec<f32>,
    /// Token ids encoded, special tokens and prompts included.
    pub tokens: usize,
    /// The number of texts longer than the model's limit.
    pub truncated: usize,
}

/// Tokenized texts whose vectors are encoded in parts.
pub struct StreamedEmbedding {
    scheduler: Arc<Scheduler>,
    /// Parts that are not submitted yet, in order.
    waiting: VecDeque<Vec<RowSource>>,
    submitted: VecDeque<Pending>,
    stop: Stop,
    rows: usize,
    tokens: usize,
    truncated: usize,
}

impl Engine {
    /// Encodes texts, as a future that a driver runs (see `drivers`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidText`](crate::error::ErrorKind::InvalidText) for a text over
    /// [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES); errors of the encoder and of [`Call::check`].
    pub async fn embed<Text: AsRef<str>>(&self, texts: &[Text], role: Role, call: &Call<'_>) -> Result<Embeddings> {
        self.check_text_vectors()?;
        let scheduler = self.scheduler()?;
        let call = &call.with_shutdown(&self.shutdown);
        let began = Instant::now();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let (rows, truncated) = self.rows_of_texts(&texts, role, call)?;
        self.profiler.record_call(Stage::Tokenize, began);
        let tokens = token_count(&rows);
        call.check_tokens(tokens)?;
        let began = Instant::now();
        let vectors = scheduler.submit(rows, call)?.await?;
        self.profiler.record_call(Stage::Wait, began);
        Ok(Embeddings { vectors, tokens, truncated })
    }

    /// Tokenizes texts and splits them into parts. Encoding starts with [`StreamedEmbedding::next`].
    pub fn embed_streamed(&self, texts: &[&str], role: Role, call: &Call) -> Result<StreamedEmbedding> {
        self.check_text_vectors()?;
        let scheduler = self.scheduler()?;
        let call = &call.with_shutdown(&self.shutdown);
        let (rows, truncated) = self.rows_of_texts(texts, role, call)?;
        self.streamed(scheduler, rows, truncated, call)
    }

    /// As [`Self::embed_streamed`], of rows that [`Self::rows`] or the tokenizer made.
    pub fn embed_rows(&self, rows: Vec<Row>, call: &Call) -> Result<StreamedEmbedding> {
        self.check_text_vectors()?;
        let scheduler = self.scheduler()?;
        let page = page_of(rows);
        let truncated = page.truncated.len();
        self.streamed(scheduler, all_rows(&Arc::new(page)), truncated, &call.with_shutdown(&self.shutdown))
    }

    /// Tokenizes texts, truncated as the options say.
    pub fn rows(&self, sources: &[TextOrIds], role: Role, options: &RowOptions, call: &Call) -> Result<Vec<Row>> {
        self.map_sources(sources, call, |source, check| self.tokens.row_of(*source, role, options, check))
    }

    /// Tokenizes texts, each into the windows of [`crate::tokens::Tokens::window_rows`].
    pub fn window_rows(
        &self,
        texts: &[&str],
        role: Role,
        max_tokens: usize,
        total_tokens: usize,
        call: &Call,
    ) -> Result<Vec<Vec<Vec<i32>>>> {
        let sources: Vec<TextOrIds> = texts.iter().map(|text| TextOrIds::Text(text)).collect();
        self.map_sources(&sources, call, |source, check| match source {
            TextOrIds::Text(text) => self.tokens.window_rows(text, role, max_tokens, total_tokens, check),
            TextOrIds::Ids(ids) => Ok(vec![ids.to_vec()]),
        })
    }

    /// Tokenizes on the text pool.
    fn map_sources<T: Send>(
        &self,
        sources: &[TextOrIds],
        call: &Call,
        tokenize: impl Fn(&TextOrIds, &Check) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let bytes = |source: &TextOrIds| match source {
            TextOrIds::Text(text) => check_length(text).map(|()| text.len()),
            TextOrIds::Ids(ids) => Ok(ids.len()),
        };
        let bytes = sources.iter().map(bytes).sum::<Result<usize>>()?;
        let call = &call.with_shutdown(&self.shutdown);
        self.pool.run(call, bytes, |check| {
            text_pool::map(sources, |source| {
                check()?;
                tokenize(source, check)
            })
        })
    }

    fn streamed(
        &self,
        scheduler: Arc<Scheduler>,
        rows: Vec<RowSource>,
        truncated: usize,
        call: &Call,
    ) -> Result<StreamedEmbedding> {
        call.check_tokens(token_count(&rows))?;
        Ok(StreamedEmbedding {
            scheduler,
            stop: call.stop().clone(),
            rows: rows.len(),
            tokens: token_count(&rows),
            truncated,
            waiting: parts(rows, &self.spec, self.batching),
            submitted: VecDeque::new(),
        })
    }

    /// Tokenizes texts. Returns their rows, and the number of texts longer than the model's limit.
    fn rows_of_texts(&self, texts: &[&str], role: Role, call: &Call) -> Result<(Vec<RowSource>, usize)> {
        texts.iter().try_for_each(|text| check_length(text))?;
        let bytes = texts.iter().map(|text| text.len()).sum();
        let chunks: Vec<&[&str]> = texts.chunks(256).collect();
        let pages = self
            .pool
            .run(call, bytes, |check| text_pool::map(&chunks, |chunk| self.tokens.texts(chunk, role, check)))?;
        let truncated = pages.iter().map(|page| page.truncated.len()).sum();
        Ok((pages.into_iter().flat_map(|page| all_rows(&Arc::new(page))).collect(), truncated))
    }
}

impl StreamedEmbedding {
    /// The number of texts, and so of vectors.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The number of parts that [`Self::next`] has not returned yet.
    pub fn remaining_parts(&self) -> usize {
        self.waiting.len() + self.submitted.len()
    }

    /// Token ids of all texts, special tokens and prompts included.
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// The number of texts longer than the model's limit.
    pub const fn truncated(&self) -> usize {
        self.truncated
    }

    /// Waits for the next part: concatenated vectors, in the order of the texts. `None` after the last part.
    ///
    /// # Errors
    /// Errors of the encoder and of [`Call::check`]. Do not call this again afterwards.
    pub fn next(&mut self, call: &Call) -> Result<Option<Vec<f32>>> {
        while self.submitted.len() < JOBS_IN_FLIGHT
            && let Some(rows) = self.waiting.pop_front()
        {
            self.submitted.push_back(self.scheduler.submit(rows, call)?);
        }
        self.submitted.pop_front().map(|pending| block_on(pending, &self.scheduler, call)).transpose()
    }

    /// Waits for all vectors, in one allocation.
    pub fn collect(mut self, call: &Call) -> Result<Vec<f32>> {
        let rows = self.waiting.drain(..).flatten().collect();
        let pending = self.scheduler.submit(rows, call)?;
        block_on(pending, &self.scheduler, call)
    }
}

impl Drop for StreamedEmbedding {
    /// Cancels the parts in flight.
    fn drop(&mut self) {
        if !self.submitted.is_empty() {
            self.stop.stop();
        }
    }
}

pub(super) fn all_rows(page: &Arc<TokenPage>) -> Vec<RowSource> {
    (0..page.len()).map(|window| RowSource { page: Arc::clone(page), window }).collect()
}

/// Rows that [`Engine::rows`] or the tokenizer made, as windows of a page.
pub(super) fn page_of(rows: Vec<Row>) -> TokenPage {
    TokenPage::of_texts(rows)
}

/// Splits rows into parts. Each fills all devices up to their depth.
fn parts(rows: Vec<RowSource>, spec: &EncoderSpec, batching: Batching) -> VecDeque<Vec<RowSource>> {
    let limits = spec.devices.iter().map(|device| (batching.budget(device), device.depth.max(1)));
    let (max_tokens, max_rows) = limits.fold((0, 0_usize), |(tokens, rows), (budget, depth)| {
        (tokens + budget.tokens * depth, rows.saturating_add(budget.rows.saturating_mul(depth)))
    });
    let mut parts: VecDeque<Vec<RowSource>> = VecDeque::new();
    let mut tokens = usize::MAX;
    for row in rows {
        if tokens >= max_tokens || parts.back().is_none_or(|part| part.len() >= max_rows) {
            parts.push_back(Vec::new());
            tokens = 0;
        }
        tokens += row.page.row_len(row.window);
        if let Some(part) = parts.back_mut() {
            part.push(row);
        }
    }
    parts
}
