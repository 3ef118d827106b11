//! A batch as tensors, in three layouts.
//!
//! [`Packed`] has the ids of all rows one behind the other and no padding: what the CPU computes on, where each token
//! costs. [`Padded`] has one row of a table for each row, filled up to the longest: what `TorchScript` modules expect, and the
//! plain version that the others are tested against. Graphics cards compute on it too, or, where they can, on [`Ragged`],
//! which has the rows one behind the other in the batch's own order. All trust that the batch was checked.

use pullquote_core::encoder::Batch;
use tch::{Device, Kind, Tensor};

use crate::failure::TorchResult;

/// Packed batches have a multiple of so many tokens. oneDNN compiles kernels for each number of tokens, a linear layer's
/// take about half a megabyte, and torch keeps the last 1024 for each thread: batches of any number of tokens took 1.3 GB
/// of a model of one layer and, after a thousand requests, were still compiled for.
const GRAIN: usize = 16;

/// Rows of one length, standing together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Where its first token stands.
    pub start: i64,
    /// How many rows there are.
    pub rows: i64,
    /// How many tokens each has.
    pub length: i64,
}

impl Group {
    /// How many tokens the group has.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        self.rows * self.length
    }
}

/// A batch whose rows are not padded. They stand in the order of their lengths, so that there are few groups. Behind them come
/// tokens of no group, up to a multiple of [`GRAIN`], whose vectors nobody looks at.
#[derive(Debug)]
pub struct Packed<'packing> {
    /// `int32 [tokens]`.
    pub ids: Tensor,
    /// `int32 [tokens]`: which token of its row each one is.
    pub positions: Tensor,
    /// The rows, by length.
    pub groups: &'packing [Group],
    /// Where each row of the batch went; nothing where all stayed in place. `int64 [rows]`.
    pub moved: Option<Tensor>,
}

/// Where batches are packed, one after the other.
#[derive(Debug, Default)]
pub struct Packing {
    /// Where each row of the batch begins.
    starts: Vec<usize>,
    /// The rows by length.
    order: Vec<usize>,
    places: Vec<i64>,
    ids: Vec<i32>,
    positions: Vec<i32>,
    groups: Vec<Group>,
}

impl Packing {
    /// Packs a batch, on the CPU.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn pack(&mut self, batch: &Batch) -> TorchResult<Packed<'_>> {
        let Self { starts, order, places, ids, positions, groups } = self;
        starts.clear();
        let mut start = 0;
        for length in &batch.lengths {
            starts.push(start);
            start += *length as usize;
        }
        order.clear();
        order.extend(0..batch.lengths.len());
        // Unstable sorting needs no memory, and with the row's number in the key it keeps the order too.
        order.sort_unstable_by_key(|row| (batch.lengths[*row], *row));
        ids.clear();
        positions.clear();
        groups.clear();
        places.clear();
        places.resize(order.len(), 0);
        for (place, row) in (0_i64..).zip(order) {
            let length = i64::from(batch.lengths[*row]);
            match groups.last_mut() {
                Some(group) if group.length == length => group.rows += 1,
                last => {
                    let start = last.map_or(0, |group| group.start + group.tokens());
                    groups.push(Group { start, rows: 1, length });
                }
            }
            ids.extend_from_slice(&batch.ids[starts[*row]..][..batch.lengths[*row] as usize]);
            positions.extend((0_i32..).zip(0..length).map(|(position, _)| position));
            places[*row] = place;
        }
        let filled = ids.len().next_multiple_of(GRAIN);
        ids.resize(filled, 0);
        positions.resize(filled, 0);
        let moved = if places.is_sorted() { None } else { Some(Tensor::f_from_slice(places)?) };
        Ok(Packed { ids: Tensor::f_from_slice(ids)?, positions: Tensor::f_from_slice(positions)?, groups, moved })
    }
}

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
        let shape = [i64::try_from(rows).unwrap_or(i64::MAX), i64::try_from(longest).unwrap_or(i64::MAX)];
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
