//! Measures the scheduler thread's time for each batch; used by `bench/gpu_scaling.py`.
//!
//! The devices compute nothing. Each finishes one batch after another, after the given number of milliseconds, and
//! returns constant rows. The scheduler polls them, as it polls GPUs. Everything else is real: callers tokenize, the
//! scheduler forms batches, checks rows and writes them into the callers' memory.
//!
//!     cargo run --release -p pullquote-core --example issuing -- MODEL DEVICES MILLISECONDS SECONDS WANTED
//!
//! WANTED is `vectors`, `passages` (devices return vectors) or `scores` (passages, and devices return cosines). Prints
//! one JSON object.

#![allow(clippy::print_stdout, reason = "the output is the result")]

use std::borrow::Cow;
use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pullquote_core::encoder::model::Model;
use pullquote_core::encoder::{
    Batch, BatchTimes, Capabilities, Collected, DeviceSpec, Encoder, EncoderSpec, Ticket, Waker,
};
use pullquote_core::engine::options::Options;
use pullquote_core::engine::{Effort, Engine, Pairing, Question, Request};
use pullquote_core::error::Result;
use pullquote_core::runtime::call::Call;
use pullquote_core::text::formats::Format;
use pullquote_core::text::pieces::Unit;
use pullquote_core::tokens::Role;
use serde_json::json;

/// As a GPU's.
const BATCH_TOKENS: usize = 16_384;
const DIMENSION: usize = 384;
/// A row has 64 ids: two special tokens and these words.
const WORDS: usize = 62;
const ROWS: usize = 512;

#[derive(Default)]
struct Counters {
    batches: AtomicU64,
    rows: AtomicU64,
    /// Nanoseconds without a batch, after a device's first one.
    idle: AtomicU64,
    /// Nanoseconds of sleep in `collect`.
    slept: AtomicU64,
}

struct SleepingEncoder {
    spec: EncoderSpec,
    batch_time: Duration,
    running: Vec<VecDeque<SleepingBatch>>,
    /// When each device finishes its last batch.
    ends: Vec<Option<Instant>>,
    values: Vec<f32>,
    next: u64,
    counters: Arc<Counters>,
}

#[derive(Clone)]
struct SleepingBatch {
    number: u64,
    end: Instant,
    rows: usize,
    /// Values of all rows.
    values: usize,
}

impl Encoder for SleepingEncoder {
    fn spec(&self) -> &EncoderSpec {
        &self.spec
    }

    fn set_waker(&mut self, _: Waker) {}

    fn submit(&mut self, device: usize, batch: &Batch) -> Result<Ticket> {
        let now = Instant::now();
        let begins = self.ends[device].map_or(now, |end| end.max(now));
        if let Some(end) = self.ends[device] {
            let idle = begins.saturating_duration_since(end);
            self.counters.idle.fetch_add(BatchTimes::of(idle), Ordering::Relaxed);
        }
        let end = begins + self.batch_time;
        self.ends[device] = Some(end);
        self.next += 1;
        let width = if batch.queries.is_empty() { DIMENSION } else { batch.queries.len() / DIMENSION };
        let (number, rows) = (self.next, batch.lengths.len());
        self.values.resize(self.values.len().max(rows * width), 0.05);
        self.running[device].push_back(SleepingBatch { number, end, rows, values: rows * width });
        Ok(Ticket { device, number })
    }

    fn is_finished(&mut self, ticket: Ticket) -> bool {
        let now = Instant::now();
        self.running[ticket.device].iter().any(|batch| batch.number == ticket.number && now >= batch.end)
    }

