//! Which units of a page answer a query: by words ([`terms`]) and by meaning, joined on one scale ([`relevance`]).
//!
//! `reading` is what is known of a page whatever is asked; `evidence` is what speaks for one query on it; `candidates` says which
//! windows are worth encoding; `titles` compares pages.

pub(crate) mod candidates;
pub(crate) mod evidence;
pub(crate) mod reading;
pub mod relevance;
pub mod terms;
pub(crate) mod titles;
pub(crate) mod views;

pub use candidates::Effort;
