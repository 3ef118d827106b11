//! A model of any architecture, as a `TorchScript` module.
//!
//! `model.pt` takes ids and mask (both int64 `[rows, longest]`). It returns token vectors `[rows, longest, dimension]`,
//! which are pooled, or row vectors `[rows, dimension]`, or a tuple that begins with one of these. Loading runs it once
//! to find out which.

use pullquote_core::encoder::model::Model;
use pullquote_core::error::{Error, ErrorKind, Result};
use tch::{CModule, Device, IValue, Kind, TchError, Tensor};

use super::layout::Padded;
use crate::error::{TorchResult, torch_error};

pub(crate) const SCRIPT_FILE: &str = "model.pt";

#[derive(Debug)]
pub(super) struct Script {
    module: CModule,
    dimension: i64,
    is_pooled: bool,
    kind: Kind,
}

impl Script {
    /// Loads a module onto a device and runs it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] if it cannot be read or run, or returns something else.
    pub(super) fn load(model: &Model, device: Device) -> Result<Self> {
        let path = model.file(SCRIPT_FILE);
        let invalid = |what: &str, error: &TchError| {
            torch_error(ErrorKind::InvalidModel, &format!("{}: {what}", path.display()), error)
        };
        let mut module =
            CModule::load_on_device(&path, device).map_err(|error| invalid("no TorchScript module", &error))?;
        module.f_set_eval().map_err(|error| invalid("it has no evaluation mode", &error))?;
        let mut script = Self { module, dimension: 0, is_pooled: false, kind: Kind::Float };
        // Two shapes: a module that was traced carelessly works for only one.
        for (rows, longest) in [(2, 4), (1, 3)] {
            let probe = || {
                let ids = Tensor::f_zeros([rows, longest], (Kind::Int, device))?;
                script.forward(&Padded { ids, mask: None, types: None })
            };
            let what = format!("it fails on ids and mask of shape [{rows}, {longest}]");
            let returned = probe().map_err(|error| invalid(&what, &error))?;
            script.kind = returned.f_kind().map_err(|error| invalid(&what, &error))?;
            let shape = returned.size();
            script.is_pooled = shape.len() == 2;
            script.dimension = match shape.as_slice() {
                [found, dimension] if *found == rows && *dimension > 0 => *dimension,
                [found, tokens, dimension] if *found == rows && *tokens == longest && *dimension > 0 => *dimension,
                _ => {
                    let expected = format!("[{rows}, {longest}, dimension] or [{rows}, dimension]");
                    let message = format!("{}: it returns shape {shape:?}; expected {expected}", path.display());
                    return Err(Error::new(ErrorKind::InvalidModel, message));
                }
            };
        }
        Ok(script)
    }

    /// Whether it returns row vectors.
    pub(super) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    pub(super) fn dimension(&self) -> i64 {
        self.dimension
    }

    /// The type it was exported in, which is the one it computes in: libtorch's casts would break a module's code and
    /// its position tables, because they cast integers too.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Token vectors `[rows, longest, dimension]`, or row vectors `[rows, dimension]`.
    pub(super) fn forward(&self, batch: &Padded) -> TorchResult<Tensor> {
        // The optimizer would compile again for each new shape. The setting is the thread's.
        tch::jit::f_set_graph_executor_optimize(false)?;
        let ids = batch.ids.f_to_kind(Kind::Int64)?;
        let mask = batch.full_mask()?.f_to_kind(Kind::Int64)?;
        first_tensor(self.module.forward_is(&[IValue::Tensor(ids), IValue::Tensor(mask)])?)
    }
}

fn first_tensor(value: IValue) -> TorchResult<Tensor> {
    match value {
        IValue::Tensor(tensor) => Ok(tensor),
        IValue::Tuple(values) => match values.into_iter().next() {
            Some(IValue::Tensor(tensor)) => Ok(tensor),
            other => {
                Err(TchError::Kind(format!("the module returns a tuple that begins with {other:?}; expected a tensor")))
            }
        },
        other => Err(TchError::Kind(format!("the module returns {other:?}; expected a tensor or a tuple"))),
    }
}
