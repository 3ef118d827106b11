//! Nothing: this crate's manifest is its purpose.
