//! Memory for bodies, and which of those that are still being read loses its share when there is too little.
//!
//! A body takes memory as its bytes come, not as it announces them, and its request has no slot yet. So slow senders take
//! nothing from others but bytes that they did send, and one of a number of bodies. Where either limit is reached, the
//! slowest body loses, and not the one that has just begun: it holds up others the longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Frame;
use pullquote_core::runtime::sync::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::http::failure::{Cause, Failure, overloaded};
use crate::http::process_memory::kibibytes;

/// Bytes that every body has ahead in the comparison, so that a new one is fast and one that stops is soon slow.
const HEAD_START: u32 = 16 * 1024;

/// Memory for bodies, over all requests.
#[derive(Clone)]
pub(crate) struct BodyMemory {
    /// One permit for each KiB.
    permits: Arc<Semaphore>,
    unread: Arc<Mutex<Unread>>,
    max_unread: usize,
}

/// The bodies that wait for their clients.
#[derive(Default)]
struct Unread {
    next_id: u64,
    bodies: HashMap<u64, Progress>,
}

struct Progress {
    began: Instant,
    /// When its last bytes came.
    last: Instant,
    bytes: usize,
    memory: OwnedSemaphorePermit,
    /// Dropped with the entry, which tells the reader that it lost.
    _lost: oneshot::Sender<()>,
}

/// A body that is being read. One that has arrived with its head never waits, and takes nothing from others.
pub(crate) struct UnreadBody {
    all: BodyMemory,
    began: Instant,
    /// Until it waits.
    memory: Option<OwnedSemaphorePermit>,
    waiting: Option<Waiting>,
}

