//! Highlights: the best passages of pages, without overlaps, within the caller's limits.

mod dedupe;
mod limits;
mod page_selection;
mod passages;
mod ranked_page;
mod sections;

pub use limits::{Bounds, Budget, DEFAULT_TOP_K, Dedupe, DedupeOption, MinScore, Order};
pub(crate) use passages::{choose_counted_passages, choose_passages};
#[cfg(test)]
pub(crate) use ranked_page::Run;
pub(crate) use ranked_page::{Passage, RankedPage, Seeds};

#[cfg(test)]
mod tests;
