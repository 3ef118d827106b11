//! Models of tasks, their thread and `close`: every order of them within loom's preemption bound.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::*;
use crate::runtime::sync::{AtomicBool, Ordering};

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// An event that a future awaits.
#[derive(Default)]
struct Signal {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self) {
        let waker = {
            let mut state = self.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Set when a future is dropped; panics if that happens twice.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        assert!(!self.0.swap(true, Ordering::AcqRel), "dropped twice");
    }
}

/// A task that awaits `signal`, and the flag that its dropped future sets.
fn waiting_task(tasks: &Tasks, signal: &Arc<Signal>) -> (Task<()>, Arc<AtomicBool>) {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let (flag, signal) = (DropFlag(Arc::clone(&is_dropped)), Arc::clone(signal));
    let task = tasks.spawn(async move {
        let _flag = flag;
        signal.wait().await;
    });
    (task.unwrap(), is_dropped)
}

#[test]
fn a_woken_task_continues() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let (signal, ended) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let (awaited, finished) = (Arc::clone(&signal), Arc::clone(&ended));
        let task = tasks.spawn(async move {
            awaited.wait().await;
            finished.set();
        });
        task.unwrap().detach();
        signal.set();
        loom::future::block_on(ended.wait());
        drop(tasks);
    });
}

#[test]
fn close_drops_every_future_once() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let signal = Arc::new(Signal::default());
        let (task, is_dropped) = waiting_task(&tasks, &signal);
        let other = thread::spawn({
            let signal = Arc::clone(&signal);
            move || signal.set()
        });
        tasks.close();
        drop(tasks);
        other.join().unwrap();
        drop(task);
        drop(signal.lock().1.take());
        assert!(is_dropped.load(Ordering::Acquire));
    });
}

#[test]
fn a_task_is_dropped_while_its_thread_starts() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let signal = Arc::new(Signal::default());
        let (task, is_dropped) = waiting_task(&tasks, &signal);
        drop(task);
        drop(signal.lock().1.take());
        drop(tasks);
        assert!(is_dropped.load(Ordering::Acquire));
    });
}
