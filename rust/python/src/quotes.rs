//! `locate`, and what it returns.

use pullquote_core::quotes;
use pullquote_wire::quotes as wire;
use pullquote_wire::result::OffsetUnit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::highlighter::argument;
use crate::interruptible::leave_python;
use crate::results::{record, repr};
use crate::texts;

record! {
    "pullquote.quotes",
    /// What a quote has in place of a part of the page.
    Difference {
        /// ``"spelling"``, ``"added"``, ``"missing"``, ``"replaced"``, ``"number"`` or ``"negation"``. The last three say
        /// something else, so that a quote with one is not found.
        kind: String,
        /// The words of the quote; empty if it lacks those of the page.
        quote: String,
        /// The words of the page; empty if the quote has words more.
        page: String,
        /// Where the words stand in the page.
        start: usize,
        /// Where they end.
        end: usize,
    }
}

record! {
    "pullquote.quotes",
    /// A passage of a page that a quote was compared with: ``page[start:end] == text``.
    Place {
        /// Its text.
        text: String,
        /// Its first character in the page.
        start: usize,
        /// Its end.
        end: usize,
        /// Letters and digits to insert, delete or replace in the quote to get those of the place.
        distance: usize,
        /// One minus `distance` divided by the letters and digits of the longer of both: from 0 to 1.
        similarity: f32,
        /// What differs, in the order of the page; none for an exact place.
        differences: Vec<Difference>,
        /// Of a quote with an ellipsis: ``(start, end)`` of each of its parts. Otherwise empty.
        parts: Vec<(usize, usize)>,
    }
}

/// Where a quote stands in a page. True if it stands there.
#[pyclass(frozen, get_all, eq, module = "pullquote.quotes")]
#[derive(PartialEq)]
pub(crate) struct Located {
    /// ``"exact"``, ``"near"`` or ``"none"``.
    status: String,
    /// The best first, then in the order of the page: all exact ones, or all near ones if none is exact.
    places: Vec<Place>,
    /// If there is no place: the passage that is most like the quote but says something else, or `None`.
    nearest: Option<Place>,
}

#[pymethods]
impl Located {
    #[new]
    const fn new(status: String, places: Vec<Place>, nearest: Option<Place>) -> Self {
        Self { status, places, nearest }
    }

    const fn __bool__(&self) -> bool {
        !self.places.is_empty()
    }

    fn __getnewargs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(slf.py(), [slf.getattr("status")?, slf.getattr("places")?, slf.getattr("nearest")?])
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        repr(slf.as_any(), &["status", "places", "nearest"])
    }
}

impl From<wire::Located<'_>> for Located {
    fn from(located: wire::Located<'_>) -> Self {
        Self {
            status: located.status.name().to_owned(),
            places: located.places.into_iter().map(Place::from).collect(),
            nearest: located.nearest.map(Place::from),
        }
    }
}

impl From<wire::Place<'_>> for Place {
    fn from(place: wire::Place<'_>) -> Self {
        let difference = |one: wire::Difference<'_>| Difference {
            kind: one.kind.name().to_owned(),
            quote: one.quote.into_owned(),
            page: one.page.into_owned(),
            start: one.start,
            end: one.end,
        };
        Self {
            text: place.text.into_owned(),
            start: place.start,
            end: place.end,
            distance: place.distance,
            similarity: place.similarity,
            differences: place.differences.into_iter().map(difference).collect(),
            parts: place.parts.into_iter().map(|part| (part.start, part.end)).collect(),
        }
    }
}

/// Where a quote stands in a page.
#[pyfunction]
pub(crate) fn locate(
    py: Python<'_>,
    page: &Bound<'_, PyAny>,
    quote: &Bound<'_, PyAny>,
    timeout: &Bound<'_, PyAny>,
) -> PyResult<Located> {
    let (page, quote) = (texts::one(page, "page")?, texts::one(quote, "quote")?);
    let timeout: Option<f64> = argument(timeout, "timeout")?;
    leave_python(py, timeout, |call| {
        Ok(Located::from(quotes::locate(&page, &quote, OffsetUnit::Codepoint, &call.own_checker())?))
    })
}
