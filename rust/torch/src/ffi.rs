//! The way out of this crate: the encoder as a C table, and the Python module that hands it over.

#[cfg(feature = "python")]
pub mod python;
pub mod table;
