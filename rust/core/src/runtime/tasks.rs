//! Tasks: calls as futures, on a few threads that the engine owns.
//!
//! A call from an event loop has no thread of its own. Its text work runs here; while it waits for vectors, it occupies
//! no thread. Threads start with the first task. Dropping a [`Task`] drops its future as soon as no thread polls it.

#[cfg(all(test, feature = "loom"))]
mod loom_models;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use async_task::Runnable;
pub use async_task::Task;

use crate::error::{Error, ErrorKind, Result};
use crate::runtime::affinity::CpuAffinity;
use crate::runtime::sync::thread::{self, Builder, JoinHandle};
use crate::runtime::sync::{Condvar, Mutex, MutexGuard};

/// Task threads and their queue.
#[derive(Debug)]
pub(crate) struct Tasks {
    max_threads: usize,
    cores: CpuAffinity,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Notified when a task becomes ready, and on close.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// Holds each task at most once, so a bound on tasks bounds this queue too.
    ready: VecDeque<Runnable>,
    closed: bool,
}

impl Tasks {
    /// Starts no thread yet.
    pub(crate) fn new(max_threads: usize, cores: CpuAffinity) -> Self {
        Self { max_threads, cores, queue: Arc::default(), threads: Mutex::default() }
    }

    /// Schedules a future.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] after [`Tasks::close`], [`ErrorKind::Internal`] if the system cannot start a thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Result<Task<()>> {
        self.start()?;
        let queue = Arc::clone(&self.queue);
        let (runnable, task) = async_task::spawn(future, move |runnable| queue.push(runnable));
        runnable.schedule();
        Ok(task)
    }

    fn start(&self) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if self.queue.lock().closed {
            return Err(Error::new(ErrorKind::Closed, "the highlighter was closed; make a new one"));
        }
        while threads.len() < self.max_threads {
            let (queue, cores) = (Arc::clone(&self.queue), self.cores.clone());
            let thread = Builder::new()
                .name(format!("pullquote-task:{}", threads.len()))
                .spawn(move || {
                    // `CpuAffinity::new` checked these cores.
                    let _ = cores.apply();
                    queue.run();
                })
                .map_err(|error| Error::new(ErrorKind::Internal, format!("no thread for tasks: {error}")))?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Ends each thread after the task it is polling, and drops all other tasks.
    pub(crate) fn close(&self) {
        let queued = {
            let mut state = self.queue.lock();
            state.closed = true;
            std::mem::take(&mut state.ready)
        };
        self.queue.changed.notify_all();
        // Outside the lock: dropping a future may wake another.
        drop(queued);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.close();
        let own = thread::current().id();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The last task may own the engine, and with it these threads. It then drops them on one of them.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No holder panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, runnable: Runnable) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            // Dropping `runnable` drops its future. The lock is already released.
            return;
        }
        state.ready.push_back(runnable);
        drop(state);
        self.changed.notify_one();
    }

    fn run(&self) {
        while let Some(runnable) = self.next() {
            // A task that panics drops what it owns, which reports the failure to its caller. The thread continues.
            let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
        }
    }

    fn next(&self) -> Option<Runnable> {
        let mut state = self.lock();
        loop {
            if let Some(runnable) = state.ready.pop_front() {
                return Some(runnable);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ends the poll once, and stays ready. A host's step ends here when its time is up; task threads poll other calls.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};

    /// Sends a message when its task's future is dropped.
    struct NotifyOnDrop(Sender<()>);

    impl Drop for NotifyOnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_panic_in_one_task_leaves_the_others_running() {
        let tasks = Tasks::new(2, CpuAffinity::default());
        let (sender, dropped) = channel();
        let count = Arc::new(AtomicUsize::new(0));
        for number in 0..20 {
            let (guard, count) = (NotifyOnDrop(sender.clone()), Arc::clone(&count));
            let task = tasks.spawn(async move {
                let _guard = guard;
                yield_now().await;
                assert!(number % 5 != 0, "on purpose");
                count.fetch_add(1, Ordering::Relaxed);
            });
            task.unwrap().detach();
        }
        (0..20).for_each(|_| dropped.recv().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 16);
    }

    #[test]
    fn dropping_a_task_or_closing_drops_its_future() {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let (sender, dropped) = channel();
        let never = |guard| async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        };
        drop(tasks.spawn(never(NotifyOnDrop(sender.clone()))).unwrap());
        dropped.recv().unwrap();
        let (waits, begun) = channel::<()>();
        let kept = tasks.spawn(async move {
            waits.send(()).unwrap();
            loop {
                yield_now().await;
            }
        });
        let waiting = tasks.spawn(never(NotifyOnDrop(sender))).unwrap();
        begun.recv().unwrap();
        tasks.close();
        drop(waiting);
        dropped.recv().unwrap();
        drop(kept);
        assert_eq!(tasks.spawn(async {}).unwrap_err().kind(), ErrorKind::Closed);
    }
}
