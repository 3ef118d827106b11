//! pullquote from another process: the calls of the library over HTTP.
//!
//! A [`Client`] calls one server or several. Its calls are futures that own their data: a thread waits for one
//! ([`Client::wait`]), or it runs in the background ([`Client::spawn`]). Dropping a call closes its connections.
//! Options, results and kinds of errors are those of `pullquote_core`.
//!
//! Each client has its own small runtime, started by the first call and ended by [`Client::close`]. A fork notices that
//! it has none.

mod call_options;
pub mod columns;
mod endpoints;
mod exchange;
pub mod forms;
mod passages;
pub mod raw;
mod request_error;
mod rerank;
mod retry;
pub mod rows;
mod settings;
mod stored_documents;
mod vectors;

use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use call_options::CallOptions;
pub use columns::{Columns, Place, Rectangle, StoredPassage};
use exchange::{CLOSED, ClientState};
pub use forms::File;
pub use passages::{HighlightsAnswer, HighlightsRequest, ReturnOptions};
pub use rerank::RerankResult;
pub use settings::Settings;
pub use stored_documents::{PutDocuments, StoredDocument};
pub use vectors::{Text, Vectors};

/// I/O threads: two carry more than a loopback socket.
const THREADS: usize = 2;
/// Threads that run callbacks and resolve names.
const BLOCKING_THREADS: usize = 4;
/// How long `close` waits for calls to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that many threads may use at once.
pub struct Client {
    shared: Arc<ClientState>,
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
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
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

/// The calls, which `python/pullquote/client.py` documents.
///
/// # Errors
/// The library's, and those of a client: [`ErrorKind::Unavailable`], [`ErrorKind::Unauthorized`],
/// [`ErrorKind::Overloaded`], [`ErrorKind::NotFound`], [`ErrorKind::StoreFull`] and [`ErrorKind::BadAnswer`].
#[expect(clippy::missing_errors_doc, reason = "they are the same for all, above")]
impl Client {
    pub fn embed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { vectors::embed(&shared, texts.into(), role, shared.settings.wire_dtype, call).await }
    }

    pub fn embed_packed<T: Text>(
        &self,
        texts: Vec<T>,
        role: Role,
        dtype: EmbeddingDtype,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vectors<u8>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { vectors::embed(&shared, texts.into(), role, dtype, call).await }
    }

    pub fn highlights<T: Text>(
        &self,
        request: HighlightsRequest<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<HighlightsAnswer>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { passages::highlights(&shared, request, call).await }
    }

    /// Texts ranked by their relevance to a query, the best first.
    pub fn rerank<T: Text>(
        &self,
        query: T,
        texts: Vec<T>,
        top_n: Option<usize>,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<RerankResult>>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { rerank::rerank(&shared, query.as_ref(), &texts, top_n, call).await }
    }

    /// Stores a document under an id. Returns the hash of its text.
    pub fn put_document<T: Text>(
        &self,
        id: T,
        text: T,
        title: Option<T>,
        call: CallOptions,
    ) -> impl Future<Output = Result<String>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move {
            stored_documents::put_document(&shared, id.as_ref(), text.as_ref(), title.as_ref().map(AsRef::as_ref), call)
                .await
        }
    }

    /// Stores documents in one transaction: for each its id, text and title.
    pub fn put_documents<T: Text>(
        &self,
        documents: Vec<(T, T, Option<T>)>,
        call: CallOptions,
    ) -> impl Future<Output = Result<PutDocuments>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { stored_documents::put_documents(&shared, &documents, call).await }
    }

    /// The document stored under an id.
    pub fn get_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<StoredDocument>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { stored_documents::get_document(&shared, id.as_ref(), call).await }
    }

    pub fn delete_document<T: Text>(
        &self,
        id: T,
        call: CallOptions,
    ) -> impl Future<Output = Result<()>> + Send + use<T> {
        let shared = Arc::clone(&self.shared);
        async move { stored_documents::delete_document(&shared, id.as_ref(), call).await }
    }

    /// For each server its address, and why it is unhealthy; `None` if it is healthy.
    pub fn health(
        &self,
        call: CallOptions,
    ) -> impl Future<Output = Result<Vec<(String, Option<String>)>>> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        async move { Ok(shared.health(call).await) }
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
