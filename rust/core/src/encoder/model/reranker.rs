//! Rerankers: models that score a query and a passage read together.
//!
//! What follows the transformer is described by the same modules as that of an embedding model, the last of which gives
//! one value: the logit.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::files::{number, optional, required, text, unsupported};
use super::modules::{Modules, Residual};
use super::pair_prompt::{ChatTemplate, PairPrompt, known};
use super::prompts::{self, Prompts};
use super::{Activation, Body, Model, ModelOptions, Module, Pooling, Transformer};
use crate::error::{Error, Result};

/// What the classes of transformers call the layers before the logit.
#[derive(Clone, Copy)]
pub(super) enum Classifier {
    /// A pooler with tanh, and a linear layer.
    Pooler,
    /// The same with the function that `pooler_hidden_act` names.
    ContextPooler,
    /// Two layers with a function between them.
    Two(&'static str, Activation, &'static str),
    /// `ModernBERT`'s prediction head.
    Prediction,
    /// A linear layer without bias, of the last token.
    Last,
}

/// By how the name of the class begins.
const CLASSIFIERS: [(&str, Classifier); 13] = [
    ("Bert", Classifier::Pooler),
    ("JinaBert", Classifier::Pooler),
    ("New", Classifier::Pooler),
    ("Gte", Classifier::Pooler),
    ("Roberta", ROBERTA),
    ("XLMRoberta", ROBERTA),
    ("Camembert", ROBERTA),
    ("MPNet", ROBERTA),
    ("DebertaV2", Classifier::ContextPooler),
    ("DistilBert", Classifier::Two("pre_classifier", Activation::Relu, "classifier")),
    ("ModernBert", Classifier::Prediction),
    ("Qwen2", Classifier::Last),
    ("Qwen3", Classifier::Last),
];
const ROBERTA: Classifier = Classifier::Two("classifier.dense", Activation::Tanh, "classifier.out_proj");
/// How the names of classes begin whose own code computes the same.
const OWN_CODE: [&str; 3] = ["JinaBert", "NewFor", "modeling_xlm_roberta.XLMRoberta"];
const CLASS: &str = "ForSequenceClassification";
const LANGUAGE_MODEL: &str = "ForCausalLM";

/// The longest row of a language model: that of the models' own code.
const MAX_PROMPT_TOKENS: usize = 8192;

const SENTENCE_TRANSFORMERS: &str = "config_sentence_transformers.json";

impl Model {
    /// Reads the small files of a reranker: a class of transformers for sequences with one label, a language model that
    /// answers whether a passage is relevant, or modules of sentence-transformers that end in one value.
    ///
    /// # Errors
    /// As [`Model::read`]; [`ErrorKind::UnsupportedModel`](crate::error::ErrorKind::UnsupportedModel) for a model that is no reranker.
    pub fn read_reranker(directory: impl Into<PathBuf>) -> Result<Self> {
        let root = directory.into();
        let mut model = Self::read_modules(&root, &ModelOptions::default(), Modules::read_reranker)?;
        let path = model.file("config.json");
        if model.body != Body::Transformer {
            return Err(no_reranker(&path, "static embeddings"));
        }
        // Classes of transformers have no modules for what follows the transformer.
        let has_modules = !model.modules.is_empty();
        let is_language_model = classes(&model.config).any(|class| class.ends_with(LANGUAGE_MODEL));
        if !has_modules && is_language_model {
            (model.pooling, model.modules) = (vec![Pooling::Last], vec![answer_logit(&model)?]);
        } else if !has_modules {
            (model.pooling, model.modules) = classifier(&model, &path)?;
        }
        let outputs = model.modules.iter().rev().find_map(|module| match module {
            Module::Dense { outputs, .. } => Some(*outputs),
            Module::TokenLogit { .. } => Some(1),
            _ => None,
        });
        if outputs != Some(1) {
            let outputs =
                outputs.map_or_else(|| "no layer after the transformer".to_owned(), |n| format!("{n} values"));
            return Err(no_reranker(&root.join("modules.json"), &outputs));
        }
        check_activation(&root, &model.config, &path)?;
        model.normalize = false;
        model.prompts = prompts::read_default(&root)?;
        if model.pooling == [Pooling::Last] {
            model.pair_prompt = pair_prompt(&model, is_language_model, has_modules)?;
        }
        if model.pair_prompt.is_some() {
            // Its prompt is part of that text.
            model.prompts = Prompts::default();
            model.max_tokens = model.max_tokens.min(MAX_PROMPT_TOKENS);
        }
        Ok(model)
    }
}

