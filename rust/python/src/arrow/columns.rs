//! The columns of a table, and the query and page of each row.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use pullquote_core::engine::Pair;
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use super::cells::{Cell, cells, holds_texts};

/// `ColumnNames` in `python/pullquote/arrow.py`.
#[derive(FromPyObject)]
pub(crate) struct ColumnNames {
    text: String,
    /// Without it, every row has all of `questions`.
    query: Option<String>,
    pub(super) questions: Vec<PyBackedStr>,
    id: Option<String>,
    title: Option<String>,
}

pub(super) struct ColumnIndices {
    pub(super) text: usize,
    query: Option<usize>,
    pub(super) id: Option<usize>,
    title: Option<usize>,
}

pub(super) struct TableRow<'table> {
    /// None if the query cannot be read.
    pub(super) query: Option<&'table str>,
    /// The query and its page, or why the row has none.
    pub(super) pair: Result<Pair<'table>>,
}

impl ColumnIndices {
    pub(super) fn find(schema: &Schema, names: &ColumnNames) -> Result<Self> {
        let index = |what: &str, name: &str| index_of(schema, what, name);
        let texts = |what: &str, name: &str| {
            let found = index(what, name)?;
            match schema.field(found).data_type() {
                kind if holds_texts(kind) => Ok(found),
                kind => Err(Error::new(
                    ErrorKind::InvalidType,
                    format!("column {name:?} must hold strings to be the {what}, not {kind}; cast it first"),
                )),
            }
        };
        Ok(Self {
            text: texts("text", &names.text)?,
            query: names.query.as_deref().map(|name| texts("query", name)).transpose()?,
            id: names.id.as_deref().map(|name| index("id", name)).transpose()?,
            title: names.title.as_deref().map(|name| texts("title", name)).transpose()?,
        })
    }

    /// The field of the answer's first column.
    pub(super) fn id_field(&self, schema: &Schema) -> Field {
        self.id.map_or_else(
            || Field::new("id", DataType::Int64, false),
            |id| schema.field(id).clone().with_name("id").with_nullable(true),
        )
    }
}

fn index_of(schema: &Schema, what: &str, name: &str) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the table has two columns {name:?}; the {what} needs a column name that is unique"),
        )),
        (None, _) => {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let advice = if what == "query" {
                format!("; to ask the same question of all rows, pass a list: query=[{name:?}]")
            } else {
                String::new()
            };
            Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the table has no column {name:?} for {what}; its columns are {names:?}{advice}"),
            ))
        }
    }
}

/// A row for each row of the table, or for each of its rows and questions.
pub(super) fn read_rows<'table>(
    batches: &'table [RecordBatch],
    indices: &ColumnIndices,
    names: &'table ColumnNames,
) -> Result<Vec<TableRow<'table>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |index: usize| cells(batch.column(index).as_ref());
        let texts = column(indices.text)?;
        let queries = indices.query.map(column).transpose()?;
        let titles = indices.title.map(column).transpose()?;
        for (row, cell) in texts.into_iter().enumerate() {
            let page = read("text", cell);
            let Some(queries) = &queries else {
                rows.extend(names.questions.iter().map(|question| TableRow {
                    query: Some(question),
                    pair: page.clone().map(|page| Pair { query: question, page }),
                }));
                continue;
            };
            let (what, cell) = match (queries[row], &titles) {
                (None, Some(titles)) => ("title", titles[row]),
                (query, _) => ("query", query),
            };
            let query = read(what, cell);
            let readable = query.as_ref().ok().copied();
            rows.push(TableRow { query: readable, pair: page.and_then(|page| Ok(Pair { query: query?, page })) });
        }
    }
    Ok(rows)
}

fn read<'table>(what: &str, cell: Cell<'table>) -> Result<&'table str> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidText, message));
    match cell {
        None => invalid(format!("the {what} is null")),
        Some(None) => invalid(format!("the {what} does not lie in the buffers of its column")),
        Some(Some(bytes)) => str::from_utf8(bytes)
            .or_else(|error| invalid(format!("the {what} is not UTF-8 at byte {}", error.valid_up_to()))),
    }
}
