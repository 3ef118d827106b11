//! Profiling: totals of the time that calls and batches spend in each stage, and an optional trace.
//!
//! Totals are always kept; they cost a few additions for each batch and each part of a call. A trace records the start
//! and end of every stage. It is written in Chrome's trace format, which Perfetto (<https://ui.perfetto.dev>) opens:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

/// Nanoseconds that a batch spent in each stage on its device. The stages follow each other from `submit` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BatchTimes {
    /// Copying the ids to the device.
    pub copied_in: u64,
    /// Queueing the kernels of a GPU, on the host.
    pub launched: u64,
    /// In the device's queue.
    pub waited: u64,
    pub computed: u64,
    /// Copying the rows to host memory.
    pub copied_out: u64,
}

impl BatchTimes {
    /// Nanoseconds since `then`.
    pub fn since(then: Instant) -> u64 {
        Self::of(then.elapsed())
    }

    /// A duration in nanoseconds.
    pub fn of(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A trace keeps at most this number of spans, about 30 MB, and only counts later ones.
const MAX_SPANS: usize = 500_000;

/// The stages of a call on the caller's thread, and of a batch on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A call reads, cuts and hashes its pages.
    Cut,
    /// A call tokenizes its windows.
    Tokenize,
    /// A call waits for vectors. Devices may have started before it waits.
    Wait,
    /// A call scores its windows and chooses passages.
    Choose,
    /// A job waits until a batch takes the first of its rows.
    Queue,
    /// A batch's ids are copied to its device.
    CopyIn,
    /// A batch's kernels are queued on its GPU, by the GPU's thread; 0 on CPUs.
    Launch,
    /// A batch waits for earlier ones on its device. A GPU counts this as computing unless [`Profiler::synchronizes`].
    DeviceQueue,
    /// A batch is computed.
    Compute,
    /// A batch's rows are copied back.
    CopyOut,
}

impl Stage {
    /// In the order of the flow.
    pub const ALL: [Self; 10] = [
        Self::Cut,
        Self::Tokenize,
        Self::Wait,
        Self::Choose,
        Self::Queue,
        Self::CopyIn,
        Self::Launch,
        Self::DeviceQueue,
        Self::Compute,
        Self::CopyOut,
    ];

    /// The name in metrics, profiles and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Tokenize => "tokenize",
            Self::Wait => "wait",
            Self::Choose => "choose",
            Self::Queue => "queue",
            Self::CopyIn => "copy_in",
            Self::Launch => "launch",
            Self::DeviceQueue => "device_queue",
            Self::Compute => "compute",
            Self::CopyOut => "copy_out",
        }
    }
}

/// Total time and count of one stage.
#[derive(Clone, Copy, Debug)]
pub struct StageTotal {
    pub stage: Stage,
    /// Summed over calls and batches, which overlap in time.
    pub time: Duration,
    pub count: u64,
}

/// Collects the stages of an engine's calls and batches.
#[derive(Debug, Default)]
pub struct Profiler {
    totals: [(AtomicU64, AtomicU64); Stage::ALL.len()],
    synchronizes: bool,
    trace: Option<Trace>,
}

#[derive(Debug)]
struct Trace {
    origin: Instant,
    devices: Vec<String>,
    spans: Mutex<Spans>,
}

#[derive(Debug, Default)]
struct Spans {
    recorded: Vec<Span>,
    /// Spans beyond [`MAX_SPANS`].
    dropped: u64,
    /// For each call track, whether a call holds it.
    call_tracks: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    name: &'static str,
    track: Track,
    start: Instant,
    length: Duration,
    /// 0 for spans of calls.
    rows: u32,
    tokens: u32,
}

/// A row of the trace viewer. Spans on a track never overlap: each running call and batch holds one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Scheduler,
    Call(usize),
    Device(usize, usize),
}

/// The track that a call holds until this is dropped; `None` without a trace.
#[derive(Debug, Default)]
pub(crate) struct TraceTrack<'profiler>(Option<(&'profiler Trace, usize)>);

/// A batch on its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSpan {
    pub(crate) device: usize,
    /// Unique among the device's batches in flight.
    pub(crate) track: usize,
    /// When the encoder received it.
    pub(crate) since: Instant,
    pub(crate) rows: usize,
    pub(crate) tokens: usize,
}

impl Profiler {
    /// `devices` names the devices for a trace; `None` records none. With `synchronizes`, devices wait at the end of
    /// each stage so that each is timed separately.
    pub fn new(synchronizes: bool, devices: Option<Vec<String>>) -> Self {
        let trace = devices.map(|devices| Trace { origin: Instant::now(), devices, spans: Mutex::default() });
        Self { synchronizes, trace, ..Self::default() }
    }

