//! A model's directory, as Hugging Face and sentence-transformers lay it out.
//!
//! This reads the small files: architecture, pooling, the longest input, and the prompts before queries and passages.
//! [`crate::tokens`] reads the tokenizer, the encoder reads the weights.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

pub mod transformer;

pub use transformer::{Activation, Transformer};

/// How the token vectors of a row become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens, special tokens included.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The maximum in each dimension.
    Max,
    /// The vector of the last token.
    Last,
}

/// Text prepended to queries and passages, as asymmetric models need it. Often empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// For queries.
    pub query: String,
    /// For passages.
    pub passage: String,
}

/// A model's description, without its weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// Absolute, or relative to the working directory.
    pub directory: PathBuf,
    /// The whole `config.json`, from which encoders read the architecture.
    pub config: Value,
    /// `model_type` of `config.json`; empty if it has none.
    pub model_type: String,
    /// Rows of the embedding table; `None` if `config.json` does not say.
    pub vocabulary: Option<usize>,
    /// The longest row in token ids, special tokens included.
    pub max_tokens: usize,
    /// From the module `Pooling`; the mean without `modules.json`.
    pub pooling: Pooling,
    /// Whether to scale vectors to unit length.
    pub normalize: bool,
    /// From `config_sentence_transformers.json`.
    pub prompts: Prompts,
}

impl Model {
    /// Reads the small files of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] without the directory or its `config.json`, [`ErrorKind::InvalidModel`] for a
    /// damaged file, [`ErrorKind::UnsupportedModel`] for a setting that changes vectors and that pullquote does not
    /// implement.
    pub fn read(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::read_with(directory.into(), Modules::read)
    }

    /// As [`Self::read`], without modules and pooling, for hosts that encode with a model of their own.
    ///
    /// # Errors
    /// As [`Model::read`], except for unsupported modules and pooling.
    pub fn read_for_host(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::read_with(directory.into(), |_| Ok(Modules::PLAIN))
    }

    fn read_with(directory: PathBuf, modules: impl FnOnce(&Path) -> Result<Modules>) -> Result<Self> {
        if !directory.is_dir() {
            return Err(Error::new(
                ErrorKind::ModelNotFound,
                format!(
                    "no model directory at {}; expected a folder with config.json and tokenizer.json",
                    directory.display()
                ),
            ));
        }
        let config = required(&directory.join("config.json"))?;
        let model_type = text(&config, "model_type").unwrap_or_default().to_owned();
        let transformer = optional(&directory.join("sentence_bert_config.json"))?.unwrap_or(Value::Null);
        if transformer.get("do_lower_case").and_then(Value::as_bool) == Some(true) {
            return Err(unsupported(
                &directory,
                "sentence_bert_config.json: do_lower_case true; put a Lowercase normalizer into tokenizer.json",
            ));
        }
        let modules = modules(&directory)?;
        Ok(Self {
            vocabulary: number(&config, "vocab_size"),
            max_tokens: max_tokens(&directory, &config, &model_type, &transformer)?,
            pooling: modules.pooling,
            normalize: modules.normalize,
            prompts: prompts(&directory, modules.include_prompt)?,
            directory,
            config,
            model_type,
        })
    }

    /// The path of a file in the directory.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The content of `modules.json` and the files it names.
struct Modules {
    pooling: Pooling,
    normalize: bool,
    include_prompt: bool,
}

impl Modules {
    /// Without `modules.json`, sentence-transformers takes the mean.
    const PLAIN: Self = Self { pooling: Pooling::Mean, normalize: false, include_prompt: true };

    fn read(directory: &Path) -> Result<Self> {
        let mut found = Self::PLAIN;
        let Some(modules) = optional(&directory.join("modules.json"))? else { return Ok(found) };
        let modules =
            modules.as_array().ok_or_else(|| invalid(&directory.join("modules.json"), "expected a list of modules"))?;
        for module in modules {
            let kind = text(module, "type").unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Pooling" => {
                    let path = directory.join(text(module, "path").unwrap_or_default()).join("config.json");
                    let config = required(&path)?;
                    found.pooling = pooling(&path, &config)?;
                    found.include_prompt = config.get("include_prompt").and_then(Value::as_bool).unwrap_or(true);
                }
                "Normalize" => found.normalize = true,
                _ => {
                    return Err(unsupported(
                        directory,
                        &format!(
                            "modules.json names the module {kind:?}; known are Transformer, Pooling and Normalize"
                        ),
                    ));
                }
            }
        }
        Ok(found)
    }
}

