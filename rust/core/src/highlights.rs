//! Highlights: the best passages of pages, without overlaps, within the caller's limits.

mod dedupe;
mod limits;
mod page_selection;
mod passages;
mod sections;

pub use limits::{Bounds, Budget, DEFAULT_TOP_K, Dedupe, DedupeOption, MinScore, Order};
#[cfg(test)]
pub(crate) use passages::Run;
pub(crate) use passages::{Passage, RankedPage, Seeds, choose_counted_passages, choose_passages};

#[cfg(test)]
mod tests;
