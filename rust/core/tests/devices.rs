//! Devices that are slow, fail, stall or run out of memory: every caller gets its answer, and the states show the
//! fault.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use pullquote_core::encoder::{Batch, Batching, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::{DeviceState, Engine, Steps};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::{Role, Tokens};

use crate::common::{DIMENSION, embed, fake_vector, fake_vectors, model, owned_request, question, word_piece};

const BATCH_TOKENS: usize = 64;

/// The error, if any, of a device's batch.
type Fault = Arc<dyn Fn(usize, &Batch) -> Option<ErrorKind> + Send + Sync>;

/// The faults of a [`ScriptedEncoder`], and what it records.
#[derive(Clone)]
struct Script {
    /// For each device, the number of polls before its first batch is finished.
    delays: Vec<usize>,
    fault: Fault,
    /// Whether `submit` returns the fault instead of `collect`.
    fails_early: bool,
    /// Devices that finish nothing for now.
    stalled: Arc<Mutex<Vec<usize>>>,
    notifies: bool,
    /// Device and tokens of every submitted batch.
    log: Arc<Mutex<Vec<(usize, usize)>>>,
    /// The most batches in flight on a device.
    max_in_flight: Arc<AtomicUsize>,
}

impl Script {
    fn new(delays: &[usize], fault: impl Fn(usize, &Batch) -> Option<ErrorKind> + Send + Sync + 'static) -> Self {
        let (stalled, log, max_in_flight) = (Arc::default(), Arc::default(), Arc::default());
        let (delays, fault) = (delays.to_vec(), Arc::new(fault));
        Self { delays, fault, fails_early: false, stalled, notifies: true, log, max_in_flight }
    }
}

struct ScriptedEncoder {
    spec: EncoderSpec,
    script: Script,
    /// For each device its batches, and the number of polls of the first one.
    running: Vec<(VecDeque<(Ticket, Batch)>, usize)>,
    waker: Option<Waker>,
    next: u64,
}

impl ScriptedEncoder {
    fn new(script: &Script) -> Self {
        let device = |index| DeviceSpec::new(format!("fake:{index}"), 2, BATCH_TOKENS);
        let count = script.delays.len();
        let mut spec = EncoderSpec::new("test", DIMENSION, 64, 5000, (0..count).map(device).collect());
        spec.capabilities.notifies = script.notifies;
        let running = (0..count).map(|_| (VecDeque::new(), 0)).collect();
        Self { spec, script: script.clone(), running, waker: None, next: 0 }
    }

    fn fail(kind: ErrorKind) -> Error {
        Error::new(kind, format!("scripted: {kind:?}"))
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.as_ref().filter(|_| self.script.notifies) {
            waker();
        }
    }
}

impl Encoder for ScriptedEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        self.script.log.lock().unwrap().push((device, batch.ids.len()));
        if self.script.fails_early
            && let Some(kind) = (self.script.fault)(device, batch)
        {
            return Err(Self::fail(kind));
        }
        self.next += 1;
        let ticket = Ticket { device, number: self.next };
        self.running[device].0.push_back((ticket, batch.clone()));
        self.script.max_in_flight.fetch_max(self.running[device].0.len(), Ordering::Relaxed);
        self.wake();
        Ok(ticket)
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        let device = ticket.device;
        if self.running[device].0.front().is_none_or(|first| first.0 != ticket) {
            return false;
        }
        if self.script.stalled.lock().unwrap().contains(&device) {
            return false;
        }
        self.running[device].1 += 1;
        self.wake();
        self.running[device].1 > self.script.delays[device]
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let device = ticket.device;
        let index = self.running[device].0.iter().position(|one| one.0 == ticket).unwrap();
        let (_, batch) = self.running[device].0.remove(index).unwrap();
        self.running[device].1 = 0;
        if !self.script.fails_early
            && let Some(kind) = (self.script.fault)(device, &batch)
        {
            return Err(Self::fail(kind));
        }
        receive(Cow::Owned(fake_vectors(&batch)));
        Ok(Collected::default())
    }
}

/// An engine over such devices, and the tokenizer that the expected vectors need.
struct Bench {
    engine: Engine,
    tokens: Tokens,
}

impl Bench {
    fn new(script: &Script, batching: Batching) -> Self {
        let (_folder, model) = model(&word_piece(), 64, ("", ""));
        let engine = Engine::new(&model, Box::new(ScriptedEncoder::new(script)), Some(2), 0).unwrap();
        Self { engine: engine.with_batching(batching).unwrap(), tokens: Tokens::read(&model).unwrap() }
    }

