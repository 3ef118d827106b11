//! The CPU encoder as a Python object, from `load_encoder` to the engine that takes it.

use std::path::PathBuf;
use std::sync::Mutex;

use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::model::{Model, ModelOptions, Pruner};
use pullquote_core::error::ErrorKind;
use pullquote_core::runtime::sync::lock;
use pullquote_cpu::encoder;
use pullquote_cpu::instructions::InstructionSet;
use pyo3::prelude::*;

use crate::failures::{Failure, raise};
use crate::interruptible::leave_python;

/// A loaded model. The first engine made from it takes it.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct CpuEncoder(Mutex<Option<encoder::CpuEncoder>>);

#[pymethods]
impl CpuEncoder {
    /// Starts the worker threads, which inherit the calling thread's affinity. Without `normalizes`, the vectors are
    /// those before the normalization at the model's end. A reranker or a pruner shares
    /// the threads and the number type.
    #[new]
    #[pyo3(signature = (model, devices, dtype, threads, truncate_dim = None, normalizes = true, reranker = None, pruner = None))]
    #[expect(
        clippy::needless_pass_by_value,
        clippy::too_many_arguments,
        reason = "pyo3 passes owned values, and each argument by itself"
    )]
    fn new(
        py: Python<'_>,
        model: PathBuf,
        devices: Vec<String>,
        dtype: &str,
        threads: Option<usize>,
        truncate_dim: Option<usize>,
        normalizes: bool,
        reranker: Option<PathBuf>,
        pruner: Option<PathBuf>,
    ) -> PyResult<Self> {
        let options = ModelOptions { truncate_dim, ..ModelOptions::default() };
        let loaded = leave_python(py, None, |_| {
            let mut model = Model::read_with(&model, &options)?;
            model.normalize &= normalizes;
            let (dtype, set) = (Dtype::parse(dtype)?, InstructionSet::selected()?);
            let pruner = pruner.map(|pruner| Ok(Pruner::read(pruner)?.model));
            let pairs = reranker.map(Model::read_reranker).or(pruner).transpose()?;
            encoder::CpuEncoder::load_with(Some(&model), pairs.as_ref(), &devices, dtype, threads, set)
        })?;
        Ok(Self(Mutex::new(Some(loaded))))
    }
}

impl CpuEncoder {
    pub(crate) fn take(&self) -> PyResult<encoder::CpuEncoder> {
        let taken = lock(&self.0).take();
        taken.ok_or_else(|| raise(ErrorKind::InvalidType, "the encoder was taken already; load it again"))
    }
}

/// The instruction set that the CPU encoder uses on this machine.
#[pyfunction]
pub(crate) fn instruction_set() -> PyResult<&'static str> {
    Ok(InstructionSet::selected().map_err(Failure)?.name())
}

/// The instruction sets of this processor, the fastest first.
#[pyfunction]
pub(crate) fn instruction_sets() -> Vec<&'static str> {
    InstructionSet::available().into_iter().map(InstructionSet::name).collect()
}
