//! `modules.json`: what follows the transformer, as sentence-transformers writes it.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::files::{invalid, number, optional, required, text, unsupported};
use super::{Activation, Model, Pooling};
use crate::error::{Error, ErrorKind, Result};

/// A step from the pooled vector to the model's.
#[derive(Clone, Debug, PartialEq)]
pub enum Module {
    /// Scale to unit length.
    Normalize,
    /// `activation(weight · vector + bias)`, to which the vector may be added.
    Dense {
        /// Of the weights.
        folder: PathBuf,
        /// Of the tensors, before `.weight` and `.bias`.
        name: &'static str,
        inputs: usize,
        outputs: usize,
        bias: bool,
        activation: Activation,
        residual: Residual,
    },
    /// A layer norm.
    LayerNorm {
        /// Of the weights.
        folder: PathBuf,
        /// Of the tensors, before `.weight` and `.bias`.
        name: &'static str,
        width: usize,
        bias: bool,
        /// Added to the variance.
        epsilon: f64,
    },
    /// The logit of a token of a language model, minus that of another one.
    TokenLogit {
        /// Of the weights.
        folder: PathBuf,
        token: usize,
        minus: Option<usize>,
    },
}

/// What is added to the output of a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    None,
    /// Its input.
    Input,
    /// Another weight times its input, where output and input differ in width.
    Projected,
}

impl Module {
    /// The last layer of a class of transformers, in the files of its model.
    pub(super) fn classifier(model: &Model, name: &'static str, inputs: usize, outputs: usize) -> Self {
        let (folder, activation) = (model.directory.clone(), Activation::Identity);
        Self::Dense { folder, name, inputs, outputs, bias: true, activation, residual: Residual::None }
    }

    /// The folder of the weights of a module that takes vectors of a width; `None` for one without weights.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] if the module takes vectors of another width.
    pub fn folder(&self, width: usize) -> Result<Option<&Path>> {
        let (folder, inputs) = match self {
            Self::Normalize => return Ok(None),
            Self::Dense { folder, inputs, .. } => (folder, *inputs),
            Self::LayerNorm { folder, width, .. } => (folder, *width),
            Self::TokenLogit { folder, .. } => (folder, width),
        };
        if inputs == width {
            return Ok(Some(folder));
        }
        let folder = folder.display();
        let message = format!("{folder}: the module takes vectors of {inputs} values, but those before have {width}");
        Err(Error::new(ErrorKind::InvalidModel, message))
    }
}

/// The content of `modules.json` and the files it names.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Modules {
    /// The folder of the first module, in which the tokenizer and the weights are.
    pub(super) folder: PathBuf,
    pub(super) is_static: bool,
    pub(super) pooling: Vec<Pooling>,
    pub(super) after: Vec<Module>,
    pub(super) include_prompt: bool,
    /// Whether there is no `modules.json`.
    pub(super) is_guessed: bool,
    pub(super) is_reranker: bool,
    /// Whether modules follow the transformer without pooling, so that each token keeps its vector.
    pub(super) is_late_interaction: bool,
}

/// torch's default.
const EPSILON: f64 = 1e-5;

const KNOWN: &str = "Transformer, StaticEmbedding, Pooling, Dense, LayerNorm and Normalize";

impl Modules {
    /// Without `modules.json`, sentence-transformers takes the mean.
    pub(super) fn plain(root: &Path) -> Self {
        Self {
            folder: root.to_owned(),
            is_static: false,
            pooling: vec![Pooling::Mean],
            after: Vec::new(),
            include_prompt: true,
            is_guessed: false,
            is_reranker: false,
            is_late_interaction: false,
        }
    }

    /// Of a model of pairs whose class says what follows the transformer.
    pub(super) fn of_pairs(root: &Path) -> Self {
        Self { is_reranker: true, ..Self::plain(root) }
    }

    pub(super) fn read(root: &Path) -> Result<Self> {
        Self::read_list(root, Self::plain(root))
    }

    /// The modules of a reranker: without a list of them, what follows the transformer has the class's own names.
    pub(super) fn read_reranker(root: &Path) -> Result<Self> {
        Self::read_list(root, Self::of_pairs(root))
    }

