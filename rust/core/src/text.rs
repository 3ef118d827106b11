//! From a source to the pieces of a page: offsets, formats, units and windows. Nothing here knows of tokens.

pub mod formats;
pub mod page;
pub mod pieces;
