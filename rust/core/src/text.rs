//! From a source to the units of a page and windows over them: offsets and formats. Independent of tokens.

pub mod formats;
pub mod page;
pub mod pieces;
