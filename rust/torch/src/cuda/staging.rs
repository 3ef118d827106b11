//! The host memory of a batch on its way to a GPU and back.
//!
//! It is pinned, so that the GPU copies it by itself, and it is reused once the GPU has reached the batch's event.
//! Shapes come in few sizes, so torch's allocator finds the blocks of earlier batches. In the padded layout, rows are
//! as long as the longest one, up to a multiple of 8, and their number is a [`row_bucket`]. In the ragged layout, the
//! number of tokens is a [`token_bucket`]: rows of padding tokens follow the batch's own, none longer than the longest,
//! so that every token has a row; empty rows fill the number of rows to a [`row_bucket`]. Rows that are not the batch's
//! are not copied back.

use std::marker::PhantomData;

use pullquote_core::encoder::Batch;
use tch::kind::Element;
use tch::{Device, Kind, Tensor};

use super::runtime::{PinnedMemory, Runtime};
use crate::error::TorchResult;
use crate::model::dispatcher::{Argument, Value as Argued, call, new_reference};
use crate::model::layout::{Padded, Ragged, RowOffsets, dim, write_types};

/// Tokens of a padded row: kernels of half precision want multiples of 8.
const ROW_LENGTH_MULTIPLE: usize = 8;

/// Tokens of a ragged batch: matrix products of half precision want multiples of 16.
const TOKEN_COUNT_MULTIPLE: usize = 16;

/// The pinned memory of one batch. Its owner must not drop or write it while the GPU may use it.
#[derive(Debug)]
pub struct Staging {
    ragged: PinnedBuffer<i32>,
    /// As `ragged`, for a CUDA graph. Not the same memory, here and below, because a batch may be written again in
    /// another layout while its copy is still on its way.
    bucketed: PinnedBuffer<i32>,
    /// Ids and lengths.
    padded: PinnedBuffer<i32>,
    queries: PinnedBuffer<f32>,
    rows: PinnedBuffer<f32>,
    /// Values in `rows`.
    values: usize,
}

/// The sizes of a ragged batch on a device, its padding included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaggedShape {
    pub tokens: usize,
    /// Rows of the batch, then those of padding tokens, then empty ones.
    pub rows: usize,
    /// No row is longer, padding included.
    pub longest: usize,
}

/// Pinned memory that grows to the largest batch.
#[derive(Debug)]
struct PinnedBuffer<Value> {
    runtime: &'static Runtime,
    memory: Option<PinnedMemory>,
    /// In values.
    capacity: usize,
    values: PhantomData<Value>,
}

/// The number of rows that a batch of `rows` is padded to: at most a quarter more, and one of few sizes.
pub fn row_bucket(rows: usize) -> usize {
    let step = (rows.next_power_of_two() / 8).max(1);
    rows.next_multiple_of(step)
}

/// The number of tokens that a ragged batch of `tokens` is padded to: at most a sixteenth or 15 more, and one of few
/// sizes.
pub fn token_bucket(tokens: usize) -> usize {
    let step = (tokens.next_power_of_two() / 32).max(TOKEN_COUNT_MULTIPLE);
    tokens.next_multiple_of(step)
}

impl RaggedShape {
    /// The shape with the least padding.
    pub fn of(batch: &Batch) -> Self {
        let filled = batch.ids.len();
        let tokens = token_bucket(filled);
        let longest = batch.lengths.iter().copied().max().unwrap_or(1).max(1) as usize;
        Self { tokens, rows: row_bucket(batch.lengths.len() + (tokens - filled).div_ceil(longest)), longest }
    }

    /// Values of a batch on the device: ids, positions and cumulative lengths.
    pub const fn values(self) -> usize {
        2 * self.tokens + self.rows + 1
    }

    /// Writes a batch that fits.
    pub(super) fn write(self, batch: &Batch, values: &mut [i32]) {
        let (ids, rest) = values.split_at_mut(self.tokens);
        let (positions, cumulative_lengths) = rest.split_at_mut(self.tokens);
        let filled = batch.ids.len();
        ids[..filled].copy_from_slice(&batch.ids);
        ids[filled..].fill(0);
        let mut start = 0;
        for (row, written) in cumulative_lengths.iter_mut().enumerate() {
            *written = i32::try_from(start).unwrap_or(i32::MAX);
            let padding = (self.tokens - start).min(self.longest);
            let length = batch.lengths.get(row).map_or(padding, |length| *length as usize);
            for (position, written) in (0..).zip(&mut positions[start..start + length]) {
                *written = position;
            }
            start += length;
        }
    }