    /// Whether devices wait at the end of each stage.
    pub const fn synchronizes(&self) -> bool {
        self.synchronizes
    }

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

    pub(crate) fn call_track(&self) -> TraceTrack<'_> {
        TraceTrack(self.trace.as_ref().map(|trace| {
            let tracks = &mut trace.lock().call_tracks;
            let free = tracks.iter().position(|held| !held).unwrap_or(tracks.len());
            if free == tracks.len() {
                tracks.push(true);
            }
            tracks[free] = true;
            (trace, free)
        }))
    }

    /// Adds `count` runs of a stage that took `time` together.
    pub(crate) fn add(&self, stage: Stage, time: Duration, count: u64) {
        let (nanoseconds, counted) = &self.totals[stage as usize];
        nanoseconds.fetch_add(BatchTimes::of(time), Ordering::Relaxed);
        counted.fetch_add(count, Ordering::Relaxed);
    }

    /// Records that a call ran a stage from `began` until now. Returns the time it took.
    pub(crate) fn record_call(&self, stage: Stage, track: &TraceTrack<'_>, began: Instant) -> Duration {
        let time = began.elapsed();
        self.add(stage, time, 1);
        if let Some((trace, track)) = track.0 {
            trace.add(stage.name(), Track::Call(track), began, time, (0, 0));
        }
        time
    }

    /// Records work of the scheduler, in traces only.
    pub(crate) fn record_scheduler(&self, name: &'static str, began: Instant, ended: Instant) {
        if let Some(trace) = &self.trace {
            trace.add(name, Track::Scheduler, began, ended.saturating_duration_since(began), (0, 0));
        }
    }

    /// Records the stages of a finished batch.
    pub(crate) fn record_batch(&self, batch: BatchSpan, times: BatchTimes, ended: Instant) {
        let stages = [
            (Stage::CopyIn, times.copied_in),
            (Stage::Launch, times.launched),
            (Stage::DeviceQueue, times.waited),
            (Stage::Compute, times.computed),
            (Stage::CopyOut, times.copied_out),
        ];
        let lengths = stages.map(|(stage, nanoseconds)| (stage, Duration::from_nanos(nanoseconds)));
        for (stage, length) in lengths {
            self.add(stage, length, 1);
        }
        let Some(trace) = &self.trace else { return };
        let BatchSpan { device, track, since, rows, tokens } = batch;
        let batch_track = Track::Device(device, track);
        let size = (u32::try_from(rows).unwrap_or(u32::MAX), u32::try_from(tokens).unwrap_or(u32::MAX));
        let whole = ended.saturating_duration_since(since);
        trace.add("batch", batch_track, since, whole, size);
        let mut start = since;
        for (stage, length) in lengths {
            // The device's clock starts slightly before ours, and its last stage ends before the scheduler sees that.
            let length = length.min(ended.saturating_duration_since(start));
            trace.add(stage.name(), batch_track, start, length, size);
            start += length;
        }
    }

    /// Writes the trace as JSON: an empty one if none was recorded.
    pub fn write_trace(&self, to: &mut dyn Write) -> io::Result<()> {
        let empty = Spans::default();
        let (spans, trace) = match &self.trace {
            Some(trace) => (&*trace.lock(), Some(trace)),
            None => (&empty, None),
        };
        let mut tracks: Vec<Track> = spans.recorded.iter().map(|span| span.track).collect();
        tracks.sort_unstable();
        tracks.dedup();
        write!(to, r#"{{"displayTimeUnit":"ms","otherData":{{"lost":{}}},"traceEvents":["#, spans.dropped)?;
        let mut events = EventWriter { to: &mut *to, separator: "\n" };
        for (process, name) in [(1, "calls"), (2, "devices"), (3, "scheduler")] {
            events
                .put(&json!({"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": name}}))?;
        }
        if let Some(trace) = trace {
            for track in tracks {
                let (process, thread) = track.ids();
                let args = json!({"name": track.name(&trace.devices)});
                events.put(&json!({"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": args}))?;
            }
            for span in &spans.recorded {
                events.put(&span.event(trace.origin))?;
            }
        }
        to.write_all(b"\n]}\n")
    }
}

struct EventWriter<'to> {
    to: &'to mut dyn Write,
    separator: &'static str,
}

impl EventWriter<'_> {
    fn put(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.to.write_all(std::mem::replace(&mut self.separator, ",\n").as_bytes())?;
        serde_json::to_writer(&mut *self.to, event).map_err(io::Error::from)
    }
}

