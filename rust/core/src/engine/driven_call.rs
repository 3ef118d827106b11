//! A call's future that its host polls: a request of [`Steps`](super::Steps), or a [`Hosted`](super::Hosted) call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::Answers;
use crate::error::Result;
use crate::runtime::call::{Call, CallProgress};
use crate::runtime::sync::{AtomicBool, Ordering};

/// Dropping it stops the call, so that its rows on devices are discarded.
pub(super) struct DrivenCall {
    call: Arc<Call<'static>>,
    flag: Arc<WakeFlag>,
    future: Pin<Box<dyn Future<Output = Result<Answers>> + Send>>,
}

/// Whether a poll could make progress.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl DrivenCall {
    pub(super) fn new(
        call: Arc<Call<'static>>,
        future: impl Future<Output = Result<Answers>> + Send + 'static,
    ) -> Self {
        Self { call, flag: Arc::new(WakeFlag(AtomicBool::new(true))), future: Box::pin(future) }
    }

    pub(super) fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Acquire)
    }

    /// Polls the future once if it was woken; `None` while it waits.
    pub(super) fn poll(&mut self) -> Option<Result<Answers>> {
        if !self.flag.0.swap(false, Ordering::AcqRel) {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.flag));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answers) => Some(answers),
            Poll::Pending => None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.call.check()
    }

    pub(super) fn priority(&self) -> i32 {
        self.call.priority()
    }

    pub(super) fn progress(&self) -> CallProgress {
        self.call.progress()
    }
}

impl Drop for DrivenCall {
    fn drop(&mut self) {
        self.call.stop().stop();
    }
}
