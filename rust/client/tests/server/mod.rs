//! A server on real sockets that answers as a test says, also in ways that no server should.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pullquote_client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::sleep;

pub const DIMENSION: usize = 8;

/// As many as show a reader that waits for the rest; 700 of them took seconds.
const MOST_PAUSES: usize = 16;

/// What is done with a request.
pub enum Act {
    /// These bytes are written in pieces of this length, with a pause before each of the first [`MOST_PAUSES`].
    Write { bytes: Vec<u8>, piece: usize, pause: Duration },
    /// These bytes are written, then the connection is closed.
    WriteAndClose(Vec<u8>),
    /// These bytes are written, then the connection is reset.
    WriteAndReset(Vec<u8>),
    /// These bytes are written, then nothing comes.
    WriteAndStall(Vec<u8>),
    /// These bytes are written forever, after the others.
    WriteForEver(Vec<u8>, Vec<u8>),
}

/// A request, as it came.
pub struct Got {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// How many came before.
    pub number: usize,
}

impl Got {
    /// The texts to be embedded.
    pub fn texts(&self) -> Vec<String> {
        let texts = self.body.get("inputs").or_else(|| self.body.get("input")).and_then(Value::as_array);
        texts.map(|texts| texts.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
    }
}

/// A running server; it ends with the test.
pub struct Server {
    pub address: SocketAddr,
    pub requests: Arc<AtomicUsize>,
    /// Connections that are open.
    pub open: Arc<AtomicUsize>,
    /// Requests at the same time, at most.
    pub most: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Server {
    pub fn new(act: impl Fn(&Got) -> Act + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, opened, seen, act) = (Arc::clone(&requests), Arc::clone(&open), Arc::clone(&most), Arc::new(act));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (counted, opened, act) = (Arc::clone(&counted), Arc::clone(&opened), Arc::clone(&act));
                let (now, seen) = (Arc::clone(&now), Arc::clone(&seen));
                tokio::spawn(async move {
                    opened.fetch_add(1, Ordering::SeqCst);
                    let _ = serve(stream, &*act, &counted, (&now, &seen)).await;
                    opened.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, requests, open, most, _runtime: runtime }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    act: &(impl Fn(&Got) -> Act + Sync),
    counted: &AtomicUsize,
    (now, most): (&AtomicUsize, &AtomicUsize),
) -> std::io::Result<()> {
    let mut read = Vec::new();
    loop {
        let Some(mut got) = request(&mut stream, &mut read).await? else { return Ok(()) };
        got.number = counted.fetch_add(1, Ordering::SeqCst);
        match act(&got) {
            Act::Write { bytes, piece, pause } => {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for (index, piece) in bytes.chunks(piece.max(1)).enumerate() {
                    if index < MOST_PAUSES && !pause.is_zero() {
                        sleep(pause).await;
                    }
                    if piece.as_ptr_range().end == bytes.as_ptr_range().end {
                        // The client may ask again before this comes back.
                        now.fetch_sub(1, Ordering::SeqCst);
                    }
                    stream.write_all(piece).await?;
                }
            }
            Act::WriteAndClose(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Act::WriteAndReset(bytes) => {
                stream.write_all(&bytes).await?;
                stream.set_zero_linger()?;
                return Ok(());
            }
            Act::WriteAndStall(bytes) => {
                stream.write_all(&bytes).await?;
                // Until the client hangs up.
                let _ = stream.read(&mut [0; 1]).await;
                return Ok(());
            }
            Act::WriteForEver(head, body) => {
                stream.write_all(&head).await?;
                loop {
                    stream.write_all(&body).await?;
                }
            }
        }
    }
}

/// The next request of a connection.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> std::io::Result<Option<Got>> {
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    let named = lines.filter_map(|line| line.split_once(':'));
    let headers: BTreeMap<_, _> =
        named.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    while read.len() < end + length {
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
    let body = serde_json::from_slice(&read[end..end + length]).unwrap_or_default();
    read.drain(..end + length);
    Ok(Some(Got { path, headers, body, number: 0 }))
}

/// The vector of a text: made up, and the same each time.
pub fn vector(text: &str) -> [f32; DIMENSION] {
    let mut state = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    std::array::from_fn(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(state >> 48).unwrap()) / 65536.0 - 0.5
    })
}

/// The bytes of texts' vectors.
pub fn raw(texts: &[String]) -> Vec<u8> {
    texts.iter().flat_map(|text| vector(text)).flat_map(f32::to_le_bytes).collect()
}

/// An answer with these headers.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status} Said\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}

/// The honest answer, of raw vectors.
pub fn honest(texts: &[String]) -> Vec<u8> {
    let body = raw(texts);
    let (shape, length) = (format!("{},{DIMENSION}", texts.len()), body.len().to_string());
    answer(200, &claims(&shape, &length), &body)
}

pub fn claims<'text>(shape: &'text str, length: &'text str) -> [(&'static str, &'text str); 5] {
    [
        ("content-type", "application/octet-stream"),
        ("x-embedding-shape", shape),
        ("x-embedding-dtype", "float32"),
        ("x-embedding-byte-order", "little"),
        ("content-length", length),
    ]
}

pub fn at_once(bytes: Vec<u8>) -> Act {
    Act::Write { bytes, piece: usize::MAX, pause: Duration::ZERO }
}

/// A client with settings of its own.
pub fn client(urls: &[String], changes: &Value) -> Client {
    let mut settings = json!({
        "url": urls, "timeout": 20.0, "connect_timeout": 5.0, "max_answer_bytes": 1_048_576, "retries": 0, "retry_budget": 1.0,
    });
    for (name, value) in changes.as_object().unwrap() {
        settings[name] = value.clone();
    }
    Client::new(serde_json::from_value(settings).unwrap()).unwrap()
}

/// Texts of their own.
pub fn texts(count: usize, name: &str) -> Vec<String> {
    (0..count).map(|number| format!("{name} {number}")).collect()
}
