//! Concurrency limit: how many requests run at once, and which queued request is next.
//!
//! A semaphore has no priorities, so the scheduler's [`FairQueue`] orders the waiting requests. A dropped permit goes
//! to the next request whose client has not disconnected.

use std::sync::{Arc, Mutex, MutexGuard};

use pullquote_core::runtime::sync::lock;
use pullquote_core::scheduler::fair_queue::FairQueue;
use tokio::sync::oneshot;

pub(crate) struct ConcurrencyLimiter {
    state: Mutex<LimiterState>,
    max_running: usize,
    /// Connected requests that may wait. Above twice this number, disconnected ones are removed.
    max_waiting: usize,
}

struct LimiterState {
    free: usize,
    waiting: FairQueue<oneshot::Sender<Permit>>,
}

pub(crate) struct Permit(Option<Arc<ConcurrencyLimiter>>);

impl ConcurrencyLimiter {
    pub(crate) fn new(max_running: usize, max_waiting: usize) -> Arc<Self> {
        let state = Mutex::new(LimiterState { free: max_running, waiting: FairQueue::default() });
        Arc::new(Self { state, max_running, max_waiting })
    }

    pub(crate) fn running(&self) -> usize {
        self.max_running - self.lock().free
    }

    /// Waits for a permit; dropping the future leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, priority: i32) -> Option<Permit> {
        let permit = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Permit(Some(Arc::clone(self))));
            }
            if state.waiting.len() > 2 * self.max_waiting {
                state.waiting.retain(|request| !request.is_closed());
            }
            let (sender, permit) = oneshot::channel();
            state.waiting.push(priority, sender);
            permit
        };
        permit.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        // It is consistent wherever a thread can panic.
        lock(&self.state)
    }

    /// The next request; without one, a permit becomes free.
    fn next(&self) -> Option<oneshot::Sender<Permit>> {
        let mut state = self.lock();
        state.waiting.begin_turn();
        let next = state.waiting.pop();
        state.free += usize::from(next.is_none());
        next
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(queue) = self.0.take() else { return };
        while let Some(next) = queue.next() {
            match next.send(Self(Some(Arc::clone(&queue)))) {
                Ok(()) => return,
                // Disconnected. The permit that comes back must not run this loop again.
                Err(mut unused) => drop(unused.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::{FutureExt, join_all};
    use tokio::runtime::Builder;

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().build().unwrap().block_on(test);
    }

    #[test]
    fn urgent_requests_are_next_and_cancelled_ones_are_skipped() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 10);
            let running = queue.acquire(0).await.unwrap();
            let mut late = Box::pin(queue.acquire(1));
            let mut urgent = Box::pin(queue.acquire(-1));
            let mut gone = Box::pin(queue.acquire(-2));
            assert!((&mut late).now_or_never().is_none() && (&mut urgent).now_or_never().is_none());
            assert!((&mut gone).now_or_never().is_none());
            drop(gone);
            drop(running);
            let running = (&mut urgent).now_or_never().unwrap().unwrap();
            assert!((&mut late).now_or_never().is_none());
            drop(running);
            let running = late.now_or_never().unwrap().unwrap();
            assert_eq!(queue.running(), 1);
            drop(running);
            assert_eq!(queue.running(), 0);
        });
    }

    #[test]
    fn permit_of_cancelled_request_is_passed_on() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 10);
            let running = queue.acquire(0).await.unwrap();
            let mut gone = Box::pin(queue.acquire(0));
            let mut next = Box::pin(queue.acquire(0));
            assert!((&mut gone).now_or_never().is_none() && (&mut next).now_or_never().is_none());
            drop(running);
            // The permit is in its channel by now.
            drop(gone);
            assert!(next.now_or_never().unwrap().is_some());
            assert_eq!(queue.running(), 0);
        });
    }

    #[test]
    fn cancelled_requests_leave_the_queue() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 4);
            let running = queue.acquire(0).await.unwrap();
            for priority in 0..1000 {
                assert!(queue.acquire(priority % 7).now_or_never().is_none());
                assert!(queue.lock().waiting.len() <= 9);
            }
            drop(running);
            assert_eq!((queue.running(), queue.lock().waiting.len()), (0, 0));
        });
    }

    #[test]
    fn concurrency_limit_is_never_exceeded() {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
        let queue = ConcurrencyLimiter::new(3, 200);
        let tasks = (0..200).map(|number| {
            let queue = Arc::clone(&queue);
            runtime.spawn(async move {
                let permit = queue.acquire(number % 5 - 2).await.unwrap();
                assert!(queue.running() <= 3);
                tokio::task::yield_now().await;
                drop(permit);
            })
        });
        let done = runtime.block_on(join_all(tasks.collect::<Vec<_>>()));
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(queue.running(), 0);
    }
}
