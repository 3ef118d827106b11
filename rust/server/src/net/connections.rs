//! Connections: accepted within a bound, each served until it or the server ends.
//!
//! HTTP/2 is spoken with whom begins it (`streams` has what bounds it), HTTP/1.1 with everybody else. A connection over the bound is answered 503 and closed. When the server stops, no connection is accepted any more; each is
//! closed when the request that is in it has been answered, one that has not asked yet after a moment in which it may.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::app::App;
use crate::net::http2_streams::{self, Overdue, Streams};
use crate::net::listener::{Listener, Socket};
use crate::net::write_timeout::WriteTimeoutStream;

/// How long a new connection may take to send its first request when the server stops.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

/// How long a client may go on sending what nobody will read, so that it gets to read its answer.
const LINGER: Duration = Duration::from_secs(2);

/// How long a client of HTTP/2 has to read the end of its last answer before it is told that the connection will end.
const LAST_READ: Duration = Duration::from_millis(100);

/// Connections over the bound that are told so at the same time; more are closed without a word.
const TOLD_AT_ONCE: usize = 64;

/// How long to wait when the system has no file descriptor left for a connection.
const NO_DESCRIPTOR: Duration = Duration::from_millis(50);

/// Accepts and serves connections.
pub(crate) struct Connections {
    protocols: Protocols,
    router: Router,
    places: Arc<Semaphore>,
    max_places: usize,
    told: Arc<Semaphore>,
    app: Arc<App>,
    /// True from the first signal on.
    stopping: watch::Receiver<bool>,
}

/// How connections are spoken on, and what bounds those of HTTP/2.
#[derive(Clone)]
struct Protocols {
    one: http1::Builder,
    two: http2::Builder<TokioExecutor>,
    limits: http2_streams::Limits,
}

impl Connections {
    pub(crate) fn new(app: &Arc<App>, router: Router, stopping: watch::Receiver<bool>) -> Self {
        let settings = &app.settings;
        let mut one = http1::Builder::new();
        one.timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout)
            .max_buf_size(settings.max_header_bytes)
            .half_close(false);
        let limits = http2_streams::Limits { idle: settings.header_timeout, stalled: settings.write_timeout };
        let protocols = Protocols { one, two: http2_streams::builder(settings.max_header_bytes), limits };
        let max_places = settings.max_connections.min(Semaphore::MAX_PERMITS / 4);
        let places = Arc::new(Semaphore::new(max_places));
        Self {
            protocols,
            router,
            places,
            max_places,
            told: Arc::new(Semaphore::new(TOLD_AT_ONCE)),
            app: Arc::clone(app),
            stopping,
        }
    }

    /// Accepts until the server stops, then waits until the last connection has ended.
    pub(crate) async fn serve(mut self, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut self.stopping) => break,
            };
            match accepted {
                Ok(socket) => self.place(socket),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(NO_DESCRIPTOR).await;
                }
            }
        }
        // What the system has accepted in our name is ours to answer.
        while let Ok(Ok(socket)) = timeout(Duration::ZERO, listener.accept()).await {
            self.place(socket);
        }
        drop(listener);
        let all = u32::try_from(self.max_places).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    fn place(&self, socket: Socket) {
        let metrics = &self.app.metrics;
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            let open = metrics.connections.clone();
            let stream = WriteTimeoutStream::new(socket, self.app.settings.write_timeout);
            let served = serve(self.protocols.clone(), stream, self.router.clone(), self.stopping.clone());
            let app = Arc::clone(&self.app);
            tokio::spawn(async move {
                open.inc();
                if served.await == Ended::Stalled {
                    app.metrics.failure("slow_reader");
                }
                open.dec();
                drop(place);
            });
            return;
        }
        metrics.failure("too_many_connections");
        if let Ok(place) = Arc::clone(&self.told).try_acquire_owned() {
            tokio::spawn(refuse(socket, place));
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By either side, or because it broke.
    Closed,
    /// The client did not read its answer.
    Stalled,
}

