//! Vectors of tokens: those before pooling, or late interaction's. Their batches take turns with all others at the
//! scheduler. `MaxSim` of whole texts.

use std::sync::Arc;

use super::embed::{all_rows, page_of};
use super::{Engine, token_count};
use crate::error::{Error, ErrorKind, Result};
use crate::ranking::maxsim::{maxsim, mean_maxsim};
use crate::runtime::call::Call;
use crate::runtime::text_pool;
use crate::scheduler::batches::Wanted;
use crate::tokens::{PairLimits, Role, Row};

impl Engine {
    /// Values in the vector of a token; `None` if the encoder has only one vector for each text.
    #[must_use]
    pub const fn token_width(&self) -> Option<usize> {
        self.spec.capabilities.token_width
    }

    /// The vectors of the ids of [`Self::rows`]: concatenated float32 `[ids, token_width]`. They are those of the last
    /// layer, before pooling and the modules after it; with late interaction those that `MaxSim` compares, without the ids
    /// that are skipped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] without [`Self::token_width`]; errors of the encoder and of [`Call::check`].
    pub async fn token_vectors(&self, rows: Vec<Row>, call: &Call<'_>) -> Result<Vec<f32>> {
        let scheduler = self.scheduler()?;
        if self.token_width().is_none() {
            let message =
                "this encoder has one vector for each text, and none for tokens; use a transformer on the CPU";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let skipped: Vec<(usize, Vec<usize>)> = rows.iter().map(|row| (row.ids.len(), row.skipped.clone())).collect();
        let rows = all_rows(&Arc::new(page_of(rows)));
        call.check_tokens(token_count(&rows))?;
        let call = &call.with_shutdown(&self.shutdown);
        let vectors = scheduler.submit_for(Wanted::TokenVectors, rows, call)?.await?;
        if skipped.iter().all(|(_, skipped)| skipped.is_empty()) {
            return Ok(vectors);
        }
        let rows = skipped.iter().map(|(length, skipped)| (*length, skipped.as_slice()));
        Ok(without_skipped(&vectors, self.token_width().unwrap_or(1), rows))
    }

    /// Whether the model has a vector for each token, and none for a text.
    #[must_use]
    pub const fn is_late_interaction(&self) -> bool {
        self.tokens.is_late_interaction()
    }

    /// Refuses a vector of a text from a model that has none.
    pub(super) fn check_text_vectors(&self) -> Result<()> {
        if self.is_late_interaction() {
            let message = "this model has a vector for each token, and none for a text (late interaction): highlights, rerank and \
                           the server's /embed_all use those";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    /// Encodes a word, to see whether the devices work.
    ///
    /// # Errors
    /// Those of the encoder and of [`Call::check`].
    pub fn probe(&self, call: &Call) -> Result<()> {
        if self.is_late_interaction() {
            let rows = vec![self.tokens.short_row("health", Role::Passage)?];
            return self.wait(call, self.token_vectors(rows, call)).map(drop);
        }
        self.wait(call, self.embed(&["health"], Role::Passage, call)).map(drop)
    }

    /// The windows of texts as late interaction reads them, at most as many as the limits say.
    ///
    /// # Errors
    /// As [`Self::window_rows`].
    pub fn passage_windows(&self, texts: &[&str], limits: PairLimits, call: &Call) -> Result<Vec<Vec<Row>>> {
        // pylate strips texts.
        let texts: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
        let windows = self.window_rows(&texts, Role::Passage, usize::MAX, limits.tokens, call)?;
        let rows = |windows: Vec<Vec<i32>>| {
            windows.into_iter().take(limits.windows).map(|ids| self.tokens.passage_row(ids)).collect()
        };
        Ok(windows.into_iter().map(rows).collect())
    }

    /// `MaxSim` of each query with its texts in float32, and the number of tokens that were encoded: the mean over the
    /// query's tokens, or the sum where `is_raw`. A text has the score of the best of its windows.
    ///
    /// # Errors
    /// As [`Self::token_vectors`].
    pub async fn maxsim(
        &self,
        asked: Vec<(Row, Vec<Vec<Row>>)>,
        is_raw: bool,
        call: &Call<'_>,
    ) -> Result<(Vec<f32>, usize)> {
        let width = self.token_width().unwrap_or(1);
        let (queries, texts): (Vec<Row>, Vec<Vec<Vec<Row>>>) = asked.into_iter().unzip();
        let of_queries: Vec<usize> = queries.iter().map(Row::vectors).collect();
        let of_text = |windows: &Vec<Row>| windows.iter().map(Row::vectors).collect();
        let of_texts: Vec<Vec<Vec<usize>>> = texts.iter().map(|texts| texts.iter().map(of_text).collect()).collect();
        let windows: Vec<Row> = texts.into_iter().flatten().flatten().collect();
        let tokens = queries.iter().chain(&windows).map(|row| row.ids.len()).sum();
        let queries = self.token_vectors(queries, call).await?;
        let windows = self.token_vectors(windows, call).await?;
        let (mut queries, mut rest) = (queries.as_slice(), windows.as_slice());
        let mut pairs: Vec<(&[f32], Vec<&[f32]>)> = Vec::new();
        for (count, texts) in of_queries.iter().zip(&of_texts) {
            let query = take(&mut queries, count * width);
            pairs.extend(
                texts
                    .iter()
                    .map(|windows| (query, windows.iter().map(|count| take(&mut rest, count * width)).collect())),
            );
        }
        let score = if is_raw { maxsim } else { mean_maxsim };
        let scores = self.pool.run(call, size_of_val(windows.as_slice()), |check| {
            text_pool::map(&pairs, |(query, windows)| {
                check()?;
                Ok(windows.iter().map(|window| score(query, window, width)).fold(f32::NEG_INFINITY, f32::max))
            })
        })?;
        Ok((scores, tokens))
    }
}

/// The first `count` values, which are no longer in the rest.
fn take<'values>(rest: &mut &'values [f32], count: usize) -> &'values [f32] {
    let (first, later) = rest.split_at(count);
    *rest = later;
    first
}

/// The vectors of rows without those of their skipped tokens. `rows` are their lengths and the places of these.
pub(super) fn without_skipped<'rows>(
    vectors: &[f32],
    width: usize,
    rows: impl Iterator<Item = (usize, &'rows [usize])>,
) -> Vec<f32> {
    let mut kept = Vec::with_capacity(vectors.len());
    let mut rest = vectors;
    for (length, skipped) in rows {
        let (row, later) = rest.split_at(length * width);
        rest = later;
        let tokens = row.chunks_exact(width).enumerate();
        // Skipped places are sorted.
        kept.extend(tokens.filter(|(place, _)| skipped.binary_search(place).is_err()).flat_map(|(_, token)| token));
    }
    kept
}