impl Trace {
    fn lock(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &'static str, track: Track, start: Instant, length: Duration, (rows, tokens): (u32, u32)) {
        let mut spans = self.lock();
        if spans.recorded.len() < MAX_SPANS {
            spans.recorded.push(Span { name, track, start, length, rows, tokens });
        } else {
            spans.dropped += 1;
        }
    }
}

impl Drop for TraceTrack<'_> {
    fn drop(&mut self) {
        if let Some((trace, track)) = self.0 {
            trace.lock().call_tracks[track] = false;
        }
    }
}

impl Track {
    /// The format shows a process as a group of tracks, and a thread as a track.
    fn ids(self) -> (usize, usize) {
        match self {
            Self::Call(track) => (1, track + 1),
            // Each device gets 1,000 ids; fewer batches than that are in flight on it.
            Self::Device(device, track) => (2, device * 1000 + track + 1),
            Self::Scheduler => (3, 1),
        }
    }

    fn name(self, devices: &[String]) -> String {
        match self {
            Self::Call(track) => format!("call {}", track + 1),
            Self::Device(device, track) => {
                format!("{} batch {}", devices.get(device).map_or("device", String::as_str), track + 1)
            }
            Self::Scheduler => "scheduler".to_owned(),
        }
    }
}

/// A "complete event" of the trace format. Times are in microseconds.
#[derive(Serialize)]
struct TraceEvent {
    name: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<BatchSize>,
}

#[derive(Serialize)]
struct BatchSize {
    rows: u32,
    tokens: u32,
}

impl Span {
    fn event(&self, origin: Instant) -> TraceEvent {
        let (pid, tid) = self.track.ids();
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let args = (self.rows > 0).then_some(BatchSize { rows: self.rows, tokens: self.tokens });
        let ts = microseconds(self.start.saturating_duration_since(origin));
        TraceEvent { name: self.name, ph: "X", ts, dur: microseconds(self.length), pid, tid, args }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn trace_json(profiler: &Profiler) -> Value {
        let mut bytes = Vec::new();
        profiler.write_trace(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn concurrent_calls_have_tracks_of_their_own() {
        let profiler = Profiler::new(false, Some(vec!["cpu".to_owned()]));
        let (one, other) = (profiler.call_track(), profiler.call_track());
        for track in [&one, &other] {
            profiler.record_call(Stage::Cut, track, Instant::now());
        }
        drop(one);
        profiler.record_call(Stage::Choose, &profiler.call_track(), Instant::now());
        let trace = trace_json(&profiler);
        let spans: Vec<(&str, u64)> = trace["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| (event["name"].as_str().unwrap(), event["tid"].as_u64().unwrap()))
            .collect();
        assert_eq!(spans, [("cut", 1), ("cut", 2), ("choose", 1)]);
        assert_eq!(profiler.totals()[0].count, 2);
        assert!(Profiler::default().call_track().0.is_none());
        assert_eq!(trace_json(&Profiler::default())["otherData"]["lost"], 0);
    }

    #[test]
    fn the_stages_of_a_batch_lie_within_its_span() {
        let profiler = Profiler::new(true, Some(vec!["cuda:0".to_owned()]));
        let since = Instant::now();
        let ended = since + Duration::from_micros(100);
        // The device reports more time than passed; the spans must still fit.
        let times =
            BatchTimes { copied_in: 10_000, launched: 5_000, waited: 20_000, computed: 900_000, copied_out: 5_000 };
        profiler.record_batch(BatchSpan { device: 0, track: 2, since, rows: 3, tokens: 30 }, times, ended);
        let trace = trace_json(&profiler);
        let spans: Vec<&Value> =
            trace["traceEvents"].as_array().unwrap().iter().filter(|one| one["ph"] == "X").collect();
        assert_eq!(
            spans.iter().map(|span| span["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["batch", "copy_in", "launch", "device_queue", "compute", "copy_out"]
        );
        let end = |span: &Value| span["ts"].as_f64().unwrap() + span["dur"].as_f64().unwrap();
        let whole = end(spans[0]);
        assert!(spans[1..].iter().all(|span| end(span) <= whole + 1e-6 && span["args"]["tokens"] == 30));
        assert!(spans[1..].windows(2).all(|pair| (end(pair[0]) - pair[1]["ts"].as_f64().unwrap()).abs() < 1e-6));
        assert!(trace["traceEvents"].as_array().unwrap().iter().any(|one| one["args"]["name"] == "cuda:0 batch 3"));
    }
}