    /// The batch whose values are on the device, int32 `[values]`.
    pub fn view(self, uploaded: &Tensor) -> TorchResult<Ragged> {
        let Self { tokens, rows, longest } = self;
        Ok(Ragged {
            ids: uploaded.f_narrow(0, 0, dim(tokens))?,
            positions: uploaded.f_narrow(0, dim(tokens), dim(tokens))?,
            types: None,
            rows: RowOffsets {
                cumulative_lengths: uploaded.f_narrow(0, dim(2 * tokens), dim(rows + 1))?,
                longest: dim(longest),
                tokens: dim(tokens),
            },
        })
    }
}

impl Staging {
    /// Staging without memory yet.
    pub const fn new(runtime: &'static Runtime) -> Self {
        Self {
            ragged: PinnedBuffer::new(runtime),
            bucketed: PinnedBuffer::new(runtime),
            padded: PinnedBuffer::new(runtime),
            queries: PinnedBuffer::new(runtime),
            rows: PinnedBuffer::new(runtime),
            values: 0,
        }
    }

    /// Writes a batch in the padded layout and starts its copy to the device. Rows have at most `max_tokens`.
    pub fn upload_padded(&mut self, batch: &Batch, device: Device, max_tokens: usize) -> TorchResult<Padded> {
        let rows = row_bucket(batch.lengths.len());
        let longest = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let width = longest.next_multiple_of(ROW_LENGTH_MULTIPLE).min(max_tokens.max(longest));
        let (id_count, filled) = (rows * width, rows * width + rows);
        let total = filled + if batch.seconds.is_empty() { 0 } else { id_count };
        let (ids, rest) = self.padded.slice_mut(total)?.split_at_mut(id_count);
        let (lengths, types) = rest.split_at_mut(rows);
        if !types.is_empty() {
            write_types(batch, Some(width), types);
        }
        let mut start = 0;
        for (row, written) in lengths.iter_mut().enumerate() {
            // A padding row has one token, so that it attends to something.
            let length = batch.lengths.get(row).map_or(1, |length| *length as usize);
            let row_ids = &mut ids[row * width..(row + 1) * width];
            row_ids.fill(0);
            if row < batch.lengths.len() {
                row_ids[..length].copy_from_slice(&batch.ids[start..start + length]);
                start += length;
            }
            *written = i32::try_from(length).unwrap_or(i32::MAX);
        }
        let has_padding = lengths.iter().any(|length| usize::try_from(*length) != Ok(width));
        let uploaded = self.padded.upload(&[dim(total)], device)?;
        let ids = uploaded.f_narrow(0, 0, dim(id_count))?.f_view_([dim(rows), dim(width)])?;
        let mask = if has_padding {
            let lengths = uploaded.f_narrow(0, dim(id_count), dim(rows))?.f_view_([dim(rows), 1])?;
            let positions = Tensor::f_arange(dim(width), (Kind::Int, device))?.f_view_([1, dim(width)])?;
            Some(positions.f_lt_tensor(&lengths)?)
        } else {
            None
        };
        let types = (total > filled)
            .then(|| uploaded.f_narrow(0, dim(filled), dim(id_count))?.f_view_([dim(rows), dim(width)]));
        Ok(Padded { ids, mask, types: types.transpose()? })
    }

    /// Writes a batch in the ragged layout and starts its copy to the device, as [`Self::upload_padded`] does.
    pub fn upload_ragged(&mut self, batch: &Batch, device: Device) -> TorchResult<Ragged> {
        let shape = RaggedShape::of(batch);
        let (filled, tokens) = (shape.values(), shape.tokens);
        let total = filled + if batch.seconds.is_empty() { 0 } else { tokens };
        let (values, types) = self.ragged.slice_mut(total)?.split_at_mut(filled);
        shape.write(batch, values);
        if !types.is_empty() {
            write_types(batch, None, types);
        }
        let uploaded = self.ragged.upload(&[dim(total)], device)?;
        let types = (total > filled).then(|| uploaded.f_narrow(0, dim(filled), dim(tokens))).transpose()?;
        Ok(Ragged { types, ..shape.view(&uploaded)? })
    }

