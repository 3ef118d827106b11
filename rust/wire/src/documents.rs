//! What a server says of its stored documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::HASH_PATTERN;

/// What storing documents did.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct PutDocuments {
    /// Documents whose ids are new.
    pub created: usize,
    /// Documents that replaced others.
    pub replaced: usize,
}

/// Some of the stored documents.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DocumentList {
    pub documents: Vec<ListedDocument>,
    /// Stored documents with the prefix.
    pub total: usize,
    /// The `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A stored document without its text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ListedDocument {
    pub id: String,
    /// At most 1,000 characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[schemars(regex(pattern = HASH_PATTERN))]
    pub text_hash: String,
    /// Format that `format="auto"` reads the text as; missing for documents that an older version has stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["text", "markdown", "html"]))]
    pub format: Option<String>,
    /// Bytes of UTF-8 of its id, title and text.
    pub bytes: usize,
    /// When it was stored, in seconds since 1970; missing as `format`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub stored_at: Option<i64>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub struct DeletedDocuments {
    /// Documents that this request has deleted.
    pub deleted: usize,
}
