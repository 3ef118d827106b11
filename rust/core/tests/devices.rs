//! Devices that are slow, that fail and that are short of memory: nobody loses an answer, and everybody can see it.

mod common;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{DIMENSION, fake_vector, model, word_piece};
use proptest::prelude::*;
use pullquote_core::encoder::{Batch, Batching, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::{DeviceState, Engine};
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::{Role, Tokens};

const BATCH_TOKENS: usize = 64;

/// Says of a device's batch whether it fails, and how.
type Fault = Arc<dyn Fn(usize, &Batch) -> Option<ErrorKind> + Send + Sync>;

/// What a test tells the encoder, and the other way round.
#[derive(Clone)]
struct Script {
    /// How often each device is asked before a batch of its is finished; one device for each.
    delays: Vec<usize>,
    fault: Fault,
    /// Whether failures are told by `submit` or by `collect`.
    fails_early: bool,
    /// Which devices finish nothing, for now.
    hanging: Arc<Mutex<Vec<usize>>>,
    notifies: bool,
    needs_polling: bool,
    /// Device and tokens of every batch that came.
    log: Arc<Mutex<Vec<(usize, usize)>>>,
    /// The most batches that were in flight on a device.
    deepest: Arc<AtomicUsize>,
}

impl Script {
    fn new(delays: &[usize], fault: impl Fn(usize, &Batch) -> Option<ErrorKind> + Send + Sync + 'static) -> Self {
        let (hanging, log, deepest) = (Arc::default(), Arc::default(), Arc::default());
        let (delays, fault) = (delays.to_vec(), Arc::new(fault));
        Self { delays, fault, fails_early: false, hanging, notifies: true, needs_polling: false, log, deepest }
    }
}

struct Scripted {
    spec: EncoderSpec,
    script: Script,
    /// For each device its batches, and how often it was asked for the first one.
    running: Vec<(VecDeque<(Ticket, Batch)>, usize)>,
    waker: Option<Waker>,
    next: u64,
}

impl Scripted {
    fn new(script: &Script) -> Self {
        let device = |index| DeviceSpec { name: format!("fake:{index}"), depth: 2, batch_tokens: BATCH_TOKENS };
        let count = script.delays.len();
        let spec = EncoderSpec {
            dimension: DIMENSION,
            max_tokens: 64,
            vocabulary: 5000,
            dtype: "float32".to_owned(),
            devices: (0..count).map(device).collect(),
            notifies: script.notifies,
            needs_polling: script.needs_polling,
            scores: false,
            backend: "test".to_owned(),
        };
        let running = (0..count).map(|_| (VecDeque::new(), 0)).collect();
        Self { spec, script: script.clone(), running, waker: None, next: 0 }
    }

    fn fail(kind: ErrorKind) -> Error {
        Error::new(kind, format!("scripted: {kind:?}"))
    }

    /// Nobody is woken by devices that are looked at.
    fn wake(&self) {
        if let Some(waker) = self.waker.as_ref().filter(|_| !self.script.needs_polling) {
            waker();
        }
    }
}

impl Encoder for Scripted {
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
        self.running[device].0.push_back((Ticket(self.next), batch.clone()));
        self.script.deepest.fetch_max(self.running[device].0.len(), Ordering::Relaxed);
        self.wake();
        Ok(Ticket(self.next))
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        let of = |(batches, _): &(VecDeque<(Ticket, Batch)>, usize)| batches.front().is_some_and(|one| one.0 == ticket);
        // The first one of its device, or not yet.
        let Some(device) = self.running.iter().position(of) else { return false };
        if self.script.hanging.lock().unwrap().contains(&device) {
            return false;
        }
        self.running[device].1 += 1;
        self.wake();
        self.running[device].1 > self.script.delays[device]
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        let of = |(batches, _): &(VecDeque<(Ticket, Batch)>, usize)| batches.iter().any(|one| one.0 == ticket);
        let device = self.running.iter().position(of).unwrap();
        let place = self.running[device].0.iter().position(|one| one.0 == ticket).unwrap();
        let (_, batch) = self.running[device].0.remove(place).unwrap();
        self.running[device].1 = 0;
        if !self.script.fails_early
            && let Some(kind) = (self.script.fault)(device, &batch)
        {
            return Err(Self::fail(kind));
        }
        let mut start = 0;
        for (index, length) in batch.lengths.iter().enumerate() {
            row(index, &fake_vector(&batch.ids[start..start + *length as usize]));
            start += *length as usize;
        }
        Ok(())
    }
}

/// An engine over such devices, and what every text's vector must be.
struct Bench {
    engine: Engine,
    tokens: Tokens,
}

impl Bench {
    fn new(script: &Script, batching: Batching) -> Self {
        let (_folder, model) = model(&word_piece(), 64, ("", ""));
        let engine = Engine::new(&model, Box::new(Scripted::new(script)), Some(2), 0).unwrap();
        Self { engine: engine.with_batching(batching).unwrap(), tokens: Tokens::read(&model).unwrap() }
    }