    /// Embeds texts of different lengths and checks every vector.
    fn embed(&self, count: usize) -> Result<()> {
        let texts: Vec<String> = (0..count).map(|n| format!("cat {n} ").repeat(n % 12)).collect();
        self.embed_these(&texts)
    }

    fn embed_these(&self, texts: &[String]) -> Result<()> {
        self.embed_for(texts, &Call::default())
    }

    fn embed_for(&self, texts: &[String], call: &Call) -> Result<()> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = embed(&self.engine, &borrowed, Role::Passage, call)?;
        for (text, vector) in texts.iter().zip(embedded.vectors.chunks_exact(DIMENSION)) {
            assert_eq!(vector, fake_vector(&self.tokens.text(text, Role::Passage).unwrap().0), "{text:?}");
        }
        Ok(())
    }

    fn states(&self) -> Vec<DeviceState> {
        self.engine.devices()
    }
}

#[test]
fn a_slow_device_gets_fewer_batches() {
    let script = Script::new(&[0, 0, 20], |_, _| None);
    let bench = Bench::new(&script, Batching::default());
    bench.embed(600).unwrap();
    let mut counts = [0; 3];
    script.log.lock().unwrap().iter().for_each(|(device, _)| counts[*device] += 1);
    assert!(counts[2] * 4 < counts[0] && counts[2] * 4 < counts[1], "{counts:?}");
    let states = bench.states();
    assert_eq!(states.iter().map(|state| state.batches).collect::<Vec<_>>(), counts);
    assert!(states.iter().all(|state| state.is_working && state.outstanding_tokens == 0), "{states:?}");
}

