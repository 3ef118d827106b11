//! Servers that lie, break off, stall, and never end: an error of the right kind, in bounded time and memory, never a
//! wrong array.

mod server;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pullquote_client::{CallOptions, Client};
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;
use pullquote_wire::embedding_dtype::EmbeddingDtype;
use serde_json::json;

use server::{Act, DIMENSION, Server, answer, at_once, claims, client, honest, raw, texts, vector};

fn embed(client: &Client, count: usize, call: CallOptions) -> Result<Vec<f32>> {
    let work = client.embed(texts(count, "text"), Role::Passage, call);
    client.wait(&Call::default(), work).map(|vectors| vectors.values)
}

fn expected(count: usize) -> Vec<f32> {
    texts(count, "text").iter().flat_map(|text| vector(text)).collect()
}

#[test]
fn impossible_embedding_headers_are_errors_that_name_them() {
    const LENGTH: &str = "64";
    let bytes = raw(&texts(2, "text"));
    assert_eq!(bytes.len().to_string(), LENGTH);
    let honest = claims("2,8", LENGTH);
    let with = |name: &str, value: &'static str| {
        let mut claims = honest.to_vec();
        claims.iter_mut().find(|(known, _)| *known == name).unwrap().1 = value;
        claims
    };
    let without = |name: &str| honest.iter().filter(|(known, _)| *known != name).copied().collect::<Vec<_>>();
    let cases = [
        (with("x-embedding-shape", "3,8"), &["3 rows", "2 texts"][..]),
        (with("x-embedding-shape", "2,9"), &["64", "2,9", "72"]),
        (with("x-embedding-shape", "2,0"), &["0 values"]),
        (with("x-embedding-shape", "2,4000000000"), &["4000000000"]),
        (with("x-embedding-shape", "2,99999999999999999999999"), &["shape", "99999999999999999999999"]),
        (with("x-embedding-shape", "2,-8"), &["shape", "2,-8"]),
        (with("x-embedding-shape", "2,+8"), &["shape", "2,+8"]),
        (with("x-embedding-shape", "2"), &["shape", "2"]),
        (with("x-embedding-byte-order", "big"), &["byte order", "big"]),
        (with("x-embedding-dtype", "float64"), &["float64"]),
        (with("x-embedding-dtype", "int8"), &["64", "2,8", "16"]),
        (with("x-embedding-dtype", "float16"), &["64", "2,8", "32"]),
        (without("x-embedding-shape"), &["x-embedding-shape"]),
        (without("x-embedding-dtype"), &["x-embedding-dtype"]),
        (without("x-embedding-byte-order"), &["x-embedding-byte-order"]),
        ([honest.as_slice(), &[("content-encoding", "gzip")]].concat(), &["gzip"]),
        (vec![("content-type", "text/html"), ("content-length", LENGTH)], &["line 1"]),
    ];
    for (headers, named) in cases {
        let bytes = answer(200, &headers, &bytes);
        let server = Server::new(move |_| at_once(bytes.clone()));
        let error = embed(&client(&[server.url()], &json!({"retries": 2})), 2, CallOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadAnswer, "{named:?}: {error:?}");
        assert!(named.iter().all(|value| error.message().contains(value)), "{named:?}: {error:?}");
        assert_eq!(server.count(), 1, "a wrong answer is not retried");
    }
}

