//! From batch to batch the scheduler allocates nothing: everything that is allocated in this process is counted while it
//! forms, submits and collects batches of several large jobs.
//!
//! Where this fails, take `.testing()` away: `dhat-heap.json` then says where in the code it was.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use common::{DIMENSION, model, word_piece};
use pullquote_core::encoder::{Batch, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker};
use pullquote_core::engine::Engine;
use pullquote_core::error::Result;
use pullquote_core::runtime::call::Call;
use pullquote_core::tokens::Role;

#[global_allocator]
static COUNTED: dhat::Alloc = dhat::Alloc;

const CALLERS: usize = 3;
const ROWS: usize = 1500;
/// Tokens of a device's batch.
const BUDGET: usize = 64;
/// By then the scheduler has taken all jobs in.
const FIRST_COUNTED: u64 = 20;

/// What callers, the encoder and the test tell each other. The encoder waits with the first batch until all callers wait, so
/// that nobody tokenizes while it counts.
#[derive(Default)]
struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Callers that wait for their vectors.
    waiting: usize,
    /// Whether allocations are counted this time, or it is only warmed up.
    counts: bool,
    profiler: Option<dhat::Profiler>,
    batches: u64,
    /// Batches that were submitted, and allocations, while it was counted.
    counted: Option<(u64, u64)>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the encoder for each batch; `last` is where counting ends.
    fn see_batch(&self, last: u64) {
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

/// Returns the same vector for every row, and allocates nothing itself.
struct StillEncoder {
    spec: EncoderSpec,
    waker: Option<Waker>,
    /// The rows of the last batches, by ticket.
    rows: [usize; 16],
    next: u64,
    watch: Arc<Watch>,
}

impl StillEncoder {
    fn new(notifies: bool, needs_polling: bool, watch: Arc<Watch>) -> Self {
        let device = |index| DeviceSpec { name: format!("still:{index}"), depth: 2, batch_tokens: BUDGET };
        let devices = (0..3).map(device).collect();
        let (dtype, backend, scores) = ("float32".to_owned(), "test".to_owned(), false);
        let spec = EncoderSpec {
            dimension: DIMENSION,
            max_tokens: 64,
            vocabulary: 5000,
            dtype,
            devices,
            notifies,
            needs_polling,
            scores,
            backend,
        };
        Self { spec, waker: None, rows: [0; 16], next: 0, watch }
    }
}

fn place(ticket: u64) -> usize {
    usize::try_from(ticket % 16).unwrap()
}

impl Encoder for StillEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    fn submit(&mut self, _: usize, batch: &Batch) -> Result<Ticket> {
        // Three quarters of the batches of all jobs, at least: none of them is done by then.
        let tokens: usize = CALLERS * (0..ROWS).map(|row| 3 + row % 13).sum::<usize>();
        self.watch.see_batch((tokens / BUDGET * 3 / 4) as u64);
        self.next += 1;
        self.rows[place(self.next)] = batch.lengths.len();
        if let Some(waker) = &self.waker {
            waker();
        }
        Ok(Ticket(self.next))
    }

    fn is_finished(&mut self, _: Ticket) -> bool {
        true
    }

    fn collect(&mut self, ticket: Ticket, row: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        (0..self.rows[place(ticket.0)]).for_each(|index| row(index, &[0.5; DIMENSION]));
        Ok(())
    }
}

/// All callers hand in their rows at the same time, which differ in length.
fn embed_everything(engine: &Engine, watch: &Watch, counts: bool) {
    *watch.lock() = State { counts, ..State::default() };
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let texts: Vec<String> = (0..ROWS).map(|row| "cat ".repeat(1 + row % 13)).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let asked = AtomicUsize::new(0);
                // Asked once before the texts are tokenized, and every 50 ms while the caller waits for their vectors.
                let interrupted = || {
                    if asked.fetch_add(1, Ordering::Relaxed) == 1 {
                        watch.lock().waiting += 1;
                        watch.changed.notify_all();
                    }
                    false
                };
                let call = Call::new(None, Some(&interrupted));
                let embedded = engine.embed(&texts, Role::Passage, &call).unwrap();
                assert_eq!(embedded.vectors, vec![0.5; ROWS * DIMENSION]);
            });
        }
    });
}

#[test]
fn batches_are_formed_and_collected_without_allocating() {
    let (_folder, model) = model(&word_piece(), 64, ("", ""));
    for (notifies, needs_polling) in [(true, false), (false, true), (false, false)] {
        let watch = Arc::new(Watch::default());
        let encoder = StillEncoder::new(notifies, needs_polling, Arc::clone(&watch));
        let engine = Engine::new(&model, Box::new(encoder), Some(1), 0).unwrap();
        embed_everything(&engine, &watch, false);
        embed_everything(&engine, &watch, true);
        let (batches, allocations) = watch.lock().counted.expect("there were that many batches");
        assert!(batches > 400, "{batches} batches");
        assert_eq!(allocations, 0, "in {batches} batches, notifies: {notifies}, needs_polling: {needs_polling}");
    }
}
