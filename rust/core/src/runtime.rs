//! Shared by all stages: deadlines and cancellation, CPU affinity, priorities, threads and profiling.

pub mod affinity;
pub mod call;
pub mod priority;
pub mod profiling;
pub mod sync;
pub mod tasks;
pub mod text_pool;
