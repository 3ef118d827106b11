//! A model's weights, from one safetensors file or from several that an index joins.
//!
//! Names are brought to one form, so that the same architecture reads checkpoints saved with and without its outer
//! module's name. A tensor that is missing, truncated or of another shape is an error that names file, tensor and
//! shapes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pullquote_core::encoder::model::weight_files::{canonical_name, weight_files};
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{TchError, Tensor};

use crate::error::reason;

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
    /// [`ErrorKind::ModelNotFound`] where a file is not there, [`ErrorKind::InvalidModel`] if one is damaged.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let (source, files) = weight_files(directory)?;
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
    /// [`ErrorKind::InvalidModel`] if it is missing or of another shape.
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

    /// Whether there is a tensor that was not taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
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
