//! Devices that wake nobody, and devices that finish nothing.
//!
//! The first are looked at again and again: seldom as long as none is expected to be done, by what its batches took of late,
//! and ever more often until one is. Looking every 50 µs at batches of 5 ms cost a seventh of a core. What the second have is
//! computed by others.

use std::time::{Duration, Instant};

use super::Round;
use crate::encoder::Ticket;
use crate::error::{Error, ErrorKind};

/// How long to sleep between two looks, at least and at most; or a part of what a batch takes, where that is more.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_micros(500);
const LARGEST_PART: u32 = 16;

impl Round {
    /// How long to sleep before batches are looked at again of which nobody says that they are finished; none where there are
    /// none.
    pub(super) fn next_look(&self) -> Option<Duration> {
        if !self.spec.needs_polling {
            return None;
        }
        let now = Instant::now();
        let oldest = self.in_flight.iter().enumerate().filter_map(|(device, flights)| Some((device, flights.front()?)));
        let looks = oldest.map(|(device, flight)| {
            let (busy, expected) = self.devices.progress(device, flight.since, flight.sent.tokens, now);
            // What is late is looked at in steps of a part of its lateness.
            (busy.abs_diff(expected) / 4).clamp(SHORTEST, LONGEST.max(expected / LARGEST_PART))
        });
        looks.min()
    }

    /// Takes what a device has not finished for too long to others, where there are any that work. Batches that wait for threads
    /// to be lent are left: it is not the device that does nothing.
    pub(super) fn give_up_pass(&mut self) {
        if !self.spec.computes_alone() || self.batch_runner.is_some() {
            return;
        }
        let (now, patience) = (Instant::now(), self.batching.patience());
        for device in 0..self.in_flight.len() {
            let wanted = self.in_flight[device].iter().filter(|flight| !flight.is_given_up);
            let Some(since) = wanted.map(|flight| flight.since).min() else { continue };
            if self.devices.hangs(device, since, patience, now) {
                self.give_up(device, patience, now);
            }
        }
    }

    /// Has others compute all that a device has in flight. Its rows are waited for no more, even if they come.
    fn give_up(&mut self, device: usize, patience: Duration, now: Instant) {
        let message = format!(
            "{} has finished nothing for {patience:?}; what it had is computed by others",
            self.spec.devices[device].name
        );
        let error = Error::new(ErrorKind::Device, message);
        for flight in self.in_flight[device].iter_mut().filter(|flight| !flight.is_given_up) {
            flight.is_given_up = true;
            let places = std::mem::take(&mut flight.sent.places);
            let mut tried = std::mem::take(&mut flight.sent.tried);
            tried.push(device);
            self.batches.try_again(&places.targets, tried);
            self.spare.push(places);
            self.devices.gave_up(device, &error, now);
        }
        self.inbox.lock().woken = true;
    }

    /// A batch that was given up is finished: nobody wants its rows.
    pub(super) fn collect_late(&mut self, device: usize, ticket: Ticket, tokens: usize) {
        let came = self.encoder.collect(ticket, &mut |_, _| {});
        self.devices.ended(device, tokens);
        self.devices.on_late_completion(device, came.is_ok(), Instant::now());
    }
}
