//! A model's directory, as Hugging Face and sentence-transformers lay it out.
//!
//! This reads the small files: architecture, pooling, the longest input, and the prompts before queries and passages.
//! [`crate::tokens`] reads the tokenizer, the encoder reads the weights.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use files::{invalid, number, optional, required, text, unsupported};
pub use late_interaction::{Expansion, LateInteraction};
use modules::Modules;
pub use modules::{Module, Residual};
pub use pair_prompt::{PairPrompt, PromptPart};
pub use prompts::{PromptOverrides, PromptSource, Prompts};
pub use pruner::{LabelHead, Pruner, PrunerLayout};
pub use transformer::Transformer;

mod families;
mod files;
mod id;
mod late_interaction;
mod modules;
pub mod names;
mod pair_prompt;
mod prompts;
mod pruner;
mod reranker;
pub mod transformer;
pub mod weight_files;

/// The longest input of a model that has no limit: static embeddings.
const NO_LIMIT: usize = 1 << 20;

/// How the token vectors of a row become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens, special tokens included.
    Mean,
    /// The sum over all tokens, divided by the root of their number.
    MeanSqrtLength,
    /// The mean, weighted by the token's position from 1.
    WeightedMean,
    /// The vector of the first token.
    Cls,
    /// The maximum in each dimension.
    Max,
    /// The vector of the last token.
    Last,
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Identity,
    /// With the error function.
    Gelu,
    /// Approximated with tanh.
    GeluTanh,
    Relu,
    /// x times the logistic function.
    Silu,
    Tanh,
    Sigmoid,
}

impl Activation {
    /// The names in `config.json`.
    pub(crate) const NAMES: [(&str, Self); 6] = [
        ("gelu", Self::Gelu),
        ("gelu_new", Self::GeluTanh),
        ("gelu_pytorch_tanh", Self::GeluTanh),
        ("relu", Self::Relu),
        ("silu", Self::Silu),
        ("swish", Self::Silu),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation)
    }
}

/// A caller's settings for a model; `None` and the default keep those of its files.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Instead of the model's prompts.
    pub prompts: PromptOverrides,
    /// Cut vectors to their first values, and scale them to unit length.
    pub truncate_dim: Option<usize>,
}

/// What computes the vectors of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A transformer: see [`Transformer::read`].
    Transformer,
    /// A table of vectors.
    Static {
        /// Whether tokens outside the vocabulary count for nothing, as in model2vec.
        drops_unknown: bool,
    },
}

/// A model's description, without its weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// With `modules.json`, if there is one; absolute, or relative to the working directory.
    pub root: PathBuf,
    /// Of the configuration, the tokenizer and the weights; absolute, or relative to the working directory.
    pub directory: PathBuf,
    /// The whole `config.json`, from which encoders read the architecture.
    pub config: Value,
    /// `model_type` of `config.json`; empty if it has none.
    pub model_type: String,
    /// What computes the vectors of tokens.
    pub body: Body,
    /// Rows of the embedding table; `None` if `config.json` does not say.
    pub vocabulary: Option<usize>,
    /// The longest row in token ids, special tokens included.
    pub max_tokens: usize,
    /// Whether texts are in lower case before the tokenizer's own normalizer: `do_lower_case` of
    /// `sentence_bert_config.json`.
    pub lowercase: bool,
    /// From the module `Pooling`; the mean without `modules.json`. The vectors of several are concatenated. Empty with
    /// late interaction.
    pub pooling: Vec<Pooling>,
    /// What follows pooling, in this order; with late interaction, what follows the transformer, for each token.
    pub modules: Vec<Module>,
    /// Of a pruner.
    pub labels: Option<LabelHead>,
    /// Of a model with a vector for each token; `None` for one vector for a text.
    pub late_interaction: Option<LateInteraction>,
    /// Vectors are cut to their first values after all modules.
    pub truncate_dim: Option<usize>,
    /// Whether vectors have unit length.
    pub normalize: bool,
    /// From `config_sentence_transformers.json`, or a table of known models.
    pub prompts: Prompts,
    /// For rerankers that are language models.
    pub pair_prompt: Option<PairPrompt>,
    /// Whether the tokenizer's token types are the transformer's: `tokenizer_config.json` says so.
    pub has_token_types: bool,
}