/// Finds out which protocol a connection speaks, and speaks it.
async fn serve(
    protocols: Protocols,
    mut stream: WriteTimeoutStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> Ended {
    let first = {
        let mut asked = pin!(timeout(protocols.limits.idle, stream.is_http2()));
        tokio::select! {
            asked = &mut asked => Some(asked),
            () = stopped(&mut stopping) => timeout(FIRST_REQUEST, asked).await.ok(),
        }
    };
    match first {
        Some(Ok(Ok(true))) => serve_streams(&protocols, stream, router, stopping).await,
        Some(Ok(Ok(false))) => serve_requests(&protocols.one, stream, router, stopping).await,
        // It sent nothing, or not enough to be anything.
        _ => {
            linger(stream.into_parts().0).await;
            Ended::Closed
        }
    }
}

/// HTTP/1.1: a request, its answer, and the next.
async fn serve_requests(
    http: &http1::Builder,
    stream: WriteTimeoutStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> Ended {
    let has_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_asked);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        router.clone().oneshot(request.map(Body::new))
    });
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    let ended = {
        let mut ends = pin!(std::future::poll_fn(|context| connection.poll_without_shutdown(context)));
        tokio::select! {
            ended = &mut ends => Some(ended),
            () = stopped(&mut stopping) => {
                if has_asked.load(Ordering::Relaxed) { None } else { timeout(FIRST_REQUEST, ends).await.ok() }
            }
        }
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
    let (socket, has_stalled) = connection.into_parts().io.into_inner().into_parts();
    if has_stalled {
        return Ended::Stalled;
    }
    linger(socket).await;
    Ended::Closed
}

/// HTTP/2: requests beside each other, each a stream of the connection.
async fn serve_streams(
    protocols: &Protocols,
    stream: WriteTimeoutStream,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) -> Ended {
    let streams = Streams::new(protocols.limits);
    let abandon = stream.handle();
    let noted = streams.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (router, noted) = (router.clone(), noted.begin());
        async move {
            let response = router.oneshot(request.map(Body::new)).await;
            response.map(|response| response.map(|body| noted.body(body)))
        }
    });
    let mut connection = pin!(protocols.two.serve_connection(TokioIo::new(stream), service));
    let mut is_ending = false;
    // What was asked is answered first, and what comes meanwhile refused: clients there are (Python's h2) read nothing of an
    // answer any more once they are told that the connection will end.
    let mut quiet = pin!(async {
        stopped(&mut stopping).await;
        streams.none().await;
        sleep(LAST_READ).await;
    });
    loop {
        let overdue = tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
                return if abandon.is_abandoned() { Ended::Stalled } else { Ended::Closed };
            }
            overdue = streams.overdue() => Some(overdue),
            () = &mut quiet, if !is_ending => None,
        };
        if overdue == Some(Overdue::Stalled) || is_ending {
            // What lies with h2 and with the system for a client that does not take it goes with the connection.
            abandon.abandon();
            return if overdue == Some(Overdue::Stalled) { Ended::Stalled } else { Ended::Closed };
        }
        // Tells the client to ask no more; it may still take the end of the last answer.
        is_ending = true;
        connection.as_mut().graceful_shutdown();
        streams.end();
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Where nobody can say it any more, the server has ended.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Ends a connection so that the client can read its answer: closing one with unread bytes would take that from it.
async fn linger(mut stream: Socket) {
    let drain = async {
        stream.shutdown().await?;
        let mut unread = vec![0; 16 * 1024];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(LINGER, drain).await;
}

async fn refuse(mut stream: Socket, place: OwnedSemaphorePermit) {
    let body = r#"{"error":{"kind":"too_many_connections","message":"too many connections are open; try again","retryable":true}}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Ok(Ok(())) = timeout(LINGER, stream.write_all(answer.as_bytes())).await {
        linger(stream).await;
    }
    drop(place);
}