#[test]
fn depth_sets_the_batches_in_flight_of_each_device() {
    for depth in [1, 2, 5] {
        let script = Script::new(&[1, 1], |_, _| None);
        let bench = Bench::new(&script, Batching { depth: Some(depth), ..Batching::default() });
        bench.embed(300).unwrap();
        assert_eq!(script.max_in_flight.load(Ordering::Relaxed), depth);
        assert!(bench.states().iter().all(|state| state.depth == depth));
    }
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = ScriptedEncoder::new(&Script::new(&[0], |_, _| None));
    let engine = Engine::new(&model, Box::new(encoder), None, 0).unwrap();
    let rejected = engine.with_batching(Batching { depth: Some(0), ..Batching::default() });
    assert_eq!(rejected.err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_failing_device_backs_off_and_recovers() {
    for (kind, fails_early, notifies) in
        [(ErrorKind::Encoder, false, true), (ErrorKind::Device, true, true), (ErrorKind::Device, false, false)]
    {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let fault = move |device, _: &Batch| (device == 1 && broken.load(Ordering::Relaxed)).then_some(kind);
        let script = Script { fails_early, notifies, ..Script::new(&[0, 0, 0], fault) };
        let bench = Bench::new(&script, Batching::default());
        bench.embed(500).unwrap();
        let state = &bench.states()[1];
        assert!(!state.is_working && state.failures > 0 && state.batches == 0, "{state:?}");
        assert_eq!(state.last_error, Some(format!("scripted: {kind:?}")));
        assert!(bench.states()[0].is_working && bench.states()[2].is_working);
        // During the backoff the device gets few batches or none, and none of them fails a call.
        bench.embed(500).unwrap();
        is_broken.store(false, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !bench.states()[1].is_working {
            assert!(Instant::now() < deadline, "it never recovered");
            bench.embed(20).unwrap();
        }
        bench.embed(500).unwrap();
        assert!(bench.states()[1].batches > 1);
    }
}

/// Far longer than a round of the scheduler, and short enough for a test.
const SHORT_TIMEOUT: Batching = Batching {
    max_tokens: None,
    max_rows: None,
    depth: None,
    timeout: Duration::ZERO,
    device_timeout: Some(Duration::from_millis(20)),
};

/// Devices that notify, and devices that are polled.
fn benches_for_stalls(devices: usize) -> impl Iterator<Item = (Script, Bench)> {
    [true, false].into_iter().map(move |notifies| {
        let script = Script { notifies, ..Script::new(&vec![0; devices], |_, _| None) };
        let bench = Bench::new(&script, SHORT_TIMEOUT);
        (script, bench)
    })
}

#[test]
fn steps_give_batches_of_a_stalled_device_to_others() {
    for (script, bench) in benches_for_stalls(3) {
        script.stalled.lock().unwrap().push(1);
        let mut steps = <Steps>::new(Arc::new(bench.engine.stepped()));
        steps.add("a".to_owned(), owned_request(300), question(), Call::default()).unwrap();
        let finished = loop {
            if let Some(finished) = steps.step().unwrap().pop() {
                break finished;
            }
        };
        assert!(finished.output.is_ok());
        assert!(script.log.lock().unwrap().iter().any(|(device, _)| *device == 1), "the stalled device got batches");
    }
}

#[test]
fn a_stalled_device_is_taken_out_and_recovers() {
    for (script, bench) in benches_for_stalls(3) {
        script.stalled.lock().unwrap().push(1);
        bench.embed(500).unwrap();
        let state = &bench.states()[1];
        assert!(!state.is_working && state.outstanding_tokens > 0 && state.batches == 0, "{state:?}");
        let error = state.last_error.as_deref().unwrap();
        assert!(error.contains("fake:1") && error.contains("20ms"), "{error}");
        // It keeps its batches and gets no new ones.
        let submitted = || script.log.lock().unwrap().iter().filter(|(device, _)| *device == 1).count();
        let before = submitted();
        bench.embed(500).unwrap();
        assert_eq!((submitted(), bench.states()[1].is_working), (before, false));
        assert!(bench.states()[0].is_working && bench.states()[2].is_working);
        script.stalled.lock().unwrap().clear();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !bench.states()[1].is_working {
            assert!(Instant::now() < deadline, "it never recovered");
            bench.embed(20).unwrap();
        }
        bench.embed(500).unwrap();
        let state = &bench.states()[1];
        assert!(submitted() > before && state.batches > 0 && state.outstanding_tokens == 0, "{state:?}");
    }
}

#[test]
fn without_another_healthy_device_calls_wait_for_a_stalled_one() {
    for (script, bench) in benches_for_stalls(1) {
        script.stalled.lock().unwrap().push(0);
        let texts = vec!["the cat".to_owned(); 50];
        let call = Call::new(Some(Duration::from_millis(100)), None);
        assert_eq!(bench.embed_for(&texts, &call).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert!(bench.states()[0].is_working);
        script.stalled.lock().unwrap().clear();
        bench.embed_these(&texts).unwrap();
    }
    for (script, bench) in benches_for_stalls(2) {
        script.stalled.lock().unwrap().extend([0, 1]);
        std::thread::scope(|scope| {
            let call = scope.spawn(|| bench.embed(100));
            let deadline = Instant::now() + Duration::from_secs(60);
            while bench.states().iter().all(|state| state.is_working) {
                assert!(Instant::now() < deadline, "no batch was abandoned");
                std::thread::yield_now();
            }
            assert!(!call.is_finished());
            script.stalled.lock().unwrap().clear();
            call.join().unwrap().unwrap();
        });
        bench.embed(100).unwrap();
    }
}

#[test]
fn with_all_devices_failing_calls_fail_at_once_and_recover_with_the_first_device() {
    for kind in [ErrorKind::Device, ErrorKind::Encoder] {
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = Arc::clone(&is_broken);
        let script = Script::new(&[0, 0], move |_, _| broken.load(Ordering::Relaxed).then_some(kind));
        let bench = Bench::new(&script, Batching::default());
        for _ in 0..20 {
            assert_eq!(bench.embed(100).unwrap_err().kind(), kind);
        }
        if kind == ErrorKind::Device {
            assert!(bench.states().iter().all(|state| !state.is_working));
        }
        is_broken.store(false, Ordering::Relaxed);
        bench.embed(100).unwrap();
        assert!(bench.states().iter().any(|state| state.is_working));
    }
}

#[test]
fn rows_that_fail_on_every_device_fail_alone_and_devices_stay_healthy() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().text("%", Role::Query).unwrap().0[1];
    let script = Script::new(&[0, 0, 0], move |_, batch| batch.ids.contains(&percent).then_some(ErrorKind::Encoder));
    let bench = Bench::new(&script, Batching::default());
    std::thread::scope(|scope| {
        for n in 0..60 {
            let bench = &bench;
            scope.spawn(move || {
                let text = if n % 5 == 0 { "the % moon" } else { "the cat" };
                let embedded = bench.embed_these(&[text.to_owned(), "bread".to_owned()]);
                assert_eq!(embedded.err().map(|error| error.kind()), (n % 5 == 0).then_some(ErrorKind::Encoder));
            });
        }
    });
    assert!(bench.states().iter().all(|state| state.is_working), "{:?}", bench.states());
    // Twice with others, twice alone: a poisoned text costs its devices few batches.
    assert!(bench.states().iter().map(|state| state.failures).sum::<u64>() <= 12 * 4);
}

#[test]
fn out_of_memory_halves_the_budget_and_every_text_is_encoded() {
    for (fails_early, notifies) in [(true, true), (false, true), (false, false)] {
        let memory = Arc::new(AtomicUsize::new(20));
        let limit = Arc::clone(&memory);
        let fault =
            move |_, batch: &Batch| (batch.ids.len() > limit.load(Ordering::Relaxed)).then_some(ErrorKind::OutOfMemory);
        let script = Script { fails_early, notifies, ..Script::new(&[0, 0], fault) };
        let bench = Bench::new(&script, Batching::default());
        let texts: Vec<String> = (0..400).map(|n| "cat ".repeat(n % 15)).collect();
        bench.embed_these(&texts).unwrap();
        let states = bench.states();
        assert!(states.iter().all(|state| state.is_working && state.batch_tokens <= 20), "{states:?}");
        assert!(states.iter().all(|state| (1..20).contains(&state.out_of_memory)), "{states:?}");
        // The lower budget stays: later batches fit, except for attempts to raise it.
        let failures = || bench.states().iter().map(|state| state.out_of_memory).sum::<u64>();
        let before = failures();
        bench.embed_these(&texts[..60]).unwrap();
        assert!(failures() <= before + 2);
        // With more memory the budget grows again.
        memory.store(BATCH_TOKENS, Ordering::Relaxed);
        let has_grown = || bench.states().iter().all(|state| state.batch_tokens == BATCH_TOKENS);
        for _ in 0..200 {
            if has_grown() {
                break;
            }
            bench.embed_these(&texts).unwrap();
        }
        assert!(has_grown(), "{:?}", bench.states());
    }
}

#[test]
fn a_text_too_large_for_one_device_goes_to_another_or_fails_alone() {
    let fault = |memory: [usize; 2]| {
        move |device: usize, batch: &Batch| (batch.ids.len() > memory[device]).then_some(ErrorKind::OutOfMemory)
    };
    let long = || vec!["cat ".repeat(40), "cat".to_owned()];
    let bench = Bench::new(&Script::new(&[0, 0], fault([10, 64])), Batching::default());
    bench.embed_these(&long()).unwrap();
    bench.embed(100).unwrap();
    assert!(bench.states()[1].batch_tokens >= 32, "{:?}", bench.states());
    let bench = Bench::new(&Script::new(&[0, 0], fault([10, 12])), Batching::default());
    std::thread::scope(|scope| {
        let short = scope.spawn(|| bench.embed_these(&["cat".to_owned(), "the moon".to_owned()]));
        assert_eq!(bench.embed_these(&long()).unwrap_err().kind(), ErrorKind::OutOfMemory);
        short.join().unwrap().unwrap();
    });
    assert!(bench.states().iter().all(|state| state.is_working));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Device 0 never fails; the others fail at random.
    #[test]
    fn with_one_healthy_device_every_caller_gets_its_vectors(
        seed in any::<u64>(),
        delays in prop::collection::vec(0_usize..4, 2..5),
        fails_early in any::<bool>(),
        notifies in any::<bool>(),
        has_stall in any::<bool>(),
        depth in 1_usize..4,
    ) {
        let count = AtomicUsize::new(0);
        let fault = move |device: usize, batch: &Batch| {
            let number = count.fetch_add(1, Ordering::Relaxed) as u64;
            let random = (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
            match (device, random) {
                (0, _) => None,
                (_, 0..4) => Some(ErrorKind::Device),
                (_, 4..8) if batch.lengths.len() > 1 => Some(ErrorKind::OutOfMemory),
                _ => None,
            }
        };
        let script = Script { fails_early, notifies, ..Script::new(&delays, fault) };
        let stalled = if has_stall { vec![1] } else { Vec::new() };
        script.stalled.lock().unwrap().clone_from(&stalled);
        let bench = Bench::new(&script, Batching { depth: Some(depth), ..SHORT_TIMEOUT });
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|n| scope.spawn({ let bench = &bench; move || bench.embed(40 + n) })).collect();
            for call in calls {
                call.join().unwrap().unwrap();
            }
        });
        let states = bench.states();
        let others = states.iter().enumerate().filter(|(device, _)| !stalled.contains(device));
        prop_assert!(others.into_iter().all(|(_, state)| state.outstanding_tokens == 0));
    }
}
