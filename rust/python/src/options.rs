//! Options and settings from a Python dictionary, into a struct of Rust.

use std::path::PathBuf;

use pullquote_core::engine::option_values::{self, OptionValue};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Question};
use pullquote_core::text::formats::Format;
use pullquote_core::text::pieces::Unit;
use pullquote_wire::schema::Settings;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde::de::DeserializeOwned;

use crate::failures::{Failure, raise};
use crate::texts::SERVER_OPTIONS;

/// Reads all options but those that are named in `except`.
pub(crate) fn read_options<T: DeserializeOwned>(options: &Bound<'_, PyDict>, except: &[&str]) -> PyResult<T> {
    let named = named_values(options)?.into_iter().filter(|(name, _)| !except.contains(&name.as_str()));
    option_values::read(named).map_err(|error| raise(error.kind, &in_python(&error.message)))
}

/// Raises what a call with these options would raise for their values.
#[pyfunction]
pub(crate) fn check_options(options: &Bound<'_, PyDict>) -> PyResult<()> {
    let options: Options = read_options(options, &SERVER_OPTIONS)?;
    Question::new(&options).map(drop).map_err(|error| Failure(error).into())
}

/// Why nothing answers on pages of this number of windows; `None` if a passage of the highest score does.
#[pyfunction]
pub(crate) fn note(options: &Bound<'_, PyDict>, windows: usize, best: Option<f32>) -> PyResult<Option<String>> {
    Ok(engine::note(&read_options(options, &SERVER_OPTIONS)?, windows, best))
}

/// Reads settings, and checks their ranges.
pub(crate) fn read_settings<T: DeserializeOwned + Settings>(settings: &Bound<'_, PyDict>) -> PyResult<T> {
    option_values::read_settings(named_values(settings)?).map_err(|error| raise(error.kind, &in_python(&error.message)))
}

fn named_values(options: &Bound<'_, PyDict>) -> PyResult<Vec<(String, OptionValue)>> {
    options.iter().map(|(name, value)| Ok((name.extract()?, option_value(&value)?))).collect()
}

/// A message with the core's words for values, which are JSON's, as Python writes them.
fn in_python(message: &str) -> String {
    let message = message.replace("true or false", "True or False");
    let message = message.replace("or null", "or None").replace("or false", "or False");
    for (core, python) in
        [("null", "None"), ("true", "True"), ("false", "False"), ("an array", "a list"), ("an object", "a dict")]
    {
        if let Some(start) = message.strip_suffix(&format!(" not {core}")) {
            return format!("{start} not {python}");
        }
    }
    message
}

/// Accepts what numpy has of the same kinds as well.
fn option_value(value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    if value.is_none() {
        return Ok(OptionValue::Null);
    }
    if let Ok(values) = value.cast::<PyDict>() {
        return Ok(OptionValue::Map(named_values(values)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| option_value(&value?));
        return Ok(OptionValue::List(values.collect::<PyResult<_>>()?));
    }
    let flag = || value.extract().map(OptionValue::Bool);
    let text = || value.extract().map(OptionValue::Text);
    let integer = || value.extract().map(OptionValue::Integer);
    let path = || Ok(OptionValue::Text(value.extract::<PathBuf>()?.to_string_lossy().into_owned()));
    let float = || value.extract().map(OptionValue::Float);
    flag()
        .or_else(|_| text())
        .or_else(|_| integer())
        .or_else(|_| float())
        .or_else(|_: PyErr| path())
        .or_else(|_: PyErr| Ok(OptionValue::Other(value.get_type().name()?.extract()?)))
}

pub(crate) fn read_unit(name: &str) -> PyResult<Unit> {
    Ok(read_one("unit", name)?.unit)
}

pub(crate) fn read_format(name: &str) -> PyResult<Format> {
    Ok(read_one("format", name)?.format)
}

fn read_one(option: &str, value: &str) -> PyResult<Options> {
    let named = [(option.to_owned(), OptionValue::Text(value.to_owned()))];
    option_values::read(named).map_err(|error| Failure(error.into_error()).into())
}
