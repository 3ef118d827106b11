//! The prompts of a model: from its files, or for known models whose files lack them, from a table.

use std::path::Path;

use serde_json::Value;

use super::files::{optional, text, unsupported};
use crate::error::{Error, ErrorKind, Result};

/// Text prepended to queries and passages, as asymmetric models need it. Often empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    pub query: String,
    pub passage: String,
    pub source: PromptSource,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptSource {
    #[default]
    None,
    /// Its files.
    Files,
    /// pullquote's table of known models.
    Table,
    Caller,
}

impl PromptSource {
    /// As in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Files => "the model's files",
            Self::Table => "pullquote's table of models",
            Self::Caller => "the caller",
        }
    }
}

/// A caller's prompts; `None` keeps the model's.
#[derive(Clone, Debug, Default)]
pub struct PromptOverrides {
    /// The name of the prompt for queries, in `config_sentence_transformers.json`.
    pub name: Option<String>,
    pub query: Option<String>,
    pub passage: Option<String>,
}

const FILE: &str = "config_sentence_transformers.json";

/// Models whose files lack their prompts: how their names begin, the prompts of queries and of passages. Sources are
/// the models' cards: "intfloat/e5-base-v2" and "intfloat/multilingual-e5-base" (FAQ 1), "BAAI/bge-base-en-v1.5" and
/// "BAAI/bge-base-zh-v1.5" (Model List), "mixedbread-ai/mxbai-embed-large-v1" and "WhereIsAI/UAE-Large-V1"
/// (`Prompts.C`), "nomic-ai/nomic-embed-text-v1.5" (Task instruction prefixes), "nomic-ai/modernbert-embed-base"
/// (Usage), "intfloat/multilingual-e5-large-instruct" (FAQ 1), "Snowflake/snowflake-arctic-embed-m" and "-m-v2.0"
/// (Usage).
const TABLE: [(&str, &str, &str); 23] = [
    ("e5-small", "query: ", "passage: "),
    ("e5-base", "query: ", "passage: "),
    ("e5-large", "query: ", "passage: "),
    ("multilingual-e5-small", "query: ", "passage: "),
    ("multilingual-e5-base", "query: ", "passage: "),
    ("multilingual-e5-large-instruct", INSTRUCT, ""),
    ("multilingual-e5-large", "query: ", "passage: "),
    ("bge-small-en", BGE_EN, ""),
    ("bge-base-en", BGE_EN, ""),
    ("bge-large-en", BGE_EN, ""),
    ("bge-small-zh", BGE_ZH, ""),
    ("bge-base-zh", BGE_ZH, ""),
    ("bge-large-zh", BGE_ZH, ""),
    ("mxbai-embed-large", BGE_EN, ""),
    ("UAE-Large", BGE_EN, ""),
    ("nomic-embed-text", "search_query: ", "search_document: "),
    ("modernbert-embed", "search_query: ", "search_document: "),
    ("snowflake-arctic-embed-m-v2.0", "query: ", ""),
    ("snowflake-arctic-embed-l-v2.0", "query: ", ""),
    ("snowflake-arctic-embed-xs", BGE_EN, ""),
    ("snowflake-arctic-embed-s", BGE_EN, ""),
    ("snowflake-arctic-embed-m", BGE_EN, ""),
    ("snowflake-arctic-embed-l", BGE_EN, ""),
];
/// The example of the card for retrieval.
const INSTRUCT: &str = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ";
const BGE_EN: &str = "Represent this sentence for searching relevant passages: ";
const BGE_ZH: &str = "为这个句子生成表示以用于检索相关文章：";

/// Reads the prompts of a model's directory.
pub(super) fn read(root: &Path, include_prompt: bool, overrides: &PromptOverrides) -> Result<Prompts> {
    let path = root.join(FILE);
    let config = optional(&path)?.unwrap_or(Value::Null);
    let named = |name: &str| config.get("prompts").and_then(|prompts| text(prompts, name));
    let default = text(&config, "default_prompt_name").and_then(named).unwrap_or_default();
    // The names that sentence-transformers tries, in its order.
    let mut prompts = Prompts {
        // "s2p_query" (sentence to passage) is the name in Stella and Jasper.
        query: named("query").or_else(|| named("s2p_query")).unwrap_or(default).to_owned(),
        passage: ["document", "passage", "corpus"].into_iter().find_map(named).unwrap_or(default).to_owned(),
        source: PromptSource::Files,
    };
    if prompts.query.is_empty() && prompts.passage.is_empty() {
        prompts = from_table(&model_name(root)).filter(|_| include_prompt).unwrap_or_default();
    }
    let prompts = overridden(prompts, root, overrides)?;
    if !(include_prompt || prompts.query.is_empty() && prompts.passage.is_empty()) {
        return Err(unsupported(&path, "include_prompt false: prompts that pooling leaves out"));
    }
    Ok(prompts)
}

/// The prompts with a caller's in their places.
fn overridden(mut prompts: Prompts, root: &Path, overrides: &PromptOverrides) -> Result<Prompts> {
    let path = root.join(FILE);
    let config = optional(&path)?.unwrap_or(Value::Null);
    let named = |name: &str| config.get("prompts").and_then(|prompts| text(prompts, name));
    if let Some(name) = &overrides.name {
        let all = config.get("prompts").and_then(Value::as_object);
        let prompt = named(name).ok_or_else(|| {
            let known = all.map(|all| all.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
            let known = known.filter(|known| !known.is_empty()).unwrap_or_else(|| "none".to_owned());
            let message = format!("prompt_name {name:?} is not in {}; names there: {known}", path.display());
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        prompt.clone_into(&mut prompts.query);
        prompts.source = PromptSource::Caller;
    }
    for (prompt, of_caller) in [(&mut prompts.query, &overrides.query), (&mut prompts.passage, &overrides.passage)] {
        if let Some(of_caller) = of_caller {
            prompt.clone_from(of_caller);
            prompts.source = PromptSource::Caller;
        }
    }
    Ok(prompts)
}

/// A reranker's prompt: sentence-transformers puts the default one before queries.
pub(super) fn read_default(root: &Path) -> Result<Prompts> {
    let config = optional(&root.join(FILE))?.unwrap_or(Value::Null);
    let named = |name| config.get("prompts").and_then(|prompts| text(prompts, name));
    Ok(match text(&config, "default_prompt_name").and_then(named) {
        Some(query) => Prompts { query: query.to_owned(), passage: String::new(), source: PromptSource::Files },
        None => Prompts::default(),
    })
}

/// The prompts of a late-interaction model: pylate puts the default one before queries and texts, after the tokens that
/// tell them apart.
pub(super) fn read_late_interaction(root: &Path, overrides: &PromptOverrides) -> Result<Prompts> {
    let default = read_default(root)?;
    let both = Prompts { passage: default.query.clone(), ..default };
    overridden(both, root, overrides)
}

fn from_table(name: &str) -> Option<Prompts> {
    let is_known = |known: &str| {
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('-') && rest != "-instruct")
    };
    let (_, query, passage) = TABLE.iter().find(|(known, ..)| is_known(known))?;
    Some(Prompts { query: (*query).to_owned(), passage: (*passage).to_owned(), source: PromptSource::Table })
}

/// The model's name without its owner: of `models--owner--name` in a cache of `huggingface_hub`, else the directory's.
pub(super) fn model_name(root: &Path) -> String {
    let parts: Vec<String> = root.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let cached = parts.iter().rev().find_map(|part| part.strip_prefix("models--")?.split("--").last());
    cached.map(str::to_owned).or_else(|| parts.last().cloned()).unwrap_or_default()
}
