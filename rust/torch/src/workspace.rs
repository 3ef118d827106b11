//! What a worker keeps from batch to batch, so that encoding one allocates nothing here.
//!
//! Everything is written anew for each batch before it is read, and grows to the largest batch and is kept. For the 512
//! tokens of a CPU's batch, or a longest row of 512, that is 20 KB of ids, positions and places, and for heads of 64
//! values some 200 KB of scratch, for each worker; for the 16,384 tokens of a card's batch at most five bytes for each place of
//! the padded table. Tensors are torch's, which keeps or returns their memory as it likes.

use crate::kernels::Scratch;
use crate::layout::{Packing, Padding};

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct Workspace {
    /// For batches without padding.
    pub packing: Packing,
    /// For batches as tables.
    pub padding: Padding,
    /// For kernels.
    pub scratch: Scratch,
}
