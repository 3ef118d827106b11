//! A batch as tensors, in two layouts.
//!
//! [`Padded`] is a matrix with a row for each row of the batch, padded to the longest: `TorchScript` modules expect it,
//! and it is the reference. [`Ragged`] has the rows one after the other in the batch's own order, for GPUs with
//! variable-length attention. Both trust that the batch was checked.

use pullquote_core::encoder::Batch;
use tch::{Device, Kind, Tensor};

use crate::error::TorchResult;

/// A batch as a matrix, each row padded to the longest.
#[derive(Debug)]
pub struct Padded {
    /// `int32 [rows, longest]`; padding is id 0.
    pub ids: Tensor,
    /// `bool [rows, longest]`: false for padding. `None` where all rows have the same length.
    pub mask: Option<Tensor>,
    /// `int32 [rows, longest]`: the types of tokens, 0 and 1, of pairs of texts.
    pub types: Option<Tensor>,
}

/// Memory in which batches are padded, one after the other.
#[derive(Debug, Default)]
pub struct PaddingBuffer {
    ids: Vec<i32>,
    mask: Vec<bool>,
    types: Vec<i32>,
}

impl PaddingBuffer {
    /// Pads a batch and copies it to a device.
    pub fn pad(&mut self, batch: &Batch, device: Device) -> TorchResult<Padded> {
        let rows = batch.lengths.len();
        let longest = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let shape = [dim(rows), dim(longest)];
        let Self { ids, mask, types } = self;
        let types = if batch.seconds.is_empty() {
            None
        } else {
            types.resize(rows * longest, 0);
            write_types(batch, Some(longest), types);
            Some(Tensor::f_from_slice(types)?.f_view_(shape)?.f_to_device(device)?)
        };
        if batch.lengths.iter().all(|length| *length as usize == longest) {
            let ids = Tensor::f_from_slice(&batch.ids)?.f_view_(shape)?.f_to_device(device)?;
            return Ok(Padded { ids, mask: None, types });
        }
        ids.clear();
        ids.resize(rows * longest, 0);
        mask.clear();
        mask.resize(rows * longest, false);
        let mut start = 0;
        for (row, length) in batch.lengths.iter().map(|length| *length as usize).enumerate() {
            ids[row * longest..][..length].copy_from_slice(&batch.ids[start..][..length]);
            mask[row * longest..][..length].fill(true);
            start += length;
        }
        // torch copies both, so that they can be written again while it computes.
        let ids = Tensor::f_from_slice(ids)?.f_view_(shape)?.f_to_device(device)?;
        let mask = Tensor::f_from_slice(mask)?.f_view_(shape)?.f_to_device(device)?;
        Ok(Padded { ids, mask: Some(mask), types })
    }
}

/// A batch in the batch's order, for variable-length attention. Rows of padding tokens may follow, and empty rows.
#[derive(Debug)]
pub struct Ragged {
    /// `int32 [tokens]`; padding is id 0.
    pub ids: Tensor,
    /// `int32 [tokens]`: the position of each token in its row.
    pub positions: Tensor,
    /// `int32 [tokens]`: the types of tokens, 0 and 1, of pairs of texts.
    pub types: Option<Tensor>,
    pub rows: RowOffsets,
}

/// Where rows begin that stand one after the other.
#[derive(Debug)]
pub struct RowOffsets {
    /// `int32 [rows + 1]` on the device: the start of each row, and the end of the last one.
    pub cumulative_lengths: Tensor,
    pub longest: i64,
    pub tokens: i64,
}

#[derive(Debug)]
pub enum DeviceBatch {
    Padded(Padded),
    Ragged(Ragged),
}

impl DeviceBatch {
    pub(crate) fn ids(&self) -> &Tensor {
        match self {
            Self::Padded(padded) => &padded.ids,
            Self::Ragged(ragged) => &ragged.ids,
        }
    }

    pub(super) fn types(&self) -> Option<&Tensor> {
        match self {
            Self::Padded(padded) => padded.types.as_ref(),
            Self::Ragged(ragged) => ragged.types.as_ref(),
        }
    }
}

impl Padded {
    pub(super) fn with_mask(&self) -> TorchResult<Self> {
        let types = self.types.as_ref().map(Tensor::f_alias).transpose()?;
        Ok(Self { ids: self.ids.f_alias()?, mask: Some(self.full_mask()?), types })
    }

    /// The mask, all true where there is none.
    pub(super) fn full_mask(&self) -> TorchResult<Tensor> {
        match &self.mask {
            Some(mask) => mask.f_alias(),
            None => self.ids.f_ones_like()?.f_to_kind(Kind::Bool),
        }
    }
}

/// Writes the types of a batch's tokens: 1 from where a row's second text begins. Rows are `width` apart, or without one
/// stand one after the other.
pub(crate) fn write_types(batch: &Batch, width: Option<usize>, types: &mut [i32]) {
    types.fill(0);
    let mut start = 0;
    for (length, second) in batch.lengths.iter().zip(&batch.seconds) {
        let (length, second) = (*length as usize, *second as usize);
        types[start + second..start + length].fill(1);
        start += width.unwrap_or(length);
    }
}

/// The length of a dimension in torch's type.
pub(crate) fn dim(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
