//! A model's weights, from one safetensors file or from several that an index joins.
//!
//! Names are brought to one form, so that the same architecture reads checkpoints saved with and without its outer module's name.
//! A tensor that is missing, truncated or of another shape is an error that names file, tensor and shapes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{TchError, Tensor};

use crate::error::reason;

pub(crate) const SINGLE_FILE: &str = "model.safetensors";
/// Says which of several files has which tensor.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";
/// Checkpoints are saved with or without the name of the module around the encoder.
const OUTER_MODULES: [&str; 3] = ["bert.", "roberta.", "model."];

/// In a shape: a dimension of any length.
pub(super) const ANY: i64 = -1;

/// The tensors of a model, by name.
#[derive(Debug)]
pub(super) struct Weights {
    /// For errors: the single file, or the index.
    source: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl Weights {
    /// Reads all weights of a model's directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] where a file is not there, [`ErrorKind::InvalidModel`] where one is damaged.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let single = directory.join(SINGLE_FILE);
        let index = directory.join(INDEX_FILE);
        let (source, files) = if single.exists() || !index.exists() {
            (single.clone(), vec![single])
        } else {
            let files = indexed_files(directory, &index)?;
            (index, files)
        };
        let mut tensors = HashMap::new();
        for file in &files {
            let read = Tensor::read_safetensors(file).map_err(|error| read_error(file, &error))?;
            tensors.extend(read.into_iter().map(|(name, tensor)| (canonical_name(&name), tensor)));
        }
        Ok(Self { source, tensors })
    }

    /// Takes out a tensor, once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] where it is missing or of another shape.
    pub(super) fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor> {
        let source = self.source.display();
        let Some(tensor) = self.tensors.remove(name) else {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("{source} lacks the tensor {name}, of shape {}", DisplayShape(shape)),
            ));
        };
        let found = tensor.size();
        let fits =
            found.len() == shape.len() && found.iter().zip(shape).all(|(found, dim)| *dim == ANY || found == dim);
        if !fits {
            let (found, expected) = (DisplayShape(&found), DisplayShape(shape));
            let message = format!("{source}: the tensor {name} has shape {found}, but config.json asks for {expected}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        Ok(tensor)
    }

    pub(super) fn source(&self) -> &Path {
        &self.source
    }
}

struct DisplayShape<'dims>(&'dims [i64]);

impl std::fmt::Display for DisplayShape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dims: Vec<String> =
            self.0.iter().map(|dim| if *dim == ANY { "any".to_owned() } else { dim.to_string() }).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

/// A name without outer modules. Checkpoints converted from TensorFlow call the weights of a layer norm gamma and beta.
fn canonical_name(name: &str) -> String {
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

fn indexed_files(directory: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let damaged = |why: &str| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", index.display()));
    let text = std::fs::read(index).map_err(|error| damaged(&error.to_string()))?;
    let parsed: serde_json::Value = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
    let map = parsed.get("weight_map").and_then(serde_json::Value::as_object);
    let mut names = Vec::new();
    for name in map.ok_or_else(|| damaged("expected an object named weight_map"))?.values() {
        let name = name.as_str().ok_or_else(|| damaged("weight_map names something that is no file"))?;
        // A model may read nothing outside its directory.
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(damaged(&format!("weight_map names {name:?}, which is outside the directory")));
        }
        names.push(name);
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn read_error(file: &Path, error: &TchError) -> Error {
    let path = file.display();
    if !file.exists() {
        let hint = "weights are read from model.safetensors, from model.safetensors.index.json and its files, or from model.pt";
        return Error::new(ErrorKind::ModelNotFound, format!("the model lacks {path}; {hint}"));
    }
    let why = match error {
        TchError::SafeTensorError { err, .. } => err.to_string(),
        other => reason(other),
    };
    Error::new(ErrorKind::InvalidModel, format!("{path} is damaged or incomplete: {why}"))
}
