//! A caller's future for a job's vectors.
//!
//! Waiting is a future, so that each kind of caller waits in its own way: a thread parks in [`block_on`], a host's step
//! polls it, and a task thread polls other calls meanwhile.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::{Inbox, Scheduler, lock, wait};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::Call;
use crate::runtime::sync::{Condvar, Mutex};

/// How a job ended: written once by the scheduler, read once by the caller.
#[derive(Clone, Default)]
pub(super) struct Reply(Arc<Mutex<ReplyState>>);

#[derive(Default)]
struct ReplyState {
    outcome: Option<Result<Vec<f32>>>,
    waker: Option<Waker>,
}

/// A submitted job. To cancel it, stop its call and drop this.
pub(crate) struct Pending {
    reply: Reply,
    inbox: Arc<Inbox>,
    is_finished: bool,
}

impl Reply {
    pub(super) fn write(&self, outcome: Result<Vec<f32>>) {
        let mut state = lock(&self.0);
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        // The woken caller may drop all of this at once, so no lock may be held.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pending {
    pub(super) const fn new(reply: Reply, inbox: Arc<Inbox>) -> Self {
        Self { reply, inbox, is_finished: false }
    }
}

impl Future for Pending {
    type Output = Result<Vec<f32>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.reply.0);
        if let Some(outcome) = state.outcome.take() {
            drop(state);
            self.is_finished = true;
            return Poll::Ready(outcome);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_finished {
            // Wakes the scheduler, which removes the job if its call was stopped.
            self.inbox.wake();
        }
    }
}

/// Runs a call's future on the calling thread, which parks while devices work and polls for interrupts.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>, scheduler: &Scheduler, call: &Call) -> Result<T> {
    if scheduler.is_stepped() {
        return Err(Error::new(ErrorKind::InvalidArgument, "this engine works only in its host's steps"));
    }
    let parked = Arc::new(ParkedThread::default());
    let waker = Waker::from(Arc::clone(&parked));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        while !parked.park(call.poll_interval()) {
            call.check()?;
        }
    }
}

/// The waker of a thread in [`block_on`].
#[derive(Default)]
struct ParkedThread {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl ParkedThread {
    /// Parks until woken, at most for `timeout`. Returns whether it was woken since the last call of this.
    fn park(&self, timeout: Duration) -> bool {
        let mut is_woken = lock(&self.is_woken);
        if !*is_woken {
            is_woken = wait(&self.changed, is_woken, timeout);
        }
        std::mem::take(&mut *is_woken)
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.changed.notify_one();
    }
}
