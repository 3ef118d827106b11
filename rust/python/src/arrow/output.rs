//! The table of answers: a row for each query and page in order, and a batch for each batch of the input.

use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, StructArray, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Fields as ArrowFields, Schema, SchemaRef};
use pullquote_core::engine::{Answers, Work};
use pullquote_core::error::{Error, ErrorKind, Result};

use super::columns::{ColumnIndices, TableRow};
use super::internal;

/// Optional columns of passages.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) context: bool,
    pub(super) matches: bool,
    pub(super) source: bool,
}

pub(super) struct Writer {
    schema: SchemaRef,
    fields: Fields,
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
    passages: Passages,
    windows: Vec<Option<i64>>,
    errors: LargeStringBuilder,
}

#[derive(Default)]
struct Passages {
    text: LargeStringBuilder,
    start: Vec<i64>,
    end: Vec<i64>,
    start_byte: Vec<i64>,
    end_byte: Vec<i64>,
    score: Vec<f32>,
    before: LargeStringBuilder,
    after: LargeStringBuilder,
    matches: Lengths,
    word: LargeStringBuilder,
    word_start: Vec<i64>,
    word_end: Vec<i64>,
    source_start: Vec<i64>,
    source_end: Vec<i64>,
}

/// Lengths of the lists of a list column.
#[derive(Default)]
struct Lengths(Vec<usize>);

