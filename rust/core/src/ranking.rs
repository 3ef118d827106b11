//! Ranking: which units of a page answer a query, by words ([`terms`]) and by cosine, joined on one scale
//! ([`relevance`]).
//!
//! `parsed_page` holds what is independent of the query, `evidence` the scores of one query on a page. `candidates`
//! selects the windows to encode; [`probability`] turns evidence into the score of a passage; `titles` scores pages
//! against each other.

pub(crate) mod candidates;
pub(crate) mod evidence;
pub(crate) mod parsed_page;
mod prediction;
pub mod probability;
pub mod relevance;
pub(crate) mod selection;
pub(crate) mod shortlist;
pub(crate) mod static_vectors;
pub mod terms;
pub(crate) mod titles;

pub use candidates::Effort;