    /// Writes a batch in a shape that it fits and starts its copy to memory of the device, int32 `[values]`.
    pub fn upload_bucketed(&mut self, batch: &Batch, shape: RaggedShape, to: &Tensor) -> TorchResult<()> {
        shape.write(batch, self.bucketed.slice_mut(shape.values())?);
        copy(new_reference(to)?, self.bucketed.tensor(&[dim(shape.values())])?)
    }

    /// Starts the copy of a batch's queries, `[queries, dimension]`, to the device; `None` where there are none.
    pub fn upload_queries(&mut self, queries: &[f32], dimension: usize, device: Device) -> TorchResult<Option<Tensor>> {
        if queries.is_empty() {
            return Ok(None);
        }
        self.queries.slice_mut(queries.len())?.copy_from_slice(queries);
        self.queries.upload(&[dim(queries.len() / dimension), dim(dimension)], device).map(Some)
    }

    /// Starts the copy of rows, float32 `[rows, values]`, from the device.
    pub fn download(&mut self, rows: &Tensor) -> TorchResult<()> {
        let size = rows.size();
        self.values = usize::try_from(size.iter().product::<i64>()).unwrap_or(0);
        self.rows.slice_mut(self.values)?;
        copy(self.rows.tensor(&size)?, new_reference(rows)?)
    }

    /// The rows, one after the other, once the GPU has reached the batch's event.
    pub fn values(&self) -> &[f32] {
        let Some(memory) = &self.rows.memory else { return &[] };
        // SAFETY: the memory has at least this many values, all written, and nothing writes to it any more.
        unsafe { std::slice::from_raw_parts(memory.address().cast(), self.values) }
    }

    /// Gives up the memory without freeing it, where the GPU may use it for ever.
    pub fn leak(self) {
        let Self { ragged, bucketed, padded, queries, rows, .. } = self;
        std::mem::forget((ragged, bucketed, padded, queries, rows));
    }
}

fn copy(to: Tensor, from: Tensor) -> TorchResult<()> {
    let non_blocking = Argument::Plain(Argued::Bool(true));
    let arguments = [Argument::Plain(Argued::Tensor(to)), Argument::Plain(Argued::Tensor(from)), non_blocking];
    // SAFETY: torch 2.11's schema is (Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!).
    let copied: TorchResult<[Tensor; 1]> = unsafe { call(c"aten::copy_", arguments) };
    copied.map(drop)
}

impl<Value: Element> PinnedBuffer<Value> {
    const fn new(runtime: &'static Runtime) -> Self {
        Self { runtime, memory: None, capacity: 0, values: PhantomData }
    }

    /// The first `count` values, in the memory of the last batch if it is large enough.
    fn slice_mut(&mut self, count: usize) -> TorchResult<&mut [Value]> {
        if self.capacity < count || self.memory.is_none() {
            let capacity = count.next_power_of_two();
            self.memory = None;
            self.memory = Some(PinnedMemory::new(self.runtime, capacity * size_of::<Value>())?);
            self.capacity = capacity;
        }
        let memory = self.memory.as_ref().ok_or_else(no_memory)?;
        // SAFETY: the memory is ours alone, aligned to a page, initialized, and has at least `count` values, which are
        // plain numbers. The GPU is done with it.
        Ok(unsafe { std::slice::from_raw_parts_mut(memory.address().cast(), count) })
    }

    /// The memory as a tensor, which must not outlive the call that it is for.
    fn tensor(&self, size: &[i64]) -> TorchResult<Tensor> {
        let memory = self.memory.as_ref().ok_or_else(no_memory)?;
        // SAFETY: the memory has values of this type, as many as the callers below have asked `slice_mut` for.
        unsafe { Tensor::f_from_blob(memory.address(), size, &[], Value::KIND, Device::Cpu) }
    }

    /// Starts the copy of the first values to the device.
    fn upload(&self, size: &[i64], device: Device) -> TorchResult<Tensor> {
        self.tensor(size)?.f_to_device_(device, Value::KIND, true, true)
    }
}

fn no_memory() -> tch::TchError {
    tch::TchError::Kind("no memory to write a batch into".to_owned())
}
