//! From pages to highlights.
//!
//! One folder for each stage, in the order of the flow. Each imports only the ones before it; `cargo xtask check`
//! enforces this.
//!
//! | folder | does |
//! |---|---|
//! | [`error`] | the one table of errors |
//! | [`runtime`] | deadlines and cancellation, CPU affinity, the text pool, task threads, profiling |
//! | [`encoder`] | the encoder trait and the same interface as a C table, model descriptions, CPU workers |
//! | [`text`] | pages, their formats, and the sentences, blocks and words that windows are cut from |
//! | [`tokens`] | token ids of pages and windows |
//! | [`scheduler`] | batches over all waiting requests, devices, completion |
//! | [`ranking`] | BM25, cosine, coverage, and the relevance that joins them |
//! | [`highlights`] | passages within a budget |
//! | [`quotes`] | where a quoted text stands in a page |
//! | [`engine`] | requests from start to end: options, cache, steps, hosted encoders |
//! | [`citations`] | what supports each sentence of a written text |

pub mod citations;
pub mod encoder;
pub mod engine;
pub mod error;
pub mod highlights;
pub mod quotes;
pub mod ranking;
pub mod runtime;
pub mod scheduler;
pub mod text;
pub mod tokens;
