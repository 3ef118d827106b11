//! A batch as tensors, in two layouts.
//!
//! [`Packed`] has the ids of all rows one behind the other and no padding: what the CPU computes on, where each token
//! costs. [`Padded`] has one row of a table for each row, filled up to the longest: what graphics cards like, what
//! `TorchScript` modules expect, and the plain version that the packed one is tested against.
//! Both trust that the batch was checked.

use pullquote_core::encoder::Batch;
use tch::{Device, Kind, Tensor};

use crate::failure::TorchResult;

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

/// A batch without padding. Rows stand in the order of their lengths, so that there are few groups.
#[derive(Debug)]
pub struct Packed {
    /// `int32 [tokens]`.
    pub ids: Tensor,
    /// `int32 [tokens]`: which token of its row each one is.
    pub positions: Tensor,
    /// The rows, by length.
    pub groups: Vec<Group>,
    /// Where each row of the batch went; nothing where all stayed in place. `int64 [rows]`.
    pub moved: Option<Tensor>,
}

impl Packed {
    /// Packs a batch, on the CPU.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn new(batch: &Batch) -> TorchResult<Self> {
        let mut starts = Vec::with_capacity(batch.lengths.len());
        let mut start = 0;
        for length in &batch.lengths {
            starts.push(start);
            start += *length as usize;
        }
        let mut order: Vec<usize> = (0..batch.lengths.len()).collect();
        order.sort_by_key(|row| batch.lengths[*row]);
        let mut ids = Vec::with_capacity(batch.ids.len());
        let mut positions: Vec<i32> = Vec::with_capacity(batch.ids.len());
        let mut groups: Vec<Group> = Vec::new();
        let mut places = vec![0_i64; order.len()];
        for (place, row) in (0_i64..).zip(&order) {
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
        let moved = if places.is_sorted() { None } else { Some(Tensor::f_from_slice(&places)?) };
        Ok(Self { ids: Tensor::f_from_slice(&ids)?, positions: Tensor::f_from_slice(&positions)?, groups, moved })
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

impl Padded {
    /// Pads a batch and brings it to a device, without waiting for what runs there.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn new(batch: &Batch, device: Device) -> TorchResult<Self> {
        let rows = batch.lengths.len();
        let longest = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let ragged = batch.lengths.iter().any(|length| *length as usize != longest);
        let shape = [i64::try_from(rows).unwrap_or(i64::MAX), i64::try_from(longest).unwrap_or(i64::MAX)];
        if !ragged {
            return Ok(Self { ids: sent(Tensor::f_from_slice(&batch.ids)?.f_view(shape)?, device)?, mask: None });
        }
        let mut ids = vec![0_i32; rows * longest];
        let mut mask = vec![false; rows * longest];
        let mut start = 0;
        for (row, length) in batch.lengths.iter().map(|length| *length as usize).enumerate() {
            ids[row * longest..][..length].copy_from_slice(&batch.ids[start..][..length]);
            mask[row * longest..][..length].fill(true);
            start += length;
        }
        let ids = sent(Tensor::f_from_slice(&ids)?.f_view(shape)?, device)?;
        let mask = sent(Tensor::f_from_slice(&mask)?.f_view(shape)?, device)?;
        Ok(Self { ids, mask: Some(mask) })
    }

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
