//! The shared cache of the Hugging Face Hub, for `python/pullquote/_hub.py`.

use std::path::PathBuf;

use pullquote_core::encoder::hub_cache;
use pyo3::prelude::*;

use crate::failures::Failure;
use crate::leave::leave_python;

/// Paths of the files that a model needs, and of those that it lacks.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn needed_files(
    files: Vec<String>,
    modules: Option<Vec<u8>>,
    weights: bool,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let needed = hub_cache::needed_files(&names, modules.as_deref(), weights).map_err(Failure)?;
    Ok((needed.files, needed.missing))
}

/// Raises what loading a model would raise before it reads the weights.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn check_description(py: Python<'_>, directory: PathBuf) -> PyResult<()> {
    leave_python(py, None, |_| hub_cache::check_description(&directory))
}

/// The commit of a cached revision, and the needed files that its snapshot lacks.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn find_snapshot(
    py: Python<'_>,
    cache: PathBuf,
    name: &str,
    revision: &str,
    weights: bool,
) -> PyResult<Option<(String, Vec<String>)>> {
    let found = leave_python(py, None, |_| hub_cache::find(&cache, name, revision, weights))?;
    Ok(found.map(|snapshot| (snapshot.commit, snapshot.missing)))
}

/// For each cached model: name, commit, branches and tags, bytes, and why it would not load.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python unpacks it at once")]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn cached_models(
    py: Python<'_>,
    cache: PathBuf,
) -> PyResult<Vec<(String, String, Vec<String>, u64, Option<String>)>> {
    let found = leave_python(py, None, |_| Ok(hub_cache::list(&cache)))?;
    let row = |model: hub_cache::CachedModel| {
        (model.name, model.revision, model.refs, model.bytes, model.problem.map(|error| error.message().to_owned()))
    };
    Ok(found.into_iter().map(row).collect())
}