#[test]
fn packed_vectors_have_the_requested_dtype_or_fail() {
    fn packed(server: &Server, dtype: EmbeddingDtype) -> Result<Vec<u8>> {
        let client = client(&[server.url()], &json!({"rows_per_request": 2}));
        let work = client.embed_packed(texts(4, "text"), Role::Passage, dtype, CallOptions::default());
        client.wait(&Call::default(), work).map(|vectors| vectors.values)
    }
    let claimed = |dtype: &'static str, length: &'static str, body: Vec<u8>| {
        Server::new(move |got| {
            let mut claims = claims("2,10", length);
            claims[2].1 = dtype;
            assert!(got.body["embedding_dtype"].is_string());
            at_once(answer(200, &claims, &body))
        })
    };
    // Ten bits in two bytes, the last six of which are none.
    let bits = vec![0xff, 0xc0, 0x01, 0x40];
    assert_eq!(
        packed(&claimed("binary", "4", bits.clone()), EmbeddingDtype::Binary).unwrap(),
        [bits.clone(), bits.clone()].concat()
    );
    let numbers = vec![0x81; 20];
    assert_eq!(packed(&claimed("int8", "20", numbers.clone()), EmbeddingDtype::Int8).unwrap(), vec![0x81; 40]);
    let wrong = [
        (claimed("int8", "20", numbers.clone()), EmbeddingDtype::Binary, &["int8", "binary"][..]),
        (claimed("float32", "80", vec![0; 80]), EmbeddingDtype::Int8, &["float32", "int8"]),
        (claimed("binary", "4", vec![0xff, 0xc0, 0x01, 0x41]), EmbeddingDtype::Binary, &["row 1", "10 values"]),
        (claimed("float16", "40", [[0; 38].as_slice(), &[0, 0x7c]].concat()), EmbeddingDtype::Float16, &["row 1"]),
        (claimed("bfloat16", "40", [&[0x80, 0x7f], [0; 38].as_slice()].concat()), EmbeddingDtype::Bfloat16, &["row 0"]),
        (claimed("int8", "21", numbers), EmbeddingDtype::Int8, &["21", "2,10", "20"]),
    ];
    for (server, dtype, named) in wrong {
        let error = packed(&server, dtype).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadAnswer, "{named:?}: {error:?}");
        assert!(named.iter().all(|value| error.message().contains(value)), "{named:?}: {error:?}");
    }
    // JSON says nothing of types, whatever its server understood.
    let json = Server::new(|_| {
        at_once(answer(200, &[("content-type", "application/json"), ("content-length", "13")], b"[[1.0],[2.0]]"))
    });
    let error = packed(&json, EmbeddingDtype::Int8).unwrap_err();
    assert!(["JSON", "int8"].iter().all(|value| error.message().contains(value)), "{error:?}");
    // Nor do other types become float32.
    let error = embed(
        &client(&[claimed("int8", "20", vec![0; 20]).url()], &json!({"wire_dtype": "float16"})),
        2,
        CallOptions::default(),
    );
    let message = error.unwrap_err().message().to_owned();
    assert!(["int8", "float16"].iter().all(|dtype| message.contains(dtype)), "{message}");
}

#[test]
fn non_finite_values_are_never_returned() {
    for (place, value) in [(0, f32::NAN), (7, f32::INFINITY), (15, f32::NEG_INFINITY)] {
        let server = Server::new(move |got| {
            let mut bytes = raw(&got.texts());
            bytes[4 * place..4 * place + 4].copy_from_slice(&value.to_le_bytes());
            at_once(answer(200, &claims("2,8", "64"), &bytes))
        });
        let error = embed(&client(&[server.url()], &json!({})), 2, CallOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadAnswer);
        assert!(error.message().contains(&format!("row {} has a value", place / DIMENSION)), "{error:?}");
    }
}

#[test]
fn a_body_of_chunks_may_be_neither_longer_nor_shorter_than_its_shape() {
    for extra in [-4_isize, -1, 1, 4] {
        let server = Server::new(move |got| {
            let mut bytes = raw(&got.texts());
            bytes.resize(bytes.len().checked_add_signed(extra).unwrap(), 0);
            let body = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n0\r\n\r\n"].concat();
            let mut headers = claims("2,8", "64");
            headers[4] = ("transfer-encoding", "chunked");
            at_once(answer(200, &headers, &body))
        });
        let error = embed(&client(&[server.url()], &json!({})), 2, CallOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadAnswer, "{extra}");
        let message = if extra > 0 { "continues after the 64 bytes" } else { "ended after" };
        assert!(error.message().contains(message), "{error:?}");
    }
}

