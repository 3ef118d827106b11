//! GPUs: submission without waiting, the host memory of batches and rows on their way, and CUDA graphs.

pub mod device;
pub mod graphs;
mod launcher;
pub mod runtime;
pub mod staging;
