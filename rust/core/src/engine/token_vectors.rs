//! Vectors of tokens, before pooling.
//!
//! The scheduler has one vector for each row, so a caller computes these on its own thread, in batches of a device's
//! size. At most as many callers compute at the same time as the encoder has workers; the others wait for a turn.
//! Between batches, a call notices its deadline and that it was stopped.

use std::sync::PoisonError;

use super::Engine;
use crate::encoder::{Batch, EncoderSpec, TokenEncoder};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::runtime::sync::{Condvar, Mutex, MutexGuard};
use crate::tokens::Row;

/// An encoder of tokens, and the turns at it.
pub(super) struct TokenVectors {
    encoder: TokenEncoder,
    /// Tokens of a batch. A single longer row forms a batch of its own.
    batch_tokens: usize,
    /// Callers that may begin to compute.
    free: Mutex<usize>,
    /// Notified when a caller has computed its batch.
    returned: Condvar,
}

/// Returned when it is dropped, also after a panic.
struct Turn<'engine>(&'engine TokenVectors);

impl Engine {
    /// Values in the vector of a token; `None` if the encoder has only one vector for each text.
    #[must_use]
    pub fn token_width(&self) -> Option<usize> {
        self.token_vectors.as_ref().map(|vectors| vectors.encoder.width)
    }

    /// The vectors of the last layer for all ids of [`Self::rows`], before pooling and the modules after it:
    /// concatenated float32 `[ids, token_width]`. Computes on the calling thread.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] without [`Self::token_width`]; errors of the encoder and of [`Call::check`].
    pub fn token_vectors(&self, rows: &[Row], call: &Call) -> Result<Vec<f32>> {
        self.check_process()?;
        let Some(vectors) = &self.token_vectors else {
            let message =
                "this encoder has one vector for each text, and none for tokens; use a transformer on the CPU";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        let tokens = rows.iter().map(|row| row.ids.len()).sum();
        call.check_tokens(tokens)?;
        vectors.encode(rows, tokens, &call.with_shutdown(&self.shutdown))
    }
}

impl TokenVectors {
    pub(super) fn new(encoder: TokenEncoder, spec: &EncoderSpec) -> Self {
        let workers: usize = spec.devices.iter().map(|device| device.workers).sum();
        let batch_tokens = spec.devices.iter().map(|device| device.batch_tokens).max().unwrap_or(1);
        Self { encoder, batch_tokens, free: Mutex::new(workers.max(1)), returned: Condvar::new() }
    }

    fn encode(&self, rows: &[Row], tokens: usize, call: &Call) -> Result<Vec<f32>> {
        let mut vectors = Vec::with_capacity(tokens * self.encoder.width);
        let mut batch = Batch::default();
        for (index, Row { ids, .. }) in rows.iter().enumerate() {
            batch.ids.extend_from_slice(ids);
            batch.lengths.push(u32::try_from(ids.len()).expect("a row is at most the model's limit long"));
            let is_full = rows.get(index + 1).is_none_or(|next| batch.ids.len() + next.ids.len() > self.batch_tokens);
            if is_full {
                let turn = self.turn(call)?;
                (self.encoder.encode)(&batch, &mut vectors)?;
                drop(turn);
                call.counters().add_rows(batch.lengths.len(), batch.ids.len());
                batch.ids.clear();
                batch.lengths.clear();
            }
        }
        Ok(vectors)
    }

    /// Waits until this caller may compute a batch.
    fn turn(&self, call: &Call) -> Result<Turn<'_>> {
        let mut free = self.lock();
        loop {
            call.check()?;
            if *free > 0 {
                *free -= 1;
                return Ok(Turn(self));
            }
            let waited = self.returned.wait_timeout(free, call.poll_interval());
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // No holder panics.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.returned.notify_one();
    }
}