    fn read_list(root: &Path, mut found: Self) -> Result<Self> {
        let list = root.join("modules.json");
        if !found.is_reranker {
            refuse_other_models(root)?;
        }
        let Some(modules) = optional(&list)? else {
            found.is_guessed = !found.is_reranker;
            return Ok(found);
        };
        let modules = modules.as_array().ok_or_else(|| invalid(&list, "expected a list of modules"))?;
        let class =
            |module: &Value| text(module, "type").unwrap_or_default().rsplit('.').next().unwrap_or_default().to_owned();
        let has = |name: &str| modules.iter().any(|module| class(module) == name);
        let of_tokens = has("Transformer") && !has("Pooling") && !found.is_reranker;
        for module in modules {
            let kind = text(module, "type").unwrap_or_default();
            let folder = folder(root, &list, text(module, "path").unwrap_or_default())?;
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => found.folder = folder,
                "StaticEmbedding" => {
                    found.is_static = true;
                    found.folder = folder;
                }
                "Pooling" => {
                    let path = folder.join("config.json");
                    let config = required(&path)?;
                    found.pooling = pooling(&path, &config)?;
                    found.include_prompt = config.get("include_prompt").and_then(Value::as_bool).unwrap_or(true);
                }
                "Normalize" => found.after.push(Module::Normalize),
                "Dense" => found.after.push(dense(folder, found.is_reranker, of_tokens)?),
                "LayerNorm" => {
                    let path = folder.join("config.json");
                    let width = number(&required(&path)?, "dimension");
                    let width = width.ok_or_else(|| invalid(&path, "dimension is missing"))?;
                    found.after.push(Module::LayerNorm { folder, name: "norm", width, bias: true, epsilon: EPSILON });
                }
                "LogitScore" if found.is_reranker => {
                    found.pooling = vec![Pooling::Last];
                    found.after.push(token_logit(&folder, found.folder.clone())?);
                }
                _ => {
                    return Err(unsupported(&list, &format!("the module {kind:?}; known are {KNOWN}")));
                }
            }
        }
        if of_tokens {
            if !found.after.iter().any(|module| matches!(module, Module::Dense { .. })) {
                let what = "neither the module Pooling, for one vector for a text, nor Dense, for late interaction";
                return Err(unsupported(&list, what));
            }
            found.is_late_interaction = true;
            found.pooling.clear();
        }
        Ok(found)
    }
}

/// Refuses what sentence-transformers saved as another kind of model.
fn refuse_other_models(root: &Path) -> Result<()> {
    let path = root.join("config_sentence_transformers.json");
    let config = optional(&path)?.unwrap_or(Value::Null);
    let what = match text(&config, "model_type").unwrap_or("SentenceTransformer") {
        "SentenceTransformer" | "ColBERT" => return Ok(()),
        "MultiVectorEncoder" => {
            "model_type \"MultiVectorEncoder\"; late-interaction models are read in the layouts of pylate \
                                 (model_type ColBERT) and Stanford (artifact.metadata)"
                .to_owned()
        }
        other => format!(
            "model_type {other:?}; known are SentenceTransformer: one vector for a text, and ColBERT: one for each token. A \
             CrossEncoder is the argument reranker="
        ),
    };
    Err(unsupported(&path, &what))
}

/// A module's folder; model2vec writes `.` for the directory itself. A model may read nothing outside its directory.
fn folder(root: &Path, list: &Path, path: &str) -> Result<PathBuf> {
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_inside {
        Ok(root.join(path))
    } else {
        Err(invalid(list, &format!("the path {path:?} is outside the directory")))
    }
}

