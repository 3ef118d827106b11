//! Stages: where the time of calls and of batches goes, as totals and, where somebody wants one, as a trace.
//!
//! Totals are always kept: a few additions for each batch and each part of a call. A trace remembers every stage with its
//! beginning and its end, and is written in the format of Chrome's tracing, which Perfetto (<https://ui.perfetto.dev>)
//! opens: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

/// What a batch took on its device, in nanoseconds, one after the other from `submit` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BatchTimes {
    /// Until its ids were on their way to the device.
    pub copied_in: u64,
    /// Until the device began with it.
    pub waited: u64,
    /// Until its rows were there.
    pub computed: u64,
    /// Until they were in the memory of the host.
    pub copied_out: u64,
}

impl BatchTimes {
    /// What has passed since then, as times count it.
    #[must_use]
    pub fn since(then: Instant) -> u64 {
        Self::of(then.elapsed())
    }

    /// A time as times count it.
    #[must_use]
    pub fn of(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Stages that a trace remembers at most, some 30 MB; later ones are only counted.
const MOST_SPANS: usize = 500_000;

/// What time is spent on: for each call on its own thread, and for each batch on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A call's pages are read, cut and looked up.
    Cut,
    /// A call's windows become ids.
    Tokenize,
    /// A call waits for vectors; devices may be at work before it does.
    Wait,
    /// A call's windows are scored, and passages chosen.
    Choose,
    /// A job waits for the first of its rows to be in a batch.
    Queue,
    /// A batch is brought to its device.
    CopyIn,
    /// A batch waits there for those before it. Without [`Profiler::synchronizes`] a graphics card does not tell that from computing.
    DeviceQueue,
    /// A batch is computed.
    Compute,
    /// A batch's rows are brought back.
    CopyOut,
}

impl Stage {
    /// In the order of the flow.
    pub const ALL: [Self; 9] = [
        Self::Cut,
        Self::Tokenize,
        Self::Wait,
        Self::Choose,
        Self::Queue,
        Self::CopyIn,
        Self::DeviceQueue,
        Self::Compute,
        Self::CopyOut,
    ];

    /// As metrics, profiles and traces call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Tokenize => "tokenize",
            Self::Wait => "wait",
            Self::Choose => "choose",
            Self::Queue => "queue",
            Self::CopyIn => "copy_in",
            Self::DeviceQueue => "device_queue",
            Self::Compute => "compute",
            Self::CopyOut => "copy_out",
        }
    }
}

/// How often a stage was gone through, and how long that took in all.
#[derive(Clone, Copy, Debug)]
pub struct StageTotal {
    /// Which one.
    pub stage: Stage,
    /// How long, in all; stages of different calls and batches go on at the same time.
    pub time: Duration,
    /// How often.
    pub count: u64,
}

/// All stages of an engine.
#[derive(Debug, Default)]
pub struct Profiler {
    totals: [(AtomicU64, AtomicU64); Stage::ALL.len()],
    synchronizes: bool,
    trace: Option<Trace>,
}

#[derive(Debug)]
struct Trace {
    origin: Instant,
    /// The names of the devices.
    devices: Vec<String>,
    spans: Mutex<Spans>,
}

#[derive(Debug, Default)]
struct Spans {
    remembered: Vec<Span>,
    /// How many more there were.
    lost: u64,
    /// Which lanes of calls are taken.
    calls: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    name: &'static str,
    place: Place,
    start: Instant,
    length: Duration,
    /// Of a batch.
    rows: u32,
    tokens: u32,
}

/// A line of a trace. What stands in it does not overlap: each call and each batch has one for itself as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Scheduler,
    Call(usize),
    Device(usize, usize),
}

/// A call's line of a trace, until it is dropped; nothing where there is no trace.
#[derive(Debug, Default)]
pub(crate) struct TraceTrack<'stages>(Option<(&'stages Trace, usize)>);

/// A batch on its device, for a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSpan {
    pub(crate) device: usize,
    /// No other batch in flight on the device has this number.
    pub(crate) lane: usize,
    /// When it was handed to the encoder.
    pub(crate) since: Instant,
    pub(crate) rows: usize,
    pub(crate) tokens: usize,
}

impl Profiler {
    /// Stages whose ends devices wait for, so that each has its own time, remembered for a trace where somebody wants one.
    #[must_use]
    pub fn new(synchronizes: bool, devices: Option<Vec<String>>) -> Self {
        let trace = devices.map(|devices| Trace { origin: Instant::now(), devices, spans: Mutex::default() });
        Self { synchronizes, trace, ..Self::default() }
    }

