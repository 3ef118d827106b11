//! GPUs: submission without waiting, and the host memory of batches and rows on their way.

pub mod device;
mod launcher;
pub mod runtime;
pub mod staging;