    fn collect(&mut self, ticket: Ticket, receive: &mut dyn FnMut(Cow<'_, [f32]>)) -> Result<Collected> {
        let batches = &mut self.running[ticket.device];
        let found = batches.iter().position(|batch| batch.number == ticket.number);
        if let Some(SleepingBatch { end, rows, values, .. }) = found.and_then(|index| batches.remove(index)) {
            let remaining = end.saturating_duration_since(Instant::now());
            std::thread::sleep(remaining);
            self.counters.slept.fetch_add(BatchTimes::of(remaining), Ordering::Relaxed);
            receive(Cow::Borrowed(&self.values[..values]));
            self.counters.batches.fetch_add(1, Ordering::Relaxed);
            self.counters.rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
        Ok(Collected::default())
    }
}

/// Distinct texts of words that the model's tokenizer has as single tokens.
fn text(number: usize) -> String {
    (0..WORDS).map(|bit| if bit < 16 && number >> bit & 1 == 1 { "sun " } else { "moon " }).collect()
}

/// One passage for each row, all of them encoded.
fn question() -> Result<Question> {
    let options =
        Options { highlight_length: 62, step_size: 62, unit: Unit::Word, effort: Effort::Full, ..Options::default() };
    Question::new(&options)
}

/// CPU time of the scheduler's thread, from Linux.
fn scheduler_nanoseconds() -> Option<u64> {
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        // Linux truncates names of threads to 15 bytes.
        if name.trim() == "pullquote-sched" {
            let counts = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            return counts.split_whitespace().next()?.parse().ok();
        }
    }
    None
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, devices, milliseconds, seconds, wanted] = arguments.as_slice() else {
        return Err("expected: MODEL DEVICES MILLISECONDS SECONDS WANTED".into());
    };
    let (devices, milliseconds): (usize, u64) = (devices.parse()?, milliseconds.parse()?);
    let seconds = Duration::from_secs_f64(seconds.parse()?);
    let counters = Arc::new(Counters::default());
    let model = Model::read(model)?;
    let device = |index| DeviceSpec::new(format!("sleeping:{index}"), 2, BATCH_TOKENS);
    let (vocabulary, specs) = (model.vocabulary.unwrap_or(usize::MAX), (0..devices).map(device).collect());
    let mut spec = EncoderSpec::new("test", DIMENSION, model.max_tokens, vocabulary, specs);
    spec.capabilities = Capabilities { cosines: wanted == "scores", ..Capabilities::default() };
    let encoder = SleepingEncoder {
        spec,
        batch_time: Duration::from_millis(milliseconds),
        running: vec![VecDeque::new(); devices],
        ends: vec![None; devices],
        values: Vec::new(),
        next: 0,
        counters: Arc::clone(&counters),
    };
    let engine = Engine::new(&model, Box::new(encoder), None, 0)?;
    let texts: Vec<String> = (0..ROWS).map(text).collect();
    let page = texts.concat();
    let run = || -> Result<()> {
        let call = Call::default();
        if wanted == "vectors" {
            return engine.wait(&call, engine.embed(&texts, Role::Passage, &call)).map(drop);
        }
        let (queries, pages, formats) = (vec!["sun"], vec![page.as_str()], vec![Format::Text]);
        let request = Request { queries, pages, formats, titles: Vec::new(), pairing: Pairing::All };
        engine.wait(&call, engine.highlights(&request, &question()?, &call)).map(drop)
    };
    let (stop, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
    let result = std::thread::scope(|scope| {
        // Enough jobs for two batches on every device and as many waiting.
        for _ in 0..devices * 4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    if run().is_err() {
                        return;
                    }
                }
            });
        }
        // Until every device has finished some batches.
        std::thread::sleep(Duration::from_millis(milliseconds * 4));
        let read = || {
            [&counters.batches, &counters.rows, &counters.idle, &counters.slept]
                .map(|count| count.load(Ordering::Relaxed))
        };
        let (before, computed, began) = (read(), scheduler_nanoseconds(), Instant::now());
        std::thread::sleep(seconds);
        let (after, elapsed) = (read(), began.elapsed().as_secs_f64());
        let computed = scheduler_nanoseconds().zip(computed).map(|(now, before)| now - before);
        stop.store(true, Ordering::Relaxed);
        let [batches, rows, idle, slept] = std::array::from_fn(|index| after[index] - before[index]);
        json!({
            "devices": devices, "milliseconds": milliseconds, "seconds": elapsed, "batches": batches, "rows": rows,
            "idle_nanoseconds": idle, "slept_nanoseconds": slept, "scheduler_nanoseconds": computed,
        })
    });
    println!("{result}");
    Ok(())
}
