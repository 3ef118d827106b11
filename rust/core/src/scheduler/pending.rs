//! What a caller holds of a job: its vectors, as soon as they are there.
//!
//! Waiting is a future, so that whoever has threads decides what one costs: a caller's thread sleeps in [`block_on`], a
//! host's step looks whether it is done, and a worker turns to the next call meanwhile.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{Inbox, ParkingSlot, Scheduler, lock, wait};
use crate::error::Result;
use crate::runtime::call::Call;
use crate::runtime::sync::{AtomicBool, Mutex, Ordering};
use crate::scheduler::batches::Written;

/// How a job ended: written once by the scheduler, read once by the caller.
#[derive(Clone, Default)]
pub(super) struct Reply(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    outcome: Option<Result<Written>>,
    /// Who waits for it.
    waker: Option<Waker>,
}

/// A job that was handed in. Whoever does not want it any more stops its call and drops this.
pub(crate) struct Pending {
    reply: Reply,
    inbox: Arc<Inbox>,
    /// 0 as long as there are no vectors.
    address: usize,
    is_taken: bool,
}

impl Reply {
    pub(super) fn write(&self, outcome: Result<Written>) {
        let mut state = lock(&self.0);
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        // Whoever is woken may be done with all of this at once, so nothing may be locked.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Pending {
    pub(super) const fn new(reply: Reply, inbox: Arc<Inbox>) -> Self {
        Self { reply, inbox, address: 0, is_taken: false }
    }

    /// Where the vectors were written, once they are here: where they lie, as long as nobody has copied them.
    pub(crate) const fn address(&self) -> usize {
        self.address
    }
}

impl Future for Pending {
    type Output = Result<Vec<f32>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.reply.0);
        if let Some(outcome) = state.outcome.take() {
            drop(state);
            self.is_taken = true;
            return Poll::Ready(outcome.map(|Written { values, address }| {
                self.address = address;
                values
            }));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_taken {
            // The scheduler drops what is left of the job, if the call was stopped.
            self.inbox.wake();
        }
    }
}

/// Runs a call to its end on the calling thread, which sleeps while devices work, looking around on its own behalf; where
/// nobody else drives the scheduler, it does.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>, scheduler: &Scheduler, call: &Call) -> Result<T> {
    let sleeper = Arc::new(Sleeper { inbox: scheduler.driven_inbox(), ..Sleeper::default() });
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let attendant = scheduler.attend_on(Arc::clone(&sleeper.seat));
        while !sleeper.is_woken.swap(false, Ordering::AcqRel) {
            if scheduler.is_driven() {
                attendant.drive(&|| sleeper.is_woken.load(Ordering::Acquire), call.patience());
            } else {
                sleeper.sleep(call);
            }
            if !sleeper.is_woken.load(Ordering::Acquire) {
                call.check()?;
            }
        }
    }
}

/// A thread that waits for its call.
#[derive(Default)]
struct Sleeper {
    is_woken: AtomicBool,
    /// What it sleeps on: under the inbox's lock where the scheduler is driven by those who wait, else under its own.
    seat: ParkingSlot,
    lock: Mutex<()>,
    inbox: Option<Arc<Inbox>>,
}

impl Sleeper {
    /// Sleeps until it is woken, or wants to look around.
    fn sleep(&self, call: &Call) {
        let guard = lock(&self.lock);
        if !self.is_woken.load(Ordering::Acquire) {
            drop(wait(&self.seat, guard, call.patience()));
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        // Under the lock: between a sleeper's look and its sleep there is no moment in which this is missed. Swapped, as the
        // sleeper does, because loom knows the order of swaps, and takes a store beside one for older than it may be.
        if let Some(inbox) = &self.inbox {
            let _guard = inbox.lock();
            self.is_woken.swap(true, Ordering::AcqRel);
            self.seat.notify_one();
        } else {
            let _guard = lock(&self.lock);
            self.is_woken.swap(true, Ordering::AcqRel);
            self.seat.notify_one();
        }
    }
}
