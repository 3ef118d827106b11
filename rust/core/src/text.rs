//! From a source to the units of a page and windows over them: kinds of files, offsets and formats. Independent of tokens.

pub mod formats;
pub mod kinds;
pub(crate) mod outline;
pub mod page;
pub mod pieces;
pub mod positions;
