//! Those who wait for vectors, where a host lends no thread of its own: they do the scheduler's work, and the encoder's.
//!
//! One of them at a time runs a round. Outside of all locks each computes a batch that was submitted, where the encoder has a
//! [`BatchRunner`]: so as many batches are computed at once as there are callers who wait, each on its own thread. Where it has
//! none, batches are computed within rounds, one at a time.
//!
//! Who finds nothing to do sleeps on a seat of its own. No work is lost, and nobody is woken for nothing, by one rule: who makes
//! work wakes one who sleeps, and who takes some, or leaves, and sees that there is more, wakes the next.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::round::Round;
use super::{Drive, Inbox, InboxState, Scheduler, lock};
use crate::encoder::BatchRunner;
use crate::runtime::sync::{Condvar, Mutex};

/// What those who wait work on.
pub(super) struct Callers {
    /// Nothing once it has ended.
    round: Mutex<Option<Box<Round>>>,
    batch_runner: Option<BatchRunner>,
}

/// Where somebody sleeps who waits; what it is told is in the inbox, under whose lock it is woken.
pub(super) type ParkingSlot = Arc<Condvar>;

/// Somebody who waits for vectors, until it is dropped.
pub(crate) struct WaitingCaller<'scheduler> {
    scheduler: &'scheduler Scheduler,
    seat: ParkingSlot,
}

impl Callers {
    pub(super) fn new(round: Round) -> Self {
        Self { batch_runner: round.batch_runner(), round: Mutex::new(Some(Box::new(round))) }
    }

    /// Ends every job, unless somebody runs a round, which sees then that it was the last one.
    pub(super) fn close(&self) {
        if let Ok(mut round) = self.round.try_lock() {
            *round = None;
        }
    }

    /// Runs a round that does not sleep. The calling thread was told in the inbox to do it.
    fn run_round(&self, inbox: &Inbox) {
        let _turn = Turn(inbox);
        let mut round = lock(&self.round);
        if round.as_mut().is_some_and(|round| !round.once(Duration::ZERO)) {
            // Its end tells everybody who waits.
            *round = None;
        }
    }

    /// Computes a batch that was offered to the calling thread.
    fn help(&self, inbox: &Inbox) {
        let _helping = Helping(inbox);
        if let Some(help) = &self.batch_runner {
            help();
        }
    }
}

impl Scheduler {
    /// Somebody waits for vectors from now on, who sleeps on this seat if at all.
    pub(super) fn attend_on(&self, seat: ParkingSlot) -> WaitingCaller<'_> {
        if let Drive::Callers(callers) = &self.drive {
            let mut state = self.inbox.lock();
            state.attending += 1;
            // One more batch may be in flight.
            state.woken |= callers.batch_runner.is_some() && state.unfinished > 0;
        }
        WaitingCaller { scheduler: self, seat }
    }

    /// Somebody waits for vectors from now on.
    pub(crate) fn attend(&self) -> WaitingCaller<'_> {
        self.attend_on(ParkingSlot::default())
    }
}

impl WaitingCaller<'_> {
    /// Does what is to be done: a round if nobody runs one, and then a batch. Looks whether it `is_enough` before each. Sleeps
    /// where there is nothing, no longer than this, and then runs a round all the same. An encoder that does not wake is
    /// waited for.
    pub(crate) fn drive(&self, is_enough: &dyn Fn() -> bool, longest: Duration) {
        let Drive::Callers(callers) = &self.scheduler.drive else { return };
        let inbox = &*self.scheduler.inbox;
        let mut state = inbox.lock();
        let mut is_due = longest.is_zero();
        if !is_due && !is_enough() && !state.has_work() {
            // One of those who sleep is enough to see that a round is due.
            let by = state.look.by.filter(|_| !state.look.has_waiter);
            state.look.has_waiter |= by.is_some();
            let longest = by.map_or(longest, |by| by.saturating_duration_since(Instant::now()).min(longest));
            state.asleep.push(Arc::clone(&self.seat));
            let (woken, timeout) = self.seat.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.look.has_waiter &= by.is_none();
            state.asleep.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
            is_due = timeout.timed_out();
        }
        if !is_enough() && !state.driven && (is_due || state.needs_round()) {
            state.driven = true;
            state.pass_on();
            drop(state);
            callers.run_round(inbox);
            state = inbox.lock();
        }
        if !is_enough() && state.offered > 0 && !state.closed {
            state.offered -= 1;
            state.leave_to_others();
            drop(state);
            callers.help(inbox);
        }
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        if self.scheduler.is_driven() {
            let mut state = self.scheduler.inbox.lock();
            state.attending -= 1;
            state.leave_to_others();
        }
    }
}

impl InboxState {
    /// Whether there is something for a round to do.
    fn needs_round(&self) -> bool {
        let is_late = || self.look.by.is_some_and(|by| Instant::now() >= by);
        self.closed || self.woken || !self.arrived.is_empty() || is_late()
    }

    /// Whether there is something that nobody does.
    fn has_work(&self) -> bool {
        (!self.driven && self.needs_round()) || (self.offered > 0 && !self.closed)
    }

    /// Wakes somebody for what nobody does, if there is anything.
    pub(super) fn pass_on(&mut self) {
        if !self.asleep.is_empty() && self.has_work() {
            self.wake_one();
        }
    }

    /// As [`Self::pass_on`], by who will not look for a while: somebody else has to, when the next round is due.
    fn leave_to_others(&mut self) {
        if !self.asleep.is_empty() && (self.look.by.is_some() || self.has_work()) {
            self.wake_one();
        }
    }

    /// Wakes who fell asleep last: its caches are the warmest.
    fn wake_one(&mut self) {
        if let Some(seat) = self.asleep.pop() {
            seat.notify_one();
        }
    }

    pub(super) fn wake_all(&mut self) {
        while !self.asleep.is_empty() {
            self.wake_one();
        }
    }
}

/// Being the one who runs a round, until it is dropped. Who has run it looks again itself.
struct Turn<'inbox>(&'inbox Inbox);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().driven = false;
        if std::thread::panicking() {
            // A round that panicked is not fit for another.
            self.0.close();
        }
    }
}

/// Computing a batch, until it is dropped: then it is finished, which the next round sees.
struct Helping<'inbox>(&'inbox Inbox);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.lock().woken = true;
        if std::thread::panicking() {
            // Its batch would be waited for in vain.
            self.0.close();
        }
    }
}
