//! Tables in Arrow's format: rows in, read without copies through its C interface, and a table of answers out.
//!
//! No row is a Python object, so the rows are processed without Python's lock. The interface is
//! [Arrow's PyCapsule one](https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html).

mod cells;
mod columns;
mod highlights;
mod input;
mod output;

use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{self, Engine, Pair, Question, Rows};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::failures::Failure;
use crate::interruptible::leave_python;
use crate::options::read_options;
use crate::results::Work;
pub(crate) use columns::ColumnNames;
use columns::{ColumnIndices, read_rows};
pub(crate) use highlights::HighlightsWriter;
use output::Writer;

/// Rows in progress at a time. The next rows of a stream are read after these are answered.
const GROUP_ROWS: usize = 8192;

/// The same in bytes of text.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// A table of answers.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    errors: usize,
    work: Work,
}

#[pymethods]
impl Table {
    /// Always in its own schema: the interface leaves a cast to the consumer.
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

    #[getter]
    const fn errors(&self) -> usize {
        self.errors
    }

    #[getter]
    fn work(&self) -> Work {
        self.work.clone()
    }
}

impl Table {
    /// A row for each highlight.
    pub(crate) fn of_highlights(columns: HighlightsWriter) -> Result<Self> {
        let batch = RecordBatch::from(columns.finish()?);
        Ok(Self { schema: batch.schema(), batches: vec![batch], errors: 0, work: engine::Work::default().into() })
    }
}

/// The answers to the rows of a table.
pub(crate) fn highlights(
    py: Python<'_>,
    engine: &Engine,
    table: &Bound<'_, PyAny>,
    names: ColumnNames,
    options: &Bound<'_, PyDict>,
) -> PyResult<Table> {
    let options: Options = read_options(options, &[])?;
    let table_call = TableCall { question: Question::new(&options).map_err(Failure)?, format: options.format, names };
    let input = input::Input::take(table)?;
    leave_python(py, options.timeout, |call| {
        table_call.run(engine, input, &call.clone().with_priority(options.priority))
    })
}

struct TableCall {
    names: ColumnNames,
    question: Question,
    format: Format,
}

impl TableCall {
    fn run(&self, engine: &Engine, input: input::Input, call: &Call) -> Result<Table> {
        let mut reader = input.read()?;
        let indices = ColumnIndices::find(&reader.schema(), &self.names)?;
        let mut writer = Writer::new(indices.id_field(&reader.schema()), self.names.questions.len());
        let most = (GROUP_ROWS / self.names.questions.len().max(1)).max(1);
        let mut group = RowGroup::default();
        for batch in &mut reader {
            let batch = batch.map_err(|error| unreadable(&error))?;
            let mut start = 0;
            while start < batch.num_rows() {
                let rows = most.min(batch.num_rows() - start);
                group.push(batch.slice(start, rows), &indices);
                start += rows;
                if group.rows >= most || group.bytes >= GROUP_BYTES {
                    self.run_group(engine, &std::mem::take(&mut group), &indices, &mut writer, call)?;
                }
            }
        }
        self.run_group(engine, &group, &indices, &mut writer, call)?;
        let (schema, batches, errors, work) = writer.finish();
        Ok(Table { schema, batches, errors, work: work.into() })
    }

    fn run_group(
        &self,
        engine: &Engine,
        group: &RowGroup,
        indices: &ColumnIndices,
        writer: &mut Writer,
        call: &Call,
    ) -> Result<()> {
        let rows = read_rows(&group.batches, indices, &self.names)?;
        let pairs: Vec<Pair> = rows.iter().filter_map(|row| row.pair.as_ref().ok().copied()).collect();
        let mut writing = writer.over(&group.batches, &rows, indices);
        engine.highlights_of_pairs(&pairs, self.format, &self.question, call, &mut |range, answers| match answers {
            Ok(answers) => {
                let found = Rows::new(&answers, 0..answers.scores.len(), |page| pairs[range.start + page].page);
                (0..range.len()).try_for_each(|answer| writing.push(&answers, answer, &found))?;
                writing.add_work(answers.work);
                Ok(())
            }
            Err(error) => writing.error(&error),
        })?;
        writing.end()
    }
}

/// Batches that are answered together.
#[derive(Default)]
struct RowGroup {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl RowGroup {
    fn push(&mut self, batch: RecordBatch, indices: &ColumnIndices) {
        self.rows += batch.num_rows();
        self.bytes += cells::bytes(batch.column(indices.text).as_ref());
        self.batches.push(batch);
    }
}

/// The producer of a table failed.
fn unreadable(error: &ArrowError) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("table cannot be read: {error}"))
}

fn internal(error: &ArrowError) -> Error {
    Error::new(ErrorKind::Internal, format!("a table of answers does not fit Arrow: {error}"))
}
