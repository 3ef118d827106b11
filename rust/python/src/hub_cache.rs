//! The shared cache of the Hugging Face Hub, for `python/pullquote/_models/hub.py`.

use std::path::PathBuf;

use pullquote_core::encoder::hub_cache;
use pyo3::prelude::*;

use crate::failures::Failure;
use crate::interruptible::leave_python;
use crate::results::record;

record! {
    "pullquote._native",
    from hub_cache::NeededFiles,
    /// The files of a model.
    NeededFiles {
        /// Paths of those that it needs.
        files: Vec<String>,
        /// Paths of those that it lacks.
        missing: Vec<String>,
    }
}

record! {
    "pullquote._native",
    from hub_cache::Snapshot,
    /// A cached revision of a model.
    Snapshot {
        /// Its commit.
        commit: String,
        /// The needed files that it lacks.
        missing: Vec<String>,
    }
}

record! {
    "pullquote._native",
    /// A model in the cache.
    CachedModel {
        /// Its name.
        name: String,
        /// Its commit.
        revision: String,
        /// Its branches and tags.
        refs: Vec<String>,
        /// Bytes of its files.
        bytes: u64,
        /// Why it would not load.
        problem: Option<String>,
    }
}

/// The files that a model needs, among these or not.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn needed_files(files: Vec<String>, modules: Option<Vec<u8>>, weights: bool) -> PyResult<NeededFiles> {
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    Ok(hub_cache::needed_files(&names, modules.as_deref(), weights).map_err(Failure)?.into())
}

/// Raises what loading a model would raise before it reads the weights.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn check_description(py: Python<'_>, directory: PathBuf) -> PyResult<()> {
    leave_python(py, None, |_| hub_cache::check_description(&directory))
}

/// A cached revision of a model, if there is one.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn find_snapshot(
    py: Python<'_>,
    cache: PathBuf,
    name: &str,
    revision: &str,
    weights: bool,
) -> PyResult<Option<Snapshot>> {
    let found = leave_python(py, None, |_| hub_cache::find(&cache, name, revision, weights))?;
    Ok(found.map(Snapshot::from))
}

/// All models of the cache.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 passes owned values")]
pub(crate) fn cached_models(py: Python<'_>, cache: PathBuf) -> PyResult<Vec<CachedModel>> {
    let found = leave_python(py, None, |_| Ok(hub_cache::list(&cache)))?;
    let model = |hub_cache::CachedModel { name, revision, refs, bytes, problem }| {
        let problem = problem.map(|error| error.message().to_owned());
        CachedModel { name, revision, refs, bytes, problem }
    };
    Ok(found.into_iter().map(model).collect())
}