struct Waiting {
    id: u64,
    /// Ends when the body has lost its memory.
    lost: oneshot::Receiver<()>,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize, max_unread: usize) -> Self {
        let permits = Arc::new(Semaphore::new(bytes.div_ceil(1024).min(Semaphore::MAX_PERMITS / 4)));
        Self { permits, unread: Arc::default(), max_unread: max_unread.max(1) }
    }

    /// Memory for a number of bytes of a request that is there, which goes before any unread body.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        self.reserve_before(f64::INFINITY, bytes)
    }

    /// How many bodies wait for their clients.
    pub(crate) fn unread(&self) -> usize {
        self.lock().bodies.len()
    }

    /// Refuses a body that the requests that are there leave no memory for.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Failure> {
        let kibibytes = bytes.div_ceil(1024);
        let held = || self.lock().bodies.values().map(|body| body.memory.num_permits()).sum::<usize>();
        let is_enough =
            kibibytes <= self.permits.available_permits() || kibibytes <= self.permits.available_permits() + held();
        if is_enough { Ok(()) } else { Err(full()) }
    }

    /// Begins to read a body.
    pub(crate) fn begin(&self) -> Result<UnreadBody, Failure> {
        let memory = Some(self.reserve(0)?);
        Ok(UnreadBody { all: self.clone(), began: Instant::now(), memory, waiting: None })
    }

    /// Lists a body that waits for its client. At the limit of their number, the slowest body loses its place.
    fn list(&self, began: Instant, memory: OwnedSemaphorePermit) -> Waiting {
        let now = Instant::now();
        let mut unread = self.lock();
        if unread.bodies.len() >= self.max_unread {
            unread.drop_slowest(f64::INFINITY, now, |_| true);
        }
        let (sender, lost) = oneshot::channel();
        let id = unread.next_id;
        unread.next_id += 1;
        let bytes = memory.num_permits() * 1024;
        unread.bodies.insert(id, Progress { began, last: now, bytes, memory, _lost: sender });
        Waiting { id, lost }
    }

    /// Memory from what is free, and from bodies that come more slowly than this many bytes a second.
    fn reserve_before(&self, rate: f64, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        loop {
            if let Ok(memory) = Arc::clone(&self.permits).try_acquire_many_owned(kibibytes(bytes)) {
                return Ok(memory);
            }
            let has_memory = |body: &Progress| body.memory.num_permits() > 0;
            if !self.lock().drop_slowest(rate, Instant::now(), has_memory) {
                return Err(full());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Unread> {
        // It is consistent wherever a thread can panic.
        lock(&self.unread)
    }
}

fn full() -> Failure {
    overloaded("the bodies of queued requests have reached their limit; try again")
}

/// What a body that lost its memory answers.
fn too_slow() -> Failure {
    let message = "too many bodies were being read, and this one came the slowest; send it again, at once";
    Failure::new(Cause::SlowSender, message)
}

impl Unread {
    /// Drops the slowest body that comes more slowly than `rate`; returns whether there was one.
    fn drop_slowest(&mut self, rate: f64, now: Instant, among: impl Fn(&Progress) -> bool) -> bool {
        let slower = self.bodies.iter().filter(|(_, body)| among(body));
        let slower = slower.map(|(id, body)| (*id, body.rate(now))).filter(|(_, of_body)| *of_body < rate);
        let Some((slowest, _)) = slower.min_by(|(_, one), (_, other)| one.total_cmp(other)) else { return false };
        self.bodies.remove(&slowest).is_some()
    }
}

impl Progress {
    /// Bytes a second since it began, or less if nothing came for a while.
    fn rate(&self, now: Instant) -> f64 {
        let seconds = |since: Instant| now.saturating_duration_since(since).as_secs_f64().max(1e-6);
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX).saturating_add(HEAD_START);
        (f64::from(bytes) / seconds(self.began)).min(f64::from(HEAD_START) / seconds(self.last))
    }
}

impl UnreadBody {
    /// The next part of the body, if it does not lose its memory before.
    pub(crate) async fn frame(
        &mut self,
        body: &mut Body,
    ) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, Failure> {
        if let Some(frame) = body.frame().now_or_never() {
            return Ok(frame);
        }
        if let Some(memory) = self.memory.take() {
            self.waiting = Some(self.all.list(self.began, memory));
        }
        let Some(waiting) = &mut self.waiting else { return Err(too_slow()) };
        tokio::select! {
            biased;
            _ = &mut waiting.lost => Err(too_slow()),
            frame = body.frame() => Ok(frame),
        }
    }

    /// Notes that the body has this many bytes, and reserves memory for a buffer of `capacity` bytes.
    pub(crate) fn received(&mut self, bytes: usize, capacity: usize) -> Result<(), Failure> {
        let missing = |memory: &OwnedSemaphorePermit| capacity.saturating_sub(memory.num_permits() * 1024);
        if let Some(memory) = &mut self.memory {
            if missing(memory) > 0 {
                memory.merge(self.all.reserve(missing(memory))?);
            }
            return Ok(());
        }
        let Some(Waiting { id, .. }) = &self.waiting else { return Err(too_slow()) };
        let now = Instant::now();
        let (missing, rate) = {
            let mut unread = self.all.lock();
            let body = unread.bodies.get_mut(id).ok_or_else(too_slow)?;
            (body.bytes, body.last) = (bytes, now);
            (missing(&body.memory), body.rate(now))
        };
        if missing > 0 {
            let more = self.all.reserve_before(rate, missing)?;
            self.all.lock().bodies.get_mut(id).ok_or_else(too_slow)?.memory.merge(more);
        }
        Ok(())
    }

    /// The memory of a body that is complete, with this many bytes.
    pub(crate) fn complete(mut self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let listed = || self.all.lock().bodies.remove(&self.waiting.as_ref()?.id).map(|body| body.memory);
        let mut memory = self.memory.take().or_else(listed).ok_or_else(too_slow)?;
        drop(memory.split(memory.num_permits().saturating_sub(bytes.div_ceil(1024))));
        Ok(memory)
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        if let Some(Waiting { id, .. }) = &self.waiting {
            self.all.lock().bodies.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream::pending;
    use std::time::Duration;

    const KIB: usize = 1024;

    /// A body that waits for its client.
    fn waiting(memory: &BodyMemory) -> UnreadBody {
        let mut body = memory.begin().unwrap();
        let mut never = Body::from_stream(pending::<Result<Bytes, axum::Error>>());
        assert!(body.frame(&mut never).now_or_never().is_none());
        body
    }

    fn has_lost(body: &mut UnreadBody) -> bool {
        matches!(body.waiting.as_mut().unwrap().lost.try_recv(), Err(oneshot::error::TryRecvError::Closed))
    }

    /// As if the body had begun this long ago, and sent nothing since.
    fn age(body: &UnreadBody, seconds: u64) {
        let mut unread = body.all.lock();
        let progress = unread.bodies.get_mut(&body.waiting.as_ref().unwrap().id).unwrap();
        progress.began -= Duration::from_secs(seconds);
        progress.last -= Duration::from_secs(seconds);
    }

    #[test]
    fn slowest_body_loses_at_the_limit_of_their_number() {
        let memory = BodyMemory::new(1000 * KIB, 2);
        let (mut slow, mut large) = (waiting(&memory), waiting(&memory));
        slow.received(1, KIB).unwrap();
        large.received(100 * KIB, 100 * KIB).unwrap();
        age(&slow, 5);
        age(&large, 3);
        let mut new = waiting(&memory);
        assert!(has_lost(&mut slow) && !has_lost(&mut large));
        assert!(slow.received(2, KIB).is_err() && slow.complete(2).is_err());
        assert_eq!(memory.unread(), 2);
        new.received(10, 4 * KIB).unwrap();
        assert_eq!(new.complete(10).unwrap().num_permits(), 1);
        let mut at_once = memory.begin().unwrap();
        at_once.received(10, 4 * KIB).unwrap();
        assert_eq!(at_once.complete(10).unwrap().num_permits(), 1);
        assert!(!has_lost(&mut large) && memory.unread() == 1, "what arrives with its head takes no place");
        drop(large);
        assert_eq!((memory.unread(), memory.permits.available_permits()), (0, 1000));
    }

    #[test]
    fn memory_of_slower_bodies_goes_to_faster_ones_and_to_complete_requests() {
        let memory = BodyMemory::new(100 * KIB, 10);
        let (mut slow, mut fast) = (waiting(&memory), waiting(&memory));
        slow.received(40 * KIB, 40 * KIB).unwrap();
        age(&slow, 100);
        fast.received(60 * KIB, 60 * KIB).unwrap();
        fast.received(90 * KIB, 90 * KIB).unwrap();
        assert!(has_lost(&mut slow));
        let mut slower = waiting(&memory);
        age(&slower, 100);
        assert!(slower.received(20 * KIB, 20 * KIB).is_err(), "the faster one keeps its memory");
        assert!(!has_lost(&mut fast) && memory.check(100 * KIB).is_ok());
        let complete = memory.reserve(95 * KIB).unwrap();
        assert!(has_lost(&mut fast) && memory.check(6 * KIB).is_err() && memory.check(5 * KIB).is_ok());
        assert!(memory.reserve(6 * KIB).is_err());
        drop(complete);
        assert_eq!(memory.permits.available_permits(), 100);
    }
}
