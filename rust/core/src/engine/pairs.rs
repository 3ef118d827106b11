//! Pairs of a query and a page, as the rows of a table.
//!
//! Each pair gets the answer of a call of its own: other pairs do not affect its scores. Neighbouring pairs go through
//! the stages in groups (see [`Pairing::Each`]), which fills batches. While one group waits for vectors, the next is
//! cut and tokenized. An invalid pair fails alone.

use std::ops::{AddAssign, Range};

use futures_util::stream::{StreamExt, iter};

use super::{Answers, Engine, Pairing, Question, Request, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::scheduler::block_on;
use crate::text::formats::Format;

/// Text of a group: a few seconds of CPU time, which hide the cost of starting and ending a group.
const GROUP_BYTES: usize = 512 * 1024;

/// Bounds groups of very short texts, where the cost is in the pairs.
const GROUP_PAIRS: usize = 2048;

/// One group whose vectors are computed, and one whose pages are cut meanwhile.
const GROUPS_IN_FLIGHT: usize = 2;

/// A query and the page to search.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'text> {
    /// Must not be blank.
    pub query: &'text str,
    /// Plain text, Markdown or HTML, as the call's format says.
    pub page: &'text str,
}

/// Neighbouring pairs that are answered together, or one that is invalid.
enum Group {
    Valid(Range<usize>),
    Invalid(usize, Error),
}

impl Engine {
    /// Answers each pair as [`Engine::highlights`] of it alone would. Calls `emit` with ranges of pairs in order, until
    /// all pairs are covered: each with the answers of all pairs in the range, or with the error of a single pair.
    ///
    /// # Errors
    /// Errors of `emit` and of [`Call::check`], and errors that end the whole call. Errors of a pair go to `emit`.
    pub fn highlights_of_pairs(
        &self,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call,
        emit: &mut dyn FnMut(Range<usize>, Result<Answers>) -> Result<()>,
    ) -> Result<()> {
        let scheduler = self.scheduler()?;
        let running = async {
            let run = |group| self.run_group(group, pairs, format, question, call);
            let mut answered = iter(groups(pairs)).map(run).buffered(GROUPS_IN_FLIGHT);
            while let Some(answered) = answered.next().await {
                for (range, answers) in answered? {
                    emit(range, answers)?;
                }
            }
            Ok(())
        };
        block_on(running, &scheduler, call)
    }

    async fn run_group(
        &self,
        group: Group,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Vec<(Range<usize>, Result<Answers>)>> {
        let range = match group {
            Group::Valid(range) => range,
            Group::Invalid(pair, error) => return Ok(vec![(pair..pair + 1, Err(error))]),
        };
        match self.run_together(&pairs[range.clone()], format, question, call).await {
            Err(error) if ends_call(&error) => return Err(error),
            Err(_) if range.len() > 1 => {}
            answers => return Ok(vec![(range, answers)]),
        }
        // One pair made the group fail. Answering each alone finds it.
        let mut alone = Vec::with_capacity(range.len());
        for pair in range {
            match self.run_together(&pairs[pair..=pair], format, question, call).await {
                Err(error) if ends_call(&error) => return Err(error),
                answers => alone.push((pair..pair + 1, answers)),
            }
        }
        Ok(alone)
    }

    async fn run_together(
        &self,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        let (queries, pages) = pairs.iter().map(|pair| (pair.query, pair.page)).unzip();
        let request = Request { queries, pages, formats: vec![format], titles: Vec::new(), pairing: Pairing::Each };
        self.highlights(&request, question, call).await
    }
}

/// Whether an error belongs to the whole call instead of one pair.
const fn ends_call(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled
            | ErrorKind::DeadlineExceeded
            | ErrorKind::Closed
            | ErrorKind::Forked
            | ErrorKind::Overloaded
    )
}

/// Groups neighbouring pairs. An invalid pair is a group of its own.
fn groups(pairs: &[Pair<'_>]) -> impl Iterator<Item = Group> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = next;
        let mut bytes = 0;
        while let Some(pair) = pairs.get(next)
            && bytes < GROUP_BYTES
            && next - start < GROUP_PAIRS
        {
            if let Err(error) = pair.check() {
                if next > start {
                    break;
                }
                next += 1;
                return Some(Group::Invalid(start, error));
            }
            // A page repeated for the next query is parsed once.
            let is_repeated = next > start && std::ptr::eq(pairs[next - 1].page, pair.page);
            bytes += if is_repeated { 0 } else { pair.page.len() };
            next += 1;
        }
        (next > start).then_some(Group::Valid(start..next))
    })
}

impl Pair<'_> {
    fn check(&self) -> Result<()> {
        let (queries, pages, formats) = (vec![self.query], vec![self.page], vec![Format::Text]);
        Request { queries, pages, formats, titles: Vec::new(), pairing: Pairing::Each }.check()
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.windows += more.windows;
        self.windows_scored += more.windows_scored;
        self.encoded += more.encoded;
        self.tokens += more.tokens;
        self.truncated += more.truncated;
        self.cutting += more.cutting;
        self.tokenizing += more.tokenizing;
        self.waiting += more.waiting;
        self.ranking += more.ranking;
    }
}