impl Model {
    /// Reads the small files of a directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] without the directory or its `config.json`, [`ErrorKind::InvalidModel`] for a
    /// damaged file, [`ErrorKind::UnsupportedModel`] for a setting that changes vectors and that pullquote does not
    /// implement.
    pub fn read(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::read_with(directory, &ModelOptions::default())
    }

    /// As [`Self::read`], with a caller's options.
    ///
    /// # Errors
    /// As [`Model::read`], and [`ErrorKind::InvalidArgument`] for a prompt that the model does not name.
    pub fn read_with(directory: impl Into<PathBuf>, options: &ModelOptions) -> Result<Self> {
        Self::read_modules(&directory.into(), options, Modules::read)
    }

    /// As [`Self::read`], without modules and pooling, for hosts that encode with a model of their own.
    pub fn read_for_host(directory: impl Into<PathBuf>) -> Result<Self> {
        Self::read_modules(&directory.into(), &ModelOptions::default(), |root| Ok(Modules::plain(root)))
    }

    fn read_modules(
        root: &Path,
        options: &ModelOptions,
        modules: impl FnOnce(&Path) -> Result<Modules>,
    ) -> Result<Self> {
        if !root.is_dir() {
            return Err(Error::new(
                ErrorKind::ModelNotFound,
                format!(
                    "no model directory at {}; expected a folder with config.json and tokenizer.json",
                    root.display()
                ),
            ));
        }
        let modules = modules(root)?;
        let directory = modules.folder;
        let path = directory.join("config.json");
        let mut config = if modules.is_static { optional(&path)?.unwrap_or(Value::Null) } else { required(&path)? };
        // OpenProvence has the configuration of its transformer inside its own.
        if modules.is_reranker
            && let Some(inner) = config.get_mut("base_model_config").filter(|inner| inner.is_object())
        {
            config = inner.take();
        }
        if modules.is_reranker {
            pruner::name_transformer(&mut config);
        }
        let model_type = families::model_type(&config).to_owned();
        let is_stanford = modules.is_guessed && is_stanford(&config);
        if modules.is_guessed && !is_stanford {
            refuse_other_tasks(&path, &config)?;
        }
        let transformer = read_transformer_settings(&directory, modules.is_reranker)?;
        // sentence-transformers reads model2vec's files in its own way, if they name its modules.
        let body = match (modules.is_static, model_type.as_str()) {
            (true, _) => Body::Static { drops_unknown: false },
            (false, "model2vec") => Body::Static { drops_unknown: true },
            (false, _) => Body::Transformer,
        };
        let mut after = modules.after;
        if body == (Body::Static { drops_unknown: true })
            && config.get("normalize").and_then(Value::as_bool) == Some(true)
        {
            after.push(Module::Normalize);
        }
        let late_interaction = modules.is_late_interaction || is_stanford;
        let max_tokens = match body {
            Body::Transformer if late_interaction => positions(&config, &model_type).unwrap_or(NO_LIMIT),
            Body::Static { drops_unknown: false } => NO_LIMIT,
            // The text has one more id, so that none is empty.
            Body::Static { drops_unknown: true } => number(&config, "max_length").unwrap_or(512).min(NO_LIMIT) + 1,
            Body::Transformer => max_tokens(&directory, &config, &model_type, &transformer)?,
        };
        let prompts = if late_interaction {
            prompts::read_late_interaction(root, &options.prompts)?
        } else {
            prompts::read(root, modules.include_prompt, &options.prompts)?
        };
        let mut model = Self {
            late_interaction: None,
            vocabulary: number(&config, "vocab_size"),
            max_tokens,
            lowercase: transformer.get("do_lower_case").and_then(Value::as_bool) == Some(true),
            body,
            pooling: modules.pooling,
            normalize: options.truncate_dim.is_some() || after.last() == Some(&Module::Normalize),
            modules: after,
            labels: None,
            truncate_dim: options.truncate_dim,
            prompts,
            pair_prompt: None,
            root: root.to_owned(),
            has_token_types: has_token_types(&directory)?,
            directory,
            config,
            model_type,
        };
        if late_interaction {
            model.read_late_interaction(is_stanford)?;
        }
        Ok(model)
    }

