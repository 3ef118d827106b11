//! Highlights: the best passages of pages, without overlaps, within the caller's limits.

mod bounds;
mod dedupe;
mod passages;

pub use bounds::{Bounds, Budget, DEFAULT_TOP_K, Dedupe, DedupeOption, Limits, MinScore, Order};
pub use passages::{Passage, RankedPage, SeedScores, Seeds, choose_passages, enforce_token_limits};

#[cfg(test)]
mod tests;
