//! pullquote from another process: the calls of the library over HTTP.
//!
//! A [`Client`] asks one server or several. Its calls are futures that own what they need, so that they can be waited for by
//! a thread ([`Client::wait`]) or run beside others ([`Client::spawn`]); dropping one closes its streams. What is asked,
//! what comes back and how it fails is the library's own: `pullquote_core`'s options, answers and kinds of errors.
//!
//! Each client has a small runtime of its own, started by its first call and ended by [`Client::close`], so that nothing of
//! it is left over and a fork can tell that it has none.

mod attempts;
pub mod columns;
mod direct;
mod endpoints;
mod exchange;
pub mod forms;
pub mod packed;
mod passages;
mod ranks;
pub mod raw;
mod request_error;
pub mod rows;
mod settings;
mod vectors;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use attempts::CallOptions;
pub use columns::Passage;
use endpoints::Endpoint;
use exchange::{CLOSED, Shared};
pub use passages::{Found, Page, Question, Wanted};
pub use ranks::{Rank, Stored};
pub use raw::Dtype;
pub use settings::Settings;
pub use vectors::{Text, Vectors};

/// Threads that move bytes: two carry more than a socket on one machine brings.
const THREADS: usize = 2;
/// Threads that hand results to callers, and look up names.
const BLOCKING_THREADS: usize = 4;
/// How long `close` waits for work to let go.
const FAREWELL: Duration = Duration::from_secs(1);

/// Servers, asked by many threads at once.
pub struct Client {
    shared: Arc<Shared>,
    /// Also held by each thread that waits in it.
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// Whose threads the runtime has.
    process: u32,
}

impl Client {
    /// A client for these servers; nothing is sent yet, and no thread is started.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], saying which setting cannot be.
    pub fn new(settings: Settings) -> Result<Self> {
        Ok(Self { shared: Arc::new(Shared::new(settings)?), runtime: Mutex::default(), process: std::process::id() })
    }

    /// Waits for a call on this thread; its caller is asked every 50 ms whether it still wants it.
    ///
    /// # Errors
    /// Those of the call, [`ErrorKind::Cancelled`], [`ErrorKind::Closed`] and [`ErrorKind::Forked`].
    pub fn wait<R>(&self, call: &Call, work: impl Future<Output = Result<R>>) -> Result<R> {
        let runtime = self.runtime()?;
        let mut closed = self.shared.closed.subscribe();
        let came = runtime.block_on(async {
            let (mut work, mut closed) = (pin!(work), pin!(closed.wait_for(|closed| *closed)));
            loop {
                tokio::select! {
                    biased;
                    done = &mut work => return done.map_err(|error| self.explained(error)),
                    _ = &mut closed => return Err(Error::new(ErrorKind::Closed, CLOSED)),
                    // A caller can only be asked: neither Ctrl-C nor its deadline wakes anybody here.
                    () = tokio::time::sleep(call.poll_interval()) => call.check()?,
                }
            }
        });
        // The last one out, where the client was closed meanwhile.
        if let Some(runtime) = Arc::into_inner(runtime) {
            runtime.shutdown_background();
        }
        came
    }

