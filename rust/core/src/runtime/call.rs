//! A call: how long it may take, and whether its caller still wants it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::sync::{AtomicBool, Ordering};

/// How often a waiting caller looks whether it was interrupted: a Ctrl-C is felt within this time.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// One caller's wish, from the edge of the library to the devices.
#[derive(Clone)]
pub struct Call<'caller> {
    deadline: Option<Instant>,
    /// Asked on the caller's own thread, every 50 ms: has the caller been told to stop?
    interrupted: Option<Interrupted<'caller>>,
    stop: Stop,
    /// Lower is more urgent.
    priority: i32,
    allowance: Allowance,
    progress: Progress,
}

/// Whether a caller has been told to stop. `Sync`, because what waits for a call's vectors may go from thread to thread.
pub type Interrupted<'caller> = &'caller (dyn Fn() -> bool + Sync);

/// How much a call may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Pieces of its pages, in all.
    pub windows: Option<usize>,
    /// Token ids encoded, special ones and the queries' included.
    pub tokens: Option<usize>,
}

/// How much of a call was done: counted while it is, for who hears only that it failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    windows: AtomicUsize,
    rows: AtomicUsize,
    tokens: AtomicUsize,
}

/// How much of a call was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Pieces that its pages were cut into.
    pub windows: usize,
    /// Rows that came back from the devices: windows, queries and titles.
    pub rows: usize,
    /// Their token ids.
    pub tokens: usize,
}

/// Says, from any thread, that a call is not wanted any more.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    unwanted: Arc<AtomicBool>,
    /// The end of the engine that the call is in.
    end: Option<ShutdownToken>,
}

/// The end of an engine, which all its calls feel at their next look.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownToken(Arc<AtomicBool>);

impl Stop {
    /// Stops the call: what waits is dropped, what runs on a device is thrown away when it ends.
    pub fn stop(&self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }

    /// Whether the call was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }
}

impl ShutdownToken {
    /// Ends every call that is [inside](Call::inside).
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl<'caller> Call<'caller> {
    /// A call that may take so long, and that asks `interrupted` while it waits.
    #[must_use]
    pub fn new(timeout: Option<Duration>, interrupted: Option<Interrupted<'caller>>) -> Self {
        // A timeout too long to be added to the clock is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (allowance, progress) = (Allowance::default(), Progress::default());
        Self { deadline, interrupted, stop: Stop::default(), priority: 0, allowance, progress }
    }

    /// The same call, which may do so much and no more.
    #[must_use]
    pub fn within(self, allowance: Allowance) -> Self {
        Self { allowance, ..self }
    }

    /// The same call, stopped by a handle that is known before the call begins.
    #[must_use]
    pub fn stopped_by(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// The same call inside an engine, with which it ends.
    #[must_use]
    pub(crate) fn inside(&self, end: &ShutdownToken) -> Self {
        let mut inside = self.clone();
        inside.stop.end = Some(end.clone());
        inside
    }

    /// The same call, before all calls of a higher priority; 0 is what calls have of themselves.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// How urgent the call is: the lower, the more.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// When the call must be done.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The handle that stops this call.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// How much of it was done so far.
    #[must_use]
    pub fn done(&self) -> Done {
        self.progress.done()
    }

    pub(crate) const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether the call may have so many windows in all.
    ///
    /// # Errors
    /// [`ErrorKind::LimitExceeded`].
    pub(crate) fn allow_windows(&self, windows: usize) -> Result<()> {
        self.allow("windows", self.allowance.windows, windows)
    }

    /// Whether so many tokens may be encoded in all.
    ///
    /// # Errors
    /// [`ErrorKind::LimitExceeded`].
    pub(crate) fn allow_tokens(&self, tokens: usize) -> Result<()> {
        self.allow("tokens", self.allowance.tokens, tokens)
    }

    fn allow(&self, what: &str, allowed: Option<usize>, needed: usize) -> Result<()> {
        let Some(allowed) = allowed.filter(|allowed| needed > *allowed) else { return Ok(()) };
        let Done { windows, tokens, .. } = self.done();
        let message = format!(
            "the call may have {allowed} {what} and needs {needed}; {windows} windows were cut and {tokens} tokens encoded so far"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// How long the caller may sleep before it looks around again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let longest = if self.interrupted.is_some() { LOOK_AROUND } else { Duration::from_secs(1) };
        self.deadline.map_or(longest, |deadline| deadline.saturating_duration_since(Instant::now()).min(longest))
    }

    /// Looks around, on the caller's thread; an error stops the work in flight as well.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`], [`ErrorKind::DeadlineExceeded`], or [`ErrorKind::Closed`] inside an engine that was closed.
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

impl Progress {
    pub(crate) fn add_windows(&self, windows: usize) {
        self.0.windows.fetch_add(windows, Ordering::Relaxed);
    }

    /// So many more rows are back, which had so many ids in all.
    pub(crate) fn add(&self, rows: usize, tokens: usize) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
        self.0.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    fn done(&self) -> Done {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Counts { windows, rows, tokens } = &*self.0;
        Done { windows: read(windows), rows: read(rows), tokens: read(tokens) }
    }
}

/// Whether work for a call may go on; for threads that are not the caller's.
pub(crate) fn check(stop: &Stop, deadline: Option<Instant>) -> Result<()> {
    if stop.end.as_ref().is_some_and(|end| end.0.load(Ordering::Relaxed)) {
        return Err(Error::new(ErrorKind::Closed, "the highlighter was closed while the call ran"));
    }
    if stop.is_stopped() {
        return Err(Error::new(ErrorKind::Cancelled, "the call was stopped by its caller"));
    }
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(Error::new(ErrorKind::DeadlineExceeded, "the call's timeout passed before the work was done"));
    }
    Ok(())
}