impl Writer {
    pub(super) fn new(id: Field, fields: Fields, questions: usize) -> Self {
        let schema = Schema::new(vec![
            id,
            Field::new("query", DataType::LargeUtf8, true),
            Field::new("highlights", list(fields.of_passages()), true),
            Field::new("windows", DataType::Int64, true),
            Field::new("error", DataType::LargeUtf8, true),
        ]);
        Self {
            schema: Arc::new(schema),
            fields,
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
    /// Writes the next row that has a pair: answer `index` of `answers`.
    pub(super) fn push(&mut self, answers: &Answers, index: usize, source: &str) -> Result<()> {
        self.write_unreadable()?;
        let text = answers.texts[index].as_deref().unwrap_or(source);
        let end = |index: usize| usize::try_from(answers.ends[index]).unwrap_or(0);
        let (first, last) = (if index == 0 { 0 } else { end(index - 1) }, end(index));
        for highlight in first..last {
            self.columns.passages.push(answers, highlight, text, self.writer.fields);
        }
        self.columns.windows.push(Some(answers.windows[index]));
        self.columns.errors.append_null();
        self.finish_row(last - first)
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
        self.columns.passage_counts.0.push(passages);
        self.next += 1;
        if self.next < self.end {
            return Ok(());
        }
        let batch = &self.batches[self.batch];
        let ids = self.writer.ids(batch, self.indices)?;
        let columns = std::mem::take(&mut self.columns).finish(ids, self.writer.fields)?;
        let finished =
            RecordBatch::try_new(Arc::clone(&self.writer.schema), columns).map_err(|error| internal(&error))?;
        self.writer.batches.push(finished);
        self.batch += 1;
        self.end += self.batches.get(self.batch).map_or(0, |batch| batch.num_rows() * self.writer.repeats);
        Ok(())
    }
}

impl Columns {
    fn finish(mut self, ids: ArrayRef, fields: Fields) -> Result<Vec<ArrayRef>> {
        let answered: NullBuffer = self.windows.iter().map(Option::is_some).collect::<Vec<bool>>().into();
        let passages = self.passages.finish(fields)?;
        let highlights = self.passage_counts.list(passages, Some(answered))?;
        let windows: ArrayRef = Arc::new(Int64Array::from(self.windows));
        Ok(vec![ids, Arc::new(self.query.finish()), highlights, windows, Arc::new(self.errors.finish())])
    }
}

impl Passages {
    fn push(&mut self, answers: &Answers, highlight: usize, text: &str, fields: Fields) {
        let span = |columns: &[i64]| (columns[2 * highlight], columns[2 * highlight + 1]);
        let byte = |byte: i64| usize::try_from(byte).unwrap_or(0);
        let ((start, end), (start_byte, end_byte)) = (span(&answers.spans), span(&answers.byte_spans));
        self.text.append_value(&text[byte(start_byte)..byte(end_byte)]);
        self.start.push(start);
        self.end.push(end);
        self.start_byte.push(start_byte);
        self.end_byte.push(end_byte);
        self.score.push(answers.scores[highlight]);
        if fields.context {
            let (first, last) = span(&answers.contexts);
            let (before, after) = (&text[..byte(start_byte)], &text[byte(end_byte)..]);
            let before_from = match byte(start - first) {
                0 => before.len(),
                chars => before.char_indices().rev().nth(chars - 1).map_or(0, |(place, _)| place),
            };
            let after_to = after.char_indices().nth(byte(last - end)).map_or(after.len(), |(place, _)| place);
            self.before.append_value(&before[before_from..]);
            self.after.append_value(&after[..after_to]);
        }
        if fields.matches {
            let of_match = |highlight: usize| byte(answers.matches.ends[highlight]);
            let (first, last) = (if highlight == 0 { 0 } else { of_match(highlight - 1) }, of_match(highlight));
            for found in first..last {
                self.word.append_value(&answers.matches.query_words[byte(answers.matches.words[found])]);
                self.word_start.push(answers.matches.spans[2 * found]);
                self.word_end.push(answers.matches.spans[2 * found + 1]);
            }
            self.matches.0.push(last - first);
        }
        if fields.source {
            let (start, end) = span(&answers.sources);
            self.source_start.push(start);
            self.source_end.push(end);
        }
    }

    fn finish(mut self, fields: Fields) -> Result<ArrayRef> {
        let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.text.finish())];
        columns.extend([self.start, self.end, self.start_byte, self.end_byte].map(numbers));
        columns.push(Arc::new(Float32Array::from(self.score)));
        if fields.context {
            columns.extend([Arc::new(self.before.finish()) as ArrayRef, Arc::new(self.after.finish())]);
        }
        if fields.matches {
            let words: Vec<ArrayRef> =
                vec![Arc::new(self.word.finish()), numbers(self.word_start), numbers(self.word_end)];
            columns.push(self.matches.list(structs(match_fields(), words)?, None)?);
        }
        if fields.source {
            columns.extend([self.source_start, self.source_end].map(numbers));
        }
        structs(fields.of_passages(), columns)
    }
}

impl Fields {
    fn of_passages(self) -> ArrowFields {
        let number = |name: &str| Field::new(name, DataType::Int64, false);
        let text = |name: &str| Field::new(name, DataType::LargeUtf8, false);
        let mut fields = vec![text("text"), number("start"), number("end"), number("start_byte"), number("end_byte")];
        fields.push(Field::new("score", DataType::Float32, false));
        if self.context {
            fields.extend([text("before"), text("after")]);
        }
        if self.matches {
            fields.push(Field::new("matches", list(match_fields()), false));
        }
        if self.source {
            fields.extend([number("source_start"), number("source_end")]);
        }
        fields.into()
    }
}

impl Lengths {
    /// Splits values into lists of these lengths.
    fn list(self, values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let item = Arc::new(Field::new("item", values.data_type().clone(), false));
        let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(self.0), values, nulls);
        Ok(Arc::new(lists.map_err(|error| internal(&error))?))
    }
}

fn match_fields() -> ArrowFields {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    vec![Field::new("word", DataType::LargeUtf8, false), number("start"), number("end")].into()
}

fn list(fields: ArrowFields) -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(fields), false)))
}

fn structs(fields: ArrowFields, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    let made = StructArray::try_new(fields, columns, None)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("passages do not fit Arrow: {error}")))?;
    Ok(Arc::new(made))
}
