//! Connections: accepted up to a limit, each served until either side ends it or the server stops.
//!
//! hyper speaks HTTP/2 with clients that start with it, and HTTP/1.1 with all others. A connection over the limit gets
//! 503. A server that stops accepts what the system has accepted for it, answers the requests in progress, and closes
//! each connection. A new connection still has a moment for its first request.

use std::error::Error;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::either::Either;
use tower::ServiceExt;

use crate::net::listener::{Listener, Socket, accept};
use crate::net::timeouts::{Activity, Overdue};
use crate::settings::Settings;

/// How long a new connection may take to send its first request when the server stops.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

/// How long the server reads and ignores what a client sends, so that the client can read its answer.
const LINGER: Duration = Duration::from_secs(2);

/// How long a client has to read the end of its last answer before GOAWAY: Python's h2 stops reading once that arrives.
const GOAWAY_DELAY: Duration = Duration::from_millis(100);

/// Connections over the limit that get an answer at the same time; more are closed without one.
const MAX_REFUSALS: usize = 64;

/// How long to wait when the system has no file descriptor left for a connection.
const NO_DESCRIPTOR: Duration = Duration::from_millis(50);

/// Requests of an HTTP/2 connection at the same time; a client with more waits.
const MAX_STREAMS: u32 = 128;

/// The most headers of a request. hyper allocates two tables of 32 bytes for each of them: above 128 KiB, that takes 15 µs
/// instead of 0.03 µs a request.
const MAX_HEADERS: usize = 4000;

/// HTTP/2's flow-control windows: the bytes that a client may send ahead, in a request and in a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;

pub(crate) struct Connections {
    http: auto::Builder<TokioExecutor>,
    router: Router,
    permits: Arc<Semaphore>,
    max_permits: usize,
    refusals: Arc<Semaphore>,
    timeouts: Timeouts,
    metrics: Arc<dyn ConnectionMetrics>,
    /// True from the first signal on.
    stopping: watch::Receiver<bool>,
}

/// How long a connection may do nothing.
#[derive(Clone, Copy)]
struct Timeouts {
    /// Without a request, or inside its headers.
    idle: Duration,
    /// Without a byte of the answer that the client took.
    write: Duration,
}

pub(crate) trait ConnectionMetrics: Send + Sync {
    fn opened(&self);

    fn closed(&self);

    fn failed(&self, cause: &'static str);
}

impl Connections {
    pub(crate) fn new(
        settings: &Settings,
        router: Router,
        metrics: Arc<dyn ConnectionMetrics>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_buf_size(settings.max_header_bytes)
            // hyper's own limit is 100, which cookies in parts reach.
            .max_headers(MAX_HEADERS)
            .half_close(false);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let max_permits = settings.max_connections.min(Semaphore::MAX_PERMITS / 4);
        Self {
            http,
            router,
            permits: Arc::new(Semaphore::new(max_permits)),
            max_permits,
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            timeouts: Timeouts { idle: settings.header_timeout, write: settings.write_timeout },
            metrics,
            stopping,
        }
    }

    /// Accepts until the server stops, then waits until the last connection has ended.
    pub(crate) async fn serve(self, mut listener: Listener) {
        let mut stopping = self.stopping.clone();
        loop {
            let accepted = tokio::select! {
                accepted = accept(&mut listener) => accepted,
                () = stopped(&mut stopping) => break,
            };
            match accepted {
                Ok(socket) => self.start(socket),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(NO_DESCRIPTOR).await;
                }
            }
        }
        while let Ok(Ok(socket)) = timeout(Duration::ZERO, accept(&mut listener)).await {
            self.start(socket);
        }
        drop(listener);
        let all = u32::try_from(self.max_permits).unwrap_or(u32::MAX);
        let _ = self.permits.acquire_many(all).await;
    }

