//! The arguments of an engine, and an engine out of them.

use std::path::Path;

use pullquote_core::encoder::model::{Model, ModelOptions, PromptOverrides, Pruner};
use pullquote_core::encoder::{Batching, Encoder};
use pullquote_core::engine::Engine;
use pullquote_core::runtime::affinity::{CpuAffinity, available_threads};
use pullquote_wire::engine::Threads;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::cpu::CpuEncoder;
use crate::encoder::ForeignEncoder;
use crate::function::FunctionEncoder;
use crate::interruptible::leave_python;
use crate::options::read_settings;

/// More threads are no faster, and take cores from the host.
const MAX_THREADS: usize = 32;

/// The checked arguments of an engine.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct EngineSettings(pullquote_wire::engine::EngineSettings);

#[pymethods]
impl EngineSettings {
    #[new]
    fn new(arguments: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self(read_settings(arguments)?))
    }

    /// The maximum number of threads; 0 means that a host's steps do all work.
    #[getter]
    fn threads(&self) -> usize {
        match self.0.threads {
            Some(Threads::Caller) => 0,
            Some(Threads::Count(count)) => count,
            None => available_threads().min(self.0.cores.as_ref().map_or(MAX_THREADS, Vec::len)).min(MAX_THREADS),
        }
    }
}

impl EngineSettings {
    pub(crate) fn engine(&self, py: Python<'_>, model: &Path, encoder: &Bound<'_, PyAny>) -> PyResult<Engine> {
        let settings = &self.0;
        let options = ModelOptions {
            prompts: PromptOverrides {
                name: settings.prompt_name.clone(),
                query: settings.query_prompt.clone(),
                passage: settings.passage_prompt.clone(),
            },
            truncate_dim: settings.truncate_dim,
        };
        let model = leave_python(py, None, |_| Model::read_with(model, &options))?;
        let encoder: Box<dyn Encoder> = if encoder.is_instance_of::<PyCapsule>() {
            Box::new(ForeignEncoder::take(encoder)?)
        } else if let Ok(cpu) = encoder.cast::<CpuEncoder>() {
            Box::new(cpu.get().take()?)
        } else {
            FunctionEncoder::from_python(encoder, self.threads() > 0, &model)?
        };
        self.engine_of(py, &model, encoder)
    }

    pub(crate) fn engine_of(&self, py: Python<'_>, model: &Model, encoder: Box<dyn Encoder>) -> PyResult<Engine> {
        let (settings, threads) = (&self.0, self.threads());
        let batching = Batching {
            max_tokens: settings.max_batch_tokens,
            max_rows: settings.max_batch_size,
            depth: settings.depth,
            timeout: settings.batch_timeout,
            device_timeout: settings.device_timeout,
        };
        leave_python(py, None, |_| {
            let cores = settings.cores.as_deref().map_or_else(|| Ok(CpuAffinity::default()), CpuAffinity::new)?;
            let has_pairs = encoder.spec().capabilities.pairs.is_some();
            let engine = Engine::new(model, encoder, Some(threads), settings.cache_bytes)?;
            let engine = engine.with_batching(batching)?.with_affinity(&cores);
            let of_pairs = |model: &Model| {
                let own = (!has_pairs).then(|| pullquote_cpu::encoder::CpuEncoder::load_pairs(model, Some(threads)));
                Ok(own.transpose()?.map(|encoder| Box::new(encoder) as Box<dyn Encoder>))
            };
            match (&settings.reranker, &settings.pruner) {
                (Some(reranker), _) => {
                    let reranker = Model::read_reranker(reranker)?;
                    engine.with_reranker(&reranker, of_pairs(&reranker)?)
                }
                (None, Some(pruner)) => {
                    let pruner = Pruner::read(pruner)?;
                    engine.with_pruner(&pruner, of_pairs(&pruner.model)?)
                }
                (None, None) => Ok(engine),
            }
        })
    }
}
