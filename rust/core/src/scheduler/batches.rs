//! Batches: the rows of all waiting jobs, packed under a token budget.
//!
//! Jobs take turns (see [`FairQueue`]), a batch each, so that an urgent one is done before the others, a small one long before a
//! large one that came earlier, and none starves.
//! A job gives its longest rows first: neighbours in a batch then have nearly the same length. A batch that a
//! job does not fill is filled by the next ones.
//!
//! Forming a batch, writing its rows and finding what is complete allocate nothing: the caller brings the buffers, which have
//! grown to the largest batch by then.

mod queries;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::encoder::{Batch, Budget};
use crate::error::{Error, Result};
use crate::runtime::call::{self, Progress, Stop};
use crate::scheduler::fair_queue::FairQueue;
use crate::tokens::TokenPage;
pub(crate) use queries::{Queries, QueryOffsets};

/// Names a job for as long as it is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(u64);

/// Rows that are encoded together, for one caller.
pub(crate) struct Job<Done> {
    /// Where each row's ids are, in the order of the rows.
    pub(crate) rows: Vec<RowSource>,
    /// What the rows are compared with; the scores of each, one for each query, come in the place of its vector then.
    pub(crate) queries: Option<Arc<Queries>>,
    /// The caller's memory, filled by the collect pass.
    pub(crate) vectors: Written,
    pub(crate) stop: Stop,
    pub(crate) deadline: Option<Instant>,
    /// Told of each row that is back.
    pub(crate) progress: Progress,
    /// Lower is more urgent.
    pub(crate) priority: i32,
    /// Told how the job ended, once.
    pub(crate) done: Done,
}

/// The vectors of a job's rows, one behind the other, in memory that is made when the first of them is here.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) values: Vec<f32>,
    /// Where the encoder's rows were written to, or lay when it gave them away.
    pub(crate) address: usize,
}

/// One row: a window of a page.
#[derive(Clone, Debug)]
pub(crate) struct RowSource {
    pub(crate) page: Arc<TokenPage>,
    pub(crate) window: usize,
}

/// A row in a batch, and the place its vector belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowTarget {
    pub(crate) job: JobId,
    pub(crate) row: usize,
    /// How many ids it has.
    pub(crate) length: usize,
}

struct Active<Done> {
    job: Job<Done>,
    /// Rows not yet in a batch, the longest last.
    waiting: Vec<usize>,
    since: Instant,
    /// Rows whose vector is not yet written.
    missing: usize,
}

/// Rows of a batch that failed. None of them share a batch with others any more.
struct Again {
    /// Sorted by length.
    targets: Vec<RowTarget>,
    /// The devices that failed on them: they get them no more. Never all there are.
    tried: Vec<usize>,
}

/// All unfinished jobs.
pub(crate) struct Batches<Done> {
    jobs: FxHashMap<JobId, Active<Done>>,
    /// Whose turn it is; holds ids of jobs with waiting rows, and some that are gone.
    turns: FairQueue<JobId>,
    /// Rows of failed batches, to be tried again.
    again: VecDeque<Again>,
    /// All waiting rows, and their ids.
    waiting_rows: usize,
    waiting_tokens: usize,
    /// Jobs that got the first of their rows into a batch since somebody asked, and how long they had waited for that in all.
    queued: (Duration, u64),
    next: u64,
    /// Whether rows of a batch stand as their jobs have them, and not by their lengths.
    in_order: bool,
    /// Those of the row that is compared.
    scores: Vec<f32>,
}

