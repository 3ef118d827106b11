//! The Python module: loads an encoder and returns its table of C functions in a `PyCapsule`, and gives it memory for
//! CUDA graphs, which torch offers in Python only.

use pullquote_core::encoder::abi::{CAPSULE_NAME, EncoderTable};
use pullquote_core::error::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::table::encoder_table;
use crate::cuda::graphs::{CaptureMemory, CaptureSupport, Kernels};
use crate::cuda::runtime::CaptureStream;
use crate::encoder::TorchEncoder;

/// The Python module; `python/pullquote_torch/_native.pyi` documents it.
#[pymodule(gil_used = false)]
pub mod _native {
    use std::path::PathBuf;

    use pyo3::prelude::*;
    use pyo3::types::PyCapsule;

    use super::{GRAPHS, encoder_capsule, python_error};
    use crate::encoder::{LoadOptions, TorchEncoder};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "what Python calls it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pyfunction]
    fn cuda_device_count() -> usize {
        crate::encoder::cuda_device_count()
    }

    #[pyfunction]
    fn driver_problem() -> Option<String> {
        crate::encoder::driver_problem()
    }

    #[pyfunction]
    #[pyo3(signature = (
        model, devices, dtype, threads, truncate_dim = None, normalizes = true, cuda_graphs = false, synchronizes = false,
        reranker = None
    ))]
    #[allow(
        clippy::needless_pass_by_value,
        clippy::too_many_arguments,
        reason = "PyO3 passes owned arguments, one for each"
    )]
    fn load(
        py: Python<'_>,
        model: PathBuf,
        devices: Vec<String>,
        dtype: String,
        threads: Option<usize>,
        truncate_dim: Option<usize>,
        normalizes: bool,
        cuda_graphs: bool,
        synchronizes: bool,
        reranker: Option<PathBuf>,
    ) -> PyResult<Bound<'_, PyCapsule>> {
        let graphs = cuda_graphs.then_some(GRAPHS);
        let options = LoadOptions { truncate_dim, normalizes, graphs, synchronizes, ..LoadOptions::default() };
        let load = || TorchEncoder::load_with(&model, reranker.as_deref(), &devices, &dtype, threads, options);
        let encoder = py.detach(load);
        encoder_capsule(py, encoder.map_err(|error| python_error(py, &error))?)
    }
}

const GRAPHS: CaptureSupport = CaptureSupport { memory, warn };

/// A `CaptureMemory` of `python/pullquote_torch/_graphs.py`.
struct PythonMemory(Py<PyAny>);

impl CaptureMemory for PythonMemory {
    /// Keeps the GIL, so that no other Python thread synchronizes the GPU or empties torch's cache: CUDA and torch
    /// refuse both during a capture.
    fn with(&self, kernels: &Kernels, capture: &mut dyn FnMut(&Kernels)) -> Result<(), String> {
        with_python(|py| {
            let capturing = self.0.bind(py).call_method0("capturing")?;
            capturing.call_method0("__enter__")?;
            capture(kernels);
            capturing.call_method1("__exit__", (py.None(), py.None(), py.None())).map(drop)
        })
    }

    fn release(self: Box<Self>) {
        // Where it fails, the memory stays reserved.
        let _ = with_python(|py| self.0.bind(py).call_method0("release").map(drop));
    }
}

fn memory(device: usize, stream: CaptureStream) -> Result<Box<dyn CaptureMemory>, String> {
    with_python(|py| {
        let made = py.import("pullquote_torch._graphs")?.call_method1("CaptureMemory", (device, stream.address()))?;
        Ok(Box::new(PythonMemory(made.unbind())) as Box<dyn CaptureMemory>)
    })
}

fn warn(message: &str) {
    let _ = with_python(|py| py.import("pullquote_torch._graphs")?.call_method1("warn", (message,)).map(drop));
}

/// Runs something with the GIL, unless the interpreter is ending, whose errors become sentences.
fn with_python<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, String> {
    let done = Python::try_attach(|py| work(py).map_err(|error| error.to_string()));
    done.unwrap_or_else(|| Err("Python is ending".to_owned()))
}

#[repr(transparent)]
struct CapsuleContent(EncoderTable);

// SAFETY: `state` owns a `Handle`, which is `Send` (its encoder is, by the `Encoder` trait); `spec` points into it.
unsafe impl Send for CapsuleContent {}

fn encoder_capsule(py: Python<'_>, encoder: TorchEncoder) -> PyResult<Bound<'_, PyCapsule>> {
    let content = CapsuleContent(encoder_table(encoder).map_err(|error| python_error(py, &error))?);
    PyCapsule::new_with_value_and_destructor(py, content, CAPSULE_NAME, |content, _| {
        if !content.0.state.is_null() {
            // SAFETY: `state` came from `encoder_table`, and was not taken: that would have set it to null.
            unsafe { (content.0.release)(content.0.state) };
        }
    })
}

/// An exception of the error's class in `pullquote.errors`, or a `RuntimeError` without that module.
fn python_error(py: Python<'_>, error: &Error) -> PyErr {
    let class = py.import("pullquote.errors").and_then(|errors| errors.getattr(error.kind().row().python_class));
    let raised = class.and_then(|class| class.call1((error.message(),)));
    raised.map_or_else(|_| PyRuntimeError::new_err(error.message().to_owned()), PyErr::from_value)
}
