//! Highlights as structs of Arrow: one table has each field with its type and its value.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, LargeStringBuilder};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use pullquote_core::error::Result;
use pullquote_wire::result::{Breadcrumb, Highlight, Match, Rectangle, Twin};

use super::internal;

/// A field's value in a row.
enum Value<'row> {
    Text(&'row str),
    Number(usize),
    OptionalNumber(Option<usize>),
    Real(f32),
    /// A list of structs with these fields.
    Structs(&'static [(&'static str, DataType)], Vec<Vec<Value<'row>>>),
}

const BREADCRUMB: &[(&str, DataType)] =
    &[("text", DataType::LargeUtf8), ("start", DataType::Int64), ("end", DataType::Int64)];

const MATCH: &[(&str, DataType)] =
    &[("word", DataType::LargeUtf8), ("start", DataType::Int64), ("end", DataType::Int64)];

const RECTANGLE: &[(&str, DataType)] = &[
    ("page", DataType::Int64),
    ("left", DataType::Float32),
    ("bottom", DataType::Float32),
    ("right", DataType::Float32),
    ("top", DataType::Float32),
];

const TWIN: &[(&str, DataType)] = &[("page", DataType::Int64), ("start", DataType::Int64), ("end", DataType::Int64)];

/// The fields of a highlight.
fn row<'row>(highlight: &'row Highlight, bytes: Option<[usize; 2]>) -> Vec<(&'static str, Value<'row>)> {
    use Value::{Number, OptionalNumber, Real, Structs, Text};
    let [start_byte, end_byte] = [0, 1].map(|end| OptionalNumber(bytes.map(|bytes| bytes[end])));
    let text = |text: &'row Option<_>| Text(text.as_deref().unwrap_or_default());
    let named = |Breadcrumb { text, start, end }: &'row Breadcrumb| vec![Text(text), Number(*start), Number(*end)];
    let found = |Match { word, start, end }: &'row Match| vec![Text(word), Number(*start), Number(*end)];
    let line = |Rectangle { page, left, bottom, right, top }: &Rectangle| {
        vec![Number(*page), Real(*left), Real(*bottom), Real(*right), Real(*top)]
    };
    let twin = |Twin { page, start, end }: &Twin| vec![Number(*page), Number(*start), Number(*end)];
    vec![
        ("text", Text(&highlight.text)),
        ("start", Number(highlight.start)),
        ("end", Number(highlight.end)),
        ("start_byte", start_byte),
        ("end_byte", end_byte),
        ("score", Real(highlight.score)),
        ("cosine", Real(highlight.cosine)),
        ("bm25", Real(highlight.bm25)),
        ("before", text(&highlight.before)),
        ("after", text(&highlight.after)),
        ("header", text(&highlight.header)),
        ("header_start", OptionalNumber(highlight.header_start)),
        ("breadcrumbs", Structs(BREADCRUMB, highlight.breadcrumbs.iter().flatten().map(named).collect())),
        ("matches", Structs(MATCH, highlight.matches.iter().flatten().map(found).collect())),
        ("source_start", Number(highlight.source_start.unwrap_or(highlight.start))),
        ("source_end", Number(highlight.source_end.unwrap_or(highlight.end))),
        ("page_number", OptionalNumber(highlight.page_number)),
        ("rectangles", Structs(RECTANGLE, highlight.rectangles.iter().flatten().map(line).collect())),
        ("twins", Structs(TWIN, highlight.twins.iter().flatten().map(twin).collect())),
    ]
}

/// The columns of highlights in progress.
pub(crate) struct HighlightsWriter(Vec<Column>);

enum Column {
    Text(LargeStringBuilder),
    Number(Int64Builder),
    Real(Float32Builder),
    Structs(Fields, Lengths, Vec<Column>),
}

/// Lengths of the lists of a list column.
#[derive(Default)]
pub(super) struct Lengths(Vec<usize>);

impl Default for HighlightsWriter {
    fn default() -> Self {
        Self(row(&Highlight::default(), None).iter().map(|(_, value)| Column::of(value)).collect())
    }
}

impl HighlightsWriter {
    pub(crate) fn fields() -> Fields {
        let field = |(name, value): &(&str, Value)| {
            let is_optional = matches!(value, Value::OptionalNumber(_));
            Field::new(*name, value.data_type(), is_optional)
        };
        row(&Highlight::default(), None).iter().map(field).collect()
    }

    /// `bytes` are where the highlight starts and ends in bytes of its page.
    pub(crate) fn push(&mut self, highlight: &Highlight, bytes: Option<[usize; 2]>) {
        for (column, (_, value)) in self.0.iter_mut().zip(row(highlight, bytes)) {
            column.push(value);
        }
    }

    pub(crate) fn finish(self) -> Result<StructArray> {
        structs(Self::fields(), self.0)
    }
}

impl Column {
    fn new(kind: &DataType) -> Self {
        match kind {
            DataType::LargeUtf8 => Self::Text(LargeStringBuilder::new()),
            DataType::Float32 => Self::Real(Float32Builder::new()),
            _ => Self::Number(Int64Builder::new()),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Structs(kinds, _) => {
                let columns = kinds.iter().map(|(_, kind)| Self::new(kind)).collect();
                Self::Structs(fields(kinds), Lengths::default(), columns)
            }
            other => Self::new(&other.data_type()),
        }
    }

    fn push(&mut self, value: Value) {
        let number = |value| i64::try_from(value).unwrap_or(i64::MAX);
        match (self, value) {
            (Self::Text(column), Value::Text(value)) => column.append_value(value),
            (Self::Number(column), Value::Number(value)) => column.append_value(number(value)),
            (Self::Number(column), Value::OptionalNumber(value)) => column.append_option(value.map(number)),
            (Self::Real(column), Value::Real(value)) => column.append_value(value),
            (Self::Structs(_, lengths, columns), Value::Structs(_, rows)) => {
                lengths.0.push(rows.len());
                for row in rows {
                    columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
                }
            }
            _ => unreachable!("a column is made for the values of its field"),
        }
    }

    fn finish(self) -> Result<ArrayRef> {
        Ok(match self {
            Self::Text(mut column) => Arc::new(column.finish()),
            Self::Number(mut column) => Arc::new(column.finish()),
            Self::Real(mut column) => Arc::new(column.finish()),
            Self::Structs(fields, lengths, columns) => lengths.list(structs(fields, columns)?, None)?,
        })
    }
}

impl Lengths {
    pub(super) fn push(&mut self, length: usize) {
        self.0.push(length);
    }

    /// Splits values into lists of these lengths.
    pub(super) fn list(self, values: StructArray, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let item = Arc::new(Field::new("item", values.data_type().clone(), false));
        let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(self.0), Arc::new(values), nulls);
        Ok(Arc::new(lists.map_err(|error| internal(&error))?))
    }
}

impl Value<'_> {
    fn data_type(&self) -> DataType {
        match self {
            Self::Text(_) => DataType::LargeUtf8,
            Self::Number(_) | Self::OptionalNumber(_) => DataType::Int64,
            Self::Real(_) => DataType::Float32,
            Self::Structs(kinds, _) => list(fields(kinds)),
        }
    }
}

fn fields(kinds: &[(&'static str, DataType)]) -> Fields {
    kinds.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false)).collect()
}

pub(super) fn list(fields: Fields) -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(fields), false)))
}

fn structs(fields: Fields, columns: Vec<Column>) -> Result<StructArray> {
    let columns = columns.into_iter().map(Column::finish).collect::<Result<_>>()?;
    StructArray::try_new(fields, columns, None).map_err(|error| internal(&error))
}
