//! Batches: the rows of all waiting jobs, packed under a token budget.
//!
//! Jobs take turns, one batch each (see [`FairQueue`]). So an urgent job finishes first, a small one finishes long
//! before a large one that came earlier, and none starves. A job contributes its longest rows first, so the rows of a
//! batch have nearly the same length. The next jobs fill up a batch that one job leaves partly empty, unless they want
//! another output.
//!
//! Forming a batch, writing its rows and finding complete jobs allocate nothing: the caller passes in buffers, which
//! grow to the largest batch and stay.

mod queries;
mod values;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::encoder::{Batch, BatchBudget, Output};
use crate::error::Error;
use crate::runtime::call::{self, ProgressCounters, Stop};
use crate::scheduler::fair_queue::FairQueue;
use crate::tokens::TokenPage;
pub(crate) use queries::{BatchQueries, QueryOffsets};

/// Unique among all jobs of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(u64);

/// Rows that are encoded for one caller.
pub(crate) struct Job<R> {
    pub(crate) rows: Vec<RowSource>,
    pub(crate) wanted: Wanted,
    /// The caller's memory. The collect pass fills it; it is allocated when the first row arrives.
    pub(crate) values: Vec<f32>,
    pub(crate) stop: Stop,
    pub(crate) deadline: Option<Instant>,
    /// Counts each row that is encoded.
    pub(crate) progress: ProgressCounters,
    /// Lower is more urgent.
    pub(crate) priority: i32,
    /// Receives the outcome, once.
    pub(crate) reply: R,
}

/// What a job's caller gets for each row.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Vector,
    /// Its cosine with each query, which devices or the scheduler compute.
    Cosines(Arc<BatchQueries>),
    /// The vectors of its tokens.
    TokenVectors,
    /// The score of the pair of texts that it is.
    Score,
    /// A label for each token of the pair of texts that it is.
    Labels,
}

/// A row's ids: one window of a page.
#[derive(Clone, Debug)]
pub(crate) struct RowSource {
    pub(crate) page: Arc<TokenPage>,
    pub(crate) window: usize,
}

/// A row in a batch, and where its values belong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowTarget {
    pub(crate) job: JobId,
    pub(crate) row: usize,
    /// In token ids.
    pub(crate) length: usize,
}

/// The rows of a batch in flight, and what it computes of them.
#[derive(Default)]
pub(crate) struct BatchRows {
    pub(crate) targets: Vec<RowTarget>,
    pub(crate) output: Output,
    pub(crate) offsets: QueryOffsets,
}

struct ActiveJob<R> {
    job: Job<R>,
    /// For values of tokens: the number of tokens before each row, and last that of all rows. Otherwise empty.
    token_starts: Vec<usize>,
    /// Rows not yet in a batch, the longest last.
    waiting: Vec<usize>,
    since: Instant,
    /// Rows whose values are not written yet.
    unwritten: usize,
}

/// Rows of a failed batch. They are never batched with other rows again.
struct RetriedRows {
    /// Sorted by length.
    targets: Vec<RowTarget>,
    /// Devices that failed on these rows and must not get them again. Never all devices.
    failed_devices: Vec<usize>,
}

/// The rows of all unfinished jobs.
pub(crate) struct Batches<R> {
    jobs: FxHashMap<JobId, ActiveJob<R>>,
    /// Jobs with waiting rows. A job that was removed early stays until its turn.
    queue: FairQueue<JobId>,
    retries: VecDeque<RetriedRows>,
    /// Rows of all jobs that are not yet in a batch, and their token ids.
    waiting_rows: usize,
    waiting_tokens: usize,
    /// Time that jobs waited for their first batch, and the number of those jobs, since [`Self::take_queue_time`].
    queue_time: (Duration, u64),
    next: u64,
    /// Whether a batch keeps its rows in their jobs' order instead of sorting them by length.
    in_order: bool,
    /// Reused for the cosines of one row.
    scores: Vec<f32>,
}

