//! Requests: which of their parts belong together; and those that own their texts, for whoever does not wait for an answer on
//! the spot.

use std::future::Future;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{Answers, Embedded, Engine, Pairing, Question, Request};
use crate::call::Call;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::Format;
use crate::tasks::Task;
use crate::tokens::Role;

/// Queries and pages of a call that outlives the moment in which it is asked; see [`Request`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in `Request`")]
pub struct OwnedRequest<Text> {
    pub queries: Vec<Text>,
    pub pages: Vec<Text>,
    pub formats: Vec<Format>,
    pub titles: Vec<Option<Text>>,
    pub pairing: Pairing,
}

impl Request<'_> {
    /// What a page is written in.
    pub(super) fn format(&self, page: usize) -> Format {
        // One stands for all; how many there are was checked.
        self.formats.get(page).or(self.formats.first()).copied().unwrap_or_default()
    }

    /// The pages that a query is asked of together.
    pub(super) fn pages_of(&self, query: usize) -> Range<usize> {
        if self.pairing == Pairing::Each { query..query + 1 } else { 0..self.pages.len() }
    }
}

impl<Text: Deref<Target = str>> OwnedRequest<Text> {
    /// Whether all of it goes together.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of a request of one lifetime")]
    pub(super) fn check(&self) -> Result<()> {
        self.with(|request| request.check())
    }

    fn with<R>(&self, what: impl FnOnce(&Request<'_>) -> R) -> R {
        let queries: Vec<&str> = self.queries.iter().map(|query| &**query).collect();
        let pages: Vec<&str> = self.pages.iter().map(|page| &**page).collect();
        let titles: Vec<Option<&str>> = self.titles.iter().map(Option::as_deref).collect();
        let (formats, pairing) = (&self.formats, self.pairing);
        what(&Request { queries: &queries, pages: &pages, formats, titles: &titles, pairing })
    }
}

impl Engine {
    /// As [`Engine::highlights`] of a request that is owned.
    ///
    /// # Errors
    /// As [`Engine::highlights`].
    pub fn answer<Text: Deref<Target = str>>(
        &self,
        asked: &OwnedRequest<Text>,
        question: &Question,
        call: &Call,
    ) -> Result<Answers> {
        asked.with(|request| self.highlights(request, question, call))
    }

    /// As [`Engine::highlights`]. Whoever drops the future stops its call first, so that devices do not work in vain. Where no
    /// thread drives the devices (see [`Engine::driven_by_callers`]), whoever polls it has to.
    ///
    /// # Errors
    /// As [`Engine::highlights`].
    pub async fn answer_later<Text: Deref<Target = str>>(
        self: Arc<Self>,
        asked: OwnedRequest<Text>,
        question: Question,
        call: Arc<Call<'static>>,
    ) -> Result<Answers> {
        let queries: Vec<&str> = asked.queries.iter().map(|query| &**query).collect();
        let pages: Vec<&str> = asked.pages.iter().map(|page| &**page).collect();
        let titles: Vec<Option<&str>> = asked.titles.iter().map(Option::as_deref).collect();
        let (formats, pairing) = (&asked.formats, asked.pairing);
        let request = Request { queries: &queries, pages: &pages, formats, titles: &titles, pairing };
        self.answers(&request, &question, &call).await
    }

    /// Runs a call on the engine's own few threads; it ends when its task is dropped, or with the engine.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::Forked`]; [`ErrorKind::InvalidArgument`] where the engine may have no threads.
    pub fn spawn(&self, call: impl Future<Output = ()> + Send + 'static) -> Result<Task<()>> {
        self.check_process()?;
        if self.is_driven {
            let message = "with threads=\"caller\" there is no thread beside the caller's; allow at least one";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.tasks.spawn(call)
    }

    /// As [`Engine::embed`], and as [`Engine::answer_later`].
    ///
    /// # Errors
    /// As [`Engine::embed`].
    pub async fn embed_later<Text: Deref<Target = str>>(
        self: Arc<Self>,
        texts: Vec<Text>,
        role: Role,
        call: Arc<Call<'static>>,
    ) -> Result<Embedded> {
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        self.embedded(&texts, role, &call).await
    }
}
