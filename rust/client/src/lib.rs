//! pullquote from another process: the calls of the library over HTTP.
//!
//! A [`Client`] calls one server or several. Its calls are futures that own their data: a thread waits for one
//! ([`Client::wait`]), or it runs in the background ([`Client::spawn`]). Dropping a call closes its connections.
//! Options, results and kinds of errors are those of `pullquote_core`.
//!
//! Each client has its own small runtime, started by the first call and ended by [`Client::close`]. A fork notices that
//! it has none.

mod call_options;
mod cite;
mod client;
pub mod columns;
mod endpoints;
mod exchange;
pub mod forms;
mod locate;
mod passages;
mod prune;
pub mod raw;
mod request_error;
mod rerank;
mod retry;
mod retry_advice;
pub mod rows;
mod settings;
mod stored_documents;
mod vectors;

pub use call_options::CallOptions;
pub use cite::CiteArguments;
pub use client::Client;
pub use columns::Columns;
pub use forms::File;
pub use passages::{HighlightsAnswer, HighlightsArguments, ReturnOptions};
pub use rerank::RerankResult;
pub use settings::Settings;
pub use stored_documents::StoredDocument;
pub use vectors::{Text, Vectors};
