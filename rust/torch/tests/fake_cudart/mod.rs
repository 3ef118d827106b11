//! A runtime library with the functions that pullquote calls of CUDA's, for tests without a GPU. Devices are numbers; a
//! test sets the mode of each. As in CUDA, a sticky error is the answer to every call about that device from then on,
//! and each thread has a current device. Batches themselves run on the CPU.
//!
//! A captured graph has the kernels that [`memory`] was given for the capture; launching it runs them.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pullquote_core::error::Result;
use pullquote_torch::cuda::graphs::{CaptureMemory, CaptureSupport, Kernels};
use pullquote_torch::cuda::runtime::{CaptureStream, Runtime};
use pullquote_torch::cuda::staging::Staging;
use pullquote_torch::encoder::{LoadOptions, TorchEncoder};

pub const INVALID_DEVICE: c_int = 101;
pub const OUT_OF_MEMORY: c_int = 2;
pub const ILLEGAL_ADDRESS: c_int = 700;
pub const UNCORRECTABLE_ECC: c_int = 214;
pub const LAUNCH_FAILURE: c_int = 719;
pub const LAUNCH_OUT_OF_RESOURCES: c_int = 701;
pub const CAPTURE_UNSUPPORTED: c_int = 900;
pub const CAPTURE_INVALIDATED: c_int = 901;
const NOT_READY: c_int = 600;

pub const DEVICES: c_int = 64;
/// What a device has free, unless its mode says otherwise.
pub const FREE: usize = 1 << 34;

/// What a device does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    #[default]
    Works,
    /// Its events are done this long after they were recorded.
    Slow(Duration),
    /// Its events are never done.
    Hangs,
    /// Every call about it fails with this code.
    Sticky(c_int),
    /// The next query of an event that is done fails with this code, and no later one.
    FailsOnce(c_int),
    /// It has no pinned memory to give.
    NoHostMemory,
    /// This many bytes are free.
    Free(usize),
    /// One call of its graphs fails.
    Graphs(GraphCall, c_int),
}

/// What is needed to capture and launch a graph, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GraphCall {
    CreateStream,
    /// The host's memory for a capture cannot be had.
    Memory,
    Begin,
    /// The host's memory fails after the capture.
    Leave,
    End,
    Instantiate,
    Launch,
    /// Launching succeeds and runs nothing.
    Lost,
}

#[derive(Default)]
struct State {
    modes: HashMap<c_int, Mode>,
    /// Pinned memory that was not freed: its size and device.
    memory: HashMap<usize, (usize, c_int)>,
    /// Of each device.
    events: HashMap<c_int, usize>,
    /// Graphs of each device that were not destroyed: captured ones, and executable ones.
    graphs: HashMap<c_int, usize>,
    /// Launches of each device.
    launches: HashMap<c_int, usize>,
    /// Memory for captures that was not released.
    memories: HashMap<c_int, usize>,
    warnings: Vec<String>,
}

struct FakeGraph {
    device: c_int,
    kernels: Kernels,
}

struct FakeMemory(c_int);