impl<Done> Batches<Done> {
    pub(crate) fn new(in_order: bool) -> Self {
        Self {
            jobs: FxHashMap::default(),
            turns: FairQueue::default(),
            again: VecDeque::new(),
            waiting_rows: 0,
            waiting_tokens: 0,
            queued: (Duration::ZERO, 0),
            next: 0,
            in_order,
            scores: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Takes a job in; one without rows is given back at once, for it is done.
    pub(crate) fn push(&mut self, job: Job<Done>) -> Option<Job<Done>> {
        if job.rows.is_empty() {
            return Some(job);
        }
        let id = JobId(self.next);
        self.next += 1;
        let mut waiting: Vec<usize> = (0..job.rows.len()).collect();
        waiting.sort_by_key(|row| job.rows[*row].len());
        self.waiting_rows += waiting.len();
        self.waiting_tokens += job.rows.iter().map(RowSource::len).sum::<usize>();
        self.turns.push(job.priority, id);
        self.jobs.insert(id, Active { missing: waiting.len(), waiting, since: Instant::now(), job });
        None
    }

    /// How much longer the rows that wait may wait for others, if no longer than this at all; none where a batch can leave.
    pub(crate) fn hold(&self, budget: Budget, timeout: Duration) -> Option<Duration> {
        if timeout.is_zero() || !self.again.is_empty() {
            return None;
        }
        if self.waiting_rows >= budget.rows || self.waiting_tokens >= budget.tokens {
            return None;
        }
        let waiting = self.jobs.values().filter(|active| !active.waiting.is_empty());
        let left = timeout.saturating_sub(waiting.map(|active| active.since).min()?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Writes the next batch for a device and where its rows belong, sorted by length; false where nothing waits for it. What
    /// was in both before is gone. Says which devices failed on these rows before.
    pub(crate) fn next_batch(
        &mut self,
        device: usize,
        budget: Budget,
        batch: &mut Batch,
        targets: &mut Vec<RowTarget>,
    ) -> Option<Vec<usize>> {
        targets.clear();
        let tried = self.take_again(device, budget, targets);
        if tried.is_none() {
            self.take_waiting(budget, targets);
        }
        self.pack(targets, batch);
        (!targets.is_empty()).then(|| tried.unwrap_or_default())
    }

    /// Takes rows that failed elsewhere, or here where memory was short, up to the budget.
    fn take_again(&mut self, device: usize, budget: Budget, targets: &mut Vec<RowTarget>) -> Option<Vec<usize>> {
        let jobs = &self.jobs;
        self.again.retain_mut(|again| {
            again.targets.retain(|target| jobs.contains_key(&target.job));
            !again.targets.is_empty()
        });
        let place = self.again.iter().position(|again| !again.tried.contains(&device))?;
        let again = &mut self.again[place];
        let mut tokens = 0;
        let fits = again.targets.iter().take_while(|target| {
            tokens += target.length;
            tokens <= budget.tokens
        });
        let count = fits.count().clamp(1, budget.rows.max(1));
        targets.extend(again.targets.drain(..count));
        let tried = again.tried.clone();
        if again.targets.is_empty() {
            self.again.remove(place);
        }
        Some(tried)
    }

    /// Whether rows wait for this device because all that work have failed on them.
    pub(crate) fn ask_for(&self, device: usize, covers_healthy: impl Fn(&[usize]) -> bool) -> bool {
        self.again.iter().any(|again| !again.tried.contains(&device) && covers_healthy(&again.tried))
    }

    /// Has rows of a batch that failed tried again: not on these devices.
    pub(crate) fn try_again(&mut self, targets: &[RowTarget], tried: Vec<usize>) {
        self.again.push_back(Again { targets: targets.to_vec(), tried });
    }

    /// Takes waiting rows, those of whose turn it is first, up to the budget; one row may exceed it.
    fn take_waiting(&mut self, budget: Budget, targets: &mut Vec<RowTarget>) {
        let mut tokens = 0;
        self.turns.begin();
        let first = self.turns.front().copied();
        while let Some(id) = self.turns.front().copied() {
            let Some(active) = self.jobs.get_mut(&id) else {
                self.turns.pop();
                continue;
            };
            let is_first = active.waiting.len() == active.job.rows.len();
            let since = active.since;
            let taken = targets.len();
            while let Some(row) = active.waiting.last().copied() {
                let length = active.job.rows[row].len();
                if !targets.is_empty() && (tokens + length > budget.tokens || targets.len() >= budget.rows) {
                    break;
                }
                active.waiting.pop();
                self.waiting_rows -= 1;
                self.waiting_tokens -= length;
                tokens += length;
                targets.push(RowTarget { job: id, row, length });
            }
            if is_first && targets.len() > taken {
                self.queued.0 += since.elapsed();
                self.queued.1 += 1;
            }
            if active.waiting.is_empty() {
                self.turns.pop();
            } else {
                // The batch is full. Whose turn it was goes to the back, unless it only filled up somebody else's batch.
                if Some(id) == first {
                    self.turns.rotate();
                }
                break;
            }
        }
        // Equally long rows stay in the order in which they were taken, which a sort that keeps it would need memory for.
        if self.in_order {
            targets.sort_unstable_by_key(|target| (target.job, target.row));
        } else {
            targets.sort_unstable_by_key(|target| (target.length, target.job, Reverse(target.row)));
        }
    }

    /// How many jobs have begun since this was asked for, and how long they had waited in all.
    pub(crate) fn take_queued(&mut self) -> (Duration, u64) {
        std::mem::take(&mut self.queued)
    }

    fn pack(&self, targets: &[RowTarget], batch: &mut Batch) {
        batch.ids.clear();
        batch.lengths.clear();
        for RowTarget { job, row, length } in targets {
            let source = &self.jobs[job].job.rows[*row];
            source.page.write_row(source.window, &mut batch.ids);
            batch.lengths.push(u32::try_from(*length).expect("a row is at most the model's limit long"));
        }
    }

    /// Whether these are all rows of one job, in its order.
    pub(crate) fn are_a_job(&self, targets: &[RowTarget]) -> bool {
        let Some(RowTarget { job, .. }) = targets.first() else { return false };
        let is_next = |(row, target): (usize, &RowTarget)| target.job == *job && target.row == row;
        self.jobs.get(job).is_some_and(|active| active.job.rows.len() == targets.len())
            && targets.iter().enumerate().all(is_next)
    }

    /// Makes the vectors of all rows of a job its own.
    pub(crate) fn give(&mut self, id: JobId, vectors: Vec<f32>) {
        if let Some(active) = self.jobs.get_mut(&id) {
            active.job.vectors = Written { address: vectors.as_ptr() as usize, values: vectors };
            active.missing = 0;
        }
    }

    /// Removes the jobs among these rows, which are written, that are complete.
    pub(crate) fn take_complete(&mut self, targets: &[RowTarget]) -> Vec<Job<Done>> {
        let mut complete = Vec::new();
        // Callers look at the counts from their threads. To count row by row took a tenth of the time that rows of a thousand
        // values take from a function to a socket: each count waits until the row before it is in memory.
        for rows in targets.chunk_by(|one, next| one.job == next.job) {
            let target = &rows[0];
            if let Some(active) = self.jobs.get(&target.job) {
                active.job.progress.add(rows.len(), rows.iter().map(|row| row.length).sum());
            }
            if self.jobs.get(&target.job).is_some_and(|active| active.missing == 0)
                && let Some(active) = self.jobs.remove(&target.job)
            {
                complete.push(active.job);
            }
        }
        complete
    }

    /// A batch failed wherever it was tried. Where one job was alone in it, the job is removed and returned; where several
    /// shared it, each one's rows are tried again by themselves, so that one job's poison is not another's error.
    pub(crate) fn batch_failed(&mut self, targets: &[RowTarget]) -> Option<Job<Done>> {
        let mut by_job: Vec<Vec<RowTarget>> = Vec::new();
        for target in targets {
            match by_job.iter_mut().find(|rows| rows[0].job == target.job) {
                Some(rows) => rows.push(*target),
                None => by_job.push(vec![*target]),
            }
        }
        if by_job.len() == 1 {
            return self.remove(targets[0].job);
        }
        self.again.extend(by_job.into_iter().map(|targets| Again { targets, tried: Vec::new() }));
        None
    }

    /// Removes a job, whatever of it is done.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<Job<Done>> {
        let active = self.jobs.remove(&id)?;
        self.waiting_rows -= active.waiting.len();
        self.waiting_tokens -= active.waiting.iter().map(|row| active.job.rows[*row].len()).sum::<usize>();
        Some(active.job)
    }

    /// Removes the jobs that nobody wants any more, each with the reason.
    pub(crate) fn take_unwanted(&mut self) -> Vec<(Job<Done>, Error)> {
        let unwanted: Vec<(JobId, Error)> = self
            .jobs
            .iter()
            .filter_map(|(id, active)| {
                call::check(&active.job.stop, active.job.deadline).err().map(|error| (*id, error))
            })
            .collect();
        unwanted.into_iter().filter_map(|(id, error)| Some((self.remove(id)?, error))).collect()
    }

    /// Removes all jobs.
    pub(crate) fn drain(&mut self) -> Vec<Job<Done>> {
        self.turns.clear();
        self.again.clear();
        (self.waiting_rows, self.waiting_tokens) = (0, 0);
        self.jobs.drain().map(|(_, active)| active.job).collect()
    }
}

impl Written {
    /// Writes a row of so many.
    fn write(&mut self, row: usize, rows: usize, vector: &[f32]) {
        let (start, size) = (row * vector.len(), rows * vector.len());
        if self.values.capacity() == 0 {
            // Zeroed memory costs less from the system than by our own hand, none at all less than either.
            self.values = if row == 0 { Vec::with_capacity(size) } else { vec![0.0; size] };
            self.address = self.values.as_ptr() as usize;
        }
        if start == self.values.len() {
            self.values.extend_from_slice(vector);
            return;
        }
        if start > self.values.len() {
            self.values.resize(size, 0.0);
        }
        self.values[start..start + vector.len()].copy_from_slice(vector);
    }
}

impl RowSource {
    fn len(&self) -> usize {
        self.page.row_len(self.window)
    }
}

/// Whether a row's values can be used: an encoder's NaN must not become a score.
pub(crate) fn check_values(values: &[f32]) -> Result<()> {
    // To the end without a way out on the way, so that the compiler can look at many at once: of 1,024 values it takes a
    // third of the time.
    if values.iter().fold(true, |are_finite, value| are_finite & value.is_finite()) {
        return Ok(());
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(place) => Err(Error::new(
            crate::error::ErrorKind::Encoder,
            format!(
                "the encoder returned {} at dimension {place}: its weights or its type cannot represent this text",
                values[place]
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fair_queue::FAIR_EVERY;

    /// Jobs of so many rows of one token, and of such a priority.
    pub(super) fn jobs(of: &[(usize, i32)]) -> Batches<()> {
        let mut batches = Batches::new(false);
        let page = Arc::new(TokenPage::of_rows(vec![(vec![1], false)]));
        for (rows, priority) in of {
            let rows: Vec<RowSource> = (0..*rows).map(|_| RowSource { page: Arc::clone(&page), window: 0 }).collect();
            let (vectors, stop, progress) = (Written::default(), Stop::default(), Progress::default());
            let job =
                Job { rows, queries: None, vectors, stop, deadline: None, priority: *priority, progress, done: () };
            assert!(batches.push(job).is_none());
        }
        batches
    }

    /// Whose rows each batch holds.
    fn taken(batches: &mut Batches<()>, rows: usize) -> Vec<Vec<u64>> {
        let (mut batch, mut targets) = (Batch::default(), Vec::new());
        let budget = Budget { tokens: 100, rows };
        std::iter::from_fn(|| {
            let tried = batches.next_batch(0, budget, &mut batch, &mut targets);
            tried.map(|_| targets.iter().map(|target| target.job.0).collect())
        })
        .collect()
    }

    #[test]
    fn jobs_take_turns_by_their_priority() {
        assert_eq!(taken(&mut jobs(&[(2, 0), (2, 0)]), 1), [[0], [1], [0], [1]]);
        assert_eq!(taken(&mut jobs(&[(2, 5), (2, 0), (1, -1)]), 1), [[2], [1], [1], [0], [0]]);
        // What a job leaves free is the most urgent other one's.
        assert_eq!(taken(&mut jobs(&[(1, 5), (1, 0), (1, -1)]), 2), [vec![1, 2], vec![0]]);
    }

    #[test]
    fn the_least_urgent_job_has_its_share() {
        let many = usize::try_from(FAIR_EVERY).unwrap() * 3;
        let order: Vec<u64> = taken(&mut jobs(&[(many, 9), (many, -9)]), 1).into_iter().flatten().collect();
        let share = order[..many].iter().filter(|job| **job == 0).count();
        assert_eq!((share, order.len()), (3, 2 * many));
    }
}
