//! What a batch is written into on its way to a graphics card, and read from on its way back.
//!
//! Both are memory that the system does not move, so that the card copies by itself while we go on, and they are used again:
//! a batch's staging is free when its rows were collected. Shapes are few, so that torch's allocator finds the blocks of
//! earlier batches instead of asking for more. In a table, rows are as long as the longest one, up to a multiple of 8, and
//! there are as many as fill a step of [`places`]. Without padding, there are as many rows, the last of no tokens, and as many
//! tokens as fill a step of [`token_places`]. What fills up is attended to by nobody, and its rows are not copied back.
//!
//! Nothing here depends on the device: the tests run it on a CPU, where memory cannot be held in place and need not be.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, Ordering, fence};

use pullquote_core::encoder::Batch;
use tch::kind::Element;
use tch::{Device, Kind, Tensor};

use crate::failure::TorchResult;
use crate::layout::{Padded, Ragged, Rows, side};

/// Rows are a multiple of so many tokens long: what the kernels of half precision like.
const GRAIN: usize = 8;

/// Batches without padding have a multiple of so many tokens: what multiplying matrices of half precision likes.
const TOKENS_GRAIN: usize = 16;

/// Where the ids of one batch are written.
#[derive(Debug, Default)]
pub struct Staging {
    /// Ids, and behind them lengths, or positions and cumulative lengths.
    host: Room<i32>,
    queries: Room<f32>,
}

/// Memory on the host that is used again: at least as many values as the last batch needed.
#[derive(Debug, Default)]
struct Room<Value> {
    memory: Option<Tensor>,
    values: PhantomData<Value>,
    places: usize,
}

/// Rows on their way to the host.
#[derive(Debug)]
pub struct Returning {
    /// On the host, float32 `[rows, dimension]`; of no meaning until [`Self::is_here`].
    rows: Tensor,
    /// On the host, int64 `[1]`: becomes `mark` behind the rows.
    flag: Tensor,
    mark: i64,
    /// On the device.
    flag_there: Tensor,
}

/// How many rows a table has for so many of a batch: at most a quarter more, and only so many numbers that torch's allocator
/// knows them all soon.
#[must_use]
pub fn places(rows: usize) -> usize {
    let step = (rows.next_power_of_two() / 8).max(1);
    rows.next_multiple_of(step)
}

/// How many tokens a batch without padding has for so many of its rows: at most a sixteenth more, or 15, and only so many
/// numbers that torch's allocator knows them all soon.
#[must_use]
pub fn token_places(tokens: usize) -> usize {
    let step = (tokens.next_power_of_two() / 32).max(TOKENS_GRAIN);
    tokens.next_multiple_of(step)
}

impl Staging {
    /// Writes a batch down as a table and sends it to the device, which is not waited for. Rows are at most `longest` long.
    /// What was sent before must have arrived.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn send(&mut self, batch: &Batch, device: Device, longest: usize) -> TorchResult<Padded> {
        let rows = places(batch.lengths.len());
        let most = batch.lengths.iter().copied().max().unwrap_or(0) as usize;
        let width = most.next_multiple_of(GRAIN).min(longest.max(most));
        let (places, all) = (rows * width, rows * width + rows);
        let (ids, lengths) = self.host.writable(all, device)?.split_at_mut(places);
        let mut start = 0;
        for (row, written) in lengths.iter_mut().enumerate() {
            // A row that fills up has one token, so that it attends to something.
            let length = batch.lengths.get(row).map_or(1, |length| *length as usize);
            let own = &mut ids[row * width..(row + 1) * width];
            own.fill(0);
            if row < batch.lengths.len() {
                own[..length].copy_from_slice(&batch.ids[start..start + length]);
                start += length;
            }
            *written = i32::try_from(length).unwrap_or(i32::MAX);
        }
        let is_ragged = lengths.iter().any(|length| usize::try_from(*length) != Ok(width));
        let there = self.host.send(all, device)?;
        let ids = there.f_narrow(0, 0, side(places))?.f_view_([side(rows), side(width)])?;
        let mask = if is_ragged {
            let lengths = there.f_narrow(0, side(places), side(rows))?.f_view_([side(rows), 1])?;
            Some(Tensor::f_arange(side(width), (Kind::Int, device))?.f_view_([1, side(width)])?.f_lt_tensor(&lengths)?)
        } else {
            None
        };
        Ok(Padded { ids, mask })
    }

    /// Writes a batch down without padding and sends it to the device, as [`Self::send`] does.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn send_ragged(&mut self, batch: &Batch, device: Device) -> TorchResult<Ragged> {
        let (rows, filled) = (places(batch.lengths.len()), batch.ids.len());
        let tokens = token_places(filled);
        let all = 2 * tokens + rows + 1;
        let (ids, behind) = self.host.writable(all, device)?.split_at_mut(tokens);
        let (positions, cumulative_lengths) = behind.split_at_mut(tokens);
        ids[..filled].copy_from_slice(&batch.ids);
        ids[filled..].fill(0);
        positions[filled..].fill(0);
        let mut start = 0;
        for (row, written) in cumulative_lengths.iter_mut().enumerate() {
            *written = i32::try_from(start).unwrap_or(i32::MAX);
            // A row that fills up has no tokens: attention has nothing to do there.
            let length = batch.lengths.get(row).map_or(0, |length| *length as usize);
            for (position, written) in (0..).zip(&mut positions[start..start + length]) {
                *written = position;
            }
            start += length;
        }
        let there = self.host.send(all, device)?;
        Ok(Ragged {
            ids: there.f_narrow(0, 0, side(tokens))?,
            positions: there.f_narrow(0, side(tokens), side(tokens))?,
            rows: Rows {
                cumulative_lengths: there.f_narrow(0, side(2 * tokens), side(rows + 1))?,
                longest: batch.lengths.iter().copied().max().unwrap_or(0).into(),
                tokens: side(filled),
            },
        })
    }

    /// Sends vectors `[queries, dimension]` to compare rows with, in the same way; none where there are none.
    ///
    /// # Errors
    /// Where torch has no memory.
    pub fn send_queries(&mut self, queries: &[f32], dimension: usize, device: Device) -> TorchResult<Option<Tensor>> {
        if queries.is_empty() {
            return Ok(None);
        }
        self.queries.writable(queries.len(), device)?.copy_from_slice(queries);
        let there = self.queries.send(queries.len(), device)?;
        Ok(Some(there.f_view_([side(queries.len() / dimension), side(dimension)])?))
    }
}

