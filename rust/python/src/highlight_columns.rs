//! The highlights of a result: columns, and rows whose texts are cut out of the pages when they are read.

use std::collections::BTreeMap;

use numpy::PyArray2;
use pullquote_client::Columns;
use pullquote_core::engine::{Answers, Rows, number};
use pullquote_core::error::ErrorKind;
use pullquote_wire::result::{Highlight, OffsetUnit};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde_json::Value;

use crate::arrow::{self, Table};
use crate::failures::{Failure, raise};
use crate::options::read_options;
use crate::results::{Work, matrix, vector};
use crate::texts::SERVER_OPTIONS;

/// What `Highlights` in `python/pullquote/_results/highlights.py` is made of. `texts` are those of its pages; `""` where only a
/// server has the page.
#[pyclass(frozen, module = "pullquote._native")]
pub(crate) struct HighlightColumns {
    /// Without the pages' texts, which callers pass.
    answers: Answers,
    /// For each page its text, or `None` where that is the source.
    page_texts: Py<PyList>,
    /// From a server, a highlight for each row; else empty.
    highlights: Vec<Highlight<'static>>,
    /// Why pages could not be read; only a server's.
    errors: BTreeMap<usize, String>,
    /// From a server, bytes: a row for each highlight, and a row for each query.
    pub(crate) vectors: Option<[Py<PyArray2<u8>>; 2]>,
}

impl HighlightColumns {
    pub(crate) fn of_answers(py: Python<'_>, answers: Answers) -> PyResult<Self> {
        Self::of_columns(py, Columns { answers, rows: Vec::new(), errors: BTreeMap::new() })
    }

    pub(crate) fn of_columns(py: Python<'_>, columns: Columns) -> PyResult<Self> {
        let Columns { mut answers, rows: highlights, errors } = columns;
        let page_texts = PyList::new(py, std::mem::take(&mut answers.texts))?.unbind();
        Ok(Self { answers, page_texts, highlights, errors, vectors: None })
    }

    /// Visits rows: the row, its highlight, and where that starts and ends in bytes of its page, if that is at hand.
    pub(crate) fn each(
        &self,
        rows: &[usize],
        texts: &Bound<'_, PyList>,
        mut visit: impl FnMut(usize, &Highlight, Option<[usize; 2]>) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut pages: BTreeMap<usize, PyBackedStr> = BTreeMap::new();
        let of_twins =
            rows.iter().flat_map(|row| self.answers.twins_of(*row)).map(|twin| self.answers.twin_pages[twin]);
        for page in rows.iter().map(|row| self.answers.pages[*row]).chain(of_twins).map(number) {
            if let std::collections::btree_map::Entry::Vacant(entry) = pages.entry(page) {
                entry.insert(texts.get_item(page)?.extract()?);
            }
        }
        let made = Rows::new(&self.answers, rows.iter().copied(), |page| &pages[&page]);
        for row in rows {
            let here;
            let highlight = if let Some(highlight) = self.highlights.get(*row) {
                highlight
            } else {
                here = made.highlight(*row, OffsetUnit::Codepoint);
                &here
            };
            let is_known = !pages[&number(self.answers.pages[*row])].is_empty();
            let byte = |place| made.positions(*row).count(place, OffsetUnit::Byte);
            visit(*row, highlight, is_known.then(|| [byte(highlight.start), byte(highlight.end)]))?;
        }
        Ok(())
    }

    fn all(&self) -> Vec<usize> {
        (0..self.answers.scores.len()).collect()
    }
}

#[pymethods]
impl HighlightColumns {
    /// Rows that [`Self::json`] wrote. A pickled result has them; its columns are its own.
    #[new]
    fn new(py: Python<'_>, json: &str) -> PyResult<Self> {
        let rows: Vec<(i64, Highlight)> = serde_json::from_str(json).map_err(|error| invalid(&error))?;
        let (pages, highlights): (Vec<i64>, Vec<Highlight>) = rows.into_iter().unzip();
        let span =
            |highlight: &Highlight| [highlight.start, highlight.end].map(|place| i64::try_from(place).unwrap_or(0));
        let spans: Vec<i64> = highlights.iter().flat_map(span).collect();
        let (contexts, headers, sources) = (spans.clone(), spans.clone(), spans.clone());
        let scores = highlights.iter().map(|highlight| highlight.score).collect();
        let answers = Answers { pages, spans, contexts, headers, sources, scores, ..Answers::default() };
        Self::of_columns(py, Columns { answers, rows: highlights, errors: BTreeMap::new() })
    }

