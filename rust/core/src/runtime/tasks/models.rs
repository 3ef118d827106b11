//! Models of tasks and their thread: every order in which they and the end may come, as far as loom's bound goes.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::*;
use crate::runtime::sync::{AtomicBool, Ordering};

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Something that a future waits for.
#[derive(Default)]
struct Signal {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self) {
        let waker = {
            let mut state = self.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn given(&self) {
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

/// Told when a future is dropped, done or not.
struct Tells(Arc<AtomicBool>);

impl Drop for Tells {
    fn drop(&mut self) {
        assert!(!self.0.swap(true, Ordering::AcqRel), "dropped twice");
    }
}

/// A task that waits for a signal, and whether its future is gone.
fn waiting(tasks: &Tasks, signal: &Arc<Signal>) -> (Task<()>, Arc<AtomicBool>) {
    let is_gone = Arc::new(AtomicBool::new(false));
    let (tells, signal) = (Tells(Arc::clone(&is_gone)), Arc::clone(signal));
    let task = tasks.spawn(async move {
        let _tells = tells;
        signal.given().await;
    });
    (task.unwrap(), is_gone)
}

#[test]
fn a_task_goes_on_when_it_is_woken() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let (signal, ended) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let (for_task, tells) = (Arc::clone(&signal), Arc::clone(&ended));
        let task = tasks.spawn(async move {
            for_task.given().await;
            tells.give();
        });
        task.unwrap().detach();
        signal.give();
        loom::future::block_on(ended.given());
        drop(tasks);
    });
}

#[test]
fn the_end_drops_every_future_once() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let signal = Arc::new(Signal::default());
        let (task, is_gone) = waiting(&tasks, &signal);
        let other = thread::spawn({
            let signal = Arc::clone(&signal);
            move || signal.give()
        });
        tasks.close();
        drop(tasks);
        other.join().unwrap();
        drop(task);
        drop(signal.lock().1.take());
        assert!(is_gone.load(Ordering::Acquire));
    });
}

#[test]
fn a_task_is_let_go_of_beside_its_thread() {
    model(|| {
        let tasks = Tasks::new(1, CpuAffinity::default());
        let signal = Arc::new(Signal::default());
        let (task, is_gone) = waiting(&tasks, &signal);
        drop(task);
        drop(signal.lock().1.take());
        drop(tasks);
        assert!(is_gone.load(Ordering::Acquire));
    });
}
