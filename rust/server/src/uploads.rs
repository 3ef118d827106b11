//! Uploaded files: those of a form, as `curl -F` and browsers send them.
//!
//! A damaged file may crash what parses it, or make it need all memory. So each file is read by a process of its own
//! (`parser`), with limits; the program is `python/pullquote/_document_parser.py`, which `pullquote.documents` runs
//! too.

pub(crate) mod form;
pub(crate) mod parsed_upload;
pub(crate) mod parser;
