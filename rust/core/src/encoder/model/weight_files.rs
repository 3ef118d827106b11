//! The files of a model's weights, and one form for the names of tensors in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};

/// The weights, if they are in one file.
pub const SINGLE_FILE: &str = "model.safetensors";
/// The index: the file of each tensor.
pub const INDEX_FILE: &str = "model.safetensors.index.json";
/// A `TorchScript` module, for libtorch.
pub const MODULE_FILE: &str = "model.pt";
/// Checkpoints are saved with or without the name of the module around the encoder.
const OUTER_MODULES: [&str; 10] = [
    "bert.", "roberta.", "deberta.", "model.", "mpnet.", "distilbert.", "nomic_bert.", "new.", "gte.", "ranking_model.",
];

/// The file that errors name, and the files with tensors; they may be missing.
///
/// # Errors
/// [`ErrorKind::InvalidModel`] if the index is damaged.
pub fn weight_files(directory: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    let (single, index) = (directory.join(SINGLE_FILE), directory.join(INDEX_FILE));
    if single.exists() || !index.exists() {
        return Ok((single.clone(), vec![single]));
    }
    let files = indexed_files(directory, &index)?;
    Ok((index, files))
}

fn indexed_files(directory: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    #[derive(Deserialize)]
    struct WeightIndex {
        weight_map: BTreeMap<String, String>,
    }
    let damaged = |why: &str| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", index.display()));
    let text = std::fs::read(index).map_err(|error| damaged(&error.to_string()))?;
    let parsed: WeightIndex = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    // A model may read nothing outside its directory.
    if let Some(name) = names.iter().find(|name| Path::new(name).file_name().is_none_or(|file| file != name.as_str())) {
        return Err(damaged(&format!("weight_map names {name:?}, which is outside the directory")));
    }
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// The weights of a language model's logits; without them they are those of its word embeddings.
pub const LOGITS: &str = "lm_head.weight";

/// A tensor's name without outer modules. Checkpoints converted from TensorFlow call the weights of a layer norm gamma
/// and beta.
pub fn canonical_name(name: &str) -> String {
    let mut name = name;
    while let Some(inner) = OUTER_MODULES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = inner;
    }
    if let Some(norm) = name.strip_suffix("LayerNorm.gamma") {
        return format!("{norm}LayerNorm.weight");
    }
    if let Some(norm) = name.strip_suffix("LayerNorm.beta") {
        return format!("{norm}LayerNorm.bias");
    }
    name.to_owned()
}
