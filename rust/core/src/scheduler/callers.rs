//! `threads="caller"`: callers that wait for vectors run the scheduler and the encoder on their own threads.
//!
//! One caller at a time runs a round. If the encoder has a [`BatchRunner`], each caller also computes submitted
//! batches, outside all locks: one batch for each waiting caller at the same time. Without a runner, batches are
//! computed within rounds, one at a time.
//!
//! A caller without work parks on its own condition variable. Invariant: a caller that makes work wakes a parked one; a
//! caller that takes work or leaves, and sees more work, wakes the next. So no work is lost, and no caller wakes
//! without work.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::round::Round;
use super::{Drive, Inbox, InboxState, Scheduler, lock};
use crate::encoder::BatchRunner;
use crate::runtime::sync::{Condvar, Mutex};

pub(super) struct Callers {
    /// `None` after the end.
    round: Mutex<Option<Box<Round>>>,
    batch_runner: Option<BatchRunner>,
}

/// Where a waiting caller parks. `Inbox::state` is its mutex.
pub(super) type ParkingSlot = Arc<Condvar>;

/// A caller that waits for vectors; dropping it ends the wait.
pub(crate) struct WaitingCaller<'scheduler> {
    scheduler: &'scheduler Scheduler,
    slot: ParkingSlot,
}

impl Callers {
    pub(super) fn new(round: Round) -> Self {
        Self { batch_runner: round.batch_runner(), round: Mutex::new(Some(Box::new(round))) }
    }

    /// Ends every job. If a round is running, the caller that runs it does this when it sees `closed`.
    pub(super) fn close(&self) {
        if let Ok(mut round) = self.round.try_lock() {
            *round = None;
        }
    }

    /// Runs a round that does not wait. The calling thread has set `round_running`.
    fn run_round(&self, inbox: &Inbox) {
        let _guard = RoundGuard(inbox);
        let mut round = lock(&self.round);
        if round.as_mut().is_some_and(|round| !round.once(Duration::ZERO)) {
            // Dropping the round replies to all callers.
            *round = None;
        }
    }

    /// Computes a batch that the calling thread has claimed.
    fn run_batch(&self, inbox: &Inbox) {
        let _guard = BatchGuard(inbox);
        if let Some(run) = &self.batch_runner {
            run();
        }
    }
}

impl Scheduler {
    /// Registers a waiting caller that parks on `slot`.
    pub(super) fn register_caller_on(&self, slot: ParkingSlot) -> WaitingCaller<'_> {
        if let Drive::Callers(callers) = &self.drive {
            let mut state = self.inbox.lock();
            state.waiting_callers += 1;
            // One more batch may be in flight.
            state.woken |= callers.batch_runner.is_some() && state.unfinished > 0;
        }
        WaitingCaller { scheduler: self, slot }
    }

    pub(crate) fn register_caller(&self) -> WaitingCaller<'_> {
        self.register_caller_on(ParkingSlot::default())
    }
}

impl WaitingCaller<'_> {
    /// Runs a round if no other caller does, then at most one batch, and skips both once `is_done`. Without work it
    /// parks for at most `timeout`, and then runs a round anyway. For an encoder without notifications the round waits
    /// in `collect`.
    pub(crate) fn drive(&self, is_done: &dyn Fn() -> bool, timeout: Duration) {
        let Drive::Callers(callers) = &self.scheduler.drive else { return };
        let inbox = &*self.scheduler.inbox;
        let mut state = inbox.lock();
        let mut is_due = timeout.is_zero();
        if !is_due && !is_done() && !state.has_work() {
            // One parked caller is enough to wake at the next poll.
            let deadline = state.next_poll.deadline.filter(|_| !state.next_poll.has_waiter);
            state.next_poll.has_waiter |= deadline.is_some();
            let timeout = deadline.map_or(timeout, |at| at.saturating_duration_since(Instant::now()).min(timeout));
            state.parked.push(Arc::clone(&self.slot));
            let (guard, result) = self.slot.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.next_poll.has_waiter &= deadline.is_none();
            state.parked.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
            is_due = result.timed_out();
        }
        if !is_done() && !state.round_running && (is_due || state.needs_round()) {
            state.round_running = true;
            state.wake_for_work();
            drop(state);
            callers.run_round(inbox);
            state = inbox.lock();
        }
        if !is_done() && state.unclaimed_batches > 0 && !state.closed {
            state.unclaimed_batches -= 1;
            state.wake_before_leaving();
            drop(state);
            callers.run_batch(inbox);
        }
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        if self.scheduler.is_driven_by_callers() {
            let mut state = self.scheduler.inbox.lock();
            state.waiting_callers -= 1;
            state.wake_before_leaving();
        }
    }
}

impl InboxState {
    /// Whether a round would find something to do.
    fn needs_round(&self) -> bool {
        let is_late = || self.next_poll.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.closed || self.woken || !self.arrived.is_empty() || is_late()
    }

    /// Whether there is a round to run, or a batch to compute, that no caller has claimed.
    fn has_work(&self) -> bool {
        (!self.round_running && self.needs_round()) || (self.unclaimed_batches > 0 && !self.closed)
    }

    /// Wakes a parked caller if there is unclaimed work.
    pub(super) fn wake_for_work(&mut self) {
        if !self.parked.is_empty() && self.has_work() {
            self.wake_one();
        }
    }

    /// Called by a caller that will not poll for a while: also wakes another one to wait for the next poll's deadline.
    fn wake_before_leaving(&mut self) {
        if !self.parked.is_empty() && (self.next_poll.deadline.is_some() || self.has_work()) {
            self.wake_one();
        }
    }

    /// Wakes the caller that parked last, because its caches are the warmest.
    fn wake_one(&mut self) {
        if let Some(slot) = self.parked.pop() {
            slot.notify_one();
        }
    }

    pub(super) fn wake_all(&mut self) {
        while !self.parked.is_empty() {
            self.wake_one();
        }
    }
}

/// Marks a round as running until it is dropped. The caller then checks for work itself.
struct RoundGuard<'inbox>(&'inbox Inbox);

impl Drop for RoundGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().round_running = false;
        if std::thread::panicking() {
            // A round that panicked cannot run again.
            self.0.close();
        }
    }
}

/// Wakes the next round when a batch has been computed.
struct BatchGuard<'inbox>(&'inbox Inbox);

impl Drop for BatchGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().woken = true;
        if std::thread::panicking() {
            // The scheduler would wait forever for this batch.
            self.0.close();
        }
    }
}