#[test]
fn an_endless_body_is_not_read() {
    let (began, before) = (Instant::now(), peak());
    let endless: [(&[(&str, &str)], &str); 3] = [
        (&claims("2,8", "10000000000"), "10000000000 bytes for the shape"),
        (&[("content-type", "application/json"), ("content-length", "10000000000")], "max_answer_bytes, 1048576 bytes"),
        (&[("content-type", "application/json"), ("connection", "close")], "max_answer_bytes, 1048576 bytes"),
    ];
    for (headers, message) in endless {
        let head = answer(200, headers, b"[");
        let server = Server::new(move |_| Act::WriteForEver(head.clone(), vec![b' '; 1 << 20]));
        let error = embed(&client(&[server.url()], &json!({})), 2, CallOptions::default()).unwrap_err();
        assert!(error.message().contains(message), "{error:?}");
    }
    // Nor are errors, or answers without an end of raw vectors.
    let mut headers = claims("2,8", "64").to_vec();
    headers[4] = ("connection", "close");
    for status in [200, 500] {
        let head = answer(status, &headers, b"");
        let server = Server::new(move |_| Act::WriteForEver(head.clone(), vec![0; 1 << 20]));
        let kind = embed(&client(&[server.url()], &json!({})), 2, CallOptions::default()).unwrap_err().kind();
        assert_eq!(kind, if status == 200 { ErrorKind::BadAnswer } else { ErrorKind::Encoder });
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    // The servers' own megabytes, and those of concurrent tests.
    assert!(peak() - before < 100 << 20, "{} bytes more", peak() - before);
}

/// The most memory that this process ever had; where that cannot be told, none.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_default() * 1024
}

#[test]
fn a_server_that_stalls_costs_no_more_than_the_timeout() {
    for stalled in [Vec::new(), b"HTTP/1.1 20".to_vec(), answer(200, &claims("2,8", "64"), &[0; 63])] {
        let server = Server::new(move |_| Act::WriteAndStall(stalled.clone()));
        for (timeout, of_call, message) in
            [(0.2, None, "within 0.2 seconds"), (60.0, Some(Duration::from_millis(200)), "the call's timeout passed")]
        {
            let began = Instant::now();
            let error =
                embed(&client(&[server.url()], &json!({"timeout": timeout})), 2, CallOptions::new(of_call, None))
                    .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
            assert!(error.message().contains(message), "{error:?}");
            assert!(began.elapsed() < Duration::from_secs(5));
        }
    }
}

#[test]
fn broken_requests_are_retried_and_refused_ones_are_not() {
    let broken: Vec<(Act, usize)> = vec![
        (Act::WriteAndReset(Vec::new()), 2),
        (Act::WriteAndClose(honest(&texts(2, "text"))[..200].to_vec()), 2),
        (at_once(answer(429, &[("retry-after", "0"), ("content-length", "0")], b"")), 2),
        (at_once(answer(408, &[("content-length", "0")], b"")), 2),
        (at_once(answer(503, &[("content-length", "0")], b"")), 2),
        (at_once(answer(504, &[("content-length", "0")], b"")), 2),
        (at_once(answer(500, &[("content-length", "0")], b"")), 1),
        (at_once(answer(422, &[("content-length", "0")], b"")), 1),
        (at_once(answer(302, &[("location", "http://127.0.0.1:1/"), ("content-length", "0")], b"")), 1),
    ];
    for (number, (first, requests)) in broken.into_iter().enumerate() {
        let first = std::sync::Mutex::new(Some(first));
        let server =
            Server::new(move |got| first.lock().unwrap().take().unwrap_or_else(|| at_once(honest(&got.texts()))));
        let came = embed(&client(&[server.url()], &json!({"retries": 1})), 2, CallOptions::default());
        assert_eq!(server.count(), requests, "case {number}");
        assert_eq!(came.is_ok(), requests == 2, "case {number}: {came:?}");
        assert!(came.map_or(true, |values| values == expected(2)));
    }
}

