//! Pruners: models that say of each token of a passage whether it answers a query.
//!
//! Four layouts are published. What follows the transformer is described by modules, as a reranker's; those of labels
//! give two values for a token, and their difference is the logit for keeping it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::files::{number, required, text, unsupported};
use super::modules::Modules;
use super::reranker::{Classifier, family_of, prediction_head};
use super::{Body, Model, ModelOptions, Module, Transformer};
use crate::error::Result;

/// How a pruner's sentences are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrunerLayout {
    /// Sentences are tokenized one by one. A sentence has the mean probability of its tokens.
    OpenProvence,
    /// Provence and `XProvence`: texts are tokenized whole, after a query without case and punctuation. A sentence has the
    /// mean probability of its tokens.
    Provence,
    /// The class `BertTaggerForSentenceExtractionWithBackoff`: a sentence has the probability of its mean token.
    SentenceTagger,
    /// A class for token classification: spans of likely tokens.
    TokenClassifier,
}

/// The layers after the transformer that give each token two values.
#[derive(Clone, Debug)]
pub struct LabelHead {
    pub modules: Vec<Module>,
    /// Whether they take the state before the norm at the transformer's end, if it has one there.
    pub before_final_norm: bool,
}

/// A pruner's description, without its weights.
#[derive(Clone, Debug)]
pub struct Pruner {
    /// Its modules give the logit of a pair; without any, it has none.
    pub model: Model,
    /// In the hub, or that of its directory.
    pub name: String,
    pub layout: PrunerLayout,
    /// Sentences with a lower probability are removed.
    pub threshold: f32,
    /// As the model's card names it.
    pub licence: Option<String>,
}

/// The threshold of `OpenProvence`'s code, and that of Zilliz' card, whose `model_type` is another.
const OPEN_PROVENCE: (&str, f32) = ("open_provence", 0.1);
const OTHER_PROVENCE: f32 = 0.5;
/// What the names of their classes have in them, and the thresholds of their cards: the first that a name has.
const PROVENCE: [(&str, f32); 2] = [("XProvence", 0.3), ("Provence", 0.1)];
const TAGGER: (&str, f32) = ("BertTaggerForSentenceExtractionWithBackoff", 0.5);
const TOKEN_THRESHOLD: f32 = 0.2;
/// Tokens of a row: by default, and as the tagger's card cuts texts.
const OPEN_PROVENCE_TOKENS: usize = 512;
const TAGGER_TOKENS: usize = 510;
const CLASS: &str = "ForTokenClassification";
const KNOWN: &str = "OpenProvence (hotchpotch/open-provence-reranker-v1, zilliz/semantic-highlight-bilingual-v1), \
                     Provence and XProvence (naver/provence-reranker-debertav3-v1), token classification with two labels (KRLabsOrg/verbatim-rag-modern-bert-v2) and \
                     opensearch-project/opensearch-semantic-highlighter-v1, on BERT, XLM-RoBERTa, ModernBERT and DeBERTa";

impl Pruner {
    /// Reads the small files of a pruner.
    ///
    /// # Errors
    /// As [`Model::read`]; [`ErrorKind::UnsupportedModel`](crate::error::ErrorKind::UnsupportedModel) for a model that is no pruner.
    pub fn read(directory: impl Into<PathBuf>) -> Result<Self> {
        let root = directory.into();
        let mut model = Model::read_modules(&root, &ModelOptions::default(), |root| Ok(Modules::of_pairs(root)))?;
        let path = model.file("config.json");
        let own = required(&path)?;
        if model.body != Body::Transformer {
            return Err(no_pruner(&path, "static embeddings"));
        }
        let (layout, threshold) = layout(&own, &path)?;
        let hidden = Transformer::read(&model)?.hidden;
        let labels = |name| Module::classifier(&model, name, hidden, 2);
        let (longest, modules, (pooling, ranking)) = match layout {
            PrunerLayout::OpenProvence => {
                check_pruning(&own, &path)?;
                let ranking = Classifier::of_model_type(&model, &path)?.layers(&model, &path)?;
                let longest = number(&own, "max_length").unwrap_or(OPEN_PROVENCE_TOKENS);
                (longest, vec![labels("pruning_head.classifier")], ranking)
            }
            PrunerLayout::Provence => {
                check_labels(&own, &path, 1)?;
                let ranking = Classifier::of_model_type(&model, &path)?.layers(&model, &path)?;
                (usize::MAX, vec![labels("token_classifier")], ranking)
            }
            PrunerLayout::SentenceTagger => (TAGGER_TOKENS, vec![labels("classifier")], Default::default()),
            PrunerLayout::TokenClassifier => {
                let is_modern = model.model_type == "modernbert";
                let mut modules = if is_modern { prediction_head(&model, hidden, &path)? } else { Vec::new() };
                modules.push(labels("classifier"));
                (usize::MAX, modules, Default::default())
            }
        };
        model.max_tokens = model.max_tokens.min(longest);
        if matches!(layout, PrunerLayout::SentenceTagger | PrunerLayout::TokenClassifier) {
            check_labels(&own, &path, 2)?;
        }
        let before_final_norm = layout == PrunerLayout::OpenProvence;
        (model.pooling, model.modules, model.normalize) = (pooling, ranking, false);
        model.labels = Some(LabelHead { modules, before_final_norm });
        Ok(Self { name: model.name(), licence: licence(&root), model, layout, threshold })
    }

