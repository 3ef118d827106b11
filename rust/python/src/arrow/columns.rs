//! Which columns of a table are what, and what each row asks of which page.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use pullquote_core::engine::Pair;
use pullquote_core::error::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;

use super::cells::{Cell, cells, holds_texts};

/// What people call the columns; see `python/pullquote/arrow.py`, which fills it.
#[derive(FromPyObject)]
pub(crate) struct Names {
    text: String,
    /// Where there is none, all rows are asked `questions`.
    query: Option<String>,
    pub(super) questions: Vec<PyBackedStr>,
    id: Option<String>,
    title: Option<String>,
}

/// Where the columns are.
pub(super) struct Places {
    pub(super) text: usize,
    query: Option<usize>,
    pub(super) id: Option<usize>,
    title: Option<usize>,
}

/// A row of the answer.
pub(super) struct Row<'table> {
    /// What was asked, where that can be said.
    pub(super) query: Option<&'table str>,
    /// What is to be answered, or why nothing can be.
    pub(super) pair: Result<Pair<'table>>,
}

impl Places {
    pub(super) fn find(schema: &Schema, names: &Names) -> Result<Self> {
        let place = |what: &str, name: &str| place(schema, what, name);
        let texts = |what: &str, name: &str| {
            let found = place(what, name)?;
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
            id: names.id.as_deref().map(|name| place("id", name)).transpose()?,
            title: names.title.as_deref().map(|name| texts("title", name)).transpose()?,
        })
    }

    /// What the answer's first column is like.
    pub(super) fn id_field(&self, schema: &Schema) -> Field {
        self.id.map_or_else(
            || Field::new("id", DataType::Int64, false),
            |id| schema.field(id).clone().with_name("id").with_nullable(true),
        )
    }
}

fn place(schema: &Schema, what: &str, name: &str) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((place, _)), None) => Ok(place),
        (Some(_), Some(_)) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the table has two columns {name:?}, so it cannot be said which is the {what}"),
        )),
        (None, _) => {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let advice = if what == "query" {
                format!("; to ask all rows the same, pass a list of questions: query=[{name:?}]")
            } else {
                String::new()
            };
            Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the table has no column {name:?} for {what}, but {names:?}{advice}"),
            ))
        }
    }
}

/// What each row asks of its page; where all are asked the same questions, a row for each of them.
pub(super) fn read_rows<'table>(
    batches: &'table [RecordBatch],
    places: &Places,
    names: &'table Names,
) -> Result<Vec<Row<'table>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |place: usize| cells(batch.column(place).as_ref());
        let texts = column(places.text)?;
        let queries = places.query.map(column).transpose()?;
        let titles = places.title.map(column).transpose()?;
        for (row, cell) in texts.into_iter().enumerate() {
            let page = read("text", cell);
            let Some(queries) = &queries else {
                rows.extend(names.questions.iter().map(|question| Row {
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
            let asked = query.as_ref().ok().copied();
            rows.push(Row { query: asked, pair: page.and_then(|page| Ok(Pair { query: query?, page })) });
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
