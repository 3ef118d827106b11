//! Vectors of tokens, before pooling. Their batches take turns with all others at the scheduler.

use std::sync::Arc;

use super::embed::{all_rows, page_of};
use super::{Engine, token_count};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::scheduler::batches::Wanted;
use crate::scheduler::block_on;
use crate::tokens::Row;

impl Engine {
    /// Values in the vector of a token; `None` if the encoder has only one vector for each text.
    #[must_use]
    pub const fn token_width(&self) -> Option<usize> {
        self.spec.capabilities.token_width
    }

    /// The vectors of the last layer for all ids of [`Self::rows`], before pooling and the modules after it:
    /// concatenated float32 `[ids, token_width]`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] without [`Self::token_width`]; errors of the encoder and of [`Call::check`].
    pub fn token_vectors(&self, rows: Vec<Row>, call: &Call) -> Result<Vec<f32>> {
        let scheduler = self.scheduler()?;
        if self.token_width().is_none() {
            let message =
                "this encoder has one vector for each text, and none for tokens; use a transformer on the CPU";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let rows = all_rows(&Arc::new(page_of(rows)));
        call.check_tokens(token_count(&rows))?;
        let call = &call.with_shutdown(&self.shutdown);
        block_on(scheduler.submit_for(Wanted::TokenVectors, rows, call)?, &scheduler, call)
    }
}