    /// Encodes texts of all lengths, and compares every vector.
    fn embed(&self, count: usize) -> Result<()> {
        let texts: Vec<String> = (0..count).map(|n| format!("cat {n} ").repeat(n % 12)).collect();
        self.embed_these(&texts)
    }

    fn embed_these(&self, texts: &[String]) -> Result<()> {
        self.embed_for(texts, &Call::default())
    }

    fn embed_for(&self, texts: &[String], call: &Call) -> Result<()> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = self.engine.embed(&borrowed, Role::Passage, call)?;
        for (text, vector) in texts.iter().zip(embedded.vectors.chunks_exact(DIMENSION)) {
            assert_eq!(vector, fake_vector(&self.tokens.alone(text, Role::Passage).unwrap().0), "{text:?}");
        }
        Ok(())
    }

    fn states(&self) -> Vec<DeviceState> {
        self.engine.devices()
    }
}

#[test]
fn a_slow_device_gets_less() {
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
fn the_host_says_how_many_batches_a_device_has_at_once() {
    for depth in [1, 2, 5] {
        let script = Script::new(&[1, 1], |_, _| None);
        let bench = Bench::new(&script, Batching { depth: Some(depth), ..Batching::default() });
        bench.embed(300).unwrap();
        assert_eq!(script.deepest.load(Ordering::Relaxed), depth);
        assert!(bench.states().iter().all(|state| state.depth == depth));
    }
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let encoder = Scripted::new(&Script::new(&[0], |_, _| None));
    let engine = Engine::new(&model, Box::new(encoder), None, 0).unwrap();
    let refused = engine.with_batching(Batching { depth: Some(0), ..Batching::default() });
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_device_that_fails_is_left_out_and_comes_back() {
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
        // Until its rest is over it is left alone: of these batches it gets none or few, and none fails for good.
        bench.embed(500).unwrap();
        is_broken.store(false, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !bench.states()[1].is_working {
            assert!(Instant::now() < deadline, "it never came back");
            bench.embed(20).unwrap();
        }
        bench.embed(500).unwrap();
        assert!(bench.states()[1].batches > 1);
    }
}

/// Much more than the scheduler needs for a round, and little to wait for.
const IMPATIENT: Batching = Batching {
    max_tokens: None,
    max_rows: None,
    depth: None,
    timeout: Duration::ZERO,
    patience: Some(Duration::from_millis(20)),
};

/// Those that wake and those that are looked at, with the scheduler on a thread of its own and with callers for it.
fn hanging_benches(devices: usize) -> impl Iterator<Item = (Script, Bench)> {
    [(true, false), (true, true), (false, false), (false, true)].into_iter().map(move |(notifies, is_driven)| {
        let script = Script { notifies, needs_polling: !notifies, ..Script::new(&vec![0; devices], |_, _| None) };
        let mut bench = Bench::new(&script, IMPATIENT);
        if is_driven {
            bench.engine = bench.engine.driven_by_callers();
        }
        (script, bench)
    })
}

#[test]
fn a_device_that_hangs_is_left_out_and_comes_back() {
    for (script, bench) in hanging_benches(3) {
        script.hanging.lock().unwrap().push(1);
        bench.embed(500).unwrap();
        let state = &bench.states()[1];
        assert!(!state.is_working && state.outstanding_tokens > 0 && state.batches == 0, "{state:?}");
        let error = state.last_error.as_deref().unwrap();
        assert_eq!(error, "fake:1 has finished nothing for 20ms; what it had is computed by others");
        // What it has it keeps, and gets nothing more.
        let had = || script.log.lock().unwrap().iter().filter(|(device, _)| *device == 1).count();
        let before = had();
        bench.embed(500).unwrap();
        assert_eq!((had(), bench.states()[1].is_working), (before, false));
        assert!(bench.states()[0].is_working && bench.states()[2].is_working);
        script.hanging.lock().unwrap().clear();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !bench.states()[1].is_working {
            assert!(Instant::now() < deadline, "it never came back");
            bench.embed(20).unwrap();
        }
        bench.embed(500).unwrap();
        let state = &bench.states()[1];
        assert!(had() > before && state.batches > 0 && state.outstanding_tokens == 0, "{state:?}");
    }
}

#[test]
fn where_nobody_else_works_a_device_that_hangs_is_waited_for() {
    for (script, bench) in hanging_benches(1) {
        script.hanging.lock().unwrap().push(0);
        let texts = vec!["the cat".to_owned(); 50];
        let call = Call::new(Some(Duration::from_millis(100)), None);
        assert_eq!(bench.embed_for(&texts, &call).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert!(bench.states()[0].is_working);
        script.hanging.lock().unwrap().clear();
        bench.embed_these(&texts).unwrap();
    }
    for (script, bench) in hanging_benches(2) {
        script.hanging.lock().unwrap().extend([0, 1]);
        std::thread::scope(|scope| {
            let call = scope.spawn(|| bench.embed(100));
            let deadline = Instant::now() + Duration::from_secs(60);
            while bench.states().iter().all(|state| state.is_working) {
                assert!(Instant::now() < deadline, "nobody was given up");
                std::thread::yield_now();
            }
            assert!(!call.is_finished());
            script.hanging.lock().unwrap().clear();
            call.join().unwrap().unwrap();
        });
        bench.embed(100).unwrap();
    }
}

#[test]
fn where_all_devices_fail_callers_are_told_at_once_and_served_as_soon_as_one_works() {
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
fn rows_that_fail_everywhere_are_to_blame_and_not_the_devices() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    let percent = Tokens::read(&model).unwrap().alone("%", Role::Query).unwrap().0[1];
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
    // Twice with others, twice alone: a poisoned text keeps no device from its work for long.
    assert!(bench.states().iter().map(|state| state.failures).sum::<u64>() <= 12 * 4);
}

#[test]
fn short_memory_costs_a_batch_a_retry_and_nobody_an_answer() {
    for (fails_early, notifies) in [(true, true), (false, true), (false, false)] {
        let memory = Arc::new(AtomicUsize::new(20));
        let has = Arc::clone(&memory);
        let fault = move |_, batch: &Batch| {
            // What a device pads, the longest row has for all.
            (batch.ids.len() > has.load(Ordering::Relaxed)).then_some(ErrorKind::OutOfMemory)
        };
        let script = Script { fails_early, notifies, ..Script::new(&[0, 0], fault) };
        let bench = Bench::new(&script, Batching::default());
        let texts: Vec<String> = (0..400).map(|n| "cat ".repeat(n % 15)).collect();
        bench.embed_these(&texts).unwrap();
        let states = bench.states();
        assert!(states.iter().all(|state| state.is_working && state.batch_tokens <= 20), "{states:?}");
        assert!(states.iter().all(|state| (1..20).contains(&state.out_of_memory)), "{states:?}");
        // It is remembered: what comes next fits, but for the trial of more.
        let failures = || bench.states().iter().map(|state| state.out_of_memory).sum::<u64>();
        let before = failures();
        bench.embed_these(&texts[..60]).unwrap();
        assert!(failures() <= before + 2);
        // And what is there again is used again.
        memory.store(BATCH_TOKENS, Ordering::Relaxed);
        for _ in 0..200 {
            bench.embed_these(&texts).unwrap();
        }
        assert!(bench.states().iter().all(|state| state.batch_tokens == BATCH_TOKENS), "{:?}", bench.states());
    }
}

#[test]
fn a_text_that_fits_no_memory_goes_to_whom_it_fits_or_fails_alone() {
    let has = |memory: [usize; 2]| {
        move |device: usize, batch: &Batch| (batch.ids.len() > memory[device]).then_some(ErrorKind::OutOfMemory)
    };
    let long = || vec!["cat ".repeat(40), "cat".to_owned()];
    let bench = Bench::new(&Script::new(&[0, 0], has([10, 64])), Batching::default());
    bench.embed_these(&long()).unwrap();
    bench.embed(100).unwrap();
    assert!(bench.states()[1].batch_tokens >= 32, "{:?}", bench.states());
    let bench = Bench::new(&Script::new(&[0, 0], has([10, 12])), Batching::default());
    std::thread::scope(|scope| {
        let short = scope.spawn(|| bench.embed_these(&["cat".to_owned(), "the moon".to_owned()]));
        assert_eq!(bench.embed_these(&long()).unwrap_err().kind(), ErrorKind::OutOfMemory);
        short.join().unwrap().unwrap();
    });
    assert!(bench.states().iter().all(|state| state.is_working));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Device 0 has its memory and never fails; the others do as they like.
    #[test]
    fn as_long_as_one_device_works_everybody_has_the_right_answer(
        seed in any::<u64>(),
        delays in prop::collection::vec(0_usize..4, 2..5),
        fails_early in any::<bool>(),
        notifies in any::<bool>(),
        needs_polling in any::<bool>(),
        hangs in any::<bool>(),
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
        let script = Script { fails_early, notifies, needs_polling, ..Script::new(&delays, fault) };
        // One that computes when it is collected cannot be seen to hang.
        let hanging = if hangs && (notifies || needs_polling) { vec![1] } else { Vec::new() };
        script.hanging.lock().unwrap().clone_from(&hanging);
        let bench = Bench::new(&script, Batching { depth: Some(depth), ..IMPATIENT });
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|n| scope.spawn({ let bench = &bench; move || bench.embed(40 + n) })).collect();
            for call in calls {
                call.join().unwrap().unwrap();
            }
        });
        let states = bench.states();
        let others = states.iter().enumerate().filter(|(device, _)| !hanging.contains(device));
        prop_assert!(others.into_iter().all(|(_, state)| state.outstanding_tokens == 0));
    }
}