    fn read_late_interaction(&mut self, is_stanford: bool) -> Result<()> {
        if self.truncate_dim.is_some() {
            let message = "truncate_dim is for models with one vector for a text; a late-interaction model has one for each token";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let late = if is_stanford {
            let (late, dense) = LateInteraction::read_stanford(&self.root, &Transformer::read(self)?)?;
            self.pooling.clear();
            self.modules = vec![dense];
            late
        } else {
            LateInteraction::read(&self.root)?
        };
        let late = late.within(self.max_tokens);
        self.max_tokens = late.max_tokens();
        self.normalize = true;
        self.late_interaction = Some(late);
        Ok(())
    }

    /// A hash of its weights, tokenizer and configuration. Reads them, if the user's cache does not know it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for a file that cannot be read.
    pub fn id(&self) -> Result<String> {
        id::read(&self.root)
    }

    /// Its name in a cache of the hub, `models--owner--name/snapshots/commit`, or that of its directory.
    pub fn name(&self) -> String {
        let part = |path: Option<&Path>| path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let root = &self.root;
        let cached = part(root.ancestors().nth(2)).filter(|_| part(root.parent()).as_deref() == Some("snapshots"));
        let named = cached.and_then(|name| Some(name.strip_prefix("models--")?.replace("--", "/")));
        named.or_else(|| part(Some(root))).unwrap_or_default()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The settings of the module `Transformer`. Old versions of sentence-transformers named the file after the
/// architecture.
fn read_transformer_settings(directory: &Path, is_reranker: bool) -> Result<Value> {
    for family in ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"] {
        let path = directory.join(format!("sentence_{family}_config.json"));
        let Some(settings) = optional(&path)? else { continue };
        for (key, known, of_reranker) in [
            ("transformer_task", "feature-extraction", ["sequence-classification", "text-generation"]),
            ("module_output_name", "token_embeddings", ["scores", "causal_logits"]),
        ] {
            let found = text(&settings, key).unwrap_or(known);
            if found != known && !(is_reranker && of_reranker.contains(&found)) {
                return Err(unsupported(&path, &format!("{key} {found:?}; known is {known}")));
            }
        }
        return Ok(settings);
    }
    Ok(Value::Null)
}

/// transformers gives a model the token types unless the tokenizer lists its inputs without them, which version 5 does
/// by default for tokenizers without a class of their own.
fn has_token_types(directory: &Path) -> Result<bool> {
    let tokenizer = optional(&directory.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
    Ok(match tokenizer.get("model_input_names").and_then(Value::as_array) {
        Some(names) => names.iter().any(|name| name == "token_type_ids"),
        None => text(&tokenizer, "tokenizer_class") != Some("TokenizersBackend"),
    })
}

/// Whether its class is that of Stanford's late interaction.
fn is_stanford(config: &Value) -> bool {
    let classes = config.get("architectures").and_then(Value::as_array);
    classes.is_some_and(|classes| classes.iter().any(|class| class == "HF_ColBERT"))
}

/// Without `modules.json`, refuses a model whose class says that its vectors are not embeddings: their mean would be
/// computed, and mean nothing.
fn refuse_other_tasks(path: &Path, config: &Value) -> Result<()> {
    let classes = config.get("architectures").and_then(Value::as_array);
    let mut names = classes.into_iter().flatten().filter_map(Value::as_str);
    match names.find(|name| name.ends_with("ForSequenceClassification") || name.contains("ColBERT")) {
        Some(name) => Err(unsupported(
            path,
            &format!(
                "architectures {name:?}, without modules.json: a classifier, a reranker or code for late interaction; an embedding \
                 model is needed, or a modules.json that says how tokens are pooled. A reranker is the argument reranker="
            ),
        )),
        None => Ok(()),
    }
}

/// The smallest limit of sentence-transformers, the tokenizer and the position table.
fn max_tokens(directory: &Path, config: &Value, model_type: &str, transformer: &Value) -> Result<usize> {
    let tokenizer = optional(&directory.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
    let positions = positions(config, model_type);
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

/// The rows of the position table that tokens may have; `None` without such a table.
fn positions(config: &Value, model_type: &str) -> Option<usize> {
    // `nomic_bert` has the names of GPT-2.
    let positions = number(config, "max_position_embeddings").or_else(|| number(config, "n_positions"));
    // Beyond those, Nomic's code stretches its rotary embeddings.
    let is_stretched = config.get("rotary_scaling_factor").is_some_and(|factor| !factor.is_null());
    let trained = number(config, "max_trained_positions").filter(|_| is_stretched);
    let positions = positions.map(|positions| positions.min(trained.unwrap_or(positions)));
    positions.map(|positions| positions.saturating_sub(families::first_position(model_type, config)))
}