    /// The attributes of `Highlights`. Their arrays are copies, because callers may change them; `texts` has `None` where the
    /// source is the text.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let answers = &self.answers;
        let columns = PyDict::new(py);
        let integers = [
            ("_ends", &answers.ends),
            ("pages", &answers.pages),
            ("queries", &answers.queries),
            ("windows", &answers.windows),
            ("windows_scored", &answers.windows_scored),
        ];
        for (name, column) in integers {
            columns.set_item(name, vector(py, column.clone()))?;
        }
        let spans = [
            ("spans", &answers.spans),
            ("contexts", &answers.contexts),
            ("headers", &answers.headers),
            ("sources", &answers.sources),
        ];
        for (name, column) in spans {
            columns.set_item(name, matrix(py, column.len() / 2, 2, column.clone())?)?;
        }
        let reals = [("scores", &answers.scores), ("cosines", &answers.cosines), ("bm25_scores", &answers.bm25_scores)];
        for (name, column) in reals {
            columns.set_item(name, vector(py, column.clone()))?;
        }
        columns.set_item("texts", &self.page_texts)?;
        columns.set_item("formats", answers.formats.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        columns.set_item("errors", self.errors.clone())?;
        columns.set_item("work", Work::from(answers.work))?;
        let [vectors, query_vectors] = match &self.vectors {
            Some(vectors) => vectors.each_ref().map(Some),
            None => [None, None],
        };
        columns.set_item("vectors", vectors)?;
        columns.set_item("query_vectors", query_vectors)?;
        Ok(columns)
    }

    /// A warning about the options of the call.
    fn warning(&self, options: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
        Ok(self.answers.warning(&read_options(options, &SERVER_OPTIONS)?))
    }

    fn json(&self, texts: &Bound<'_, PyList>) -> PyResult<String> {
        let mut rows: Vec<(i64, Value)> = Vec::new();
        self.each(&self.all(), texts, |row, highlight, _| {
            let value = serde_json::to_value(highlight).map_err(|error| invalid(&error))?;
            rows.push((self.answers.pages[row], value));
            Ok(())
        })?;
        serde_json::to_string(&rows).map_err(|error| invalid(&error))
    }

    /// The fields of some rows' highlights, without those that are empty.
    #[allow(clippy::needless_pass_by_value, reason = "made from a list of Python")]
    fn fields<'py>(
        &self,
        py: Python<'py>,
        rows: Vec<usize>,
        texts: &Bound<'py, PyList>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut fields = Vec::with_capacity(rows.len());
        self.each(&rows, texts, |_, highlight, bytes| {
            let value = serde_json::to_value(highlight).map_err(|error| invalid(&error))?;
            let made = to_python(py, value)?;
            if let Some([start, end]) = bytes {
                made.set_item("start_byte", start)?;
                made.set_item("end_byte", end)?;
            }
            fields.push(made);
            Ok(())
        })?;
        Ok(fields)
    }

    /// A table with all rows.
    fn table(&self, texts: &Bound<'_, PyList>) -> PyResult<Table> {
        let mut columns = arrow::HighlightsWriter::default();
        self.each(&self.all(), texts, |_, highlight, bytes| {
            columns.push(highlight, bytes);
            Ok(())
        })?;
        Table::of_highlights(columns).map_err(|error| Failure(error).into())
    }
}

/// A value of JSON as Python has it, with tuples for lists.
fn to_python(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_bound_py_any(py)?,
        Value::Number(value) => match value.as_u64() {
            Some(value) => value.into_bound_py_any(py)?,
            None => value.as_f64().into_bound_py_any(py)?,
        },
        Value::String(value) => value.into_bound_py_any(py)?,
        Value::Array(values) => {
            let values: Vec<_> = values.into_iter().map(|value| to_python(py, value)).collect::<PyResult<_>>()?;
            PyTuple::new(py, values)?.into_any()
        }
        Value::Object(values) => {
            let made = PyDict::new(py);
            for (name, value) in values {
                made.set_item(name, to_python(py, value)?)?;
            }
            made.into_any()
        }
    })
}

fn invalid(error: &serde_json::Error) -> PyErr {
    raise(ErrorKind::Internal, &format!("rows of a result do not fit JSON: {error}"))
}