fn pooling(path: &Path, config: &Value) -> Result<Pooling> {
    const MODES: [(&str, &str, Pooling); 4] = [
        ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
        ("pooling_mode_cls_token", "cls", Pooling::Cls),
        ("pooling_mode_max_tokens", "max", Pooling::Max),
        ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
    ];
    // Older versions of sentence-transformers write one flag for each mode, newer ones a name.
    if let Some(name) = text(config, "pooling_mode") {
        return MODES.iter().find(|mode| mode.1 == name).map(|mode| mode.2).ok_or_else(|| {
            unsupported(path, &format!("pooling_mode {name:?}; known are mean, cls, max and lasttoken"))
        });
    }
    let flags = config.as_object().ok_or_else(|| invalid(path, "expected an object"))?;
    let set: Vec<&str> = flags
        .iter()
        .filter(|(name, value)| name.starts_with("pooling_mode_") && value.as_bool() == Some(true))
        .map(|(name, _)| name.as_str())
        .collect();
    match set.as_slice() {
        [one] => MODES.iter().find(|mode| mode.0 == *one).map(|mode| mode.2),
        _ => None,
    }
    .ok_or_else(|| unsupported(path, &format!("pooling by {set:?}; known is one of mean, cls, max and last token")))
}

/// The smallest limit of sentence-transformers, the tokenizer and the position table.
fn max_tokens(directory: &Path, config: &Value, model_type: &str, transformer: &Value) -> Result<usize> {
    let tokenizer = optional(&directory.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
    let positions = number(config, "max_position_embeddings").map(|positions| {
        // RoBERTa's positions start after the padding id.
        let offset = if is_roberta(model_type) { number(config, "pad_token_id").unwrap_or(1) + 1 } else { 0 };
        positions.saturating_sub(offset)
    });
    let limit = [
        number(transformer, "max_seq_length"),
        number(&tokenizer, "model_max_length").filter(|length| *length < 1 << 20),
        positions,
    ]
    .into_iter()
    .flatten()
    .min();
    // sentence-transformers ignores the tokenizer's limit if it has one of its own.
    let limit = match number(transformer, "max_seq_length") {
        Some(own) => Some(positions.map_or(own, |positions| own.min(positions))),
        None => limit,
    };
    match limit {
        Some(limit) if limit >= 4 => Ok(limit),
        Some(limit) => Err(invalid(directory, &format!("its longest input is {limit} tokens; at least 4 are needed"))),
        None => Ok(512),
    }
}

/// Whether positions start after the padding id, as in `RoBERTa`.
fn is_roberta(model_type: &str) -> bool {
    matches!(model_type, "roberta" | "xlm-roberta" | "camembert")
}

fn prompts(directory: &Path, include_prompt: bool) -> Result<Prompts> {
    let path = directory.join("config_sentence_transformers.json");
    let Some(config) = optional(&path)? else { return Ok(Prompts::default()) };
    let named = |name: &str| config.get("prompts").and_then(|prompts| text(prompts, name));
    let default = text(&config, "default_prompt_name").and_then(named).unwrap_or_default();
    // The names that sentence-transformers tries, in its order.
    let query = named("query").unwrap_or(default).to_owned();
    let passage = ["document", "passage", "corpus"].into_iter().find_map(named).unwrap_or(default).to_owned();
    if !(include_prompt || query.is_empty() && passage.is_empty()) {
        return Err(unsupported(&path, "include_prompt false: prompts that pooling leaves out"));
    }
    Ok(Prompts { query, passage })
}

fn required(path: &Path) -> Result<Value> {
    optional(path)?.ok_or_else(|| Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}", path.display())))
}

fn optional(path: &Path) -> Result<Option<Value>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(path, &error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(invalid(path, &error.to_string())),
    }
}

fn text<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    value.get(key).and_then(Value::as_str)
}

fn number(value: &Value, key: &str) -> Option<usize> {
    // Files write `model_max_length` as 1e30 for "no limit"; it is no u64, and so becomes `None`.
    value.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
}

fn invalid(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", path.display()))
}

fn unsupported(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::UnsupportedModel, format!("{}: not supported: {what}", path.display()))
}
