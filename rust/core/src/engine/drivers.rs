//! Drivers of a call's future, such as [`Engine::highlights`]: the caller's thread ([`Engine::wait`]), a task thread
//! ([`Engine::spawn`]), or a host, for its [`Steps`](super::Steps) or a [`Hosted`](super::Hosted) call.
//!
//! Stop a call before its future is dropped, or devices encode its rows for nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::call::{Call, CallProgress};
use crate::runtime::sync::{AtomicBool, Ordering};
use crate::runtime::tasks::Task;
use crate::scheduler::block_on;

impl Engine {
    /// Runs a future of this engine on this thread, which waits for vectors.
    ///
    /// # Errors
    /// Those of the future; [`ErrorKind::Closed`], [`ErrorKind::Forked`], and errors of [`Call::check`];
    /// [`ErrorKind::InvalidArgument`] with [`Engine::stepped`].
    pub fn wait<T>(&self, call: &Call, future: impl Future<Output = Result<T>>) -> Result<T> {
        let scheduler = self.scheduler()?;
        block_on(future, &scheduler, call)
    }

    /// Runs a future on the engine's task threads. It ends when the [`Task`] is dropped or the engine closes.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`], [`ErrorKind::Forked`]; [`ErrorKind::InvalidArgument`] with [`Engine::stepped`].
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Result<Task<()>> {
        self.check_process()?;
        if self.is_stepped {
            return Err(Error::new(ErrorKind::InvalidArgument, "this engine works only in its host's steps"));
        }
        self.tasks.spawn(future)
    }
}

/// A call that its host polls. Dropping it stops the call, so that its rows on devices are discarded.
pub(super) struct DrivenCall<T> {
    call: Arc<Call<'static>>,
    flag: Arc<WakeFlag>,
    future: Pin<Box<dyn Future<Output = Result<T>> + Send>>,
}

/// Whether a poll could make progress.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl<T> DrivenCall<T> {
    pub(super) fn new(call: Arc<Call<'static>>, future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self { call, flag: Arc::new(WakeFlag(AtomicBool::new(true))), future: Box::pin(future) }
    }

    pub(super) fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Acquire)
    }

    /// Polls the future once if it was woken; `None` while it waits.
    pub(super) fn poll(&mut self) -> Option<Result<T>> {
        if !self.flag.0.swap(false, Ordering::AcqRel) {
            return None;
        }
        let waker = Waker::from(Arc::clone(&self.flag));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.call.check()
    }

    pub(super) fn priority(&self) -> i32 {
        self.call.priority()
    }

    pub(super) fn progress(&self) -> CallProgress {
        self.call.progress()
    }
}

impl<T> Drop for DrivenCall<T> {
    fn drop(&mut self) {
        self.call.stop().stop();
    }
}
