//! A model's weights, from one safetensors file or from several that an index joins.
//!
//! Names are brought to one form, so that the same architecture reads checkpoints saved with and without its outer
//! module's name. Whatever is missing, cut short or of another shape is an error that names file, tensor and shapes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{TchError, Tensor};

use crate::failure::describe;

/// In one file.
pub const WHOLE: &str = "model.safetensors";
/// Which of several files has which tensor.
pub const INDEX: &str = "model.safetensors.index.json";
/// The names of outer modules under which checkpoints are saved.
const PREFIXES: [&str; 3] = ["bert.", "roberta.", "model."];

/// A side of a shape that may have any length.
pub const ANY: i64 = -1;

/// The tensors of a model, by name.
#[derive(Debug)]
pub struct Weights {
    /// What to name in errors: the one file, or the index.
    source: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl Weights {
    /// Reads all weights of a model's directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] where a file is not there, [`ErrorKind::InvalidModel`] where one is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let whole = directory.join(WHOLE);
        let index = directory.join(INDEX);
        let (source, files) = if whole.exists() || !index.exists() {
            (whole.clone(), vec![whole])
        } else {
            let files = indexed_files(directory, &index)?;
            (index, files)
        };
        let mut tensors = HashMap::new();
        for file in &files {
            let read = Tensor::read_safetensors(file).map_err(|error| unreadable(file, &error))?;
            tensors.extend(read.into_iter().map(|(name, tensor)| (plain_name(&name), tensor)));
        }
        Ok(Self { source, tensors })
    }

    /// Hands out a tensor, once. A side that is [`ANY`] may have any length.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] where it is missing or of another shape.
    pub fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor> {
        let source = self.source.display();
        let Some(tensor) = self.tensors.remove(name) else {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("{source} lacks the tensor {name}, of shape {}", Shape(shape)),
            ));
        };
        let found = tensor.size();
        let fits =
            found.len() == shape.len() && found.iter().zip(shape).all(|(found, side)| *side == ANY || found == side);
        if !fits {
            let (found, expected) = (Shape(&found), Shape(shape));
            let message = format!("{source}: the tensor {name} has shape {found}, but config.json asks for {expected}");
            return Err(Error::new(ErrorKind::InvalidModel, message));
        }
        Ok(tensor)
    }

    /// What to name in errors about the weights.
    #[must_use]
    pub fn source(&self) -> &Path {
        &self.source
    }
}

/// A shape as people write it.
struct Shape<'sides>(&'sides [i64]);

impl std::fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sides: Vec<String> =
            self.0.iter().map(|side| if *side == ANY { "any".to_owned() } else { side.to_string() }).collect();
        write!(f, "[{}]", sides.join(", "))
    }
}

/// A name without outer modules; layer norms of checkpoints that came from TensorFlow are called gamma and beta.
fn plain_name(name: &str) -> String {
    let mut name = name;
    while let Some(inner) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
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
        // A model's directory is all that a model may read.
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(damaged(&format!("weight_map names {name:?}, which is outside the directory")));
        }
        names.push(name);
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn unreadable(file: &Path, error: &TchError) -> Error {
    let path = file.display();
    if !file.exists() {
        let hint = "weights are read from model.safetensors, from model.safetensors.index.json and its files, or from model.pt";
        return Error::new(ErrorKind::ModelNotFound, format!("the model lacks {path}; {hint}"));
    }
    let why = match error {
        TchError::SafeTensorError { err, .. } => err.to_string(),
        other => describe(other),
    };
    Error::new(ErrorKind::InvalidModel, format!("{path} is damaged or incomplete: {why}"))
}