    fn start(&self, socket: Socket) {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            let (http, router, metrics) = (self.http.clone(), self.router.clone(), Arc::clone(&self.metrics));
            let (timeouts, stopping) = (self.timeouts, self.stopping.clone());
            tokio::spawn(async move {
                metrics.opened();
                if serve(&http, socket, router, timeouts, stopping).await == ConnectionEnd::Stalled {
                    metrics.failed("slow_reader");
                }
                metrics.closed();
                drop(permit);
            });
            return;
        }
        self.metrics.failed("too_many_connections");
        if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            tokio::spawn(refuse(socket, permit));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnd {
    /// By either side, or because it broke.
    Closed,
    /// The client did not read its answer.
    Stalled,
}

async fn serve(
    http: &auto::Builder<TokioExecutor>,
    socket: Socket,
    router: Router,
    timeouts: Timeouts,
    stopping: watch::Receiver<bool>,
) -> ConnectionEnd {
    let activity = Activity::new(timeouts.write);
    // hyper keeps its stream to the end; then the socket comes back.
    let (sender, socket_back) = oneshot::channel();
    let lent = scopeguard::guard(socket, |socket| drop(sender.send(socket)));
    let mut stream = TimeoutStream::new(Pin::new(lent));
    stream.set_write_timeout(Some(timeouts.write));
    let noted = activity.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let stream = noted.request(request.version());
        let response = router.clone().oneshot(request.map(Body::new));
        async move {
            let response = response.await?;
            Ok::<_, std::convert::Infallible>(match stream {
                Some(stream) => response.map(|body| stream.watch(body)),
                None => response,
            })
        }
    });
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    let ended = run(connection, &activity, timeouts, stopping.clone()).await;
    if let Ok(mut socket) = socket_back.await {
        match ended {
            ConnectionEnd::Closed => {
                if *stopping.borrow() && activity.may_be_http1() {
                    refuse_unread(&mut socket).await;
                }
                linger(socket).await;
            }
            ConnectionEnd::Stalled => reset(socket),
        }
    }
    ended
}

/// Runs a connection until it ends, a timeout passes, or the server stops.
async fn run(
    connection: impl GracefulConnection<Error = Box<dyn Error + Send + Sync>>,
    activity: &Activity,
    timeouts: Timeouts,
    mut stopping: watch::Receiver<bool>,
) -> ConnectionEnd {
    let mut connection = pin!(connection);
    let quiet = async {
        stopped(&mut stopping).await;
        let _ = timeout(FIRST_REQUEST, activity.first_request()).await;
        activity.no_streams().await;
        sleep(GOAWAY_DELAY).await;
    };
    let mut overdue = tokio::select! {
        // Reads everything that the client has sent before the connection closes for another reason.
        biased;
        ended = &mut connection => return of_result(ended),
        overdue = activity.overdue(timeouts.idle) => overdue,
        () = quiet => Overdue::Idle,
    };
    if overdue == Overdue::Idle {
        connection.as_mut().graceful_shutdown();
        overdue = tokio::select! {
            ended = &mut connection => return of_result(ended),
            overdue = activity.overdue(timeouts.write) => overdue,
        };
    }
    if overdue == Overdue::Stalled { ConnectionEnd::Stalled } else { ConnectionEnd::Closed }
}

fn of_result(result: Result<(), Box<dyn Error + Send + Sync>>) -> ConnectionEnd {
    let Err(error) = result else { return ConnectionEnd::Closed };
    tracing::debug!(%error, "a connection broke");
    let causes = std::iter::successors(Some(&*error as &(dyn Error + 'static)), |error| (*error).source());
    let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    if causes.filter_map(|error| error.downcast_ref()).any(is_timeout) {
        ConnectionEnd::Stalled
    } else {
        ConnectionEnd::Closed
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and the server with it.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Ends a connection so that the client can read its answer: closing a socket with unread bytes would discard it.
async fn linger(mut socket: Socket) {
    let drain = async {
        socket.shutdown().await?;
        let mut unread = vec![0; 16 * 1024];
        while socket.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(LINGER, drain).await;
}

/// Refuses a request that came after hyper last read, in the moment before it closed an idle connection.
async fn refuse_unread(socket: &mut Socket) {
    let mut start = [0; 4];
    // Reads only what has arrived.
    let Ok(Ok(count)) = timeout(Duration::ZERO, socket.read(&mut start)).await else { return };
    // The preface of HTTP/2 is not a request.
    if count > 0 && start != *b"PRI " {
        let answer = refusal("shutting_down", "the server is stopping; try another one");
        let _ = timeout(LINGER, socket.write_all(answer.as_bytes())).await;
    }
}

/// Closes a connection with what the system still holds for a client that does not read.
fn reset(socket: Socket) {
    if let Either::Left(stream) = socket {
        let _ = stream.set_zero_linger();
    }
}

/// The bytes of a complete response, written without hyper.
fn refusal(kind: &str, message: &str) -> String {
    let body = format!(r#"{{"error":{{"kind":"{kind}","message":"{message}","retryable":true}}}}"#);
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn refuse(mut socket: Socket, permit: OwnedSemaphorePermit) {
    let answer = refusal("too_many_connections", "too many connections are open; try again");
    if let Ok(Ok(())) = timeout(LINGER, socket.write_all(answer.as_bytes())).await {
        linger(socket).await;
    }
    drop(permit);
}
