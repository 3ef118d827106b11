//! A caller's future for a job's vectors.
//!
//! Waiting is a future, so that each kind of caller waits in its own way: a thread parks in [`block_on`], a host's step
//! polls it, and a task thread polls other calls meanwhile.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{Inbox, ParkingSlot, Scheduler, lock, wait};
use crate::error::Result;
use crate::runtime::call::Call;
use crate::runtime::sync::{AtomicBool, Mutex, Ordering};
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

/// Runs a call's future on the calling thread, which parks while devices work and polls for interrupts. If callers
/// drive the scheduler, the thread drives it instead of parking.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>, scheduler: &Scheduler, call: &Call) -> Result<T> {
    let parked = Arc::new(ParkedThread { inbox: scheduler.inbox_for_callers(), ..ParkedThread::default() });
    let waker = Waker::from(Arc::clone(&parked));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let caller = scheduler.register_caller_on(Arc::clone(&parked.slot));
        while !parked.is_woken.swap(false, Ordering::AcqRel) {
            if scheduler.is_driven_by_callers() {
                caller.drive(&|| parked.is_woken.load(Ordering::Acquire), call.poll_interval());
            } else {
                parked.park(call);
            }
            if !parked.is_woken.load(Ordering::Acquire) {
                call.check()?;
            }
        }
    }
}

/// The waker of a thread in [`block_on`].
#[derive(Default)]
struct ParkedThread {
    is_woken: AtomicBool,
    /// Its mutex is the inbox's where callers drive the scheduler, else `lock`.
    slot: ParkingSlot,
    lock: Mutex<()>,
    inbox: Option<Arc<Inbox>>,
}

impl ParkedThread {
    /// Parks until woken, or for the call's poll interval.
    fn park(&self, call: &Call) {
        let guard = lock(&self.lock);
        if !self.is_woken.load(Ordering::Acquire) {
            drop(wait(&self.slot, guard, call.poll_interval()));
        }
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        // Under the lock, so that no wake-up falls between the thread's check and its wait. A swap, as in `block_on`,
        // because loom orders swaps, while it lets a concurrent load see a value older than a plain store.
        if let Some(inbox) = &self.inbox {
            let _guard = inbox.lock();
            self.is_woken.swap(true, Ordering::AcqRel);
            self.slot.notify_one();
        } else {
            let _guard = lock(&self.lock);
            self.is_woken.swap(true, Ordering::AcqRel);
            self.slot.notify_one();
        }
    }
}
