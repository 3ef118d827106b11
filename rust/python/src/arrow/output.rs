//! The table of answers: a row for each query and page in order, and a batch for each batch of the input.

use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, make_array};
use arrow_buffer::NullBuffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pullquote_core::engine::{Answers, Rows, Work};
use pullquote_core::error::{Error, Result};
use pullquote_wire::result::OffsetUnit;

use super::columns::{ColumnIndices, TableRow};
use super::highlights::{HighlightsWriter, Lengths, list};
use super::internal;

pub(super) struct Writer {
    schema: SchemaRef,
    /// Rows of the answer for each row of the input.
    repeats: usize,
    batches: Vec<RecordBatch>,
    /// Input rows written; the next row's number, if there is no id column.
    row_number: i64,
    errors: usize,
    work: Work,
}

/// Writes the rows of a group of batches.
pub(super) struct GroupWriter<'writer, 'table> {
    writer: &'writer mut Writer,
    batches: &'table [RecordBatch],
    indices: &'table ColumnIndices,
    rows: &'table [TableRow<'table>],
    next: usize,
    /// Its batch, and the row where that ends.
    batch: usize,
    end: usize,
    columns: Columns,
}

/// The columns of a batch in progress.
#[derive(Default)]
struct Columns {
    query: LargeStringBuilder,
    passage_counts: Lengths,
    passages: HighlightsWriter,
    windows: Vec<Option<i64>>,
    errors: LargeStringBuilder,
}

impl Writer {
    pub(super) fn new(id: Field, questions: usize) -> Self {
        let schema = Schema::new(vec![
            id,
            Field::new("query", DataType::LargeUtf8, true),
            Field::new("highlights", list(HighlightsWriter::fields()), true),
            Field::new("windows", DataType::Int64, true),
            Field::new("error", DataType::LargeUtf8, true),
        ]);
        Self {
            schema: Arc::new(schema),
            repeats: questions.max(1),
            batches: Vec::new(),
            row_number: 0,
            errors: 0,
            work: Work::default(),
        }
    }

    pub(super) fn over<'writer, 'table>(
        &'writer mut self,
        batches: &'table [RecordBatch],
        rows: &'table [TableRow<'table>],
        indices: &'table ColumnIndices,
    ) -> GroupWriter<'writer, 'table> {
        let end = batches.first().map_or(0, |batch| batch.num_rows() * self.repeats);
        GroupWriter { writer: self, batches, indices, rows, next: 0, batch: 0, end, columns: Columns::default() }
    }

    pub(super) fn finish(self) -> (SchemaRef, Vec<RecordBatch>, usize, Work) {
        (self.schema, self.batches, self.errors, self.work)
    }

    /// The ids of a batch, each repeated for its answers.
    fn ids(&mut self, batch: &RecordBatch, indices: &ColumnIndices) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let Some(id) = indices.id else {
            let first = self.row_number;
            let numbers = (first..).take(rows).flat_map(|number| std::iter::repeat_n(number, self.repeats));
            self.row_number += i64::try_from(rows).unwrap_or(0);
            return Ok(Arc::new(Int64Array::from_iter_values(numbers)));
        };
        let ids = batch.column(id);
        if self.repeats == 1 {
            return Ok(Arc::clone(ids));
        }
        let data = ids.to_data();
        let mut repeated = MutableArrayData::new(vec![&data], false, rows * self.repeats);
        for answer in 0..rows * self.repeats {
            let row = answer / self.repeats;
            repeated.try_extend(0, row, row + 1).map_err(|error| internal(&error))?;
        }
        Ok(make_array(repeated.freeze()))
    }
}

impl GroupWriter<'_, '_> {
    /// Writes the next row that has a pair: an answer, whose rows `found` has.
    pub(super) fn push(&mut self, answers: &Answers, answer: usize, found: &Rows) -> Result<()> {
        self.write_unreadable()?;
        let rows = answers.rows_of(answer);
        for row in rows.clone() {
            let (mut highlight, positions) = (found.highlight(row, OffsetUnit::Codepoint), found.positions(row));
            // A row of the table is a call with one page.
            highlight.twins.iter_mut().flatten().for_each(|twin| twin.page = 0);
            let bytes = [highlight.start, highlight.end].map(|place| positions.count(place, OffsetUnit::Byte));
            self.columns.passages.push(&highlight, Some(bytes));
        }
        self.columns.windows.push(Some(answers.windows[answer]));
        self.columns.errors.append_null();
        self.finish_row(rows.len())
    }

    /// Writes the error of the next row that has a pair.
    pub(super) fn error(&mut self, error: &Error) -> Result<()> {
        self.write_unreadable()?;
        self.write_error(error)
    }

    pub(super) fn add_work(&mut self, work: Work) {
        self.writer.work += work;
    }

    /// Writes the remaining rows, which have no pair.
    pub(super) fn end(mut self) -> Result<()> {
        self.write_unreadable()
    }

    /// Writes rows without a pair, up to the next one with a pair.
    fn write_unreadable(&mut self) -> Result<()> {
        while let Some(TableRow { pair: Err(error), .. }) = self.rows.get(self.next) {
            self.write_error(error)?;
        }
        Ok(())
    }

    fn write_error(&mut self, error: &Error) -> Result<()> {
        self.writer.errors += 1;
        self.columns.windows.push(None);
        self.columns.errors.append_value(format!("{}: {}", error.kind().row().python_class, error.message()));
        self.finish_row(0)
    }

    fn finish_row(&mut self, passages: usize) -> Result<()> {
        self.columns.query.append_option(self.rows[self.next].query);
        self.columns.passage_counts.push(passages);
        self.next += 1;
        if self.next < self.end {
            return Ok(());
        }
        let batch = &self.batches[self.batch];
        let ids = self.writer.ids(batch, self.indices)?;
        let columns = std::mem::take(&mut self.columns).finish(ids)?;
        let finished =
            RecordBatch::try_new(Arc::clone(&self.writer.schema), columns).map_err(|error| internal(&error))?;
        self.writer.batches.push(finished);
        self.batch += 1;
        self.end += self.batches.get(self.batch).map_or(0, |batch| batch.num_rows() * self.writer.repeats);
        Ok(())
    }
}

impl Columns {
    fn finish(mut self, ids: ArrayRef) -> Result<Vec<ArrayRef>> {
        let answered: NullBuffer = self.windows.iter().map(Option::is_some).collect::<Vec<bool>>().into();
        let passages = self.passages.finish()?;
        let highlights = self.passage_counts.list(passages, Some(answered))?;
        let windows: ArrayRef = Arc::new(Int64Array::from(self.windows));
        Ok(vec![ids, Arc::new(self.query.finish()), highlights, windows, Arc::new(self.errors.finish())])
    }
}
