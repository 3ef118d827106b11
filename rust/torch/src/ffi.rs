//! The interface of this crate: the encoder as a C table, and the Python module that exports it.

#[cfg(feature = "python")]
pub mod python;
pub mod table;
