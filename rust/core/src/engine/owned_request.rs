//! Requests that own their texts, for calls that outlive the caller's stack frame: futures and tasks.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use super::{Answers, Embeddings, Engine, Pairing, Question, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::runtime::tasks::Task;
use crate::text::formats::Format;
use crate::tokens::Role;

#[derive(Clone, Debug)]
pub struct OwnedRequest<Text> {
    pub queries: Vec<Text>,
    pub pages: Vec<Text>,
    pub formats: Vec<Format>,
    pub titles: Vec<Option<Text>>,
    pub pairing: Pairing,
}

impl<Text: Deref<Target = str>> OwnedRequest<Text> {
    pub(super) fn check(&self) -> Result<()> {
        self.texts().request().check()
    }

    pub(super) fn texts(&self) -> BorrowedTexts<'_> {
        BorrowedTexts {
            queries: self.queries.iter().map(|query| &**query).collect(),
            pages: self.pages.iter().map(|page| &**page).collect(),
            formats: &self.formats,
            titles: self.titles.iter().map(Option::as_deref).collect(),
            pairing: self.pairing,
        }
    }
}

pub(super) struct BorrowedTexts<'text> {
    queries: Vec<&'text str>,
    pages: Vec<&'text str>,
    formats: &'text [Format],
    titles: Vec<Option<&'text str>>,
    pairing: Pairing,
}

impl BorrowedTexts<'_> {
    pub(super) fn request(&self) -> Request<'_> {
        let Self { queries, pages, formats, titles, pairing } = self;
        Request { queries, pages, formats, titles, pairing: *pairing }
    }
}

impl Engine {
    /// As [`Engine::highlights`].
    pub fn answer<Text: Deref<Target = str>>(
        &self,
        request: &OwnedRequest<Text>,
        question: &Question,
        call: &Call,
    ) -> Result<Answers> {
        self.highlights(&request.texts().request(), question, call)
    }

    /// As [`Engine::highlights`]. Stop the call before dropping the future, or devices encode its rows for nothing.
    /// With [`Engine::driven_by_callers`], the code that polls the future must also drive the scheduler.
    pub async fn answer_async<Text: Deref<Target = str>>(
        self: Arc<Self>,
        request: OwnedRequest<Text>,
        question: Question,
        call: Arc<Call<'static>>,
    ) -> Result<Answers> {
        let texts = request.texts();
        self.answers(&texts.request(), &question, &call).await
    }

    /// Runs a future on the engine's task threads. It ends when the [`Task`] is dropped or the engine closes.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::Forked`]; [`ErrorKind::InvalidArgument`] with [`Engine::driven_by_callers`].
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Result<Task<()>> {
        self.check_process()?;
        if self.is_driven_by_callers {
            let message = "threads=\"caller\" starts no threads, which asynchronous calls need; allow at least one";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.tasks.spawn(future)
    }

    /// As [`Engine::embed`], under the conditions of [`Engine::answer_async`].
    pub async fn embed_async<Text: Deref<Target = str>>(
        self: Arc<Self>,
        texts: Vec<Text>,
        role: Role,
        call: Arc<Call<'static>>,
    ) -> Result<Embeddings> {
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        self.embeddings(&texts, role, &call).await
    }
}
