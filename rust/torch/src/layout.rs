//! A batch as tensors, in two layouts.
//!
//! [`Padded`] has one row of a table for each row, filled up to the longest: what `TorchScript` modules expect, and the plain
//! version that all others are tested against. [`Ragged`] has the rows one after the other in the batch's own order, for cards
//! that can attend to rows of any lengths. Both trust that the batch was checked.

use pullquote_core::encoder::Batch;
use tch::{Device, Kind, Tensor};

use crate::failure::TorchResult;

/// A batch as a table, each row filled up to the longest.
#[derive(Debug)]
pub struct Padded {
    /// `int32 [rows, longest]`; what fills up is id 0.
    pub ids: Tensor,
    /// `bool [rows, longest]`: true for a token, false for what fills up; nothing where all rows have the same length.
    pub mask: Option<Tensor>,
}

/// Where batches are padded, one after the other.
#[derive(Debug, Default)]
pub struct Padding {
    ids: Vec<i32>,
    mask: Vec<bool>,
}

impl Padding {
    /// Pads a batch and brings it to a device, without waiting for what runs there.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn pad(&mut self, batch: &Batch, device: Device) -> TorchResult<Padded> {
        let rows = batch.lengths.len();
        let longest = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let ragged = batch.lengths.iter().any(|length| *length as usize != longest);
        let shape = [side(rows), side(longest)];
        if !ragged {
            return Ok(Padded { ids: sent(Tensor::f_from_slice(&batch.ids)?.f_view_(shape)?, device)?, mask: None });
        }
        let Self { ids, mask } = self;
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
        let ids = sent(Tensor::f_from_slice(ids)?.f_view_(shape)?, device)?;
        let mask = sent(Tensor::f_from_slice(mask)?.f_view_(shape)?, device)?;
        Ok(Padded { ids, mask: Some(mask) })
    }
}

/// A batch whose rows are not padded and stand in the batch's order, as variable-length attention takes them. Behind them may
/// come rows of no tokens, and tokens of no row.
#[derive(Debug)]
pub struct Ragged {
    /// `int32 [tokens]`; what fills up is id 0.
    pub ids: Tensor,
    /// `int32 [tokens]`: which token of its row each one is; 0 for what fills up.
    pub positions: Tensor,
    /// Which tokens are whose.
    pub rows: Rows,
}

/// Rows one behind the other.
#[derive(Debug)]
pub struct Rows {
    /// `int32 [rows + 1]`: where each row begins, and where the last one ends. On the device.
    pub cumulative_lengths: Tensor,
    /// How many tokens the longest row has.
    pub longest: i64,
    /// How many tokens all rows have: those behind belong to none.
    pub tokens: i64,
}

/// A batch that was sent to a card.
#[derive(Debug)]
pub enum Sent {
    /// As a table.
    Padded(Padded),
    /// Without padding.
    Ragged(Ragged),
}

impl Sent {
    /// Its ids, on the device.
    pub fn ids(&self) -> &Tensor {
        match self {
            Self::Padded(padded) => &padded.ids,
            Self::Ragged(ragged) => &ragged.ids,
        }
    }
}

impl Padded {
    /// The mask, all true where there is none.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn full_mask(&self) -> TorchResult<Tensor> {
        match &self.mask {
            Some(mask) => mask.f_alias(),
            None => self.ids.f_ones_like()?.f_to_kind(Kind::Bool),
        }
    }
}

/// To the device. From memory that the system could move, torch would wait for everything that runs there first.
fn sent(tensor: Tensor, device: Device) -> TorchResult<Tensor> {
    if device == Device::Cpu {
        return Ok(tensor);
    }
    let kind = tensor.f_kind()?;
    tensor.f_internal_pin_memory(device)?.f_to_device_(device, kind, true, false)
}

/// A length as torch counts.
#[must_use]
pub fn side(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
