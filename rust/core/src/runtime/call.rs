//! A call's deadline, cancellation, priority and limits.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::sync::{AtomicBool, Ordering, lock};

/// How often a waiting caller polls for an interrupt. Ctrl-C takes effect within this time.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// What travels with one call from the edge of the library to the devices.
#[derive(Clone)]
pub struct Call<'caller> {
    deadline: Option<Instant>,
    /// Polled every [`INTERRUPT_INTERVAL`], on the caller's own thread only.
    interrupted: Option<Interrupted<'caller>>,
    stop: Stop,
    priority: i32,
    limits: WorkLimits,
    progress: ProgressCounters,
    token_counter: Option<Arc<TokenCounter>>,
}

/// Returns true once the caller was interrupted. `Sync`, because the future that waits for vectors may move between
/// threads.
pub type Interrupted<'caller> = &'caller (dyn Fn() -> bool + Sync);

/// Counts a text's tokens for budgets, as the caller's own tokenizer does. Called from any thread; an error ends the call.
pub type TokenCounter = dyn Fn(&str) -> Result<usize> + Send + Sync;

/// Called between parts of work, from any thread. An error ends the work, as of a cancelled call.
pub type Check<'call> = dyn Fn() -> Result<()> + Sync + 'call;

/// The [`Check`] of work that nothing ends.
///
/// # Errors
/// None.
pub const fn unstopped() -> Result<()> {
    Ok(())
}

/// Runs work that nothing ends.
pub(crate) fn to_the_end<T>(work: impl FnOnce(&Check) -> Result<T>) -> T {
    work(&unstopped).expect("only the check fails, and this one does not")
}

/// Bytes of text between two checks: less than a millisecond of most work.
const CHECK_BYTES: usize = 64 * 1024;

/// Calls a [`Check`] while a loop goes through a text.
pub struct Checkpoints<'call> {
    check: &'call Check<'call>,
    /// The position of the next check.
    next: usize,
}

/// Upper bounds on a call's work; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLimits {
    /// Windows of all pages together.
    pub windows: Option<usize>,
    /// Token ids to encode, including special tokens and the queries' ids.
    pub tokens: Option<usize>,
}

/// Counts a call's work while it runs, so that a call that fails can still report it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressCounters(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    windows: AtomicUsize,
    rows: AtomicUsize,
    tokens: AtomicUsize,
}

/// A call's work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallProgress {
    /// Windows that the call's pages were cut into.
    pub windows: usize,
    /// Rows that devices have encoded: windows, queries and titles.
    pub rows: usize,
    /// Token ids of those rows.
    pub tokens: usize,
}

/// Cancels a call, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    stopped: Arc<AtomicBool>,
    shutdown: Option<ShutdownToken>,
}

/// Set when an engine closes. Its calls end at their next check.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownToken(Arc<AtomicBool>);

impl<'call> Checkpoints<'call> {
    pub fn new(check: &'call Check<'call>) -> Self {
        Self { check, next: 0 }
    }

    /// Checks at the first position, and then once every [`CHECK_BYTES`]. Positions below the last check's are free.
    ///
    /// # Errors
    /// Those of the check.
    #[inline]
    pub fn reach(&mut self, position: usize) -> Result<()> {
        if position < self.next {
            return Ok(());
        }
        self.next = position.saturating_add(CHECK_BYTES);
        (self.check)()
    }
}

