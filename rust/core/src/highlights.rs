//! Highlights: the best passages of pages that do not overlap, within the caller's bounds.

mod bounds;
mod passages;
mod repeats;

pub use bounds::{Bounds, Budget, DEFAULT_TOP_K, Limits, Order, Repeats};
pub use passages::{Judged, Passage, Seeds, choose_passages};

#[cfg(test)]
mod tests;
