//! What crosses a border, written once: the request, the result, and the settings of calls, engines, servers and clients.
//!
//! HTTP, the client, Arrow, MCP, Python's classes and the documentation read these types or are generated from them. They hold
//! names, types, defaults, ranges and doc comments; what a value does stands where it acts.

pub mod citations;
pub mod client;
pub mod documents;
pub mod embedding_dtype;
pub mod engine;
pub mod options;
pub mod pruning;
pub mod quotes;
pub mod request;
pub mod result;
pub mod schema;
mod seconds;
pub mod server;
