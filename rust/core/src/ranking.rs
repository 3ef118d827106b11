//! Ranking: which units of a page answer a query, by words ([`terms`]) and by cosine, joined on one scale
//! ([`relevance`]).
//!
//! It goes in stages, each a type that is made from those before it and does not change: `parsed_page` (independent of
//! the query), `query_match` (what words say), `prediction` (of cosines), `selection` (of the windows to encode, by
//! `candidates`), `scored_windows` and `ranked_seeds`. [`probability`] turns evidence into the score of a passage;
//! `titles` scores pages against each other, and `shortlist` leaves most of many pages out. `kept_sentences` are a pruner's.

pub(crate) mod candidates;
pub mod cosine_scale;
pub(crate) mod kept_sentences;
pub mod labelled_pages;
pub mod maxsim;
pub(crate) mod parsed_page;
pub(crate) mod prediction;
pub mod probability;
pub(crate) mod query_match;
pub(crate) mod ranked_seeds;
pub mod relevance;
pub(crate) mod scored_windows;
pub(crate) mod selection;
pub(crate) mod shortlist;
pub(crate) mod static_vectors;
pub mod terms;
pub(crate) mod titles;

pub use pullquote_wire::options::Effort;