impl<R> Batches<R> {
    pub(crate) fn new(in_order: bool) -> Self {
        Self {
            jobs: FxHashMap::default(),
            queue: FairQueue::default(),
            retries: VecDeque::new(),
            waiting_rows: 0,
            waiting_tokens: 0,
            queue_time: (Duration::ZERO, 0),
            next: 0,
            in_order,
            scores: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Adds a job. One without rows is already complete, and is returned.
    pub(crate) fn push(&mut self, job: Job<R>) -> Option<Job<R>> {
        if job.rows.is_empty() {
            return Some(job);
        }
        let id = JobId(self.next);
        self.next += 1;
        let mut waiting: Vec<usize> = (0..job.rows.len()).collect();
        waiting.sort_by_key(|row| job.rows[*row].len());
        self.waiting_rows += waiting.len();
        self.waiting_tokens += job.rows.iter().map(RowSource::len).sum::<usize>();
        self.queue.push(job.priority, id);
        let token_starts = match job.wanted {
            Wanted::Vector | Wanted::Cosines(_) | Wanted::Score => Vec::new(),
            Wanted::TokenVectors | Wanted::Labels => {
                let end = |tokens: &mut usize, row: &RowSource| {
                    *tokens += row.len();
                    Some(*tokens)
                };
                std::iter::once(0).chain(job.rows.iter().scan(0, end)).collect()
            }
        };
        let unwritten = waiting.len();
        self.jobs.insert(id, ActiveJob { unwritten, token_starts, waiting, since: Instant::now(), job });
        None
    }

    /// How much longer to wait for more rows, at most `timeout` from the oldest job's arrival; `None` once a batch is
    /// due.
    pub(crate) fn batch_delay(&self, budget: BatchBudget, timeout: Duration) -> Option<Duration> {
        if timeout.is_zero() || !self.retries.is_empty() {
            return None;
        }
        if self.waiting_rows >= budget.rows || self.waiting_tokens >= budget.tokens {
            return None;
        }
        let waiting = self.jobs.values().filter(|active| !active.waiting.is_empty());
        let remaining = timeout.saturating_sub(waiting.map(|active| active.since).min()?.elapsed());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// The budget that spreads the waiting rows evenly: see [`BatchBudget::even`].
    pub(crate) fn even_budget(&self, budget: BatchBudget, in_flight: usize, workers: usize) -> BatchBudget {
        budget.even(self.waiting_rows, self.waiting_tokens, in_flight, workers)
    }

    /// Replaces `batch` and `rows` with the device's next batch, sorted by length, and where its rows belong. Devices
    /// compute cosines if the batch's queries are at most `max_queries`. Returns the devices that failed on these rows
    /// before; `None` where no rows wait for this device.
    pub(crate) fn next_batch(
        &mut self,
        device: usize,
        budget: BatchBudget,
        max_queries: usize,
        batch: &mut Batch,
        rows: &mut BatchRows,
    ) -> Option<Vec<usize>> {
        let targets = &mut rows.targets;
        targets.clear();
        let failed_devices = self.take_retry(device, budget, targets);
        if failed_devices.is_none() {
            self.take_waiting(budget, targets);
        }
        let first = targets.first()?;
        batch.output = self.jobs[&first.job].job.wanted.output();
        self.pack(targets, batch);
        self.add_queries(targets, max_queries, batch, &mut rows.offsets);
        rows.output = batch.output;
        Some(failed_devices.unwrap_or_default())
    }

    /// Takes rows that failed on another device, or on this one for lack of memory, up to the budget.
    fn take_retry(&mut self, device: usize, budget: BatchBudget, targets: &mut Vec<RowTarget>) -> Option<Vec<usize>> {
        let jobs = &self.jobs;
        self.retries.retain_mut(|retry| {
            retry.targets.retain(|target| jobs.contains_key(&target.job));
            !retry.targets.is_empty()
        });
        let index = self.retries.iter().position(|retry| !retry.failed_devices.contains(&device))?;
        let retry = &mut self.retries[index];
        let mut tokens = 0;
        let fits = retry.targets.iter().take_while(|target| {
            tokens += target.length;
            tokens <= budget.tokens
        });
        let count = fits.count().clamp(1, budget.rows.max(1));
        targets.extend(retry.targets.drain(..count));
        let failed_devices = retry.failed_devices.clone();
        if retry.targets.is_empty() {
            self.retries.remove(index);
        }
        Some(failed_devices)
    }

    /// Whether rows wait for this device because all healthy ones have failed on them.
    pub(crate) fn needs_device(&self, device: usize, covers_healthy: impl Fn(&[usize]) -> bool) -> bool {
        let is_next = |failed: &[usize]| !failed.contains(&device) && covers_healthy(failed);
        self.retries.iter().any(|retry| is_next(&retry.failed_devices))
    }

    /// Queues the rows of a failed batch again, for other devices than these.
    pub(crate) fn retry(&mut self, targets: &[RowTarget], failed_devices: Vec<usize>) {
        self.retries.push_back(RetriedRows { targets: targets.to_vec(), failed_devices });
    }

    /// Takes waiting rows of one output in the jobs' turns, up to the budget. A single row may exceed it.
    fn take_waiting(&mut self, budget: BatchBudget, targets: &mut Vec<RowTarget>) {
        let (mut tokens, mut output) = (0, None);
        self.queue.begin_turn();
        let first = self.queue.front().copied();
        while let Some(id) = self.queue.front().copied() {
            let Some(active) = self.jobs.get_mut(&id) else {
                self.queue.pop();
                continue;
            };
            if *output.get_or_insert(active.job.wanted.output()) != active.job.wanted.output() {
                break;
            }
            let is_new = active.waiting.len() == active.job.rows.len();
            let since = active.since;
            let start = targets.len();
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
            if is_new && targets.len() > start {
                self.queue_time.0 += since.elapsed();
                self.queue_time.1 += 1;
            }
            if active.waiting.is_empty() {
                self.queue.pop();
            } else {
                // The batch is full. The job whose turn it was goes to the back; one that only filled up the batch
                // stays.
                if Some(id) == first {
                    self.queue.rotate();
                }
                break;
            }
        }
        // The keys name the job and row, so that equally long rows keep the order in which they were taken. A stable
        // sort would do that too, but allocates.
        if self.in_order {
            targets.sort_unstable_by_key(|target| (target.job, target.row));
        } else {
            targets.sort_unstable_by_key(|target| (target.length, target.job, Reverse(target.row)));
        }
    }

    /// The time that jobs waited for their first batch, and the number of those jobs, since the last call of this.
    pub(crate) fn take_queue_time(&mut self) -> (Duration, u64) {
        std::mem::take(&mut self.queue_time)
    }

    fn pack(&self, targets: &[RowTarget], batch: &mut Batch) {
        batch.ids.clear();
        batch.lengths.clear();
        batch.seconds.clear();
        batch.unattended.clear();
        for RowTarget { job, row, length } in targets {
            let source = &self.jobs[job].job.rows[*row];
            source.page.write_row(source.window, &mut batch.ids);
            batch.lengths.push(u32::try_from(*length).expect("a row is at most the model's limit long"));
            batch.seconds.extend(source.page.second(source.window));
            batch.unattended.push(source.page.unattended(source.window));
        }
        if batch.unattended.iter().all(|count| *count == 0) {
            batch.unattended.clear();
        }
    }

    /// Counts these rows as encoded, and removes the jobs among them that are complete.
    pub(crate) fn take_complete(&mut self, targets: &[RowTarget]) -> Vec<Job<R>> {
        let mut complete = Vec::new();
        // One addition for each job: callers read the counters from their threads, so each addition waits until the
        // stores of the row before it are visible. Row by row this took a tenth of the time from function to socket for
        // rows of 1,024 values.
        for rows in targets.chunk_by(|one, next| one.job == next.job) {
            let target = &rows[0];
            if let Some(active) = self.jobs.get(&target.job) {
                active.job.progress.add_rows(rows.len(), rows.iter().map(|row| row.length).sum());
            }
            if self.jobs.get(&target.job).is_some_and(|active| active.unwritten == 0)
                && let Some(active) = self.jobs.remove(&target.job)
            {
                complete.push(active.job);
            }
        }
        complete
    }

    /// Handles a batch that failed on every device. If it held one job's rows, that job is removed and returned.
    /// Otherwise each job's rows are retried by themselves, so that one job's invalid rows do not fail another job.
    pub(crate) fn batch_failed(&mut self, targets: &[RowTarget]) -> Option<Job<R>> {
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
        self.retries.extend(by_job.into_iter().map(|targets| RetriedRows { targets, failed_devices: Vec::new() }));
        None
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Job<R>> {
        let active = self.jobs.remove(&id)?;
        self.waiting_rows -= active.waiting.len();
        self.waiting_tokens -= active.waiting.iter().map(|row| active.job.rows[*row].len()).sum::<usize>();
        Some(active.job)
    }

    /// Removes jobs that were cancelled or missed their deadline, each with its error.
    pub(crate) fn take_cancelled(&mut self) -> Vec<(Job<R>, Error)> {
        let cancelled: Vec<(JobId, Error)> = self
            .jobs
            .iter()
            .filter_map(|(id, active)| {
                call::check(&active.job.stop, active.job.deadline).err().map(|error| (*id, error))
            })
            .collect();
        cancelled.into_iter().filter_map(|(id, error)| Some((self.remove(id)?, error))).collect()
    }

    pub(crate) fn drain(&mut self) -> Vec<Job<R>> {
        self.queue.clear();
        self.retries.clear();
        (self.waiting_rows, self.waiting_tokens) = (0, 0);
        self.jobs.drain().map(|(_, active)| active.job).collect()
    }
}

impl Wanted {
    /// What is computed of a batch of such rows, unless devices compute their cosines.
    const fn output(&self) -> Output {
        match self {
            Self::Vector | Self::Cosines(_) => Output::Vectors,
            Self::TokenVectors => Output::TokenVectors,
            Self::Score => Output::Scores,
            Self::Labels => Output::Labels,
        }
    }
}

impl RowSource {
    pub(crate) fn len(&self) -> usize {
        self.page.row_len(self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::fair_queue::FAIR_EVERY;

    /// One job for each (number of rows, priority); each row has one token.
    pub(super) fn jobs(of: &[(usize, i32)]) -> Batches<()> {
        let mut batches = Batches::new(false);
        let page = Arc::new(TokenPage::of_rows(vec![(vec![1], false)]));
        for (rows, priority) in of {
            let rows: Vec<RowSource> = (0..*rows).map(|_| RowSource { page: Arc::clone(&page), window: 0 }).collect();
            assert!(batches.push(job(rows, *priority, Wanted::Vector)).is_none());
        }
        batches
    }

    pub(super) fn job(rows: Vec<RowSource>, priority: i32, wanted: Wanted) -> Job<()> {
        let (values, stop, progress) = (Vec::new(), Stop::default(), ProgressCounters::default());
        Job { rows, wanted, values, stop, deadline: None, priority, progress, reply: () }
    }

    fn batched_jobs(batches: &mut Batches<()>, rows: usize) -> Vec<Vec<u64>> {
        let (mut batch, mut taken) = (Batch::default(), BatchRows::default());
        let budget = BatchBudget { tokens: 100, rows };
        std::iter::from_fn(|| {
            let failed_devices = batches.next_batch(0, budget, 0, &mut batch, &mut taken);
            failed_devices.map(|_| taken.targets.iter().map(|target| target.job.0).collect())
        })
        .collect()
    }

    #[test]
    fn jobs_take_turns_by_priority() {
        assert_eq!(batched_jobs(&mut jobs(&[(2, 0), (2, 0)]), 1), [[0], [1], [0], [1]]);
        assert_eq!(batched_jobs(&mut jobs(&[(2, 5), (2, 0), (1, -1)]), 1), [[2], [1], [1], [0], [0]]);
        // The most urgent other job fills up a batch.
        assert_eq!(batched_jobs(&mut jobs(&[(1, 5), (1, 0), (1, -1)]), 2), [vec![1, 2], vec![0]]);
    }

    #[test]
    fn the_least_urgent_job_gets_every_eighth_batch() {
        let many = usize::try_from(FAIR_EVERY).unwrap() * 3;
        let order: Vec<u64> = batched_jobs(&mut jobs(&[(many, 9), (many, -9)]), 1).into_iter().flatten().collect();
        let share = order[..many].iter().filter(|job| **job == 0).count();
        assert_eq!((share, order.len()), (3, 2 * many));
    }
}
