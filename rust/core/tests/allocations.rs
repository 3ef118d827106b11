//! The scheduler allocates nothing for each batch: dhat counts all allocations of this process while the scheduler
//! forms, submits and collects batches of several large jobs.
//!
//! If this fails, remove `.testing()`: `dhat-heap.json` then names the code that allocates.

mod common;

use std::borrow::Cow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use common::{DIMENSION, model, word_piece};
use pullquote_core::encoder::{Batch, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::Engine;
use pullquote_core::error::Result;
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const CALLERS: usize = 3;
const ROWS: usize = 1500;
/// Token budget of a batch.
const BUDGET: usize = 64;
/// The scheduler has accepted all jobs by this batch.
const FIRST_COUNTED: u64 = 20;

/// Shared by callers, the encoder and the test. The encoder holds the first batch until all callers wait, so that no
/// caller tokenizes during the count.
#[derive(Default)]
struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Callers that wait for vectors.
    waiting: usize,
    /// False while buffers grow in the first run.
    counts: bool,
    profiler: Option<dhat::Profiler>,
    batches: u64,
    /// Batches and allocations during the count.
    counted: Option<(u64, u64)>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The encoder calls this for each batch; the count ends with batch `last`.
    fn on_batch(&self, last: u64) {
        let mut state = self.lock();
        while state.waiting < CALLERS {
            state = self.changed.wait(state).unwrap();
        }
        state.batches += 1;
        if state.counts && state.batches == FIRST_COUNTED {
            state.profiler = Some(dhat::Profiler::builder().testing().build());
        }
        if state.batches == last && state.profiler.is_some() {
            state.counted = Some((state.batches - FIRST_COUNTED, dhat::HeapStats::get().total_blocks));
            state.profiler = None;
        }
    }
}

/// Returns the same vector for every row without allocating.
struct ConstantEncoder {
    spec: EncoderSpec,
    waker: Option<Waker>,
    /// The rows of recent batches, by the ticket's number.
    rows: [usize; 16],
    values: Vec<f32>,
    next: u64,
    watch: Arc<Watch>,
}

impl ConstantEncoder {
    fn new(notifies: bool, watch: Arc<Watch>) -> Self {
        let device = |index| DeviceSpec::new(format!("constant:{index}"), 2, BUDGET);
        let mut spec = EncoderSpec::new("test", DIMENSION, 64, 5000, (0..3).map(device).collect());
        spec.capabilities.notifies = notifies;
        Self { spec, waker: None, rows: [0; 16], values: vec![0.5; BUDGET * DIMENSION], next: 0, watch }
    }
}

fn slot(number: u64) -> usize {
    usize::try_from(number % 16).unwrap()
}

impl Encoder for ConstantEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        // At least three quarters of all batches: no job is complete by then.
        let tokens: usize = CALLERS * (0..ROWS).map(|row| 3 + row % 13).sum::<usize>();
        self.watch.on_batch((tokens / BUDGET * 3 / 4) as u64);
        self.next += 1;
        self.rows[slot(self.next)] = batch.lengths.len();
        if let Some(waker) = &self.waker {
            waker();
        }
        Ok(Ticket { device, number: self.next })
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        receive(Cow::Borrowed(&self.values[..self.rows[slot(ticket.number)] * DIMENSION]));
        Ok(Collected::default())
    }
}

/// All callers submit rows of different lengths at the same time.
fn embed_everything(engine: &Engine, watch: &Watch, counts: bool) {
    *watch.lock() = State { counts, ..State::default() };
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let texts: Vec<String> = (0..ROWS).map(|row| "cat ".repeat(1 + row % 13)).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                // Tokenizing polls too if it takes 50 ms, so it has a call of its own.
                let tokenized = engine.embed_streamed(&texts, Role::Passage, &Call::default()).unwrap();
                let waits = Once::new();
                let interrupted = || {
                    waits.call_once(|| {
                        watch.lock().waiting += 1;
                        watch.changed.notify_all();
                    });
                    false
                };
                let vectors = tokenized.collect(&Call::new(None, Some(&interrupted))).unwrap();
                assert_eq!(vectors, vec![0.5; ROWS * DIMENSION]);
            });
        }
    });
}

#[test]
fn batches_are_formed_and_collected_without_allocating() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    for notifies in [true, false] {
        let watch = Arc::new(Watch::default());
        let encoder = ConstantEncoder::new(notifies, Arc::clone(&watch));
        let engine = Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap();
        embed_everything(&engine, &watch, false);
        embed_everything(&engine, &watch, true);
        let (batches, allocations) = watch.lock().counted.expect("the encoder saw the last counted batch");
        assert!(batches > 400, "{batches} batches");
        assert_eq!(allocations, 0, "in {batches} batches, notifies: {notifies}");
    }
}
