//! Attempts: how often a request is tried, when, and until when.
//!
//! Between attempts lies a random time up to a limit that doubles ("full jitter"), so that clients which failed together do
//! not come back together, and never less than the server asked for. All requests of a client share a budget: where most
//! fail, trying all of them again would only add to what keeps the servers from answering.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::error::{Error, ErrorKind, Result};

use crate::request_error::{RequestError, Retry};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Retries that are allowed whatever the share: one request that fails is no storm.
const RESERVE: f64 = 10.0;
/// Retries that requests of the past may have saved up.
const MOST_SAVED: f64 = 100.0;

/// Retries that may be made: each request adds a share of one, each second one until the reserve is full again.
pub(crate) struct Budget {
    share: f64,
    state: Mutex<(f64, Instant)>,
}

/// What a caller says about a whole call.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions {
    /// When it must be done.
    pub deadline: Option<Instant>,
    /// How urgent it is for the server: lower is more.
    pub priority: Option<i32>,
}

impl CallOptions {
    /// A call that may take so long from now on. A timeout too long to be added to the clock is none.
    #[must_use]
    pub fn new(timeout: Option<Duration>, priority: Option<i32>) -> Self {
        Self { deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)), priority }
    }
}

/// What is left to one request.
pub(crate) struct Attempts<'client> {
    budget: &'client Budget,
    pub(crate) call: CallOptions,
    left: u32,
    made: u32,
    /// The server that has just failed.
    pub(crate) avoided: Option<usize>,
}

impl Budget {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, state: Mutex::new((RESERVE, Instant::now())) }
    }

    fn add(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = (state.0 + self.share).min(MOST_SAVED);
    }

    /// Takes one retry, if there is one.
    pub(crate) fn take(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (saved, since) = *state;
        let now = Instant::now();
        let saved = if saved < RESERVE { (saved + (now - since).as_secs_f64()).min(RESERVE) } else { saved };
        let may = saved >= 1.0;
        *state = (if may { saved - 1.0 } else { saved }, now);
        may
    }
}

impl<'client> Attempts<'client> {
    pub(crate) fn new(budget: &'client Budget, retries: u32, call: CallOptions) -> Self {
        budget.add();
        Self { budget, call, left: retries, made: 0, avoided: None }
    }

    /// Whether this is the first.
    pub(crate) const fn is_first(&self) -> bool {
        self.made == 0
    }

    /// Waits until the request may be tried again, or says why it may not.
    pub(crate) async fn after(&mut self, failure: RequestError, endpoint: Option<usize>) -> Result<()> {
        let is_late = self.call.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let wait = match failure.retry {
            _ if is_late && failure.error.kind() == ErrorKind::DeadlineExceeded => return Err(too_late()),
            Retry::Nothing => return Err(failure.error),
            Retry::Again(wait) => wait,
            Retry::OtherServer(wait) => {
                self.avoided = endpoint;
                wait
            }
        };
        if self.left == 0 || !self.budget.take() {
            return Err(self.counted(failure.error));
        }
        self.left -= 1;
        self.made += 1;
        let pause = pause(self.made).max(wait.unwrap_or_default());
        // What cannot be done in time is not waited for.
        if self.call.deadline.is_some_and(|deadline| Instant::now() + pause >= deadline) {
            return Err(self.counted(failure.error));
        }
        // The pause itself: neither the server nor the budget says when it is over.
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn counted(&self, error: Error) -> Error {
        if self.made == 0 {
            return error;
        }
        Error::new(error.kind(), format!("{} (tried {} times)", error.message(), self.made + 1))
    }

    /// How long an attempt may take that starts now.
    pub(crate) fn patience(&self, of_request: Duration) -> Result<Duration> {
        let Some(deadline) = self.call.deadline else { return Ok(of_request) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(too_late()) } else { Ok(left.min(of_request)) }
    }
}

/// The call's own time has passed.
pub(crate) fn too_late() -> Error {
    Error::new(ErrorKind::DeadlineExceeded, "the call's timeout passed before the work was done")
}

/// A random time that grows with each attempt.
fn pause(made: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << made.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    most.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_failures_is_not_answered_with_a_storm_of_retries() {
        let budget = Budget::new(0.2);
        let retried = (0..1000).filter(|_| {
            budget.add();
            budget.take()
        });
        // The reserve, a fifth of the requests, and what the clock adds while this runs.
        let retried = retried.count();
        assert!((200..=215).contains(&retried), "{retried}");
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        assert!((0..1000).all(|_| pause(1) <= FIRST_PAUSE && pause(64) <= LONGEST_PAUSE));
        assert!((0..1000).any(|_| pause(64) > LONGEST_PAUSE / 2));
    }
}