struct FakeEvent {
    device: c_int,
    recorded: Option<Instant>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static ON_CAPTURE: Mutex<Option<fn()>> = Mutex::new(None);

thread_local! {
    /// `None` until the thread chooses. CUDA takes device 0 then, and makes a context there.
    static CURRENT: Cell<Option<c_int>> = const { Cell::new(None) };
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
    /// The kernels that are about to be captured, and whether they are now.
    static KERNELS: RefCell<Option<Kernels>> = const { RefCell::new(None) };
    static CAPTURES: Cell<bool> = const { Cell::new(false) };
}

/// The library.
pub static FAKE: Runtime = Runtime {
    set_device,
    host_alloc,
    free_host,
    event_create_with_flags,
    event_record,
    event_query,
    event_destroy,
    mem_get_info,
    get_last_error,
    get_error_string,
    driver_get_version,
    runtime_get_version,
    stream_create_with_flags,
    stream_begin_capture,
    stream_end_capture,
    graph_instantiate,
    graph_destroy,
    graph_launch,
    graph_exec_destroy,
};

/// The host's part of captures.
pub const GRAPHS: CaptureSupport = CaptureSupport { memory, warn };

/// An encoder whose devices run the code for GPUs with this library, which numbers them from 0.
pub fn load(directory: &Path, devices: usize, dtype: &str, options: LoadOptions) -> Result<TorchEncoder> {
    let names: Vec<String> = (0..devices).map(|device| format!("cpu:{device}")).collect();
    let options = LoadOptions { runtime_on_cpu: Some(&FAKE), ..options };
    TorchEncoder::load(directory, &names, dtype, Some(devices), options)
}

/// Staging for batches of this thread, which chooses device 0.
pub fn staging() -> Staging {
    FAKE.use_device(0).expect("it exists");
    Staging::new(&FAKE)
}

pub fn set_mode(device: usize, mode: Mode) {
    with(|state| state.modes.insert(number(device), mode));
}

/// A device's pinned allocations that were not freed, and events that were not destroyed.
pub fn leaks(device: usize) -> (usize, usize) {
    let device = number(device);
    with(|state| {
        let memory = state.memory.values().filter(|(_, of)| *of == device).count();
        (memory, state.events.get(&device).copied().unwrap_or(0))
    })
}

/// A device's graphs that were not destroyed, and memory for captures that was not released.
pub fn graph_leaks(device: usize) -> (usize, usize) {
    let device = number(device);
    let count = |counts: &HashMap<c_int, usize>| counts.get(&device).copied().unwrap_or(0);
    with(|state| (count(&state.graphs), count(&state.memories)))
}

/// How often a device launched a graph.
pub fn launches(device: usize) -> usize {
    with(|state| state.launches.get(&number(device)).copied().unwrap_or(0))
}

/// The warnings that name a device.
pub fn warnings(name: &str) -> Vec<String> {
    with(|state| state.warnings.iter().filter(|text| text.starts_with(&format!("{name}:"))).cloned().collect())
}

/// Calls this once, when the next capture has begun.
pub fn on_capture(hook: fn()) {
    *ON_CAPTURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
}

/// The last error of this thread, which torch would take for one of its own.
pub fn last_error() -> c_int {
    LAST_ERROR.get()
}

fn number(device: usize) -> c_int {
    c_int::try_from(device).expect("it is small")
}

fn with<T>(use_state: impl FnOnce(&mut State) -> T) -> T {
    let mut state: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    use_state(state.get_or_insert_default())
}

/// The thread's device, for calls that need its context.
fn current() -> c_int {
    CURRENT.get().expect("the call would make a context on a device that may be no concern of ours")
}

fn mode(device: c_int) -> Mode {
    with(|state| state.modes.get(&device).copied().unwrap_or_default())
}

/// The answer of a call about a device.
fn answer(device: c_int) -> c_int {
    match mode(device) {
        Mode::Sticky(code) => failed(code),
        _ => 0,
    }
}

fn failed(code: c_int) -> c_int {
    LAST_ERROR.set(code);
    code
}

/// The answer of a call for graphs.
fn graph_answer(device: c_int, call: GraphCall) -> c_int {
    match mode(device) {
        Mode::Graphs(failing, code) if failing == call => failed(code),
        _ => answer(device),
    }
}

fn memory(device: usize, _: CaptureStream) -> std::result::Result<Box<dyn CaptureMemory>, String> {
    let device = number(device);
    if graph_answer(device, GraphCall::Memory) != 0 {
        LAST_ERROR.set(0);
        return Err("torch does not use its own allocator".to_owned());
    }
    with(|state| *state.memories.entry(device).or_default() += 1);
    Ok(Box::new(FakeMemory(device)))
}

fn warn(message: &str) {
    with(|state| state.warnings.push(message.to_owned()));
}

impl CaptureMemory for FakeMemory {
    fn with(&self, kernels: &Kernels, capture: &mut dyn FnMut(&Kernels)) -> std::result::Result<(), String> {
        KERNELS.set(Some(kernels.clone()));
        capture(kernels);
        assert!(!CAPTURES.get(), "the capture has ended");
        KERNELS.set(None);
        if matches!(mode(self.0), Mode::Graphs(GraphCall::Leave, _)) {
            return Err("the pool cannot be left".to_owned());
        }
        Ok(())
    }

