//! The answers of a call in groups of neighbouring pages, each as soon as it is made.
//!
//! A page's answer depends on the pages of its group: where several pages compete, fewer windows of each are encoded
//! (see [`crate::ranking::candidates`]). Groups depend on the lengths of the pages alone, so that equal calls have equal
//! answers. The first group is small, and each may be twice as long as the one before: the first answers come soon, and
//! the others at the speed of a single call.

use std::ops::Range;
use std::sync::Arc;

use super::{Answers, Engine, Pairing, Question, Request};
use crate::error::Result;
use crate::runtime::call::Call;
use crate::text::formats::Format;

/// Bytes of the pages of the first group, unless its first page alone has more.
const FIRST_GROUP_BYTES: usize = 32 * 1024;

/// The same for the last groups: seconds of CPU time, next to which starting and ending a group is little.
const LAST_GROUP_BYTES: usize = 1024 * 1024;

/// A call whose pages are answered group by group. Nothing runs between two calls of [`Self::next`], so that a caller
/// that takes its time holds the work back.
#[derive(Debug)]
pub struct StreamedHighlights<Text> {
    request: Arc<Request<Text>>,
    question: Question,
    /// The first page of the next group.
    next: usize,
    /// The most bytes of the next group.
    bytes: usize,
}

impl<Text: AsRef<str>> StreamedHighlights<Text> {
    /// Checks a request. If pages share a limit, or if repeats are dropped over all pages, no page has its answer before
    /// all of them are ranked; then one group has all pages ([`Bounds::are_shared`](crate::highlights::Bounds::are_shared)).
    ///
    /// # Errors
    /// Those of [`Request::check`].
    pub fn new(request: Arc<Request<Text>>, question: Question) -> Result<Self> {
        request.check()?;
        let bytes = if question.bounds.are_shared() { usize::MAX } else { FIRST_GROUP_BYTES };
        Ok(Self { request, question, next: 0, bytes })
    }

    /// Whether [`Self::next`] has returned all pages.
    pub fn is_finished(&self) -> bool {
        self.next == self.request.pages.len()
    }

    /// Answers the next pages, in order: returns which, and the answers of a call with these pages alone, which count pages
    /// from 0. `None` after the last. A future that a driver runs, as that of [`Engine::highlights`]; limits of the call's
    /// work hold for each group.
    ///
    /// # Errors
    /// As [`Engine::highlights`]. The next call goes on with the pages after these.
    pub async fn next(&mut self, engine: &Engine, call: &Call<'_>) -> Result<Option<(Range<usize>, Answers)>> {
        if self.is_finished() {
            return Ok(None);
        }
        let pages = self.group();
        self.next = pages.end;
        self.bytes = self.bytes.saturating_mul(2).min(LAST_GROUP_BYTES.max(self.bytes));
        let answers = engine.highlights(&self.request.of_pages(&pages), &self.question, call).await?;
        Ok(Some((pages, answers)))
    }

    /// At least one page, and more while they have no more bytes than the group may have.
    fn group(&self) -> Range<usize> {
        let mut bytes = 0_usize;
        let fits = |page: &&Text| {
            bytes = bytes.saturating_add(page.as_ref().len());
            bytes <= self.bytes
        };
        let pages = self.request.pages[self.next..].iter().take_while(fits).count();
        self.next..self.next + pages.max(1)
    }
}

impl<Text: AsRef<str>> Request<Text> {
    /// The request for some of its pages.
    fn of_pages(&self, pages: &Range<usize>) -> Request<&str> {
        let Request { queries, pages: texts, formats, titles, pairing } = self.borrowed();
        let queries = if pairing == Pairing::Each { queries[pages.clone()].to_vec() } else { queries };
        let formats: Vec<Format> = if formats.len() == 1 { formats } else { formats[pages.clone()].to_vec() };
        let titles = if titles.is_empty() { titles } else { titles[pages.clone()].to_vec() };
        Request { queries, pages: texts[pages.clone()].to_vec(), formats, titles, pairing }
    }
}
