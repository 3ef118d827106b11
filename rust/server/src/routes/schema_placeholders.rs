//! Names in schemas that `openapi::Facts` replaces by the values of a server.

pub(crate) use pullquote_wire::request::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};

pub(crate) const MAX_INPUTS: &str = "{max_inputs}";
pub(crate) const DIMENSION: &str = "{dimension}";
/// Whether scores may be logits.
pub(crate) const RAW_SCORES: &str = "{raw_scores}";
pub(crate) const ACTIVATION: &str = "{activation}";
/// The purposes of texts.
pub(crate) const PURPOSES: &str = "{purposes}";
pub(crate) const MODEL_NAMES: &str = "{model_names}";
/// Those of the model, and that of the reranker.
pub(crate) const SCORE_MODEL_NAMES: &str = "{score_model_names}";
