//! The base class of all classes that own an engine: its description, its statistics, and its end.

use std::sync::Arc;

use pullquote_core::engine::Engine;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::failures::Failure;
use crate::interruptible::DropDetached;
use crate::results::{CacheState, DeviceState, StageTime};

#[pyclass(frozen, subclass, module = "pullquote._native")]
pub(crate) struct EngineHandle {
    engine: DropDetached<Arc<Engine>>,
}

impl EngineHandle {
    /// The base part of a class that extends this one.
    pub(crate) fn base(engine: &Arc<Engine>) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Self { engine: DropDetached::new(Arc::clone(engine)) })
    }
}

#[pymethods]
impl EngineHandle {
    #[getter]
    fn cache(&self) -> CacheState {
        self.engine.cache().into()
    }

    fn clear_cache(&self, py: Python<'_>) {
        py.detach(|| self.engine.clear_cache());
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.engine.close());
    }

    #[getter]
    fn dimension(&self) -> usize {
        self.engine.spec().dimension
    }

    #[getter]
    fn model_id(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        Ok(py.detach(|| self.engine.model_id()).map_err(Failure)?)
    }

    /// The pruner's name, its threshold, and the licence that its card names.
    #[getter]
    fn pruner(&self) -> Option<(&str, f32, Option<&str>)> {
        self.engine.pruner().map(|pruner| (pruner.name(), pruner.threshold(), pruner.licence()))
    }

    #[getter]
    fn pruner_id(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        Ok(py.detach(|| self.engine.pruner_id()).map_err(Failure)?)
    }

    #[getter]
    fn reranker_id(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        Ok(py.detach(|| self.engine.reranker_id()).map_err(Failure)?)
    }

    #[getter]
    fn max_tokens(&self) -> usize {
        self.engine.max_tokens()
    }

    #[getter]
    fn dtype(&self) -> &str {
        &self.engine.spec().dtype
    }

    #[getter]
    fn backend(&self) -> &str {
        &self.engine.spec().backend
    }

    /// The text before queries and passages, and its source.
    #[getter]
    fn prompts(&self) -> (&str, &str, &str) {
        let prompts = self.engine.prompts();
        (&prompts.query, &prompts.passage, prompts.source.name())
    }

    #[getter]
    fn devices(&self) -> Vec<&str> {
        self.engine.spec().devices.iter().map(|device| device.name.as_str()).collect()
    }

    #[getter]
    fn device_states(&self) -> Vec<DeviceState> {
        self.engine.devices().into_iter().map(DeviceState::from).collect()
    }

    #[getter]
    fn stages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = self.engine.profiler().totals();
        let times = totals
            .iter()
            .map(|total| (total.stage.name(), StageTime { seconds: total.time.as_secs_f64(), count: total.count }));
        times.into_py_dict(py)
    }
}
