//! The Python module: loads an encoder and returns its table of C functions in a `PyCapsule`.

use pullquote_core::encoder::abi::{CAPSULE_NAME, EncoderTable};
use pullquote_core::error::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::table::encoder_table;
use crate::encoder::TorchEncoder;

/// The Python module; `python/pullquote_torch/_native.pyi` documents it.
#[pymodule(gil_used = false)]
pub mod _native {
    use std::path::PathBuf;

    use pyo3::prelude::*;
    use pyo3::types::PyCapsule;

    use super::{encoder_capsule, python_error};
    use crate::encoder::{TorchEncoder, VectorOptions};

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
    #[pyo3(signature = (model, devices, dtype, threads, truncate_dim = None, normalizes = true))]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 passes owned arguments")]
    fn load(
        py: Python<'_>,
        model: PathBuf,
        devices: Vec<String>,
        dtype: String,
        threads: Option<usize>,
        truncate_dim: Option<usize>,
        normalizes: bool,
    ) -> PyResult<Bound<'_, PyCapsule>> {
        let vectors = VectorOptions { truncate_dim, normalizes };
        let encoder = py.detach(|| TorchEncoder::load_with(&model, &devices, &dtype, threads, vectors));
        encoder_capsule(py, encoder.map_err(|error| python_error(py, &error))?)
    }
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