    /// Whether devices wait at the end of each stage.
    #[must_use]
    pub const fn synchronizes(&self) -> bool {
        self.synchronizes
    }

    /// What was counted so far.
    #[must_use]
    pub fn totals(&self) -> Vec<StageTotal> {
        let total = |stage: Stage| {
            let (nanoseconds, count) = &self.totals[stage as usize];
            let time = Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
            StageTotal { stage, time, count: count.load(Ordering::Relaxed) }
        };
        Stage::ALL.map(total).to_vec()
    }

    pub(crate) const fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// A line for a call.
    pub(crate) fn lane(&self) -> TraceTrack<'_> {
        TraceTrack(self.trace.as_ref().map(|trace| {
            let mut spans = trace.lock();
            let free = spans.calls.iter().position(|taken| !taken).unwrap_or(spans.calls.len());
            if free == spans.calls.len() {
                spans.calls.push(true);
            }
            spans.calls[free] = true;
            (trace, free)
        }))
    }

    /// So many went through a stage, which took so long in all.
    pub(crate) fn add(&self, stage: Stage, time: Duration, count: u64) {
        let (nanoseconds, counted) = &self.totals[stage as usize];
        nanoseconds.fetch_add(BatchTimes::of(time), Ordering::Relaxed);
        counted.fetch_add(count, Ordering::Relaxed);
    }

    /// A call went through a stage, from then until now. How long that took.
    pub(crate) fn call(&self, stage: Stage, lane: &TraceTrack<'_>, began: Instant) -> Duration {
        let time = began.elapsed();
        self.add(stage, time, 1);
        if let Some((trace, lane)) = lane.0 {
            trace.add(stage.name(), Place::Call(lane), began, time, (0, 0));
        }
        time
    }

    /// What the scheduler did, for a trace.
    pub(crate) fn conducted(&self, name: &'static str, began: Instant, ended: Instant) {
        if let Some(trace) = &self.trace {
            trace.add(name, Place::Scheduler, began, ended.saturating_duration_since(began), (0, 0));
        }
    }

    /// A batch went through its stages.
    pub(crate) fn batch(&self, batch: BatchSpan, times: BatchTimes, ended: Instant) {
        let stages = [
            (Stage::CopyIn, times.copied_in),
            (Stage::DeviceQueue, times.waited),
            (Stage::Compute, times.computed),
            (Stage::CopyOut, times.copied_out),
        ];
        let lengths = stages.map(|(stage, nanoseconds)| (stage, Duration::from_nanos(nanoseconds)));
        for (stage, length) in lengths {
            self.add(stage, length, 1);
        }
        let Some(trace) = &self.trace else { return };
        let BatchSpan { device, lane, since, rows, tokens } = batch;
        let place = Place::Device(device, lane);
        let size = (u32::try_from(rows).unwrap_or(u32::MAX), u32::try_from(tokens).unwrap_or(u32::MAX));
        let whole = ended.saturating_duration_since(since);
        trace.add("batch", place, since, whole, size);
        let mut start = since;
        for (stage, length) in lengths {
            // The device's clock began a moment before ours, and its last stage ends before we hear of it.
            let length = length.min(ended.saturating_duration_since(start));
            trace.add(stage.name(), place, start, length, size);
            start += length;
        }
    }

    /// Writes the trace as JSON; without one, one that is empty.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_trace(&self, to: &mut dyn Write) -> io::Result<()> {
        let empty = Spans::default();
        let (spans, trace) = match &self.trace {
            Some(trace) => (&*trace.lock(), Some(trace)),
            None => (&empty, None),
        };
        let mut places: Vec<Place> = spans.remembered.iter().map(|span| span.place).collect();
        places.sort_unstable();
        places.dedup();
        write!(to, r#"{{"displayTimeUnit":"ms","otherData":{{"lost":{}}},"traceEvents":["#, spans.lost)?;
        let mut events = Events { to: &mut *to, separator: "\n" };
        for (process, name) in [(1, "calls"), (2, "devices"), (3, "scheduler")] {
            events
                .put(&json!({"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}))?;
        }
        if let Some(trace) = trace {
            for place in places {
                let (process, thread) = place.ids();
                let args = json!({"name": place.name(&trace.devices)});
                events.put(&json!({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": args}))?;
            }
            for span in &spans.remembered {
                events.put(&span.event(trace.origin))?;
            }
        }
        to.write_all(b"\n]}\n")
    }
}

/// A list of events that is being written.
struct Events<'to> {
    to: &'to mut dyn Write,
    separator: &'static str,
}

impl Events<'_> {
    fn put(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.to.write_all(std::mem::replace(&mut self.separator, ",\n").as_bytes())?;
        serde_json::to_writer(&mut *self.to, event).map_err(io::Error::from)
    }
}

impl Trace {
    fn lock(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &'static str, place: Place, start: Instant, length: Duration, (rows, tokens): (u32, u32)) {
        let mut spans = self.lock();
        if spans.remembered.len() < MOST_SPANS {
            spans.remembered.push(Span { name, place, start, length, rows, tokens });
        } else {
            spans.lost += 1;
        }
    }
}

impl Drop for TraceTrack<'_> {
    fn drop(&mut self) {
        if let Some((trace, lane)) = self.0 {
            trace.lock().calls[lane] = false;
        }
    }
}

impl Place {
    /// A process and a thread, which is what the format calls a group of lines and a line.
    fn ids(self) -> (usize, usize) {
        match self {
            Self::Call(lane) => (1, lane + 1),
            // A device has fewer batches at once.
            Self::Device(device, lane) => (2, device * 1000 + lane + 1),
            Self::Scheduler => (3, 1),
        }
    }

    fn name(self, devices: &[String]) -> String {
        match self {
            Self::Call(lane) => format!("call {}", lane + 1),
            Self::Device(device, lane) => {
                format!("{} batch {}", devices.get(device).map_or("device", String::as_str), lane + 1)
            }
            Self::Scheduler => "scheduler".to_owned(),
        }
    }
}

/// A stage as the format has it: times in microseconds.
#[derive(Serialize)]
struct Event {
    name: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Size>,
}

#[derive(Serialize)]
struct Size {
    rows: u32,
    tokens: u32,
}

impl Span {
    fn event(&self, origin: Instant) -> Event {
        let (pid, tid) = self.place.ids();
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let args = (self.rows > 0).then_some(Size { rows: self.rows, tokens: self.tokens });
        let ts = microseconds(self.start.saturating_duration_since(origin));
        Event { name: self.name, ph: "X", ts, dur: microseconds(self.length), pid, tid, args }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn written(stages: &Profiler) -> Value {
        let mut bytes = Vec::new();
        stages.write_trace(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn calls_at_the_same_time_have_lines_of_their_own() {
        let stages = Profiler::new(false, Some(vec!["cpu".to_owned()]));
        let (one, other) = (stages.lane(), stages.lane());
        for lane in [&one, &other] {
            stages.call(Stage::Cut, lane, Instant::now());
        }
        drop(one);
        stages.call(Stage::Choose, &stages.lane(), Instant::now());
        let trace = written(&stages);
        let spans: Vec<(&str, u64)> = trace["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| (event["name"].as_str().unwrap(), event["tid"].as_u64().unwrap()))
            .collect();
        assert_eq!(spans, [("cut", 1), ("cut", 2), ("choose", 1)]);
        assert_eq!(stages.totals()[0].count, 2);
        assert!(Profiler::default().lane().0.is_none());
        assert_eq!(written(&Profiler::default())["otherData"]["lost"], 0);
    }

    #[test]
    fn the_stages_of_a_batch_lie_within_it() {
        let stages = Profiler::new(true, Some(vec!["cuda:0".to_owned()]));
        let since = Instant::now();
        let ended = since + Duration::from_micros(100);
        // A clock that says more than there was must not make a picture that cannot be.
        let times = BatchTimes { copied_in: 10_000, waited: 20_000, computed: 900_000, copied_out: 5_000 };
        stages.batch(BatchSpan { device: 0, lane: 2, since, rows: 3, tokens: 30 }, times, ended);
        let trace = written(&stages);
        let spans: Vec<&Value> =
            trace["traceEvents"].as_array().unwrap().iter().filter(|one| one["ph"] == "X").collect();
        assert_eq!(
            spans.iter().map(|span| span["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["batch", "copy_in", "device_queue", "compute", "copy_out"]
        );
        let end = |span: &Value| span["ts"].as_f64().unwrap() + span["dur"].as_f64().unwrap();
        let whole = end(spans[0]);
        assert!(spans[1..].iter().all(|span| end(span) <= whole + 1e-6 && span["args"]["tokens"] == 30));
        assert!(spans[1..].windows(2).all(|pair| (end(pair[0]) - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-6));
        assert!(trace["traceEvents"].as_array().unwrap().iter().any(|one| one["args"]["name"] == "cuda:0 batch 3"));
    }
}