#[test]
fn retry_after_is_waited_for_unless_the_call_would_be_too_late() {
    let server = Server::new(|got| match got.number {
        0 => at_once(answer(429, &[("retry-after", "1"), ("content-length", "0")], b"")),
        _ => at_once(honest(&got.texts())),
    });
    let client = client(&[server.url()], &json!({"retries": 3}));
    let began = Instant::now();
    let early = embed(&client, 2, CallOptions::new(Some(Duration::from_millis(500)), None)).unwrap_err();
    assert_eq!((early.kind(), server.count()), (ErrorKind::Overloaded, 1));
    assert!(began.elapsed() < Duration::from_millis(900));
    server.requests.store(0, Ordering::SeqCst);
    assert_eq!(embed(&client, 2, CallOptions::default()).unwrap(), expected(2));
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn circuit_breaker_excludes_a_dead_server_and_probes_it() {
    let is_dead = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let dead = Arc::clone(&is_dead);
    let one = Server::new(move |got| {
        if dead.load(Ordering::SeqCst) { Act::WriteAndReset(Vec::new()) } else { at_once(honest(&got.texts())) }
    });
    let other = Server::new(|got| at_once(honest(&got.texts())));
    let client = client(&[one.url(), other.url()], &json!({"retries": 2}));
    for _ in 0..50 {
        assert_eq!(embed(&client, 2, CallOptions::default()).unwrap(), expected(2));
    }
    assert!((1..=5).contains(&one.count()), "{} requests to a dead server", one.count());
    is_dead.store(false, Ordering::SeqCst);
    let (before, until) = (one.count(), Instant::now() + Duration::from_secs(20));
    while one.count() < before + 5 {
        assert!(Instant::now() < until, "it never came back");
        embed(&client, 2, CallOptions::default()).unwrap();
    }
}

#[test]
fn dropping_a_call_closes_its_stream_and_closing_ends_all_calls() {
    let server = Server::new(|_| Act::WriteAndStall(Vec::new()));
    let client = client(&[server.url()], &json!({}));
    let (tell, told) = mpsc::channel();
    let start = || {
        let tell = tell.clone();
        let work = client.embed(texts(2, "text"), Role::Passage, CallOptions::default());
        client.spawn(work, move |came| tell.send(came.map(|_| ()).unwrap_err().kind()).unwrap()).unwrap()
    };
    let wait_for = |open: usize| {
        let until = Instant::now() + Duration::from_secs(10);
        while server.open.load(Ordering::SeqCst) != open || server.count() < open {
            assert!(Instant::now() < until, "there are not {open} connections");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let first = start();
    wait_for(1);
    first.abort();
    assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), ErrorKind::Cancelled);
    wait_for(0);
    server.requests.store(0, Ordering::SeqCst);
    let _others = [start(), start(), start()];
    wait_for(3);
    client.close();
    for _ in 0..3 {
        assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), ErrorKind::Closed);
    }
    wait_for(0);
    assert_eq!(embed(&client, 1, CallOptions::default()).unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn max_in_flight_is_respected_and_requests_carry_their_deadline() {
    let server = Server::new(move |got| {
        let timeout: u64 = got.headers["request-timeout-ms"].parse().unwrap();
        assert!((1..=3000).contains(&timeout));
        assert_eq!((got.headers["authorization"].as_str(), got.headers["x-mine"].as_str()), ("Bearer key", "yes"));
        assert_eq!(got.headers["request-priority"], "-3");
        Act::Write { bytes: honest(&got.texts()), piece: 300, pause: Duration::from_millis(2) }
    });
    let settings = json!({"rows_per_request": 1, "max_in_flight": 3, "api_key": "key", "headers": {"x-mine": "yes"}});
    let client = client(&[server.url()], &settings);
    let call = CallOptions::new(Some(Duration::from_secs(3)), Some(-3));
    assert_eq!(embed(&client, 30, call).unwrap(), expected(30));
    assert!((2..=3).contains(&server.most.load(Ordering::SeqCst)));
}

#[test]
fn a_changed_vector_length_restarts_the_call() {
    let longer = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_longer = Arc::clone(&longer);
    let server = Server::new(move |got| {
        if !is_longer.load(Ordering::SeqCst) {
            return at_once(honest(&got.texts()));
        }
        let rows = got.texts().len();
        at_once(answer(200, &claims(&format!("{rows},16"), &(rows * 64).to_string()), &vec![0; rows * 64]))
    });
    let client = client(&[server.url()], &json!({"rows_per_request": 2}));
    assert_eq!(embed(&client, 7, CallOptions::default()).unwrap(), expected(7));
    longer.store(true, Ordering::SeqCst);
    assert_eq!(embed(&client, 7, CallOptions::default()).unwrap(), vec![0.0; 7 * 16]);
}