/// The last layer of a reranker has a name of its own for its output; `of_tokens` is whether vectors are those of tokens.
fn dense(folder: PathBuf, is_reranker: bool, of_tokens: bool) -> Result<Module> {
    let path = folder.join("config.json");
    let config = required(&path)?;
    let size = |key: &str| {
        let found = number(&config, key).filter(|number| (1..1 << 24).contains(number));
        found.ok_or_else(|| invalid(&path, &format!("{key} is missing, or no whole number from 1")))
    };
    for key in ["module_input_name", "module_output_name"] {
        let name = text(&config, key).unwrap_or("sentence_embedding");
        let is_score = is_reranker && key == "module_output_name" && name == "scores";
        if name != "sentence_embedding" && !is_score && !(of_tokens && name == "token_embeddings") {
            return Err(unsupported(&path, &format!("{key} {name:?}; known is sentence_embedding")));
        }
    }
    let has_residual = config.get("use_residual").and_then(Value::as_bool) == Some(true);
    if has_residual && !of_tokens {
        return Err(unsupported(&path, "use_residual true after pooling; known is false"));
    }
    // sentence-transformers writes the class of torch, and takes Tanh without one.
    let class = text(&config, "activation_function").unwrap_or("torch.nn.modules.activation.Tanh");
    let activation = match class.rsplit('.').next().unwrap_or_default() {
        "Identity" => Some(Activation::Identity),
        "Tanh" => Some(Activation::Tanh),
        "ReLU" => Some(Activation::Relu),
        "GELU" => Some(Activation::Gelu),
        "SiLU" => Some(Activation::Silu),
        "Sigmoid" => Some(Activation::Sigmoid),
        _ => None,
    };
    let activation = activation.ok_or_else(|| {
        let known = "Identity, Tanh, ReLU, GELU, SiLU and Sigmoid";
        unsupported(&path, &format!("activation_function {class:?}; known are {known}"))
    })?;
    let (inputs, outputs) = (size("in_features")?, size("out_features")?);
    Ok(Module::Dense {
        name: "linear",
        inputs,
        outputs,
        residual: match has_residual {
            false => Residual::None,
            true if inputs == outputs => Residual::Input,
            true => Residual::Projected,
        },
        bias: config.get("bias").and_then(Value::as_bool).unwrap_or(true),
        activation,
        folder,
    })
}

/// Of sentence-transformers' `LogitScore`; the weights are the transformer's.
fn token_logit(module: &Path, folder: PathBuf) -> Result<Module> {
    let path = module.join("config.json");
    let config = required(&path)?;
    let input = text(&config, "module_input_name").unwrap_or("causal_logits");
    if input != "causal_logits" {
        return Err(unsupported(&path, &format!("module_input_name {input:?}; known is causal_logits")));
    }
    let token = number(&config, "true_token_id").ok_or_else(|| invalid(&path, "true_token_id is missing"))?;
    Ok(Module::TokenLogit { folder, token, minus: number(&config, "false_token_id") })
}

/// In the order in which sentence-transformers concatenates several.
const POOLINGS: [(&str, &str, Pooling); 6] = [
    ("pooling_mode_cls_token", "cls", Pooling::Cls),
    ("pooling_mode_max_tokens", "max", Pooling::Max),
    ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::MeanSqrtLength),
    ("pooling_mode_weightedmean_tokens", "weightedmean", Pooling::WeightedMean),
    ("pooling_mode_lasttoken", "lasttoken", Pooling::Last),
];

fn pooling(path: &Path, config: &Value) -> Result<Vec<Pooling>> {
    let named = |name: &Value| {
        let mode = POOLINGS.iter().find(|mode| Some(mode.1) == name.as_str()).map(|mode| mode.2);
        mode.ok_or_else(|| {
            let known = POOLINGS.map(|mode| mode.1).join(", ");
            unsupported(path, &format!("pooling_mode {name}; known are {known}"))
        })
    };
    // Older versions of sentence-transformers write one flag for each mode, newer ones a name or several.
    match config.get("pooling_mode") {
        Some(Value::Array(list)) if !list.is_empty() => return list.iter().map(named).collect(),
        Some(name) => return Ok(vec![named(name)?]),
        None => {}
    }
    let flags = config.as_object().ok_or_else(|| invalid(path, "expected an object"))?;
    let mut set =
        flags.iter().filter(|(name, value)| name.starts_with("pooling_mode_") && value.as_bool() == Some(true));
    if let Some((name, _)) = set.find(|(name, _)| POOLINGS.iter().all(|mode| mode.0 != name.as_str())) {
        return Err(unsupported(path, &format!("{name}; known are {}", POOLINGS.map(|mode| mode.0).join(", "))));
    }
    let is_set = |flag: &str| flags.get(flag).and_then(Value::as_bool) == Some(true);
    let modes: Vec<Pooling> = POOLINGS.iter().filter(|mode| is_set(mode.0)).map(|mode| mode.2).collect();
    Ok(if modes.is_empty() { vec![Pooling::Mean] } else { modes })
}
