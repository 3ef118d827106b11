//! Bodies that are read from the socket into their place: the vectors are those of every other way, and a connection is
//! used again only where it can be.
//!
//! A client takes this way once a server has answered it with raw vectors, so each test begins with one such answer.

mod server;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pullquote_client::{CallOptions, Client};
use pullquote_core::encoder::embedding_dtype::EmbeddingDtype;
use pullquote_core::error::{ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;
use serde_json::{Value, json};

use server::{Act, DIMENSION, Got, Server, answer, at_once, claims, client, honest, raw, texts, vector};

/// Rows of a request whose body no first read can hold.
const MANY: usize = 4000;

fn embed(client: &Client, count: usize) -> Result<Vec<f32>> {
    let work = client.embed(texts(count, "text"), Role::Passage, CallOptions::default());
    client.wait(&Call::default(), work).map(|vectors| vectors.values)
}

fn expected(count: usize) -> Vec<f32> {
    texts(count, "text").iter().flat_map(|text| vector(text)).collect()
}

/// A server that is honest once, and a client to which it was.
fn second(settings: &Value, act: impl Fn(&Got) -> Act + Send + Sync + 'static) -> (Server, Client) {
    let server = Server::new(move |got| if got.number == 0 { at_once(honest(&got.texts())) } else { act(got) });
    let mut all = json!({"rows_per_request": MANY});
    all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let client = client(&[server.url()], &all);
    assert_eq!(embed(&client, 1).unwrap(), expected(1));
    (server, client)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_body_in_any_chunks_is_whole_and_its_connection_is_reused() {
    for rows in [1, 300, MANY] {
        for piece in [1, 2000, 30_000, usize::MAX] {
            let cut = move |got: &Got| {
                let (bytes, whole) = (honest(&got.texts()), piece == usize::MAX);
                // The first bytes alone, so that the cut is felt: the head, and some of the body.
                let piece = if whole { bytes.len() } else { bytes.len() - raw(&got.texts()).len() + piece };
                Act::Write { bytes, piece, pause: Duration::from_millis(u64::from(!whole)) }
            };
            let (server, client) = second(&json!({}), cut);
            for _ in 0..3 {
                assert!(embed(&client, rows).unwrap() == expected(rows), "{rows} rows in pieces of {piece}");
                // Packed vectors are read in chunks.
                let work = client.embed_packed(
                    texts(rows, "text"),
                    Role::Passage,
                    EmbeddingDtype::Float32,
                    CallOptions::default(),
                );
                let packed = client.wait(&Call::default(), work).unwrap().values;
                assert!(packed == raw(&texts(rows, "text")), "{rows} packed rows in pieces of {piece}");
            }
            // One of reqwest's, from the first request, and one that was used six times.
            assert_eq!((server.count(), server.open.load(Ordering::SeqCst)), (7, 2));
            client.close();
            wait_until("closing a client closes idle connections", || server.open.load(Ordering::SeqCst) == 0);
        }
    }
}

#[test]
fn truncated_bodies_are_retried_and_never_returned() {
    for (cut, rows) in [(1, 2), (5, MANY), (MANY * 2, MANY), (4 * DIMENSION * MANY, MANY)] {
        for resets in [false, true] {
            let act = move |got: &Got| {
                let mut bytes = honest(&got.texts());
                bytes.truncate(bytes.len() - cut);
                match got.number {
                    2.. => at_once(honest(&got.texts())),
                    _ if resets => Act::WriteAndReset(bytes),
                    _ => Act::WriteAndClose(bytes),
                }
            };
            let (server, again) = second(&json!({"retries": 1}), act);
            assert!(embed(&again, rows).unwrap() == expected(rows));
            assert_eq!(server.count(), 3);
            let (server, once) = second(&json!({}), act);
            let error = embed(&once, rows).unwrap_err();
            assert_eq!((error.kind(), server.count()), (ErrorKind::Unavailable, 2), "{error:?}");
            assert!(error.message().contains("was lost"), "{error:?}");
        }
    }
}

#[test]
fn direct_reads_reject_wrong_and_stalled_answers() {
    let told = |act: fn(&Got) -> Act| {
        let (_server, client) = second(&json!({"timeout": 0.3}), act);
        let began = Instant::now();
        let error = embed(&client, MANY).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5));
        (error.kind(), error.message().to_owned())
    };
    let (kind, message) = told(|got| {
        let mut bytes = honest(&got.texts());
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
        at_once(bytes)
    });
    assert_eq!(kind, ErrorKind::BadAnswer);
    assert!(message.contains(&format!("row {} has a value", MANY - 1)), "{message}");
    let (kind, message) = told(|got| {
        let body = raw(&got.texts());
        at_once(answer(200, &claims(&format!("{MANY},9"), &body.len().to_string()), &body))
    });
    assert_eq!(kind, ErrorKind::BadAnswer);
    assert!(message.contains("bytes for the shape"), "{message}");
    let stalls: [fn(&Got) -> Act; 3] = [
        |_| Act::WriteAndStall(Vec::new()),
        |_| Act::WriteAndStall(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n".to_vec()),
        |got| {
            let bytes = honest(&got.texts());
            Act::WriteAndStall(bytes[..bytes.len() - 1].to_vec())
        },
    ];
    for act in stalls {
        let (kind, message) = told(act);
        assert_eq!(kind, ErrorKind::DeadlineExceeded);
        assert!(message.contains("within 0.3 seconds"), "{message}");
    }
    let (kind, message) = told(|_| at_once(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()));
    assert_eq!(kind, ErrorKind::BadAnswer);
    assert!(message.contains("is not HTTP"), "{message}");
}

/// Bytes after a body belong to no answer, and a connection that was closed meanwhile is no failure.
#[test]
fn a_connection_with_unexpected_bytes_is_not_reused() {
    let answers: [fn(&Got) -> Act; 3] = [
        |got| at_once([honest(&got.texts()), honest(&["another".to_owned()])].concat()),
        |got| Act::WriteAndClose(honest(&got.texts())),
        |got| {
            let body = raw(&got.texts());
            let (shape, length) = (format!("{},{DIMENSION}", got.texts().len()), body.len().to_string());
            let headers = [claims(&shape, &length).as_slice(), &[("connection", "close")]].concat();
            Act::WriteAndClose(answer(200, &headers, &body))
        },
    ];
    for act in answers {
        for rows in [1, MANY] {
            let (server, client) = second(&json!({}), act);
            for number in 0..4 {
                assert!(embed(&client, rows).unwrap() == expected(rows));
                // Anything after the body, if only its end, has arrived by then.
                wait_until("the request was counted", || server.count() == number + 2);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn answers_without_raw_vectors_are_read_by_hyper() {
    let turned = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&turned);
    let (server, client) = second(&json!({"retries": 8, "rows_per_request": 3}), move |got| {
        let (rows, number) = (got.texts(), seen.fetch_add(1, Ordering::SeqCst));
        let chunked = || {
            let body = raw(&rows);
            let mut headers = claims("x", "0").to_vec();
            let shape = format!("{},{DIMENSION}", rows.len());
            headers[1].1 = &shape;
            headers[4] = ("transfer-encoding", "chunked");
            let body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
            answer(200, &headers, &body)
        };
        let json = serde_json::to_string(&rows.iter().map(|text| vector(text)).collect::<Vec<_>>()).unwrap();
        at_once(match number % 6 {
            0 => answer(
                200,
                &[("content-type", "application/json"), ("content-length", &json.len().to_string())],
                json.as_bytes(),
            ),
            1 | 3 | 5 => honest(&rows),
            2 => answer(429, &[("retry-after", "0"), ("content-length", "0")], b""),
            _ => chunked(),
        })
    });
    for _ in 0..10 {
        assert!(embed(&client, 20).unwrap() == expected(20));
    }
    assert!(turned.load(Ordering::SeqCst) >= 70 && server.count() > 70);
}

#[test]
fn dropping_a_call_closes_its_stream_and_closing_ends_it() {
    let (server, client) = second(&json!({}), |got| {
        let bytes = honest(&got.texts());
        Act::WriteAndStall(bytes[..bytes.len() - 1].to_vec())
    });
    let (tell, told) = mpsc::channel();
    let start = || {
        let (tell, before) = (tell.clone(), server.count());
        let work = client.embed(texts(MANY, "text"), Role::Passage, CallOptions::default());
        let handle = client.spawn(work, move |came| tell.send(came.map(|_| ()).unwrap_err().kind()).unwrap()).unwrap();
        wait_until("it was asked", || server.count() == before + 1);
        handle
    };
    // One of reqwest's stays open, from the first request.
    let first = start();
    wait_until("it is open", || server.open.load(Ordering::SeqCst) == 2);
    first.abort();
    assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), ErrorKind::Cancelled);
    wait_until("it is closed", || server.open.load(Ordering::SeqCst) == 1);
    let _others = [start(), start()];
    client.close();
    for _ in 0..2 {
        assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), ErrorKind::Closed);
    }
    wait_until("all are closed", || server.open.load(Ordering::SeqCst) == 0);
}
