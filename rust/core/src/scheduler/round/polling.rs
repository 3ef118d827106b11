//! Polling of devices that cannot notify, and devices that stall.
//!
//! The scheduler polls seldom while no batch is due, by the device's recent speed, and more often as one comes due.
//! Polling batches of 5 ms every 50 µs cost a seventh of a core. Batches of a stalled device are computed by others.

use std::time::{Duration, Instant};

use super::Round;
use crate::encoder::Ticket;
use crate::error::{Error, ErrorKind};

/// Bounds on the time between two polls. The upper bound grows with the batch: one sixteenth of its expected time.
const MIN_INTERVAL: Duration = Duration::from_micros(50);
const MAX_INTERVAL: Duration = Duration::from_micros(500);
const POLLS_PER_BATCH: u32 = 16;

impl Round {
    /// The time until the next poll; `None` if devices notify or none has a batch.
    pub(super) fn next_poll(&self) -> Option<Duration> {
        if self.spec.capabilities.notifies {
            return None;
        }
        let now = Instant::now();
        let oldest = self.in_flight.iter().enumerate().filter_map(|(device, flights)| Some((device, flights.front()?)));
        let intervals = oldest.map(|(device, flight)| {
            let (busy, expected) = self.devices.progress(device, flight.since, flight.batch.tokens, now);
            // A quarter of the time until the batch is due, or by which it is late.
            (busy.abs_diff(expected) / 4).clamp(MIN_INTERVAL, MAX_INTERVAL.max(expected / POLLS_PER_BATCH))
        });
        intervals.min()
    }

    /// Gives the batches of stalled devices to healthy ones.
    pub(super) fn abandon_pass(&mut self) {
        let (now, timeout) = (Instant::now(), self.batching.device_timeout());
        for device in 0..self.in_flight.len() {
            let awaited = self.in_flight[device].iter().filter(|flight| !flight.is_abandoned);
            let Some(since) = awaited.map(|flight| flight.since).min() else { continue };
            if self.devices.is_stalled(device, since, timeout, now) {
                self.abandon(device, timeout, now);
            }
        }
    }

    /// Retries all batches of a device elsewhere. Its own results are discarded when they arrive.
    fn abandon(&mut self, device: usize, timeout: Duration, now: Instant) {
        let message = format!(
            "{} has finished nothing for {timeout:?}; other devices compute its batches",
            self.spec.devices[device].name
        );
        let error = Error::new(ErrorKind::Device, message);
        for flight in self.in_flight[device].iter_mut().filter(|flight| !flight.is_abandoned) {
            flight.is_abandoned = true;
            let rows = std::mem::take(&mut flight.batch.rows);
            let mut failed_devices = std::mem::take(&mut flight.batch.failed_devices);
            failed_devices.push(device);
            self.batches.retry(&rows.targets, failed_devices);
            self.spare.push(rows);
            self.devices.on_abandoned(device, &error, now);
        }
        self.inbox.lock().woken = true;
    }

    /// Collects an abandoned batch and discards its rows.
    pub(super) fn discard(&mut self, device: usize, ticket: Ticket, tokens: usize) {
        let collected = self.encoder.collect(ticket, &mut |_| {});
        self.devices.on_ended(device, tokens);
        self.devices.on_late_completion(device, collected.is_ok(), Instant::now());
    }
}
