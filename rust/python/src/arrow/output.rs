//! The table of answers: a row for each query and page, written in their order, a batch for each that came in.

use std::sync::Arc;

use arrow_array::builder::LargeStringBuilder;
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, ListArray, RecordBatch, StructArray, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Fields as ArrowFields, Schema, SchemaRef};
use pullquote_core::engine::{Answers, Work};
use pullquote_core::error::{Error, ErrorKind, Result};

use super::columns::{Places, Row};
use super::internal;

/// What is told of a passage beside its text, its places and its score.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    /// What stands before and after it.
    pub(super) context: bool,
    /// The words that matched.
    pub(super) matches: bool,
    /// Where it stands in the source, where that may be another text.
    pub(super) source: bool,
}

/// Writes the table.
pub(super) struct Writer {
    schema: SchemaRef,
    fields: Fields,
    /// Rows of the answer for each that came in.
    times: usize,
    batches: Vec<RecordBatch>,
    /// Rows that came in and were written.
    numbered: i64,
    errors: usize,
    work: Work,
}

/// Writes the rows of some batches.
pub(super) struct Writing<'writer, 'table> {
    writer: &'writer mut Writer,
    batches: &'table [RecordBatch],
    places: &'table Places,
    rows: &'table [Row<'table>],
    /// The row that is written next.
    next: usize,
    /// Which of the batches it is of, and behind which row that ends.
    batch: usize,
    end: usize,
    columns: Columns,
}

/// The columns of a batch, as far as they are written.
#[derive(Default)]
struct Columns {
    query: LargeStringBuilder,
    /// Passages up to the end of each row.
    ends: Lengths,
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

/// How long lists are.
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
        let (batches, times) = (Vec::new(), questions.max(1));
        Self { schema: Arc::new(schema), fields, times, batches, numbered: 0, errors: 0, work: Work::default() }
    }

    pub(super) fn over<'writer, 'table>(
        &'writer mut self,
        batches: &'table [RecordBatch],
        rows: &'table [Row<'table>],
        places: &'table Places,
    ) -> Writing<'writer, 'table> {
        let end = batches.first().map_or(0, |batch| batch.num_rows() * self.times);
        Writing { writer: self, batches, places, rows, next: 0, batch: 0, end, columns: Columns::default() }
    }

    pub(super) fn finish(self) -> (SchemaRef, Vec<RecordBatch>, usize, Work) {
        (self.schema, self.batches, self.errors, self.work)
    }

    /// The ids of a batch, each as often as it has answers.
    fn ids(&mut self, batch: &RecordBatch, places: &Places) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let Some(id) = places.id else {
            let first = self.numbered;
            let numbers = (first..).take(rows).flat_map(|number| std::iter::repeat_n(number, self.times));
            self.numbered += i64::try_from(rows).unwrap_or(0);
            return Ok(Arc::new(Int64Array::from_iter_values(numbers)));
        };
        let ids = batch.column(id);
        if self.times == 1 {
            return Ok(Arc::clone(ids));
        }
        let data = ids.to_data();
        let mut repeated = MutableArrayData::new(vec![&data], false, rows * self.times);
        for place in 0..rows * self.times {
            let row = place / self.times;
            repeated.try_extend(0, row, row + 1).map_err(|error| internal(&error))?;
        }
        Ok(make_array(repeated.freeze()))
    }
}

impl Writing<'_, '_> {
    /// The answer to the next row that has one: one of a group's.
    pub(super) fn answer(&mut self, answers: &Answers, place: usize, source: &str) -> Result<()> {
        self.write_wrong()?;
        let text = answers.texts[place].as_deref().unwrap_or(source);
        let row = |place: usize| usize::try_from(answers.ends[place]).unwrap_or(0);
        let (first, last) = (if place == 0 { 0 } else { row(place - 1) }, row(place));
        for highlight in first..last {
            self.columns.passages.push(answers, highlight, text, self.writer.fields);
        }
        self.columns.windows.push(Some(answers.windows[place]));
        self.columns.errors.append_null();
        self.written(last - first)
    }

    /// Why the next row that could have an answer has none.
    pub(super) fn wrong(&mut self, error: &Error) -> Result<()> {
        self.write_wrong()?;
        self.write_error(error)
    }

    pub(super) fn add_work(&mut self, work: Work) {
        self.writer.work += work;
    }

    /// Writes what is left: rows that nobody could answer.
    pub(super) fn end(mut self) -> Result<()> {
        self.write_wrong()
    }

    /// Rows that could not even be asked, up to the next that could.
    fn write_wrong(&mut self) -> Result<()> {
        while let Some(Row { pair: Err(error), .. }) = self.rows.get(self.next) {
            self.write_error(error)?;
        }
        Ok(())
    }

    fn write_error(&mut self, error: &Error) -> Result<()> {
        self.writer.errors += 1;
        self.columns.windows.push(None);
        self.columns.errors.append_value(format!("{}: {}", error.kind().row().python_class, error.message()));
        self.written(0)
    }

    fn written(&mut self, passages: usize) -> Result<()> {
        self.columns.query.append_option(self.rows[self.next].query);
        self.columns.ends.0.push(passages);
        self.next += 1;
        if self.next < self.end {
            return Ok(());
        }
        let batch = &self.batches[self.batch];
        let ids = self.writer.ids(batch, self.places)?;
        let columns = std::mem::take(&mut self.columns).finish(ids, self.writer.fields)?;
        let made = RecordBatch::try_new(Arc::clone(&self.writer.schema), columns).map_err(|error| internal(&error))?;
        self.writer.batches.push(made);
        self.batch += 1;
        self.end += self.batches.get(self.batch).map_or(0, |batch| batch.num_rows() * self.writer.times);
        Ok(())
    }
}

impl Columns {
    fn finish(mut self, ids: ArrayRef, fields: Fields) -> Result<Vec<ArrayRef>> {
        let answered: NullBuffer = self.windows.iter().map(Option::is_some).collect::<Vec<bool>>().into();
        let passages = self.passages.finish(fields)?;
        let highlights = self.ends.over(passages, Some(answered))?;
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
            columns.push(self.matches.over(structs(match_fields(), words)?, None)?);
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
    /// Lists of so many values each.
    fn over(self, values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
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
