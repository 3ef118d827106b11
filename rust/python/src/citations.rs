//! `cite`: the checked call, and its result as JSON, of which `python/pullquote/citations.py` makes classes.

use pullquote_core::citations::{self, Claims, Pages, Sources};
use pullquote_core::engine::{Engine, Request, VectorSource};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_wire::citations::Cited;
use pullquote_wire::result::OffsetUnit;
use pyo3::pybacked::PyBackedStr;

/// A text, which is the request's only query, and the pages that it is held against.
pub(crate) struct CiteCall {
    pub(crate) request: Request<PyBackedStr>,
    /// Of each page, or empty.
    pub(crate) ids: Vec<Option<String>>,
    pub(crate) numbers: Option<Vec<usize>>,
}

impl CiteCall {
    pub(crate) async fn run(&self, engine: &Engine, call: &Call<'_>) -> Result<String> {
        self.run_with(engine, &engine.vector_source()?, call).await
    }

    /// As [`Self::run`], with vectors from this source.
    pub(crate) async fn run_with(&self, engine: &Engine, vectors: &VectorSource, call: &Call<'_>) -> Result<String> {
        let Request { queries, pages, formats, titles, .. } = &self.request;
        let answer: &str = queries.first().map_or("", AsRef::as_ref);
        let titles: Vec<Option<&str>> = titles.iter().map(|title| title.as_deref()).collect();
        let sources = Sources { ids: &self.ids, titles: &titles, numbers: self.numbers.as_deref(), pages: pages.len() };
        let claims = Claims::read(answer, &sources, &call.own_checker())?;
        let texts = pages.iter().map(AsRef::as_ref).collect();
        let pages = Pages { texts, formats: formats.clone(), titles: titles.clone(), ids: &self.ids };
        to_json(&citations::cite(engine, vectors, answer, &claims, &pages, OffsetUnit::Codepoint, call).await?)
    }
}

pub(crate) fn to_json(cited: &Cited) -> Result<String> {
    serde_json::to_string(cited).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}
