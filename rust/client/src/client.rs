//! The client: its servers, its runtime, and waiting for a call.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::runtime::sync::lock;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call_options::CallOptions;
use crate::exchange::{CLOSED, ClientState};
use crate::settings::Settings;

/// I/O threads: two carry more than a loopback socket.
const THREADS: usize = 2;
/// Threads that run callbacks and resolve names.
const BLOCKING_THREADS: usize = 4;
/// How long `close` waits for calls to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that many threads may use at once. `python/pullquote/client.py` documents its calls.
///
/// The errors of calls are those of the library, and [`ErrorKind::Unavailable`], [`ErrorKind::Unauthorized`],
/// [`ErrorKind::Overloaded`], [`ErrorKind::NotFound`], [`ErrorKind::StoreFull`] and [`ErrorKind::BadAnswer`].
pub struct Client {
    pub(crate) shared: Arc<ClientState>,
    /// Shared with each thread that waits for a call.
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// The process that the runtime's threads belong to.
    process: u32,
}

impl Client {
    /// A client for these servers. It sends nothing and starts no thread yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a setting that is out of range.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self {
            shared: Arc::new(ClientState::new(settings)?),
            runtime: Mutex::default(),
            process: std::process::id(),
        })
    }

    /// Waits for a call on this thread, and checks every 50 ms whether the caller has cancelled it.
    ///
    /// # Errors
    /// Those of the call, [`ErrorKind::Cancelled`], [`ErrorKind::Closed`] and [`ErrorKind::Forked`].
    pub fn wait<R>(&self, call: &Call, work: impl Future<Output = Result<R>>) -> Result<R> {
        let runtime = self.runtime()?;
        let mut closed = self.shared.closed.subscribe();
        let result = runtime.block_on(async {
            let (mut work, mut closed) = (pin!(work), pin!(closed.wait_for(|closed| *closed)));
            loop {
                tokio::select! {
                    biased;
                    done = &mut work => return done.map_err(|error| self.explained(error)),
                    _ = &mut closed => return Err(Error::new(ErrorKind::Closed, CLOSED)),
                    // Neither Ctrl-C nor the caller's deadline wakes this task.
                    () = tokio::time::sleep(call.poll_interval()) => call.check()?,
                }
            }
        });
        // The last thread ends the runtime of a client that was closed meanwhile.
        if let Some(runtime) = Arc::into_inner(runtime) {
            runtime.shutdown_background();
        }
        result
    }

    /// Runs a call in the background. `done` gets its result, once, on a thread that may block; also if the handle
    /// aborts the call or the client is closed.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] and [`ErrorKind::Forked`].
    pub fn spawn<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R>> + Send + 'static,
        done: impl FnOnce(Result<R>) + Send + 'static,
    ) -> Result<AbortHandle> {
        let handle = self.runtime()?.handle().clone();
        let closed = self.shared.closed.subscribe();
        let mut completion = Completion { done: Some(done), closed, result: PhantomData };
        let inside = handle.clone();
        let task = handle.spawn(async move {
            let result = work.await;
            inside.spawn_blocking(move || completion.complete(result));
        });
        Ok(task.abort_handle())
    }

    /// Closes all connections; calls in flight and later ones end with [`ErrorKind::Closed`]. May be called twice.
    pub fn close(&self) {
        if self.is_fork() {
            return;
        }
        self.shared.closed.send_replace(true);
        let runtime = lock(&self.runtime).take();
        let (mut runtime, began) = (runtime, Instant::now());
        while let Some(shared) = runtime {
            runtime = match Arc::try_unwrap(shared) {
                Ok(own) => {
                    own.shutdown_timeout(CLOSE_TIMEOUT);
                    None
                }
                // Waiting threads were notified; the last one ends the runtime.
                Err(shared) if began.elapsed() < CLOSE_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(1));
                    Some(shared)
                }
                Err(shared) => {
                    if let Some(own) = Arc::into_inner(shared) {
                        own.shutdown_background();
                    }
                    None
                }
            };
        }
    }
}

impl Client {
    /// For each server its address, and why it is unhealthy; `None` if it is healthy. Requests each once, without
    /// retries.
    ///
    /// # Errors
    /// Those of all calls of a [`Client`].
    pub fn health(
        &self,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<(String, Option<String>)>>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            let checks = shared.endpoints.iter().map(async |endpoint| {
                let unhealthy = shared.check_health(endpoint, call).await.err();
                (endpoint.name.clone(), unhealthy.map(|error| error.message().to_owned()))
            });
            Ok(join_all(checks).await)
        }
    }

    fn runtime(&self) -> Result<Arc<Runtime>> {
        if self.is_fork() {
            let message = "this process is a fork of the one that made the client; make a new one here";
            return Err(Error::new(ErrorKind::Forked, message));
        }
        let mut runtime = lock(&self.runtime);
        if *self.shared.closed.borrow() {
            return Err(Error::new(ErrorKind::Closed, CLOSED));
        }
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(BLOCKING_THREADS).thread_name("pullquote-client");
        let made = builder.enable_all().build().map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the client's threads cannot be started: {error}"))
        })?;
        Ok(Arc::clone(runtime.insert(Arc::new(made))))
    }

    fn is_fork(&self) -> bool {
        std::process::id() != self.process
    }

    /// An error after the client was closed is [`ErrorKind::Closed`], whatever broke first.
    fn explained(&self, error: Error) -> Error {
        if *self.shared.closed.borrow() { Error::new(ErrorKind::Closed, CLOSED) } else { error }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if std::process::id() == self.process {
            // No thread waits in it: that would borrow the client.
            if let Some(runtime) = runtime.and_then(Arc::into_inner) {
                self.shared.closed.send_replace(true);
                runtime.shutdown_background();
            }
        } else {
            // In a fork, its threads and locks belong to the parent.
            std::mem::forget((runtime, Arc::clone(&self.shared)));
        }
    }
}

/// Calls `done` exactly once, however the call ends.
struct Completion<R, F: FnOnce(Result<R>)> {
    done: Option<F>,
    closed: watch::Receiver<bool>,
    result: PhantomData<fn(R)>,
}

impl<R, F: FnOnce(Result<R>)> Completion<R, F> {
    fn complete(&mut self, result: Result<R>) {
        if let Some(done) = self.done.take() {
            done(result);
        }
    }
}

impl<R, F: FnOnce(Result<R>)> Drop for Completion<R, F> {
    fn drop(&mut self) {
        let error = if *self.closed.borrow() {
            Error::new(ErrorKind::Closed, CLOSED)
        } else {
            Error::new(ErrorKind::Cancelled, "the call was stopped by its caller")
        };
        self.complete(Err(error));
    }
}
