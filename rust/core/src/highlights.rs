//! Highlights: the best passages of pages that do not overlap, within the caller's bounds.

mod bounds;
mod passages;
mod repeats;

pub use bounds::{Bounds, Budget, DEFAULT_TOP_K, Dedupe, DedupeOption, Limits, Order};
pub use passages::{Passage, RankedPage, Seeds, choose_passages, keep_tokens};

#[cfg(test)]
mod tests;
