//! Reading a model's small files, with errors that name them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

pub(super) fn required(path: &Path) -> Result<Value> {
    optional(path)?.ok_or_else(|| Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}", path.display())))
}

pub(super) fn optional(path: &Path) -> Result<Option<Value>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| invalid(path, &error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(invalid(path, &error.to_string())),
    }
}

pub(super) fn text<'value>(value: &'value Value, key: &str) -> Option<&'value str> {
    value.get(key).and_then(Value::as_str)
}

pub(super) fn number(value: &Value, key: &str) -> Option<usize> {
    // Files write `model_max_length` as 1e30 for "no limit"; it is not a u64, so it becomes `None`.
    value.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
}

pub(super) fn invalid(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", path.display()))
}

pub(super) fn unsupported(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::UnsupportedModel, format!("{}: not supported: {what}", path.display()))
}
