//! A runtime library with the functions that pullquote calls of CUDA's, for tests without a GPU. Devices are numbers; a test sets
//! the mode of each. As in CUDA, a sticky error is the answer to every call about that device from then on, and each thread has a
//! current device. Batches themselves run on the CPU.

#![allow(dead_code, reason = "each test uses a part of this")]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pullquote_torch::cuda::runtime::Runtime;

pub const INVALID_DEVICE: c_int = 101;
pub const OUT_OF_MEMORY: c_int = 2;
pub const ILLEGAL_ADDRESS: c_int = 700;
pub const UNCORRECTABLE_ECC: c_int = 214;
pub const LAUNCH_FAILURE: c_int = 719;
pub const LAUNCH_OUT_OF_RESOURCES: c_int = 701;
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
}

#[derive(Default)]
struct State {
    modes: HashMap<c_int, Mode>,
    /// Pinned memory that was not freed: its size and device.
    memory: HashMap<usize, (usize, c_int)>,
    /// Of each device.
    events: HashMap<c_int, usize>,
}

struct FakeEvent {
    device: c_int,
    recorded: Option<Instant>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
    static LAST_ERROR: Cell<c_int> = const { Cell::new(0) };
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
};

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

unsafe extern "C" fn set_device(device: c_int) -> c_int {
    if !(0..DEVICES).contains(&device) {
        return failed(INVALID_DEVICE);
    }
    CURRENT.set(device);
    answer(device)
}

unsafe extern "C" fn host_alloc(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> c_int {
    let device = CURRENT.get();
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
    let code = answer(CURRENT.get());
    if code == 0 {
        let (bytes, _) = with(|state| state.memory.remove(&memory.addr())).expect("it was allocated, and not freed");
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(memory.cast(), layout(bytes)) };
    }
    code
}

unsafe extern "C" fn event_create_with_flags(event: *mut *mut c_void, _: c_uint) -> c_int {
    let device = CURRENT.get();
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
    assert_eq!(recorded.device, CURRENT.get(), "CUDA refuses an event of another device");
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
    let device = destroyed.lock().unwrap_or_else(PoisonError::into_inner).device;
    with(|state| {
        if let Some(events) = state.events.get_mut(&device) {
            *events -= 1;
        }
    });
    0
}

unsafe extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> c_int {
    let device = CURRENT.get();
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