    fn release(self: Box<Self>) {
        with(|state| {
            assert_eq!(state.graphs.get(&self.0).copied().unwrap_or(0), 0, "graphs use it");
            if let Some(memories) = state.memories.get_mut(&self.0) {
                *memories -= 1;
            }
        });
    }
}

unsafe extern "C" fn stream_create_with_flags(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    assert_eq!(flags, 1, "other threads use the default stream");
    // SAFETY: the caller passes a place. The stream is its device's number, and never null.
    unsafe { stream.write(std::ptr::without_provenance_mut(number_of_stream(current()))) };
    graph_answer(current(), GraphCall::CreateStream)
}

fn number_of_stream(device: c_int) -> usize {
    usize::try_from(device).expect("it is no error") + 1
}

unsafe extern "C" fn stream_begin_capture(stream: *mut c_void, mode: c_int) -> c_int {
    assert_eq!((stream.addr(), mode), (number_of_stream(current()), 1));
    assert!(KERNELS.with_borrow(Option::is_some), "its memory comes from the pool");
    let code = graph_answer(current(), GraphCall::Begin);
    CAPTURES.set(code == 0);
    if let Some(hook) = ON_CAPTURE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        hook();
    }
    code
}

unsafe extern "C" fn stream_end_capture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    assert!(CAPTURES.replace(false), "a capture was begun");
    let device = current();
    assert_eq!(stream.addr(), number_of_stream(device));
    let code = graph_answer(device, GraphCall::End);
    if code == 0 {
        // SAFETY: the caller passes a place.
        unsafe { graph.write(new_graph(device, KERNELS.take().expect("it captures"))) };
    }
    code
}

fn new_graph(device: c_int, kernels: Kernels) -> *mut c_void {
    with(|state| *state.graphs.entry(device).or_default() += 1);
    Box::into_raw(Box::new(FakeGraph { device, kernels })).cast()
}

unsafe extern "C" fn graph_instantiate(exec: *mut *mut c_void, graph: *mut c_void, _: c_ulonglong) -> c_int {
    // SAFETY: the caller passes a graph.
    let FakeGraph { device, kernels } = unsafe { &*graph.cast::<FakeGraph>() };
    let code = graph_answer(*device, GraphCall::Instantiate);
    if code == 0 {
        // SAFETY: the caller passes a place.
        unsafe { exec.write(new_graph(*device, kernels.clone())) };
    }
    code
}

unsafe extern "C" fn graph_destroy(graph: *mut c_void) -> c_int {
    // SAFETY: the caller passes a graph, for the last time.
    let FakeGraph { device, .. } = *unsafe { Box::from_raw(graph.cast::<FakeGraph>()) };
    with(|state| {
        if let Some(graphs) = state.graphs.get_mut(&device) {
            *graphs -= 1;
        }
    });
    0
}

unsafe extern "C" fn graph_launch(exec: *mut c_void, stream: *mut c_void) -> c_int {
    assert!(stream.is_null(), "torch's default stream");
    // SAFETY: the caller passes an executable graph.
    let FakeGraph { device, kernels } = unsafe { &*exec.cast::<FakeGraph>() };
    let code = graph_answer(*device, GraphCall::Launch);
    if code != 0 {
        return code;
    }
    with(|state| *state.launches.entry(*device).or_default() += 1);
    if mode(*device) != Mode::Graphs(GraphCall::Lost, 0) {
        (kernels.lock().unwrap_or_else(PoisonError::into_inner))().expect("kernels do not fail in a graph");
    }
    0
}

unsafe extern "C" fn graph_exec_destroy(exec: *mut c_void) -> c_int {
    // SAFETY: the caller passes an executable graph, for the last time.
    unsafe { graph_destroy(exec) }
}

unsafe extern "C" fn set_device(device: c_int) -> c_int {
    if !(0..DEVICES).contains(&device) {
        return failed(INVALID_DEVICE);
    }
    CURRENT.set(Some(device));
    answer(device)
}

