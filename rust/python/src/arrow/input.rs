//! Tables from Python: the content of Arrow's capsules.

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::DataType;
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::unreadable;
use crate::failures::raise;

pub(super) const STREAM: &CStr = c"arrow_array_stream";
pub(super) const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A table that was not read yet.
pub(super) enum Input {
    Stream(FFI_ArrowArrayStream),
    Array(FFI_ArrowArray, FFI_ArrowSchema),
}

impl Input {
    /// Moves a table out of an object that offers Arrow's interface.
    pub(super) fn take(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(method) = table.getattr_opt("__arrow_c_stream__")? {
            let capsule = method.call0()?;
            let stream = pointer::<FFI_ArrowArrayStream>(&capsule, STREAM)?;
            // SAFETY: a capsule of this name holds a stream (the PyCapsule interface), which lives as long as the
            // capsule. This leaves an empty stream there, so it is released once.
            return Ok(Self::Stream(unsafe { FFI_ArrowArrayStream::from_raw(stream) }));
        }
        if let Some(method) = table.getattr_opt("__arrow_c_array__")? {
            let capsules = method.call0()?;
            let (schema, array) = capsules.cast::<PyTuple>().map_err(PyErr::from)?.extract::<(Bound<_>, Bound<_>)>()?;
            let (schema, array) =
                (pointer::<FFI_ArrowSchema>(&schema, SCHEMA)?, pointer::<FFI_ArrowArray>(&array, ARRAY)?);
            // SAFETY: as above, of two capsules that are held until both are taken.
            let (schema, array) = unsafe { (FFI_ArrowSchema::from_raw(schema), FFI_ArrowArray::from_raw(array)) };
            return Ok(Self::Array(array, schema));
        }
        let kind = table.get_type().name()?;
        Err(raise(
            ErrorKind::InvalidType,
            &format!(
                "table must offer Arrow's PyCapsule interface, as tables of pyarrow, polars, duckdb and daft do, not {kind}"
            ),
        ))
    }

    /// Its batches, each produced on demand; needs no Python lock.
    pub(super) fn read(self) -> Result<Box<dyn RecordBatchReader + Send>> {
        match self {
            Self::Stream(stream) => Ok(Box::new(RecordBatchStreamReader::try_new(stream).map_err(no_table)?)),
            Self::Array(array, schema) => {
                let kind = DataType::try_from(&schema).map_err(|error| unreadable(&error))?;
                if !matches!(kind, DataType::Struct(_)) {
                    return Err(no_table(kind));
                }
                // SAFETY: one object returned both, so the schema describes the array.
                let data = unsafe { from_ffi(array, &schema) }.map_err(|error| unreadable(&error))?;
                let rows = StructArray::from(data);
                if rows.null_count() > 0 {
                    let message = "a row of the table is null; rows of a table cannot be";
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                let batch = RecordBatch::from(rows);
                let schema = batch.schema();
                Ok(Box::new(RecordBatchIterator::new(std::iter::once(Ok(batch)), schema)))
            }
        }
    }
}

fn no_table(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidType, format!("table must have named columns, which Arrow calls a struct: {what}"))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}
