//! From pages to highlights.
//!
//! One folder for each stage, in the order of the flow. Each imports only those before it, and `cargo xtask check` enforces that:
//!
//! | folder | does |
//! |---|---|
//! | [`error`] | the one table of errors |
//! | [`runtime`] | what all stages run on: deadlines and cancellation, CPU affinity, the thread pool for text, profiling |
//! | [`encoder`] | the seam to what computes vectors: the trait, the same as a C table, models' small files, CPU workers |
//! | [`text`] | pages, their formats, and the pieces that windows are cut from |
//! | [`tokens`] | token ids of pages and windows |
//! | [`scheduler`] | batches over all waiting requests, devices, completion |
//! | [`ranking`] | words and meaning: BM25, coverage, relevance |
//! | [`highlights`] | passages within a budget |
//! | [`engine`] | requests from start to end: options, runs, cache, steps, hosted encoders |

pub mod encoder;
pub mod engine;
pub mod error;
pub mod highlights;
pub mod ranking;
pub mod runtime;
pub mod scheduler;
pub mod text;
pub mod tokens;
