//! Failures of every kind, at random, beneath many calls at once: each call ends once, with the right vectors or an
//! error of the table that says what happened. `PULLQUOTE_FAULTS=100000` makes it that many requests.

mod server;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pullquote_client::CallOptions;
use pullquote_core::error::ErrorKind;
use pullquote_core::tokens::Role;
use serde_json::json;

use server::{Act, DIMENSION, Got, Server, answer, at_once, claims, client, honest, raw, texts, vector};

/// A number that only depends on the request's own number, so that a run can be had again.
fn dice(number: usize, of: u64) -> u64 {
    let mut state = (number as u64).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state ^= state >> 29;
    (state.wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % of
}

fn misbehave(got: &Got) -> Act {
    let texts = got.texts();
    let good = honest(&texts);
    let bytes = raw(&texts);
    let (shape, length) = (format!("{},{DIMENSION}", texts.len()), bytes.len().to_string());
    // A storm: of five hundred requests sixty in a row are turned away.
    if got.number % 500 < 60 {
        return at_once(answer(429, &[("retry-after", "0"), ("content-length", "0")], b""));
    }
    match dice(got.number, 100) {
        0..=3 => Act::WriteAndReset(Vec::new()),
        4..=6 => Act::WriteAndReset(good[..good.len() - bytes.len() / 2].to_vec()),
        7..=9 => Act::WriteAndClose(good[..good.len() - 3].to_vec()),
        10 => Act::WriteAndStall(good[..good.len() - 5].to_vec()),
        11 => Act::WriteAndStall(Vec::new()),
        12..=14 => at_once(answer(503, &[("content-length", "2")], b"{}")),
        15..=16 => at_once(answer(502, &[("content-type", "text/html"), ("content-length", "6")], b"<html>")),
        17 => Act::WriteAndClose(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        18 => {
            // A row too many. A vector that is longer by itself is no lie that anybody could tell from another model.
            let wrong = [bytes.as_slice(), &[0; 4 * DIMENSION]].concat();
            let shape = format!("{},{DIMENSION}", texts.len() + 1);
            at_once(answer(200, &claims(&shape, &wrong.len().to_string()), &wrong))
        }
        19 => {
            let mut wrong = bytes;
            wrong[..4].copy_from_slice(&f32::NAN.to_le_bytes());
            at_once(answer(200, &claims(&shape, &length), &wrong))
        }
        20 => {
            let mut claimed = claims(&shape, &length);
            claimed[3].1 = "big";
            at_once(answer(200, &claimed, &bytes))
        }
        21..=30 => {
            // In pieces that cut values in two, and late: others overtake it.
            let late = Duration::from_millis(1 + dice(got.number + 1, 20));
            Act::Write { bytes: good, piece: 1 + bytes.len() / 2, pause: late }
        }
        31..=40 => {
            // The rows in the other order, each with its number.
            let rows: Vec<_> = texts
                .iter()
                .enumerate()
                .rev()
                .map(|(index, text)| {
                    let packed: Vec<u8> = vector(text).iter().flat_map(|value| value.to_le_bytes()).collect();
                    if index % 2 == 0 {
                        json!({"index": index, "embedding": STANDARD.encode(packed)})
                    } else {
                        json!({"index": index, "embedding": vector(text)})
                    }
                })
                .collect();
            let body = json!({"object": "list", "data": rows}).to_string();
            at_once(answer(
                200,
                &[("content-type", "application/json"), ("content-length", &body.len().to_string())],
                body.as_bytes(),
            ))
        }
        _ => at_once(good),
    }
}

#[test]
fn each_call_ends_once_with_a_right_answer_or_a_typed_error() {
    let calls: usize = std::env::var("PULLQUOTE_FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
    let servers = [Server::new(misbehave), Server::new(misbehave)];
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let settings = json!({"timeout": 0.5, "retries": 4, "max_in_flight": 64, "rows_per_request": 2});
    let client = client(&urls, &settings);
    let (tell, told) = mpsc::channel();
    let ended_times: Arc<Vec<AtomicUsize>> = Arc::new((0..calls).map(|_| AtomicUsize::new(0)).collect());
    let (mut begun, mut ended) = (0, 0);
    let (mut right, mut failed) = (0, std::collections::BTreeMap::<String, usize>::new());
    let start = Instant::now();
    while ended < calls {
        while begun < calls && begun - ended < 128 {
            let number = begun;
            let batch = texts(1 + number % 4, &format!("call {number}"));
            let expected: Vec<f32> = batch.iter().flat_map(|text| vector(text)).collect();
            let (tell, times) = (tell.clone(), Arc::clone(&ended_times));
            let work = client.embed(batch, Role::Passage, CallOptions::default());
            client
                .spawn(work, move |came| {
                    times[number].fetch_add(1, Ordering::SeqCst);
                    let _ = tell.send((came.map(|vectors| vectors.values), expected));
                })
                .unwrap();
            begun += 1;
        }
        let (came, expected) = told.recv_timeout(Duration::from_secs(30)).expect("a call was lost");
        ended += 1;
        match came {
            Ok(values) => {
                assert!(values == expected, "a wrong vector: {values:?} instead of {expected:?}");
                right += 1;
            }
            Err(error) => {
                let kinds =
                    [ErrorKind::Unavailable, ErrorKind::BadAnswer, ErrorKind::DeadlineExceeded, ErrorKind::Overloaded];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                *failed.entry(format!("{:?}", error.kind())).or_default() += 1;
            }
        }
    }
    assert!(ended_times.iter().all(|times| times.load(Ordering::SeqCst) == 1), "a call ended twice");
    let requests: usize = servers.iter().map(Server::count).sum();
    println!("{calls} calls, {requests} requests, {right} right, {failed:?}, {:?}", start.elapsed());
    // Most failures are such as another attempt helps; lies are not.
    assert!(right * 10 > calls * 8, "only {right} of {calls}");
    client.close();
}

#[test]
fn a_client_of_many_parts_puts_every_row_in_its_place() {
    let server = Server::new(|got| {
        let late = Duration::from_millis(dice(got.number, 15));
        Act::Write { bytes: honest(&got.texts()), piece: 100, pause: late / 10 }
    });
    let client = client(&[server.url()], &json!({"rows_per_request": 7, "max_in_flight": 8}));
    for count in [1, 6, 7, 8, 500] {
        let batch = texts(count, "row");
        let expected: Vec<f32> = batch.iter().flat_map(|text| vector(text)).collect();
        let call = pullquote_core::runtime::call::Call::default();
        let found = client.wait(&call, client.embed(batch, Role::Passage, CallOptions::default())).unwrap();
        assert!(found.values == expected);
        assert_eq!(found.dimension, DIMENSION);
    }
}
