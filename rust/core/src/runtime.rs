//! What all stages run on: deadlines and cancellation, the cores that may be used, threads, and where time goes.

pub mod affinity;
pub mod call;
pub mod profiling;
pub(crate) mod sync;
pub mod tasks;
pub mod text_pool;
