//! A model's weights, from one safetensors file or from several that an index joins. Files are mapped: pages that are
//! not touched take no memory, and processes share the others.
//!
//! Names are brought to one form, so that the same architecture reads checkpoints saved with and without its outer
//! module's name. A tensor that is missing, truncated or of another shape is an error that names file, tensor and
//! shapes.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use memmap2::Mmap;
use pullquote_core::encoder::model::weight_files::{canonical_name, weight_files};
use pullquote_core::error::{Error, ErrorKind, Result};
use safetensors::{Dtype, SafeTensors};

/// The tensors of a model, by name.
#[derive(Debug)]
pub struct Weights {
    /// For errors: the single file, or the index.
    source: PathBuf,
    tensors: HashMap<String, Tensor>,
}

/// A tensor in a mapped file: float64, float32, float16 or bfloat16, row by row.
#[derive(Clone)]
pub struct Tensor {
    file: Arc<Mmap>,
    bytes: Range<usize>,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor").field("dtype", &self.dtype).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Weights {
    /// Maps all weights of a model's directory.
    ///
    /// # Errors
    /// [`ErrorKind::ModelNotFound`] where a file is not there, [`ErrorKind::InvalidModel`] if one is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let (source, files) = weight_files(directory)?;
        let mut tensors = HashMap::new();
        for path in &files {
            let damaged = |why: String| {
                Error::new(ErrorKind::InvalidModel, format!("{} is damaged or incomplete: {why}", path.display()))
            };
            let file = File::open(path).map_err(|error| open_error(path, &error))?;
            // SAFETY: if another process changed the mapped file in place, we would read other numbers, and if it
            // truncated the file, a signal would end this process. Model files are replaced, not changed; every program
            // that maps them relies on that. Only numbers are read, of which any bits are valid.
            let file = Arc::new(unsafe { Mmap::map(&file) }.map_err(|error| damaged(error.to_string()))?);
            let read = SafeTensors::deserialize(&file).map_err(|error| damaged(error.to_string()))?;
            for (name, view) in read.tensors() {
                let start = view.data().as_ptr() as usize - file.as_ptr() as usize;
                let bytes = start..start + view.data().len();
                let (dtype, shape) = (view.dtype(), view.shape().to_vec());
                tensors.insert(canonical_name(&name), Tensor { file: Arc::clone(&file), bytes, dtype, shape });
            }
        }
        Ok(Self { source, tensors })
    }

    /// Takes out a tensor, once. A dimension of `None` may have any length.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] where it is missing or of another shape, [`ErrorKind::UnsupportedModel`] if it holds
    /// numbers of another type.
    pub fn take(&mut self, name: &str, shape: &[Option<usize>]) -> Result<Tensor> {
        let source = self.source.display();
        let expected = display_shape(shape);
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidModel, message));
        let Some(tensor) = self.tensors.remove(name) else {
            return invalid(format!("{source} lacks the tensor {name}, of shape {expected}"));
        };
        let fits = |(found, dim): (&usize, &Option<usize>)| dim.is_none_or(|dim| dim == *found);
        if tensor.shape.len() != shape.len() || !tensor.shape.iter().zip(shape).all(fits) {
            let found = display_shape(&tensor.shape.iter().copied().map(Some).collect::<Vec<_>>());
            return invalid(format!(
                "{source}: the tensor {name} has shape {found}, but config.json asks for {expected}"
            ));
        }
        if !matches!(tensor.dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let message = format!(
                "{source}: the tensor {name} is {:?}; weights may be float64, float32, float16 or bfloat16",
                tensor.dtype
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        Ok(tensor)
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Takes out a list of integers below a bound, once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] if it is missing, no list, or has other numbers.
    pub fn take_indices(&mut self, name: &str, bound: usize) -> Result<Vec<usize>> {
        let invalid = |why: &str| {
            let source = self.source.display();
            Error::new(ErrorKind::InvalidModel, format!("{source}: the tensor {name} {why}"))
        };
        let tensor = self.tensors.get(name).ok_or_else(|| invalid("is missing"))?;
        let bytes = &tensor.file[tensor.bytes.clone()];
        let indices: Vec<i64> = match (tensor.dtype, tensor.shape.len()) {
            (Dtype::I32, 1) => bytes.as_chunks().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect(),
            (Dtype::I64, 1) => bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
            (dtype, _) => {
                return Err(invalid(&format!(
                    "is {dtype:?} of {} dimensions, not a list of I32 or I64",
                    tensor.shape.len()
                )));
            }
        };
        let index = |index: i64| usize::try_from(index).ok().filter(|index| *index < bound);
        let indices = indices
            .into_iter()
            .map(|found| index(found).ok_or_else(|| invalid(&format!("has {found}, not below {bound}"))));
        indices.collect()
    }

    pub fn source(&self) -> &Path {
        &self.source
    }
}

impl Tensor {
    pub fn dim(&self, index: usize) -> usize {
        self.shape[index]
    }

    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.read(0, &mut values);
        values
    }

    /// Reads a row of a matrix to the front of `out`. Panics where there is no such row.
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        self.read(row * self.shape[1], &mut out[..self.shape[1]]);
    }

    fn read(&self, first: usize, out: &mut [f32]) {
        let size = self.dtype.bitsize() / 8;
        let bytes = &self.file[self.bytes.clone()][first * size..][..out.len() * size];
        match self.dtype {
            Dtype::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
                Ok(values) => values.convert_to_f32_slice(out),
                Err(_) => widen(bytes, out, |bytes| f16::from_le_bytes(bytes).to_f32()),
            },
            Dtype::BF16 => widen(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Dtype::F64 => {
                #[expect(clippy::cast_possible_truncation, reason = "everything is computed in float32")]
                widen(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32);
            }
            _ => widen(bytes, out, f32::from_le_bytes),
        }
    }
}

/// Reads numbers at any alignment.
fn widen<const SIZE: usize>(bytes: &[u8], out: &mut [f32], number: impl Fn([u8; SIZE]) -> f32) {
    out.iter_mut().zip(bytes.as_chunks().0).for_each(|(value, bytes)| *value = number(*bytes));
}

fn display_shape(shape: &[Option<usize>]) -> String {
    let dims: Vec<String> =
        shape.iter().map(|dim| dim.map_or_else(|| "any".to_owned(), |dim| dim.to_string())).collect();
    format!("[{}]", dims.join(", "))
}

fn open_error(path: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        let hint = "weights are read from model.safetensors, or from model.safetensors.index.json and its files";
        return Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}; {hint}", path.display()));
    }
    Error::new(ErrorKind::InvalidModel, format!("{} cannot be read: {error}", path.display()))
}
