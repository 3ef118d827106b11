//! Options from a Python dictionary, into a struct of the core.

use pullquote_core::engine::option_values::{self, OptionValue};
use pullquote_core::engine::options::Options;
use pullquote_core::text::pieces::Unit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;

use crate::failures::{Failure, raise};

/// Reads all options but those that are named in `except`.
pub(crate) fn read_options<T: DeserializeOwned>(options: &Bound<'_, PyDict>, except: &[&str]) -> PyResult<T> {
    let named: Vec<(String, OptionValue)> =
        options.iter().map(|(name, value)| Ok((name.extract()?, option_value(&value)?))).collect::<PyResult<_>>()?;
    let named = named.into_iter().filter(|(name, _)| !except.contains(&name.as_str()));
    option_values::read(named).map_err(|error| raise(error.kind, &in_python(&error.message)))
}

/// A message with the core's words for values, which are JSON's, as Python writes them.
fn in_python(message: &str) -> String {
    let message = message.replace("true or false", "True or False");
    for (core, python) in [("null", "None"), ("true", "True"), ("false", "False")] {
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
    let flag = || value.extract().map(OptionValue::Bool);
    let text = || value.extract().map(OptionValue::Text);
    let integer = || value.extract().map(OptionValue::Integer);
    let float = || value.extract().map(OptionValue::Float);
    flag()
        .or_else(|_| text())
        .or_else(|_| integer())
        .or_else(|_| float())
        .or_else(|_: PyErr| Ok(OptionValue::Other(value.get_type().name()?.extract()?)))
}

pub(crate) fn read_unit(name: &str) -> PyResult<Unit> {
    let named = [("unit".to_owned(), OptionValue::Text(name.to_owned()))];
    let options: Options = option_values::read(named).map_err(|error| Failure(error.into_error()))?;
    Ok(options.unit)
}
