//! An engine out of Python's `EngineConfig`.

use std::path::PathBuf;
use std::time::Duration;

use pullquote_core::encoder::model::{Model, ModelOptions, PromptOverrides};
use pullquote_core::encoder::{Batching, Encoder};
use pullquote_core::engine::Engine;
use pullquote_core::engine::options::seconds;
use pullquote_core::runtime::affinity::CpuAffinity;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::cpu::CpuEncoder;
use crate::encoder::ForeignEncoder;
use crate::failures::Failure;
use crate::function::FunctionEncoder;
use crate::interruptible::leave_python;

/// `EngineConfig` in `python/pullquote/_models/engine_config.py`, with its model found and its encoder loaded.
#[derive(FromPyObject)]
pub(crate) struct EngineConfig<'py> {
    pub(crate) model: PathBuf,
    pub(crate) encoder: Bound<'py, PyAny>,
    /// 0 starts no threads: steps do all work.
    threads: usize,
    cores: Option<Vec<usize>>,
    cache_bytes: usize,
    max_batch_tokens: Option<usize>,
    max_batch_size: Option<usize>,
    batch_timeout: f64,
    depth: Option<usize>,
    device_timeout: Option<f64>,
    truncate_dim: Option<usize>,
    prompt_name: Option<String>,
    query_prompt: Option<String>,
    passage_prompt: Option<String>,
}

impl EngineConfig<'_> {
    pub(crate) fn engine(self, py: Python<'_>) -> PyResult<Engine> {
        let options = self.model_options();
        let model = leave_python(py, None, |_| Model::read_with(&self.model, &options))?;
        let encoder: Box<dyn Encoder> = if self.encoder.is_instance_of::<PyCapsule>() {
            Box::new(ForeignEncoder::take(&self.encoder)?)
        } else if let Ok(cpu) = self.encoder.cast::<CpuEncoder>() {
            Box::new(cpu.get().take()?)
        } else {
            FunctionEncoder::from_python(&self.encoder, self.threads > 0, &model)?
        };
        self.engine_of(py, &model, encoder)
    }

    /// The caller's settings for the model.
    fn model_options(&self) -> ModelOptions {
        ModelOptions {
            prompts: PromptOverrides {
                name: self.prompt_name.clone(),
                query: self.query_prompt.clone(),
                passage: self.passage_prompt.clone(),
            },
            truncate_dim: self.truncate_dim,
        }
    }

    pub(crate) fn engine_of(self, py: Python<'_>, model: &Model, encoder: Box<dyn Encoder>) -> PyResult<Engine> {
        // `seconds` refuses 0, which means no timeout here.
        let timeout =
            if self.batch_timeout == 0.0 { Duration::ZERO } else { seconds(self.batch_timeout).map_err(Failure)? };
        let batching = Batching {
            max_tokens: self.max_batch_tokens,
            max_rows: self.max_batch_size,
            depth: self.depth,
            timeout,
            device_timeout: self.device_timeout.map(seconds).transpose().map_err(Failure)?,
        };
        let (threads, cache_bytes, cores) = (self.threads, self.cache_bytes, self.cores);
        leave_python(py, None, |_| {
            let cores = cores.as_deref().map_or_else(|| Ok(CpuAffinity::default()), CpuAffinity::new)?;
            let engine = Engine::new(model, encoder, Some(threads), cache_bytes)?;
            Ok(engine.with_batching(batching)?.with_affinity(&cores))
        })
    }
}
