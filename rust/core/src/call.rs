//! A call: how long it may take, and whether its caller still wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};

/// How often a waiting caller looks whether it was interrupted: a Ctrl-C is felt within this time.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// One caller's wish, from the edge of the library to the devices.
#[derive(Clone)]
pub struct Call<'caller> {
    deadline: Option<Instant>,
    /// Asked on the caller's own thread, every 50 ms: has the caller been told to stop?
    interrupted: Option<&'caller dyn Fn() -> bool>,
    stop: Stop,
    /// Lower is more urgent.
    priority: i32,
}

/// Says, from any thread, that a call is not wanted any more.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops the call: what waits is dropped, what runs on a device is thrown away when it ends.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the call was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
    pub fn new(timeout: Option<Duration>, interrupted: Option<&'caller dyn Fn() -> bool>) -> Self {
        // A timeout too long to be added to the clock is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { deadline, interrupted, stop: Stop::default(), priority: 0 }
    }

    /// The same call, stopped by a handle that is known before the call begins.
    #[must_use]
    pub fn stopped_by(self, stop: Stop) -> Self {
        Self { stop, ..self }
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

    /// How long the caller may sleep before it looks around again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let longest = if self.interrupted.is_some() { LOOK_AROUND } else { Duration::from_secs(1) };
        self.deadline.map_or(longest, |deadline| deadline.saturating_duration_since(Instant::now()).min(longest))
    }

    /// Looks around, on the caller's thread; an error stops the work in flight as well.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] or [`ErrorKind::DeadlineExceeded`].
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

/// Whether work for a call may go on; for threads that are not the caller's.
pub(crate) fn check(stop: &Stop, deadline: Option<Instant>) -> Result<()> {
    if stop.is_stopped() {
        return Err(Error::new(ErrorKind::Cancelled, "the call was stopped by its caller"));
    }
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Err(Error::new(ErrorKind::DeadlineExceeded, "the call's timeout passed before the work was done"));
    }
    Ok(())
}