impl<Value: Element> Room<Value> {
    /// So many values to write: where they were written before, if that suffices.
    fn writable(&mut self, places: usize, device: Device) -> TorchResult<&mut [Value]> {
        if self.places < places || self.memory.is_none() {
            let size = places.next_power_of_two();
            let host = Tensor::f_zeros([side(size)], (Value::KIND, Device::Cpu))?;
            let host = if device == Device::Cpu { host } else { host.f_internal_pin_memory(device)? };
            (self.memory, self.places) = (Some(host), size);
        }
        let host = self.memory.as_mut().ok_or_else(no_memory)?;
        // SAFETY: the tensor is ours alone, dense, on the host, of this type, and has at least so many values; nothing reads or
        // writes it but the device, for copies that have arrived.
        Ok(unsafe { std::slice::from_raw_parts_mut(torch_sys::at_data_ptr(host.as_mut_ptr()).cast(), places) })
    }

    /// The first so many of the values, on the device, which is not waited for.
    fn send(&self, places: usize, device: Device) -> TorchResult<Tensor> {
        let host = self.memory.as_ref().ok_or_else(no_memory)?;
        host.f_narrow(0, 0, side(places))?.f_to_device_(device, Value::KIND, true, true)
    }
}

fn no_memory() -> tch::TchError {
    tch::TchError::Kind("no memory to write a batch into".to_owned())
}

impl Returning {
    /// Has rows `[rows, dimension]` copied to the host as soon as they are computed; returns at once.
    ///
    /// # Errors
    /// Where torch has no memory, or a kernel failed.
    pub fn send(rows: &Tensor) -> TorchResult<Self> {
        // What the host's memory held before could be any small number, or an older mark.
        static MARKS: AtomicI64 = AtomicI64::new(0x7075_6c6c_0000_0000);
        let mark = MARKS.fetch_add(1, Ordering::Relaxed);
        // torch takes memory that stays in place for copies to the host that it shall not wait for, and keeps it for later.
        let home = |tensor: &Tensor, kind| tensor.f_to_device_(Device::Cpu, kind, true, true);
        let flag_there = Tensor::f_full([1], mark, (Kind::Int64, rows.device()))?;
        let rows = home(rows, Kind::Float)?;
        // In the same stream, so that it arrives behind the rows.
        let flag = home(&flag_there, Kind::Int64)?;
        Ok(Self { rows, flag, mark, flag_there })
    }

    /// Whether the rows have arrived.
    #[must_use]
    pub fn is_here(&self) -> bool {
        // SAFETY: the tensor is on the host, int64, and has one value; the device writes it whole.
        let value = unsafe { torch_sys::at_data_ptr(self.flag.as_ptr().cast_mut()).cast::<i64>().read_volatile() };
        // What was written before the mark is seen behind it.
        fence(Ordering::Acquire);
        value == self.mark
    }

    /// What waits until everything that was sent to the device is done; after that rows are here, or it says why they never
    /// will be. For another thread, since a device may never be done.
    pub fn question(&self) -> impl FnOnce() -> TorchResult<()> + Send + 'static {
        let there = self.flag_there.f_alias();
        move || there?.f_to_device_(Device::Cpu, Kind::Int64, false, true).map(drop)
    }

    /// Rows that never come.
    #[cfg(test)]
    pub(crate) fn lost() -> Self {
        let value = |value: i64| Tensor::from_slice(&[value]);
        Self { rows: Tensor::from_slice(&[0.0_f32]), flag: value(1), mark: 2, flag_there: value(2) }
    }

    /// The rows, once they are here: their values one behind the other.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        let count: i64 = self.rows.size().iter().product();
        // SAFETY: the tensor is on the host, dense, float32, has so many values, and nobody writes to it any more.
        unsafe {
            let values = torch_sys::at_data_ptr(self.rows.as_ptr().cast_mut()).cast::<f32>();
            std::slice::from_raw_parts(values, usize::try_from(count).unwrap_or(0))
        }
    }
}
