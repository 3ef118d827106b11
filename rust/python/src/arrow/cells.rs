//! The texts of a column, without copies, in each of Arrow's string layouts.
//!
//! Arrow's C interface promises UTF-8, growing offsets, and views within their buffers, but nothing verifies that. So
//! this reads bytes, checks each range, and leaves UTF-8 to the caller.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, GenericStringArray, OffsetSizeTrait, StringViewArray};
use arrow_schema::DataType;
use pullquote_core::error::{Error, ErrorKind, Result};

/// Bytes of a cell: `None` if it is null, `Some(None)` if its range is outside the column's buffers.
pub(super) type Cell<'column> = Option<Option<&'column [u8]>>;

pub(super) fn holds_texts(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => true,
        DataType::Dictionary(_, values) => holds_texts(values),
        _ => false,
    }
}

pub(super) fn cells(column: &dyn Array) -> Result<Vec<Cell<'_>>> {
    match column.data_type() {
        DataType::Utf8 => Ok(by_offsets(column.as_string::<i32>())),
        DataType::LargeUtf8 => Ok(by_offsets(column.as_string::<i64>())),
        DataType::Utf8View => Ok(by_views(column.as_string_view())),
        DataType::Null => Ok(vec![None; column.len()]),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(vec![None; column.len()]);
            }
            let (values, nulls) = (cells(dictionary.values().as_ref())?, column.nulls());
            let is_there = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
            let keys = dictionary.normalized_keys().into_iter().enumerate();
            Ok(keys.map(|(row, key)| if is_there(row) { values[key] } else { None }).collect())
        }
        other => {
            Err(Error::new(ErrorKind::Internal, format!("a column of {other} was taken for one of texts; report this")))
        }
    }
}

/// Approximate bytes of a column's texts.
pub(super) fn bytes(column: &dyn Array) -> usize {
    let of_dictionary = |values: &Arc<dyn Array>| bytes(values.as_ref()) / values.len().max(1) * column.len();
    match column.data_type() {
        DataType::Utf8 => spanned(column.as_string::<i32>()),
        DataType::LargeUtf8 => spanned(column.as_string::<i64>()),
        DataType::Utf8View => column.as_string_view().views().iter().map(|view| length(*view)).sum(),
        DataType::Dictionary(..) => of_dictionary(column.as_any_dictionary().values()),
        _ => 0,
    }
}

fn spanned<Offset: OffsetSizeTrait>(column: &GenericStringArray<Offset>) -> usize {
    let offsets = column.value_offsets();
    offsets[offsets.len() - 1].as_usize().saturating_sub(offsets[0].as_usize())
}

fn by_offsets<Offset: OffsetSizeTrait>(column: &GenericStringArray<Offset>) -> Vec<Cell<'_>> {
    let (offsets, values) = (column.value_offsets(), column.value_data());
    let cell = |row: usize| {
        if column.is_null(row) {
            return None;
        }
        let (start, end) = (offsets[row].to_usize(), offsets[row + 1].to_usize());
        Some(start.zip(end).and_then(|(start, end)| values.get(start..end)))
    };
    (0..column.len()).map(cell).collect()
}

/// A view is four 32-bit words: the length, then up to 12 bytes of text; or the length, a prefix, a buffer's index, and
/// an offset.
const INLINE: usize = 12;

fn by_views(column: &StringViewArray) -> Vec<Cell<'_>> {
    let (views, buffers) = (column.views(), column.data_buffers());
    let cell = |row: usize| {
        if column.is_null(row) {
            return None;
        }
        let view = &views[row];
        let length = length(*view);
        if length <= INLINE {
            return Some(bytemuck::bytes_of(view).get(4..4 + length));
        }
        let (buffer, start) = (word(*view, 2), word(*view, 3));
        Some(buffers.get(buffer).and_then(|buffer| buffer.as_slice().get(start..start + length)))
    };
    (0..column.len()).map(cell).collect()
}

fn length(view: u128) -> usize {
    word(view, 0)
}

fn word(view: u128, index: u32) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "takes the lowest 32 bits")]
    let word = (view >> (32 * index)) as u32;
    word as usize
}