    /// Runs a call beside others. `done` gets what came of it, once, on a thread that may block; where the handle aborts the
    /// call or the client is closed, it is told that.
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
        let mut told = Told { done: Some(done), closed, result: PhantomData };
        let inside = handle.clone();
        let task = handle.spawn(async move {
            let came = work.await;
            inside.spawn_blocking(move || told.tell(came));
        });
        Ok(task.abort_handle())
    }

    /// Closes all connections; calls in flight and later ones end with [`ErrorKind::Closed`]. May be called twice.
    pub fn close(&self) {
        if self.is_fork() {
            return;
        }
        self.shared.closed.send_replace(true);
        self.shared.endpoints.iter().for_each(Endpoint::close);
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (mut runtime, began) = (runtime, Instant::now());
        while let Some(shared) = runtime {
            runtime = match Arc::try_unwrap(shared) {
                Ok(own) => {
                    own.shutdown_timeout(FAREWELL);
                    None
                }
                // Whoever waits is told by now, and leaves; if not, the last one ends it.
                Err(shared) if began.elapsed() < FAREWELL => {
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

/// The calls. What each comes to is documented where people look for it, in `python/pullquote/client.py`.
///
/// # Errors
/// Those of the core's table: the library's own, and of those that only a client has [`ErrorKind::Unavailable`],
/// [`ErrorKind::Unauthorized`], [`ErrorKind::Overloaded`], [`ErrorKind::NotFound`], [`ErrorKind::StoreFull`] and
/// [`ErrorKind::BadAnswer`].
#[expect(clippy::missing_errors_doc, reason = "they are the same for all of them, and stand above")]
impl Client {
    /// The vectors of texts.
    pub fn embed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { vectors::embed(&shared, texts.into(), role, shared.settings.wire_dtype, call).await }
    }

    /// The vectors of texts as bytes of this type, as they travel.
    pub fn embed_packed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        dtype: Dtype,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors<u8>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { vectors::embed(&shared, texts.into(), role, dtype, call).await }
    }

    /// The passages of pages that answer queries.
    pub fn highlights<T: Text>(
        &self,
        question: Question<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<Found>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { passages::highlights(&shared, question, call).await }
    }

    /// Texts by how near they are to a query, the nearest first.
    pub fn rerank<T: Text>(
        &self,
        query: T,
        texts: Vec<T>,
        top_n: Option<usize>,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<Rank>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { ranks::rerank(&shared, query.as_ref(), &texts, top_n, call).await }
    }

    /// Stores a document under an id; what its text is known by.
    pub fn put_document<T: Text>(
        &self,
        id: T,
        text: T,
        title: Option<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<String>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            ranks::put_document(&shared, id.as_ref(), text.as_ref(), title.as_ref().map(AsRef::as_ref), call).await
        }
    }

    /// The document that is stored under an id.
    pub fn get_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<Stored>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { ranks::get_document(&shared, id.as_ref(), call).await }
    }

    /// Deletes the document that is stored under an id.
    pub fn delete_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { ranks::delete_document(&shared, id.as_ref(), call).await }
    }

    /// For each server, by its address, why it is not healthy; `None` where it is.
    pub fn health(
        &self,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<(String, Option<String>)>>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move { Ok(ranks::health(&shared, call).await) }
    }
}

impl Client {
    fn runtime(&self) -> Result<Arc<Runtime>> {
        if self.is_fork() {
            let message = "this process is a fork of the one that made the client; make a new one here";
            return Err(Error::new(ErrorKind::Forked, message));
        }
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// What breaks because the client is being closed is no failure of a server.
    fn explained(&self, error: Error) -> Error {
        if *self.shared.closed.borrow() { Error::new(ErrorKind::Closed, CLOSED) } else { error }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if std::process::id() == self.process {
            // Nobody waits in it: who waits borrows the client.
            if let Some(runtime) = runtime.and_then(Arc::into_inner) {
                self.shared.closed.send_replace(true);
                runtime.shutdown_background();
            }
        } else {
            // Its threads are the parent's, and so is what it waits on.
            std::mem::forget((runtime, Arc::clone(&self.shared)));
        }
    }
}

/// Whoever waits for a call: told once, however it ends.
struct Told<R, F: FnOnce(Result<R>)> {
    done: Option<F>,
    closed: watch::Receiver<bool>,
    result: PhantomData<fn(R)>,
}

impl<R, F: FnOnce(Result<R>)> Told<R, F> {
    fn tell(&mut self, came: Result<R>) {
        if let Some(done) = self.done.take() {
            done(came);
        }
    }
}

impl<R, F: FnOnce(Result<R>)> Drop for Told<R, F> {
    fn drop(&mut self) {
        let error = if *self.closed.borrow() {
            Error::new(ErrorKind::Closed, CLOSED)
        } else {
            Error::new(ErrorKind::Cancelled, "the call was stopped by its caller")
        };
        self.tell(Err(error));
    }
}
