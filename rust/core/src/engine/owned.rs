//! Requests that own their texts, for whoever does not wait for an answer on the spot.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use super::{Answers, Embedded, Engine, Pairing, Question, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::runtime::tasks::Task;
use crate::text::formats::Format;
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

impl<Text: Deref<Target = str>> OwnedRequest<Text> {
    /// Whether all of it goes together.
    pub(super) fn check(&self) -> Result<()> {
        self.texts().request().check()
    }

    pub(super) fn texts(&self) -> Texts<'_> {
        Texts {
            queries: self.queries.iter().map(|query| &**query).collect(),
            pages: self.pages.iter().map(|page| &**page).collect(),
            formats: &self.formats,
            titles: self.titles.iter().map(Option::as_deref).collect(),
            pairing: self.pairing,
        }
    }
}

/// The texts of an owned request, each as a `&str`.
pub(super) struct Texts<'text> {
    queries: Vec<&'text str>,
    pages: Vec<&'text str>,
    formats: &'text [Format],
    titles: Vec<Option<&'text str>>,
    pairing: Pairing,
}

impl Texts<'_> {
    pub(super) fn request(&self) -> Request<'_> {
        let Self { queries, pages, formats, titles, pairing } = self;
        Request { queries, pages, formats, titles, pairing: *pairing }
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
        self.highlights(&asked.texts().request(), question, call)
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
        let texts = asked.texts();
        self.answers(&texts.request(), &question, &call).await
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