    /// Whether it gives a pair of texts a logit, as a reranker does.
    pub fn ranks(&self) -> bool {
        !self.model.modules.is_empty()
    }
}

fn no_pruner(path: &Path, found: &str) -> crate::error::Error {
    unsupported(path, &format!("{found}, which is no pruner; pruner= takes {KNOWN}"))
}

/// The layout, and its threshold.
fn layout(config: &Value, path: &Path) -> Result<(PrunerLayout, f32)> {
    let classes = config.get("architectures").and_then(Value::as_array);
    let classes: Vec<&str> = classes.into_iter().flatten().filter_map(Value::as_str).collect();
    if config.get("base_model_config").is_some_and(Value::is_object) {
        let (own, other) = (OPEN_PROVENCE, OTHER_PROVENCE);
        let default = if text(config, "model_type") == Some(own.0) { own.1 } else { other };
        let named = ["default_threadshold", "default_threshold"];
        let threshold = named.iter().find_map(|name| config.get(name).and_then(Value::as_f64));
        #[expect(clippy::cast_possible_truncation, reason = "a threshold needs no more")]
        return Ok((PrunerLayout::OpenProvence, threshold.map_or(default, |threshold| threshold as f32)));
    }
    if classes.contains(&TAGGER.0) {
        return Ok((PrunerLayout::SentenceTagger, TAGGER.1));
    }
    if let Some((_, threshold)) = provence(config) {
        return Ok((PrunerLayout::Provence, threshold));
    }
    let own_code = config.get("auto_map").map(Value::to_string).unwrap_or_default();
    let Some(family) = classes.iter().find_map(|class| class.strip_suffix(CLASS)) else {
        let found = config.get("architectures").unwrap_or(&Value::Null);
        return Err(no_pruner(path, &format!("architectures {found}")));
    };
    match family_of(family) {
        Some(_) if own_code.is_empty() => Ok((PrunerLayout::TokenClassifier, TOKEN_THRESHOLD)),
        Some(_) => Err(unsupported(path, &format!("code of its own: auto_map is {own_code}"))),
        None => Err(no_pruner(path, &format!("{family}{CLASS}"))),
    }
}

/// Whether the classes of a configuration are Provence's or `XProvence`'s.
fn provence(config: &Value) -> Option<(&'static str, f32)> {
    let names = ["architectures", "auto_map"].map(|key| config.get(key).map(Value::to_string).unwrap_or_default());
    PROVENCE.into_iter().find(|(part, _)| names.iter().any(|name| name.contains(part)))
}

/// Gives Provence's configuration the `model_type` of its transformer, and no code of its own.
pub(super) fn name_transformer(config: &mut Value) {
    if provence(config).is_none() {
        return;
    }
    let model_type = if config.get("relative_attention").is_some() { "deberta-v2" } else { "xlm-roberta" };
    if let Some(fields) = config.as_object_mut() {
        fields.remove("auto_map");
        fields.insert("model_type".to_owned(), model_type.into());
    }
}

/// Checks what the head of `OpenProvence` may be.
fn check_pruning(config: &Value, path: &Path) -> Result<()> {
    let pruning = config.get("pruning_config").unwrap_or(&Value::Null);
    let labels = number(config, "num_pruning_labels").or_else(|| number(pruning, "num_labels")).unwrap_or(2);
    let pooling = text(pruning, "sentence_pooling").unwrap_or("mean");
    match (labels, pooling, number(config, "num_labels").unwrap_or(1)) {
        (2, "mean", 1) => Ok(()),
        (2, "mean", ranks) => Err(unsupported(path, &format!("num_labels {ranks}; known is 1"))),
        (2, other, _) => Err(unsupported(path, &format!("sentence_pooling {other:?}; known is mean"))),
        (other, ..) => Err(unsupported(path, &format!("{other} labels of a token; known are 2"))),
    }
}

/// Of two labels of tokens, the second is that of those to keep.
fn check_labels(config: &Value, path: &Path, count: usize) -> Result<()> {
    let labels = config.get("id2label").and_then(Value::as_object).map(serde_json::Map::len);
    match labels.or_else(|| number(config, "num_labels")).unwrap_or(2) {
        labels if labels == count => Ok(()),
        other => Err(no_pruner(path, &format!("a classifier of {other} labels, where it has {count}"))),
    }
}

/// The licence in the front matter of the model's card, if the directory has one.
fn licence(root: &Path) -> Option<String> {
    let card = fs::read_to_string(root.join("README.md")).ok()?;
    let front = card.strip_prefix("---")?;
    let lines = front.lines().skip(1).take_while(|line| line.trim_end() != "---");
    let named = lines.filter_map(|line| line.strip_prefix("license:")).map(str::trim);
    named.map(|name| name.trim_matches(['"', '\''])).find(|name| !name.is_empty()).map(str::to_owned)
}
