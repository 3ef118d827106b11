//! The vectors of texts, part after part: the first rows are there before the last are encoded.
//!
//! A part is as many rows in a row as keep every device busy, so a call that has two of them with the scheduler costs no more
//! than one that hands in everything at once, and takes no more turns than a large call for highlights does.

use std::collections::VecDeque;
use std::sync::Arc;

use super::comparison::JOBS_IN_FLIGHT;
use super::{Engine, all_rows, check_length, token_count};
use crate::encoder::{Batching, EncoderSpec};
use crate::error::Result;
use crate::runtime::call::{self, Call, Stop};
use crate::runtime::text_pool;
use crate::scheduler::batches::RowSource;
use crate::scheduler::{Pending, Scheduler, block_on};
use crate::tokens::Role;

/// Texts that are tokenized; their vectors come in parts.
pub struct Parts {
    scheduler: Arc<Scheduler>,
    /// Parts that the scheduler does not have yet, in order.
    waiting: VecDeque<Vec<RowSource>>,
    pending: VecDeque<Pending>,
    stop: Stop,
    rows: usize,
    tokens: usize,
    truncated: usize,
}

impl Engine {
    /// The vectors of texts in parts, each an allocation of its own. Nothing is encoded before the first is asked for.
    ///
    /// # Errors
    /// As [`Engine::embed`], as far as it is known before anything is encoded.
    pub fn embed_in_parts(&self, texts: &[&str], role: Role, call: &Call) -> Result<Parts> {
        let scheduler = self.scheduler()?;
        let call = &call.inside(&self.end);
        let (rows, truncated) = self.rows_of_texts(texts, role, call)?;
        call.allow_tokens(token_count(&rows))?;
        Ok(Parts {
            scheduler,
            stop: call.stop().clone(),
            rows: rows.len(),
            tokens: token_count(&rows),
            truncated,
            waiting: parts(rows, &self.spec, self.batching),
            pending: VecDeque::new(),
        })
    }

    /// The ids of texts, and how many of these were cut.
    pub(super) fn rows_of_texts(&self, texts: &[&str], role: Role, call: &Call) -> Result<(Vec<RowSource>, usize)> {
        texts.iter().try_for_each(|text| check_length(text))?;
        let bytes = texts.iter().map(|text| text.len()).sum();
        let (stop, deadline) = (call.stop().clone(), call.deadline());
        let parts: Vec<&[&str]> = texts.chunks(256).collect();
        let pages = self.pool.run(call, bytes, || {
            text_pool::map(&parts, |part| self.tokens.texts(part, role, &|| call::check(&stop, deadline)))
        })?;
        let truncated = pages.iter().map(|page| page.cut.len()).sum();
        Ok((pages.into_iter().flat_map(|page| all_rows(&Arc::new(page))).collect(), truncated))
    }
}

impl Parts {
    /// How many vectors there will be.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// How many parts they come in.
    #[must_use]
    pub fn left(&self) -> usize {
        self.waiting.len() + self.pending.len()
    }

    /// Ids of all of them, special ones included.
    #[must_use]
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// How many texts were longer than the model allows.
    #[must_use]
    pub const fn truncated(&self) -> usize {
        self.truncated
    }

    /// Waits for the next part: its vectors, one behind the other, in the order of the texts; none behind the last.
    ///
    /// # Errors
    /// What the encoder says, and what ends the call. Nothing comes after it.
    pub fn next(&mut self, call: &Call) -> Result<Option<Vec<f32>>> {
        while self.pending.len() < JOBS_IN_FLIGHT
            && let Some(rows) = self.waiting.pop_front()
        {
            self.pending.push_back(self.scheduler.submit(rows, call)?);
        }
        self.pending.pop_front().map(|pending| block_on(pending, &self.scheduler, call)).transpose()
    }

    /// Waits for all vectors, in one allocation.
    ///
    /// # Errors
    /// As [`Parts::next`].
    pub fn whole(mut self, call: &Call) -> Result<Vec<f32>> {
        let rows = self.waiting.drain(..).flatten().collect();
        let pending = self.scheduler.submit(rows, call)?;
        block_on(pending, &self.scheduler, call)
    }
}

impl Drop for Parts {
    /// What nobody waits for any more is not encoded.
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.stop.stop();
        }
    }
}

/// Rows in parts of as many as all devices together want to have at the same time.
fn parts(rows: Vec<RowSource>, spec: &EncoderSpec, batching: Batching) -> VecDeque<Vec<RowSource>> {
    let wanted = spec.devices.iter().map(|device| (batching.budget(device), device.depth.max(1)));
    let (tokens, most) = wanted.fold((0, 0_usize), |(tokens, rows), (budget, depth)| {
        (tokens + budget.tokens * depth, rows.saturating_add(budget.rows.saturating_mul(depth)))
    });
    let mut parts: VecDeque<Vec<RowSource>> = VecDeque::new();
    let mut filled = usize::MAX;
    for row in rows {
        if filled >= tokens || parts.back().is_none_or(|part| part.len() >= most) {
            parts.push_back(Vec::new());
            filled = 0;
        }
        filled += row.page.row_len(row.window);
        if let Some(part) = parts.back_mut() {
            part.push(row);
        }
    }
    parts
}
