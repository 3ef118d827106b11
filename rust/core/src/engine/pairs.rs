//! Pairs: the rows of a table, each a query and the page it is asked of.
//!
//! A pair is answered as a call of its own would be: no other has a part in its scores. Neighbours go through the stages
//! together, in groups (see [`Pairing::Each`]), so that batches are full; while one group waits for vectors the next is cut
//! and tokenized. A pair that cannot be answered is only its own error.

use std::ops::{AddAssign, Range};

use futures_util::stream::{StreamExt, iter};

use super::{Answers, Engine, Pairing, Question, Request, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::scheduler::block_on;
use crate::text::formats::Format;

/// Text of a group: some seconds of a core's work, which hide what it takes to begin and to end a group.
const GROUP_BYTES: usize = 512 * 1024;

/// Pairs of a group, at most: of very short texts it is these that cost.
const GROUP_PAIRS: usize = 2048;

/// Groups in progress: one whose vectors are computed, and one whose text is read meanwhile.
const GROUPS_IN_FLIGHT: usize = 2;

/// A query, and the page that it is asked of.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'text> {
    /// What is asked.
    pub query: &'text str,
    /// The source of the page.
    pub page: &'text str,
}

/// Neighbours that are answered together, or one that cannot be.
enum Group {
    Together(Range<usize>),
    Wrong(usize, Error),
}

impl Engine {
    /// Answers each pair as [`Engine::highlights`] of it alone would, and tells of all pairs once, in their order: of
    /// neighbours the answers (of which the first is that of the first pair), or of one pair why it has none.
    ///
    /// # Errors
    /// What ends the call; what is wrong with a pair is told.
    pub fn answer_pairs(
        &self,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call,
        told: &mut dyn FnMut(Range<usize>, Result<Answers>) -> Result<()>,
    ) -> Result<()> {
        let scheduler = self.scheduler()?;
        let answering = async {
            let answer = |group| self.answer_group(group, pairs, format, question, call);
            let mut answered = iter(groups(pairs)).map(answer).buffered(GROUPS_IN_FLIGHT);
            while let Some(answered) = answered.next().await {
                for (range, answers) in answered? {
                    told(range, answers)?;
                }
            }
            Ok(())
        };
        block_on(answering, &scheduler, call)
    }

    /// What is to be told of a group.
    async fn answer_group(
        &self,
        group: Group,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Vec<(Range<usize>, Result<Answers>)>> {
        let range = match group {
            Group::Together(range) => range,
            Group::Wrong(pair, error) => return Ok(vec![(pair..pair + 1, Err(error))]),
        };
        match self.answer_together(&pairs[range.clone()], format, question, call).await {
            Err(error) if ends_all(&error) => return Err(error),
            Err(_) if range.len() > 1 => {}
            answers => return Ok(vec![(range, answers)]),
        }
        // Whose fault it was is found by asking one after the other.
        let mut alone = Vec::with_capacity(range.len());
        for pair in range {
            match self.answer_together(&pairs[pair..=pair], format, question, call).await {
                Err(error) if ends_all(&error) => return Err(error),
                answers => alone.push((pair..pair + 1, answers)),
            }
        }
        Ok(alone)
    }

    async fn answer_together(
        &self,
        pairs: &[Pair<'_>],
        format: Format,
        question: &Question,
        call: &Call<'_>,
    ) -> Result<Answers> {
        let queries: Vec<&str> = pairs.iter().map(|pair| pair.query).collect();
        let pages: Vec<&str> = pairs.iter().map(|pair| pair.page).collect();
        let (formats, titles, pairing) = (&[format], &[], Pairing::Each);
        self.answers(&Request { queries: &queries, pages: &pages, formats, titles, pairing }, question, call).await
    }
}

/// Whether an error is that of the whole call, and not of one of its pairs.
const fn ends_all(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled
            | ErrorKind::DeadlineExceeded
            | ErrorKind::Closed
            | ErrorKind::Forked
            | ErrorKind::Overloaded
    )
}

/// Neighbours in groups; what can be seen to be wrong stands alone.
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
                return Some(Group::Wrong(start, error));
            }
            // What is asked again of the same page is read once.
            let is_same = next > start && std::ptr::eq(pairs[next - 1].page, pair.page);
            bytes += if is_same { 0 } else { pair.page.len() };
            next += 1;
        }
        (next > start).then_some(Group::Together(start..next))
    })
}

impl Pair<'_> {
    fn check(&self) -> Result<()> {
        let (queries, pages, formats) = (&[self.query], &[self.page], &[Format::Text]);
        Request { queries, pages, formats, titles: &[], pairing: Pairing::Each }.check()
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
