//! The host memory that a batch is written to on its way to a GPU.
//!
//! It is pinned, so that the GPU copies it by itself, and it is used again: a batch's staging is free when its rows were collected.
//! Shapes come in few sizes, so torch's allocator finds the blocks of earlier batches. In the padded layout, rows are as long as the
//! longest one, up to a multiple of 8, and their number is a [`row_bucket`]. In the ragged layout, the number of rows is the same,
//! the added ones are empty, and the number of tokens is a [`token_bucket`]. No row attends to padding, and padding rows are not
//! copied back.
//!
//! Nothing here depends on the device: the tests run it on a CPU, where memory need not be pinned.

use std::marker::PhantomData;

use pullquote_core::encoder::Batch;
use tch::kind::Element;
use tch::{Device, Kind, Tensor};

use crate::error::TorchResult;
use crate::model::layout::{Padded, Ragged, RowOffsets, dim};

/// Tokens of a padded row: kernels of half precision want multiples of 8.
const ROW_LENGTH_MULTIPLE: usize = 8;

/// Tokens of a ragged batch: matrix products of half precision want multiples of 16.
const TOKEN_COUNT_MULTIPLE: usize = 16;

/// The pinned memory of one batch.
#[derive(Debug, Default)]
pub struct Staging {
    /// Ids, then lengths, or positions and cumulative lengths.
    ids: PinnedBuffer<i32>,
    queries: PinnedBuffer<f32>,
}

/// Host memory that grows to the largest batch.
#[derive(Debug, Default)]
struct PinnedBuffer<Value> {
    memory: Option<Tensor>,
    values: PhantomData<Value>,
    capacity: usize,
}

/// The number of rows that a batch of `rows` is padded to: at most a quarter more, and one of few sizes.
#[must_use]
pub fn row_bucket(rows: usize) -> usize {
    let step = (rows.next_power_of_two() / 8).max(1);
    rows.next_multiple_of(step)
}

/// The number of tokens that a ragged batch of `tokens` is padded to: at most a sixteenth or 15 more, and one of few sizes.
#[must_use]
pub fn token_bucket(tokens: usize) -> usize {
    let step = (tokens.next_power_of_two() / 32).max(TOKEN_COUNT_MULTIPLE);
    tokens.next_multiple_of(step)
}

impl Staging {
    /// Writes a batch in the padded layout and starts its copy to the device. Rows have at most `max_tokens`. The previous copy
    /// must be complete.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn upload_padded(&mut self, batch: &Batch, device: Device, max_tokens: usize) -> TorchResult<Padded> {
        let rows = row_bucket(batch.lengths.len());
        let longest = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let width = longest.next_multiple_of(ROW_LENGTH_MULTIPLE).min(max_tokens.max(longest));
        let (id_count, total) = (rows * width, rows * width + rows);
        let (ids, lengths) = self.ids.slice_mut(total, device)?.split_at_mut(id_count);
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
        let uploaded = self.ids.upload(total, device)?;
        let ids = uploaded.f_narrow(0, 0, dim(id_count))?.f_view_([dim(rows), dim(width)])?;
        let mask = if has_padding {
            let lengths = uploaded.f_narrow(0, dim(id_count), dim(rows))?.f_view_([dim(rows), 1])?;
            let positions = Tensor::f_arange(dim(width), (Kind::Int, device))?.f_view_([1, dim(width)])?;
            Some(positions.f_lt_tensor(&lengths)?)
        } else {
            None
        };
        Ok(Padded { ids, mask })
    }

    /// Writes a batch in the ragged layout and starts its copy to the device, as [`Self::upload_padded`] does.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn upload_ragged(&mut self, batch: &Batch, device: Device) -> TorchResult<Ragged> {
        let (rows, filled) = (row_bucket(batch.lengths.len()), batch.ids.len());
        let tokens = token_bucket(filled);
        let total = 2 * tokens + rows + 1;
        let (ids, rest) = self.ids.slice_mut(total, device)?.split_at_mut(tokens);
        let (positions, cumulative_lengths) = rest.split_at_mut(tokens);
        ids[..filled].copy_from_slice(&batch.ids);
        ids[filled..].fill(0);
        positions[filled..].fill(0);
        let mut start = 0;
        for (row, written) in cumulative_lengths.iter_mut().enumerate() {
            *written = i32::try_from(start).unwrap_or(i32::MAX);
            // A padding row is empty: attention has nothing to do there.
            let length = batch.lengths.get(row).map_or(0, |length| *length as usize);
            for (position, written) in (0..).zip(&mut positions[start..start + length]) {
                *written = position;
            }
            start += length;
        }
        let uploaded = self.ids.upload(total, device)?;
        Ok(Ragged {
            ids: uploaded.f_narrow(0, 0, dim(tokens))?,
            positions: uploaded.f_narrow(0, dim(tokens), dim(tokens))?,
            rows: RowOffsets {
                cumulative_lengths: uploaded.f_narrow(0, dim(2 * tokens), dim(rows + 1))?,
                longest: batch.lengths.iter().copied().max().unwrap_or(0).into(),
                tokens: dim(filled),
            },
        })
    }

    /// Starts the copy of a batch's queries, `[queries, dimension]`, to the device; `None` where there are none.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn upload_queries(&mut self, queries: &[f32], dimension: usize, device: Device) -> TorchResult<Option<Tensor>> {
        if queries.is_empty() {
            return Ok(None);
        }
        self.queries.slice_mut(queries.len(), device)?.copy_from_slice(queries);
        let uploaded = self.queries.upload(queries.len(), device)?;
        Ok(Some(uploaded.f_view_([dim(queries.len() / dimension), dim(dimension)])?))
    }
}

impl<Value: Element> PinnedBuffer<Value> {
    /// The first `count` values, in the memory of the last batch if it is large enough.
    fn slice_mut(&mut self, count: usize, device: Device) -> TorchResult<&mut [Value]> {
        if self.capacity < count || self.memory.is_none() {
            let capacity = count.next_power_of_two();
            let host = Tensor::f_zeros([dim(capacity)], (Value::KIND, Device::Cpu))?;
            let host = if device == Device::Cpu { host } else { host.f_internal_pin_memory(device)? };
            (self.memory, self.capacity) = (Some(host), capacity);
        }
        let host = self.memory.as_mut().ok_or_else(no_memory)?;
        // SAFETY: the tensor is ours alone, dense, on the host, of this type, and has at least `count` values. Nothing reads or
        // writes it except the device's copies, which are complete.
        Ok(unsafe { std::slice::from_raw_parts_mut(torch_sys::at_data_ptr(host.as_mut_ptr()).cast(), count) })
    }

    /// Starts the copy of the first `count` values to the device.
    fn upload(&self, count: usize, device: Device) -> TorchResult<Tensor> {
        let host = self.memory.as_ref().ok_or_else(no_memory)?;
        host.f_narrow(0, 0, dim(count))?.f_to_device_(device, Value::KIND, true, true)
    }
}

fn no_memory() -> tch::TchError {
    tch::TchError::Kind("no memory to write a batch into".to_owned())
}
