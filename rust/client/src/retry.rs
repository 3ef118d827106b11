//! Retries of a request: the backoff between attempts, and their deadline.
//!
//! Between attempts is a random backoff up to a limit that doubles ("full jitter"), so that clients which failed
//! together do not return together. It is never shorter than the server's `Retry-After`. All requests of a client share
//! a retry budget: while most requests fail, retrying all of them would add to the load that causes the failures.

use std::time::{Duration, Instant};

use pullquote_core::error::{Error, ErrorKind, Result};
use tower::retry::budget::{Budget, TpsBudget};

use crate::call_options::CallOptions;
use crate::request_error::RequestError;
use crate::retry_advice::RetryAdvice;

const BASE_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The period that the retry budget counts in.
const BUDGET_PERIOD: Duration = Duration::from_secs(10);
/// Retries that are always allowed, ten a period: a single failed request may always retry.
const RESERVE_PER_SECOND: u32 = 1;

/// A budget of retries: this share of the requests of the last period, and the reserve.
#[expect(clippy::cast_possible_truncation, reason = "a share needs no more digits")]
pub(crate) fn retry_budget(share: f64) -> TpsBudget {
    TpsBudget::new(BUDGET_PERIOD, RESERVE_PER_SECOND, share as f32)
}

pub(crate) struct Attempts<'client> {
    budget: &'client TpsBudget,
    pub(crate) call: CallOptions,
    retries_left: u32,
    retries: u32,
    /// The server that has just failed.
    pub(crate) avoided: Option<usize>,
}

impl<'client> Attempts<'client> {
    pub(crate) fn new(budget: &'client TpsBudget, retries: u32, call: CallOptions) -> Self {
        budget.deposit();
        Self { budget, call, retries_left: retries, retries: 0, avoided: None }
    }

    pub(crate) const fn is_first(&self) -> bool {
        self.retries == 0
    }

    /// Waits until the request may be tried again, or returns the error that ends it.
    pub(crate) async fn backoff(&mut self, failure: RequestError, endpoint: Option<usize>) -> Result<()> {
        let is_late = self.call.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let retry_after = match failure.retry {
            _ if is_late && failure.error.kind() == ErrorKind::DeadlineExceeded => return Err(deadline_exceeded()),
            RetryAdvice::Nothing => return Err(failure.error),
            RetryAdvice::Again(retry_after) => retry_after,
            RetryAdvice::OtherServer(retry_after) => {
                self.avoided = endpoint;
                retry_after
            }
        };
        if self.retries_left == 0 || !self.budget.withdraw() {
            return Err(self.counted(failure.error));
        }
        self.retries_left -= 1;
        self.retries += 1;
        let backoff = backoff(self.retries).max(retry_after.unwrap_or_default());
        // Fails now if the retry would start after the deadline.
        if self.call.deadline.is_some_and(|deadline| Instant::now() + backoff >= deadline) {
            return Err(self.counted(failure.error));
        }
        tokio::time::sleep(backoff).await;
        Ok(())
    }

    fn counted(&self, error: Error) -> Error {
        if self.retries == 0 {
            return error;
        }
        Error::new(error.kind(), format!("{} (tried {} times)", error.message(), self.retries + 1))
    }

    /// The time for an attempt that starts now.
    pub(crate) fn timeout(&self, of_request: Duration) -> Result<Duration> {
        let Some(deadline) = self.call.deadline else { return Ok(of_request) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(deadline_exceeded()) } else { Ok(left.min(of_request)) }
    }
}

pub(crate) fn deadline_exceeded() -> Error {
    Error::new(
        ErrorKind::DeadlineExceeded,
        "the call's timeout passed before the work was done; allow more seconds, or fewer pages",
    )
}

fn backoff(retries: u32) -> Duration {
    let most = BASE_BACKOFF.saturating_mul(1 << retries.saturating_sub(1).min(10)).min(MAX_BACKOFF);
    most.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_budget_is_a_share_of_all_requests_beyond_ten() {
        let budget = retry_budget(0.2);
        let retries = (0..1000).filter(|_| {
            budget.deposit();
            budget.withdraw()
        });
        assert_eq!(retries.count(), 210);
        let reserve = retry_budget(0.0);
        assert_eq!((0..1000).filter(|_| reserve.withdraw()).count(), 10);
    }

    #[test]
    fn backoff_grows_and_stays_bounded() {
        assert!((0..1000).all(|_| backoff(1) <= BASE_BACKOFF && backoff(64) <= MAX_BACKOFF));
        assert!((0..1000).any(|_| backoff(64) > MAX_BACKOFF / 2));
    }
}
