//! From pages to highlights.
//!
//! The modules bear the names of what they make, in the order of the flow; each imports only what comes before it:
//! [`page`] → [`formats`] → [`pieces`] → [`tokens`] → `batches` → `vectors` → [`scores`] → [`highlights`]; [`engine`]
//! puts them together, and [`options`] says what may be asked of it. Beside them stand the seam to what computes vectors ([`encoder`], and [`abi`] for the same in C),
//! a model's small files ([`model`]), a caller's wish ([`call`]), who is next ([`turns`]), which device gets
//! what (`devices`, and the `board` that shows it), the threads and [`cores`] that a host
//! allows, the threads for text ([`pool`]) and for calls that nobody waits for ([`tasks`]), where time goes ([`stages`]), the errors
//! ([`error`]), and what threads wait on (`sync`).

pub mod abi;
mod batches;
mod board;
pub mod call;
pub mod cores;
mod devices;
pub mod encoder;
pub mod engine;
pub mod error;
pub mod formats;
pub mod highlights;
pub mod model;
pub mod options;
pub mod page;
pub mod pieces;
pub mod pool;
pub mod scores;
pub mod stages;
mod sync;
pub mod tasks;
pub mod terms;
pub mod tokens;
pub mod turns;
mod vectors;
