//! Tables in Arrow's format: rows come in by its C interface, are read where they lie, and go out as a table.
//!
//! No Python object is made for a row and none is looked at, so Python's lock is not needed between the first row and the
//! last. The interface is [Arrow's PyCapsule one](https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).

mod cells;
mod columns;
mod input;
mod output;

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Engine, Pair, Question, Work};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::failures::Failure;
use crate::highlighter::work_dict;
use crate::leave::leave_python;
use crate::options::read_options;
pub(crate) use columns::Names;
use columns::{Places, read_rows};
use output::{Fields, Writer};

/// Rows that are answered before the next are read: what a stream holds behind them is not asked for yet.
const WINDOW_ROWS: usize = 8192;

/// The same in bytes of their texts.
const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// A table of answers, kept as batches.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    errors: usize,
    work: Work,
}

#[pymethods]
impl Table {
    /// Who asks for another schema is given this one and casts, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, input::STREAM)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(|error| Failure(internal(&error)))?;
        PyCapsule::new_with_value(py, schema, input::SCHEMA)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// How many rows have an error.
    #[getter]
    const fn errors(&self) -> usize {
        self.errors
    }

    /// What all of it took, in all.
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        work_dict(py, &self.work)
    }
}

/// The answers to the rows of a table.
pub(crate) fn highlights(
    py: Python<'_>,
    engine: &Engine,
    table: &Bound<'_, PyAny>,
    names: Names,
    options: &Bound<'_, PyDict>,
) -> PyResult<Table> {
    let options: Options = read_options(options, &[])?;
    let asked = TableCall {
        question: options.question().map_err(Failure)?,
        format: options.format,
        fields: Fields {
            context: options.context > 0,
            matches: options.explain,
            source: options.format != Format::Text,
        },
        names,
    };
    let input = input::Input::take(table)?;
    leave_python(py, options.timeout, |call| asked.answer(engine, input, &call.clone().with_priority(options.priority)))
}

struct TableCall {
    names: Names,
    question: Question,
    format: Format,
    fields: Fields,
}

impl TableCall {
    fn answer(&self, engine: &Engine, input: input::Input, call: &Call) -> Result<Table> {
        let mut reader = input.read()?;
        let places = Places::find(&reader.schema(), &self.names)?;
        let mut writer = Writer::new(places.id_field(&reader.schema()), self.fields, self.names.questions.len());
        let most = (WINDOW_ROWS / self.names.questions.len().max(1)).max(1);
        let mut window = Window::default();
        for batch in &mut reader {
            let batch = batch.map_err(|error| unreadable(&error))?;
            let mut start = 0;
            while start < batch.num_rows() {
                let rows = most.min(batch.num_rows() - start);
                window.push(batch.slice(start, rows), &places);
                start += rows;
                if window.rows >= most || window.bytes >= WINDOW_BYTES {
                    self.answer_window(engine, &std::mem::take(&mut window), &places, &mut writer, call)?;
                }
            }
        }
        self.answer_window(engine, &window, &places, &mut writer, call)?;
        let (schema, batches, errors, work) = writer.finish();
        Ok(Table { schema, batches, errors, work })
    }

    fn answer_window(
        &self,
        engine: &Engine,
        window: &Window,
        places: &Places,
        writer: &mut Writer,
        call: &Call,
    ) -> Result<()> {
        let rows = read_rows(&window.batches, places, &self.names)?;
        let pairs: Vec<Pair> = rows.iter().filter_map(|row| row.pair.as_ref().ok().copied()).collect();
        let mut writing = writer.over(&window.batches, &rows, places);
        engine.answer_pairs(&pairs, self.format, &self.question, call, &mut |range, answers| match answers {
            Ok(answers) => {
                range.enumerate().try_for_each(|(place, pair)| writing.answer(&answers, place, pairs[pair].page))?;
                writing.add_work(answers.work);
                Ok(())
            }
            Err(error) => writing.wrong(&error),
        })?;
        writing.end()
    }
}

/// Batches that are answered together.
#[derive(Default)]
struct Window {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Window {
    fn push(&mut self, batch: RecordBatch, places: &Places) {
        self.rows += batch.num_rows();
        self.bytes += cells::bytes(batch.column(places.text).as_ref());
        self.batches.push(batch);
    }
}

/// A table whose producer says that it cannot go on.
fn unreadable(error: &ArrowError) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("table cannot be read: {error}"))
}

fn internal(error: &ArrowError) -> Error {
    Error::new(ErrorKind::Internal, format!("a table of answers does not fit Arrow: {error}"))
}
