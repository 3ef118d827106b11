//! A model's weights, from one safetensors file or from several that an index joins. Files are mapped, not read: what is not
//! touched takes no memory, and processes share what is.
//!
//! Names are brought to one form, so that the same architecture reads checkpoints saved with and without its outer
//! module's name. Whatever is missing, cut short or of another shape is an error that names file, tensor and shapes.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use memmap2::Mmap;
use pullquote_core::error::{Error, ErrorKind, Result};
use safetensors::{Dtype, SafeTensors};

/// In one file.
pub const WHOLE: &str = "model.safetensors";
/// Which of several files has which tensor.
pub const INDEX: &str = "model.safetensors.index.json";
/// The names of outer modules under which checkpoints are saved.
const PREFIXES: [&str; 3] = ["bert.", "roberta.", "model."];

/// The tensors of a model, by name.
#[derive(Debug)]
pub struct Weights {
    /// What to name in errors: the one file, or the index.
    source: PathBuf,
    tensors: HashMap<String, Tensor>,
}

/// A tensor in a mapped file: float32, float16 or bfloat16, row by row.
#[derive(Clone)]
pub struct Tensor {
    file: Arc<Mmap>,
    /// Its bytes in the file.
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
    /// [`ErrorKind::ModelNotFound`] where a file is not there, [`ErrorKind::InvalidModel`] where one is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let whole = directory.join(WHOLE);
        let index = directory.join(INDEX);
        let (source, files) = if whole.exists() || !index.exists() {
            (whole.clone(), vec![whole])
        } else {
            let files = indexed_files(directory, &index)?;
            (index, files)
        };
        let mut tensors = HashMap::new();
        for path in &files {
            let damaged = |why: String| {
                Error::new(ErrorKind::InvalidModel, format!("{} is damaged or incomplete: {why}", path.display()))
            };
            let file = File::open(path).map_err(|error| not_opened(path, &error))?;
            // SAFETY: a file that another process changes in place while it is mapped would change what we read, and one that
            // it cuts short would end this process by a signal. Model files are replaced, not changed; every program that
            // maps them relies on that. Nothing is read as anything but numbers, of which any bits are valid.
            let file = Arc::new(unsafe { Mmap::map(&file) }.map_err(|error| damaged(error.to_string()))?);
            let read = SafeTensors::deserialize(&file).map_err(|error| damaged(error.to_string()))?;
            for (name, view) in read.tensors() {
                let start = view.data().as_ptr() as usize - file.as_ptr() as usize;
                let bytes = start..start + view.data().len();
                let (dtype, shape) = (view.dtype(), view.shape().to_vec());
                tensors.insert(plain_name(&name), Tensor { file: Arc::clone(&file), bytes, dtype, shape });
            }
        }
        Ok(Self { source, tensors })
    }

    /// Takes out a tensor, once. A side that is `None` may have any length.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] where it is missing or of another shape, [`ErrorKind::UnsupportedModel`] where it holds
    /// numbers of another type.
    pub fn take(&mut self, name: &str, shape: &[Option<usize>]) -> Result<Tensor> {
        let source = self.source.display();
        let expected = shape_text(shape);
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidModel, message));
        let Some(tensor) = self.tensors.remove(name) else {
            return invalid(format!("{source} lacks the tensor {name}, of shape {expected}"));
        };
        let fits = |(found, side): (&usize, &Option<usize>)| side.is_none_or(|side| side == *found);
        if tensor.shape.len() != shape.len() || !tensor.shape.iter().zip(shape).all(fits) {
            let found = shape_text(&tensor.shape.iter().copied().map(Some).collect::<Vec<_>>());
            return invalid(format!(
                "{source}: the tensor {name} has shape {found}, but config.json asks for {expected}"
            ));
        }
        if !matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let message = format!(
                "{source}: the tensor {name} is {:?}; weights may be float32, float16 or bfloat16",
                tensor.dtype
            );
            return Err(Error::new(ErrorKind::UnsupportedModel, message));
        }
        Ok(tensor)
    }

    /// What to name in errors about the weights.
    #[must_use]
    pub fn source(&self) -> &Path {
        &self.source
    }
}

impl Tensor {
    /// The length of a side.
    #[must_use]
    pub fn side(&self, side: usize) -> usize {
        self.shape[side]
    }

    /// All values.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.iter().product()];
        self.read(0, &mut values);
        values
    }

    /// The first values of a row of a table.
    ///
    /// Panics where the table has no such row.
    pub fn read_row(&self, row: usize, place: &mut [f32]) {
        self.read(row * self.shape[1], &mut place[..self.shape[1]]);
    }

    /// Values from one on.
    fn read(&self, first: usize, place: &mut [f32]) {
        let size = self.dtype.bitsize() / 8;
        let bytes = &self.file[self.bytes.clone()][first * size..][..place.len() * size];
        match self.dtype {
            Dtype::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
                Ok(values) => values.convert_to_f32_slice(place),
                Err(_) => widen(bytes, place, |bytes| f16::from_le_bytes(bytes).to_f32()),
            },
            Dtype::BF16 => widen(bytes, place, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            _ => widen(bytes, place, f32::from_le_bytes),
        }
    }
}

/// Reads numbers that may stand at any address.
fn widen<const SIZE: usize>(bytes: &[u8], place: &mut [f32], number: impl Fn([u8; SIZE]) -> f32) {
    place.iter_mut().zip(bytes.as_chunks().0).for_each(|(place, bytes)| *place = number(*bytes));
}

/// A shape as people write it.
fn shape_text(sides: &[Option<usize>]) -> String {
    let sides: Vec<String> =
        sides.iter().map(|side| side.map_or_else(|| "any".to_owned(), |side| side.to_string())).collect();
    format!("[{}]", sides.join(", "))
}

/// A name without outer modules; layer norms of checkpoints that came from TensorFlow are called gamma and beta.
fn plain_name(name: &str) -> String {
    let mut name = name;
    while let Some(inner) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = inner;
    }
    if let Some(norm) = name.strip_suffix("LayerNorm.gamma") {
        return format!("{norm}LayerNorm.weight");
    }
    if let Some(norm) = name.strip_suffix("LayerNorm.beta") {
        return format!("{norm}LayerNorm.bias");
    }
    name.to_owned()
}

fn indexed_files(directory: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let damaged = |why: &str| Error::new(ErrorKind::InvalidModel, format!("{} is damaged: {why}", index.display()));
    let text = std::fs::read(index).map_err(|error| damaged(&error.to_string()))?;
    let parsed: serde_json::Value = serde_json::from_slice(&text).map_err(|error| damaged(&error.to_string()))?;
    let map = parsed.get("weight_map").and_then(serde_json::Value::as_object);
    let mut names = Vec::new();
    for name in map.ok_or_else(|| damaged("expected an object named weight_map"))?.values() {
        let name = name.as_str().ok_or_else(|| damaged("weight_map names something that is no file"))?;
        // A model's directory is all that a model may read.
        if Path::new(name).file_name().is_none_or(|file| file != name) {
            return Err(damaged(&format!("weight_map names {name:?}, which is outside the directory")));
        }
        names.push(name);
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

fn not_opened(path: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        let hint = "weights are read from model.safetensors, or from model.safetensors.index.json and its files";
        return Error::new(ErrorKind::ModelNotFound, format!("the model lacks {}; {hint}", path.display()));
    }
    Error::new(ErrorKind::InvalidModel, format!("{} cannot be read: {error}", path.display()))
}
