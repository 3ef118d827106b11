//! Concurrency limit: how many requests run at once, and which queued request is next.
//!
//! [`pullquote_core::scheduler::fair_queue`] says which request is next; here are those that wait. A permit that ends
//! wakes the next one, and no request that has disconnected meanwhile is given one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pullquote_core::scheduler::fair_queue::FairQueue;
use tokio::sync::oneshot;

/// The turns of a server.
pub(crate) struct ConcurrencyLimiter {
    state: Mutex<State>,
    /// How many run at most.
    pub(crate) places: usize,
    /// So many may wait, as far as is known; beyond it those who have hung up are looked for.
    longest: usize,
}

struct State {
    /// Permits that are free.
    free: usize,
    waiting: FairQueue<oneshot::Sender<Permit>>,
}

/// Leave to run; ends when it is dropped.
pub(crate) struct Permit(Option<Arc<ConcurrencyLimiter>>);

impl ConcurrencyLimiter {
    /// For so many that run, of so many that come.
    pub(crate) fn new(places: usize, longest: usize) -> Arc<Self> {
        let state = Mutex::new(State { free: places, waiting: FairQueue::default() });
        Arc::new(Self { state, places, longest })
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.places - self.lock().free
    }

    /// Waits for a turn; dropping the future is giving it up.
    pub(crate) async fn turn(self: &Arc<Self>, priority: i32) -> Option<Permit> {
        let turn = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Permit(Some(Arc::clone(self))));
            }
            if state.waiting.len() > 2 * self.longest {
                state.waiting.retain(|who| !who.is_closed());
            }
            let (give, turn) = oneshot::channel();
            state.waiting.push(priority, give);
            turn
        };
        turn.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is whole between any two statements that can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is next; where nobody waits, a turn is free.
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
                // Has hung up. What comes back must not look for the next one too.
                Err(mut unwanted) => drop(unwanted.0.take()),
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
    fn the_urgent_are_next_and_who_has_hung_up_is_passed_over() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 10);
            let running = queue.turn(0).await.unwrap();
            let mut late = Box::pin(queue.turn(1));
            let mut urgent = Box::pin(queue.turn(-1));
            let mut gone = Box::pin(queue.turn(-2));
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
    fn a_turn_that_was_given_to_one_who_then_hangs_up_is_not_lost() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 10);
            let running = queue.turn(0).await.unwrap();
            let mut gone = Box::pin(queue.turn(0));
            let mut next = Box::pin(queue.turn(0));
            assert!((&mut gone).now_or_never().is_none() && (&mut next).now_or_never().is_none());
            drop(running);
            // It lies in the channel by now.
            drop(gone);
            assert!(next.now_or_never().unwrap().is_some());
            assert_eq!(queue.running(), 0);
        });
    }

    #[test]
    fn those_who_hang_up_while_nothing_ends_take_no_memory() {
        run(async {
            let queue = ConcurrencyLimiter::new(1, 4);
            let running = queue.turn(0).await.unwrap();
            for priority in 0..1000 {
                assert!(queue.turn(priority % 7).now_or_never().is_none());
                assert!(queue.lock().waiting.len() <= 9);
            }
            drop(running);
            assert_eq!((queue.running(), queue.lock().waiting.len()), (0, 0));
        });
    }

    #[test]
    fn never_more_run_than_may() {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
        let queue = ConcurrencyLimiter::new(3, 200);
        let tasks = (0..200).map(|number| {
            let queue = Arc::clone(&queue);
            runtime.spawn(async move {
                let turn = queue.turn(number % 5 - 2).await.unwrap();
                assert!(queue.running() <= 3);
                tokio::task::yield_now().await;
                drop(turn);
            })
        });
        let done = runtime.block_on(join_all(tasks.collect::<Vec<_>>()));
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(queue.running(), 0);
    }
}
