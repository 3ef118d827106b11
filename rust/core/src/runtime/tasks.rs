//! Tasks: calls that nobody waits for on the spot, on a few threads of the engine's own.
//!
//! A call of an event loop has no thread of its own: its text work runs here, and while devices work for it, it is nowhere
//! but in the scheduler's hands. Threads start with the first task. Dropping a [`Task`] drops its future as soon as no
//! thread is in it.

#[cfg(all(test, feature = "loom"))]
mod models;

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

/// A few threads, and the tasks that can go on.
#[derive(Debug)]
pub(crate) struct Tasks {
    most: usize,
    cores: CpuAffinity,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Signalled when a task can go on, or all shall end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Each task is here once at most, so whoever bounds the tasks bounds this.
    ready: VecDeque<Runnable>,
    closed: bool,
}

impl Tasks {
    /// At most so many threads, of which none is started yet.
    pub(crate) fn new(most: usize, cores: CpuAffinity) -> Self {
        Self { most, cores, queue: Arc::default(), threads: Mutex::default() }
    }

    /// Starts a task.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] after the end, [`ErrorKind::Internal`] where the system has no more threads.
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
        while threads.len() < self.most {
            let (queue, cores) = (Arc::clone(&self.queue), self.cores.clone());
            let thread = Builder::new()
                .name(format!("pullquote-task:{}", threads.len()))
                .spawn(move || {
                    // They were tried when the engine was made.
                    let _ = cores.apply();
                    queue.work();
                })
                .map_err(|error| Error::new(ErrorKind::Internal, format!("no thread for tasks: {error}")))?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Ends the threads, each behind the task it is in; what is left of the tasks is dropped.
    pub(crate) fn close(&self) {
        let left = {
            let mut state = self.queue.lock();
            state.closed = true;
            std::mem::take(&mut state.ready)
        };
        self.queue.changed.notify_all();
        // Outside the lock: futures that are dropped may wake others.
        drop(left);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.close();
        let own = thread::current().id();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The last task may own the engine that owns these threads, and end on one of them.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in there is ever left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, runnable: Runnable) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            // Dropping it drops its future, outside the lock.
            return;
        }
        state.ready.push_back(runnable);
        drop(state);
        self.changed.notify_one();
    }

    fn work(&self) {
        while let Some(runnable) = self.next() {
            // A task that panics has told its owner by dropping what it owned; the thread goes on.
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

/// Lets others go on: a host's step ends here when its time is up, and workers turn to other calls.
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

    struct Tells(Sender<()>);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn every_task_is_done_once_and_a_panic_is_only_its_own() {
        let tasks = Tasks::new(2, CpuAffinity::default());
        let (done, heard) = channel();
        let count = Arc::new(AtomicUsize::new(0));
        for number in 0..20 {
            let (tells, count) = (Tells(done.clone()), Arc::clone(&count));
            let task = tasks.spawn(async move {
                let _tells = tells;
                yield_now().await;
                assert!(number % 5 != 0, "on purpose");
                count.fetch_add(1, Ordering::Relaxed);
            });
            task.unwrap().detach();
        }
        (0..20).for_each(|_| heard.recv().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 16);
    }

    #[test]
    fn a_task_that_is_let_go_of_drops_its_future_and_so_does_the_end() {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let (dropped, heard) = channel();
        let never = |tells| async move {
            let _tells = tells;
            std::future::pending::<()>().await;
        };
        drop(tasks.spawn(never(Tells(dropped.clone()))).unwrap());
        heard.recv().unwrap();
        let (waits, begun) = channel::<()>();
        let kept = tasks.spawn(async move {
            waits.send(()).unwrap();
            loop {
                yield_now().await;
            }
        });
        let waiting = tasks.spawn(never(Tells(dropped))).unwrap();
        begun.recv().unwrap();
        tasks.close();
        drop(waiting);
        heard.recv().unwrap();
        drop(kept);
        assert_eq!(tasks.spawn(async {}).unwrap_err().kind(), ErrorKind::Closed);
    }
}