impl Stop {
    /// Cancels the call. Its waiting rows are dropped; rows on a device are discarded when their batch ends.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// False after a deadline or a closed engine, unless a check has called [`Self::stop`] since.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl ShutdownToken {
    /// Ends every call made with [`Call::with_shutdown`].
    pub(crate) fn trigger(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl<'caller> Call<'caller> {
    /// A call with a timeout that polls `interrupted` while it waits.
    pub fn new(timeout: Option<Duration>, interrupted: Option<Interrupted<'caller>>) -> Self {
        // A timeout too long for the clock means none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (limits, progress) = (WorkLimits::default(), ProgressCounters::default());
        Self { deadline, interrupted, stop: Stop::default(), priority: 0, limits, progress, token_counter: None }
    }

    /// Budgets count tokens by this function, and not by the model's tokenizer.
    pub fn with_token_counter(self, token_counter: Option<Arc<TokenCounter>>) -> Self {
        Self { token_counter, ..self }
    }

    pub(crate) fn token_counter(&self) -> Option<&TokenCounter> {
        self.token_counter.as_deref()
    }

    /// Work beyond `limits` fails with [`ErrorKind::LimitExceeded`].
    pub fn with_limits(self, limits: WorkLimits) -> Self {
        Self { limits, ..self }
    }

    /// Replaces the stop handle with one that the caller already holds.
    pub fn stopped_by(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// A copy that also ends when `shutdown` is triggered.
    pub(crate) fn with_shutdown(&self, shutdown: &ShutdownToken) -> Self {
        let mut call = self.clone();
        call.stop.shutdown = Some(shutdown.clone());
        call
    }

    /// The same call for work that the engine does once for all calls: it has no limits, and counts for none.
    pub(crate) fn uncounted(&self) -> Self {
        Self { limits: WorkLimits::default(), progress: ProgressCounters::default(), ..self.clone() }
    }

    /// Lower is more urgent; the default is 0.
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    pub(crate) const fn priority(&self) -> i32 {
        self.priority
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The handle that stops this call from any thread.
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Work done so far, also after the call failed.
    pub fn progress(&self) -> CallProgress {
        self.progress.read()
    }

    /// [`Self::progress`] for a function that the call itself runs.
    pub fn progress_reader(&self) -> impl Fn() -> CallProgress + Send + Sync + use<> {
        let progress = self.progress.clone();
        move || progress.read()
    }

    pub(crate) const fn counters(&self) -> &ProgressCounters {
        &self.progress
    }

    /// Checks the call's total of windows.
    pub(crate) fn check_windows(&self, windows: usize) -> Result<()> {
        self.check_limit("windows", self.limits.windows, windows)
    }

    /// Checks the call's total of token ids.
    pub(crate) fn check_tokens(&self, tokens: usize) -> Result<()> {
        self.check_limit("tokens", self.limits.tokens, tokens)
    }

    fn check_limit(&self, what: &str, limit: Option<usize>, needed: usize) -> Result<()> {
        let Some(allowed) = limit.filter(|limit| needed > *limit) else { return Ok(()) };
        let CallProgress { windows, tokens, .. } = self.progress();
        let message = format!(
            "the call may have {allowed} {what} and needs {needed}; {windows} windows were cut and {tokens} tokens encoded so far"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// The longest that the caller may sleep before the next [`Call::check`].
    pub fn poll_interval(&self) -> Duration {
        let longest = if self.interrupted.is_some() { INTERRUPT_INTERVAL } else { Duration::from_secs(1) };
        self.deadline.map_or(longest, |deadline| deadline.saturating_duration_since(Instant::now()).min(longest))
    }

    /// Polls for an interrupt, cancellation and the deadline. Call it on the caller's thread. An error also stops the
    /// work in flight.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`], or [`ErrorKind::Closed`] if the engine was closed
    /// meanwhile.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.is_some_and(|interrupted| interrupted()) {
            self.stop.stop();
        }
        let checked = check(&self.stop, self.deadline);
        if checked.is_err() {
            self.stop.stop();
        }
        checked
    }
}

impl<'caller> Call<'caller> {
    /// [`Self::check`] for loops on the caller's thread. It polls the interrupt every [`INTERRUPT_INTERVAL`] only,
    /// because a poll may wait for Python's lock.
    pub fn own_checker(&self) -> impl Fn() -> Result<()> + Sync + use<'_, 'caller> {
        let polled = Mutex::new(Instant::now());
        move || {
            let mut polled = lock(&polled);
            if polled.elapsed() < INTERRUPT_INTERVAL {
                return check(&self.stop, self.deadline);
            }
            *polled = Instant::now();
            self.check()
        }
    }
}

impl Call<'_> {
    /// [`Self::check`] for other threads than the caller's: it polls no interrupt.
    pub(crate) fn checker(&self) -> impl Fn() -> Result<()> + Sync + use<> {
        let (stop, deadline) = (self.stop.clone(), self.deadline);
        move || check(&stop, deadline)
    }
}

impl ProgressCounters {
    pub(crate) fn add_windows(&self, windows: usize) {
        self.0.windows.fetch_add(windows, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: usize, tokens: usize) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
        self.0.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    fn read(&self) -> CallProgress {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Counts { windows, rows, tokens } = &*self.0;
        CallProgress { windows: read(windows), rows: read(rows), tokens: read(tokens) }
    }
}

pub(crate) fn check(stop: &Stop, deadline: Option<Instant>) -> Result<()> {
    if stop.shutdown.as_ref().is_some_and(|shutdown| shutdown.0.load(Ordering::Relaxed)) {
        return Err(Error::new(ErrorKind::Closed, "the highlighter was closed while the call ran"));
    }
    // Before the stop, which the first check after the deadline sets.
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(Error::new(
            ErrorKind::DeadlineExceeded,
            "the call's timeout passed before the work was done; allow more seconds, or fewer pages",
        ));
    }
    if stop.is_stopped() {
        return Err(Error::new(ErrorKind::Cancelled, "the call was stopped by its caller"));
    }
    Ok(())
}
