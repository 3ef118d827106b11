//! Names in schemas that `openapi::Facts` replaces by the values of a server.

pub(crate) const MAX_DOCUMENTS: &str = "{max_documents}";
pub(crate) const MAX_DOCUMENT_BYTES: &str = "{max_document_bytes}";
pub(crate) const MAX_QUERIES: &str = "{max_queries}";
pub(crate) const MAX_INPUTS: &str = "{max_inputs}";
pub(crate) const DIMENSION: &str = "{dimension}";
/// The purposes of texts.
pub(crate) const PURPOSES: &str = "{purposes}";
pub(crate) const MODEL_NAMES: &str = "{model_names}";