fn classes(config: &Value) -> impl Iterator<Item = &str> {
    config.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The text in which a language model reads a pair: that of its chat template, if this has a place for a passage; that of
/// a known model; or what the template makes of any role. A classifier without a template reads the texts alone.
fn pair_prompt(model: &Model, is_language_model: bool, has_modules: bool) -> Result<Option<PairPrompt>> {
    let (template, path) = (ChatTemplate::read(&model.directory)?, model.file("tokenizer_config.json"));
    let of_template = |template: &ChatTemplate| template.prompt(&model.prompts.query, &path).map(Some);
    let known = known(model, is_language_model && !has_modules);
    match (&template, known) {
        (Some(template), _) if template.names_roles() => of_template(template),
        (_, Some(known)) => Ok(Some(known.prompt())),
        (Some(template), None) => of_template(template),
        (None, None) if is_language_model => {
            let what = "a language model without a chat template for the roles query and document";
            Err(no_reranker(&path, what))
        }
        (None, None) => Ok(None),
    }
}

/// How a language model without modules answers: by a known model's tokens, or as sentence-transformers by "yes" and
/// "no".
fn answer_logit(model: &Model) -> Result<Module> {
    let answers = known(model, true).map_or(["yes", "no"], |known| known.answers);
    let path = model.file("tokenizer.json");
    let tokenizer = required(&path)?;
    let id = |token: &str| {
        let id = tokenizer.get("model").and_then(|of_model| of_model.get("vocab")).and_then(|all| number(all, token));
        id.ok_or_else(|| no_reranker(&path, &format!("a language model without the token {token:?}")))
    };
    Ok(Module::TokenLogit { folder: model.directory.clone(), token: id(answers[0])?, minus: Some(id(answers[1])?) })
}

fn no_reranker(path: &Path, found: &str) -> Error {
    unsupported(
        path,
        &format!(
            "{found}, which is no reranker; reranker= takes a model that scores pairs, such as cross-encoder/ms-marco-MiniLM-L6-v2 \
             (a class for sequence classification with one label); an embedding model is the argument model="
        ),
    )
}

/// Pooling, and the layers after it, of a class of transformers.
fn classifier(model: &Model, path: &Path) -> Result<(Vec<Pooling>, Vec<Module>)> {
    let config = &model.config;
    let Some(family) = classes(config).find_map(|name| name.strip_suffix(CLASS)) else {
        let architectures = config.get("architectures").unwrap_or(&Value::Null);
        return Err(no_reranker(path, &format!("architectures {architectures}")));
    };
    let own_code = config.get("auto_map").and_then(|map| text(map, "AutoModelForSequenceClassification"));
    if let Some(class) = own_code.filter(|class| !OWN_CODE.iter().any(|known| class.contains(known))) {
        return Err(unsupported(path, &format!("code of its own: auto_map names {class:?}")));
    }
    let Some(classifier) = family_of(family) else {
        let known = CLASSIFIERS.map(|(name, _)| format!("{name}{CLASS}")).join(", ");
        return Err(unsupported(path, &format!("the reranker {family}{CLASS}; known are {known}")));
    };
    let labels = config.get("id2label").and_then(Value::as_object).map(serde_json::Map::len);
    let labels = labels.or_else(|| number(config, "num_labels")).unwrap_or(2);
    if labels != 1 {
        return Err(no_reranker(path, &format!("a classifier of {labels} labels")));
    }
    classifier.layers(model, path)
}

/// What a family's classes have before the logit.
pub(super) fn family_of(name: &str) -> Option<Classifier> {
    CLASSIFIERS.iter().find(|(known, _)| *known == name).map(|(_, classifier)| *classifier)
}

impl Classifier {
    /// That of the class for sequences of the model's family.
    pub(super) fn of_model_type(model: &Model, path: &Path) -> Result<Self> {
        let letters = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let own = letters(&model.model_type);
        let found = CLASSIFIERS.iter().find(|(family, _)| letters(family) == own);
        found.map(|(_, classifier)| *classifier).ok_or_else(|| {
            let known = CLASSIFIERS.map(|(name, _)| name).join(", ");
            unsupported(path, &format!("a head of the model_type {:?}; known are {known}", model.model_type))
        })
    }

    /// Pooling, and the layers after it.
    pub(super) fn layers(self, model: &Model, path: &Path) -> Result<(Vec<Pooling>, Vec<Module>)> {
        let hidden = Transformer::read(model)?.hidden;
        let dense = |name, activation| Module::Dense {
            folder: model.directory.clone(),
            name,
            inputs: hidden,
            outputs: hidden,
            bias: true,
            activation,
            residual: Residual::None,
        };
        let last = |name| Module::classifier(model, name, hidden, 1);
        let cls = vec![Pooling::Cls];
        Ok(match self {
            Self::Pooler => (cls, vec![dense("pooler.dense", Activation::Tanh), last("classifier")]),
            Self::ContextPooler => {
                let pooled = number(&model.config, "pooler_hidden_size").unwrap_or(hidden);
                if pooled != hidden {
                    return Err(unsupported(path, &format!("pooler_hidden_size {pooled}; known is {hidden}")));
                }
                (
                    cls,
                    vec![
                        dense("pooler.dense", activation(&model.config, "pooler_hidden_act", path)?),
                        last("classifier"),
                    ],
                )
            }
            Self::Two(first, activation, name) => (cls, vec![dense(first, activation), last(name)]),
            Self::Last => {
                let score = Module::Dense {
                    folder: model.directory.clone(),
                    name: "score",
                    inputs: hidden,
                    outputs: 1,
                    bias: false,
                    activation: Activation::Identity,
                    residual: Residual::None,
                };
                (vec![Pooling::Last], vec![score])
            }
            Self::Prediction => {
                let pooling = match text(&model.config, "classifier_pooling").unwrap_or("cls") {
                    "cls" => Pooling::Cls,
                    "mean" => Pooling::Mean,
                    other => {
                        return Err(unsupported(
                            path,
                            &format!("classifier_pooling {other:?}; known are cls and mean"),
                        ));
                    }
                };
                let mut modules = prediction_head(model, hidden, path)?;
                modules.push(last("classifier"));
                (vec![pooling], modules)
            }
        })
    }
}

fn activation(config: &Value, key: &str, path: &Path) -> Result<Activation> {
    let name = text(config, key).unwrap_or("gelu");
    Activation::parse(name).ok_or_else(|| {
        let known = Activation::NAMES.map(|(name, _)| name).join(", ");
        unsupported(path, &format!("{key} {name:?}; known are {known}"))
    })
}

/// `ModernBERT`'s layers before a classifier of sequences or tokens.
pub(super) fn prediction_head(model: &Model, hidden: usize, path: &Path) -> Result<Vec<Module>> {
    let (config, folder) = (&model.config, model.directory.clone());
    let flag = |key| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    let activation = activation(config, "classifier_activation", path)?;
    let epsilon = config.get("norm_eps").and_then(Value::as_f64).unwrap_or(1e-5);
    let norm = Module::LayerNorm {
        folder: folder.clone(),
        name: "head.norm",
        width: hidden,
        bias: flag("norm_bias"),
        epsilon,
    };
    let dense = Module::Dense {
        folder,
        name: "head.dense",
        inputs: hidden,
        outputs: hidden,
        bias: flag("classifier_bias"),
        activation,
        residual: Residual::None,
    };
    Ok(vec![dense, norm])
}

/// Whether the function that makes a score of the logit is one that keeps the order. It is not applied: scores are
/// probabilities with every model, by the sigmoid.
fn check_activation(root: &Path, config: &Value, path: &Path) -> Result<()> {
    let own = optional(&root.join(SENTENCE_TRANSFORMERS))?.unwrap_or(Value::Null);
    let name = text(&own, "activation_fn")
        .or_else(|| config.get("sentence_transformers").and_then(|settings| text(settings, "activation_fn")))
        .or_else(|| text(config, "sbert_ce_default_activation_function"))
        .unwrap_or("Sigmoid");
    match name.rsplit('.').next().unwrap_or_default() {
        "Sigmoid" | "Identity" => Ok(()),
        other => Err(unsupported(path, &format!("the activation {other:?} of scores; known are Sigmoid and Identity"))),
    }
}