unsafe extern "C" fn host_alloc(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> c_int {
    let device = current();
    match (mode(device), answer(device)) {
        (Mode::NoHostMemory, _) => failed(OUT_OF_MEMORY),
        (_, 0) => {
            // SAFETY: the size is not 0; the caller passes a place.
            let address = unsafe { alloc(layout(bytes)) };
            with(|state| state.memory.insert(address.addr(), (bytes, device)));
            // SAFETY: the caller passes a place.
            unsafe { memory.write(address.cast()) };
            0
        }
        (_, code) => code,
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), 4096).expect("it is small")
}

unsafe extern "C" fn free_host(memory: *mut c_void) -> c_int {
    let code = answer(current());
    if code == 0 {
        let (bytes, _) = with(|state| state.memory.remove(&memory.addr())).expect("it was allocated, and not freed");
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(memory.cast(), layout(bytes)) };
    }
    code
}

unsafe extern "C" fn event_create_with_flags(event: *mut *mut c_void, _: c_uint) -> c_int {
    let device = current();
    let code = answer(device);
    if code == 0 {
        with(|state| *state.events.entry(device).or_default() += 1);
        let made = Box::into_raw(Box::new(Mutex::new(FakeEvent { device, recorded: None })));
        // SAFETY: the caller passes a place.
        unsafe { event.write(made.cast()) };
    }
    code
}

/// # Safety
/// The event must be alive.
unsafe fn event<'call>(event: *mut c_void) -> MutexGuard<'call, FakeEvent> {
    // SAFETY: `event_create_with_flags` made it, and the caller has not destroyed it.
    unsafe { &*event.cast::<Mutex<FakeEvent>>() }.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn event_record(recorded: *mut c_void, stream: *mut c_void) -> c_int {
    assert!(stream.is_null(), "torch's default stream");
    // SAFETY: the caller passes an event.
    let mut recorded = unsafe { event(recorded) };
    assert_eq!(recorded.device, current(), "CUDA refuses an event of another device");
    let code = answer(recorded.device);
    if code == 0 {
        recorded.recorded = Some(Instant::now());
    }
    code
}

unsafe extern "C" fn event_query(queried: *mut c_void) -> c_int {
    // SAFETY: the caller passes an event.
    let queried = unsafe { event(queried) };
    let since = queried.recorded;
    match mode(queried.device) {
        Mode::Sticky(code) => failed(code),
        Mode::FailsOnce(code) => {
            with(|state| state.modes.insert(queried.device, Mode::Works));
            failed(code)
        }
        Mode::Hangs if since.is_some() => failed(NOT_READY),
        Mode::Slow(delay) if since.is_some_and(|since| since.elapsed() < delay) => failed(NOT_READY),
        _ => 0,
    }
}

unsafe extern "C" fn event_destroy(destroyed: *mut c_void) -> c_int {
    // SAFETY: the caller passes an event, for the last time.
    let destroyed = unsafe { Box::from_raw(destroyed.cast::<Mutex<FakeEvent>>()) };
    current();
    let device = destroyed.lock().unwrap_or_else(PoisonError::into_inner).device;
    with(|state| {
        if let Some(events) = state.events.get_mut(&device) {
            *events -= 1;
        }
    });
    0
}

unsafe extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> c_int {
    let device = current();
    let bytes = if let Mode::Free(bytes) = mode(device) { bytes } else { FREE };
    // SAFETY: the caller passes places.
    unsafe {
        free.write(bytes);
        total.write(FREE);
    }
    answer(device)
}

unsafe extern "C" fn get_last_error() -> c_int {
    LAST_ERROR.take()
}

unsafe extern "C" fn get_error_string(code: c_int) -> *const c_char {
    let text = match code {
        OUT_OF_MEMORY => c"out of memory",
        INVALID_DEVICE => c"invalid device ordinal",
        ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        UNCORRECTABLE_ECC => c"uncorrectable ECC error encountered",
        LAUNCH_FAILURE => c"unspecified launch failure",
        LAUNCH_OUT_OF_RESOURCES => c"too many resources requested for launch",
        CAPTURE_UNSUPPORTED => c"operation not permitted when stream is capturing",
        CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        _ => c"unrecognized error code",
    };
    text.as_ptr()
}

unsafe extern "C" fn driver_get_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller passes a place.
    unsafe { version.write(12_020) };
    0
}

unsafe extern "C" fn runtime_get_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller passes a place.
    unsafe { version.write(13_000) };
    0
}
