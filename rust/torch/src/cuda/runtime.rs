//! CUDA's runtime library: the copy that torch has loaded.
//!
//! torch's own pinned memory and tch's lack of events would make one broken GPU the whole process's problem: freeing
//! pinned memory on a broken GPU throws in a destructor, which ends the process, and torch's allocator of pinned memory
//! asks the events of all GPUs before it gives memory to any. So batches travel through memory and events that are
//! ours, by functions of the runtime. Each returns its error, and an error of one GPU stays there.
//!
//! [`crate::torch_cuda`] finds them, in the runtime that torch's CUDA library needs. The tests bring functions of their
//! own.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

use pullquote_core::encoder::cpu_device::panic_message;
use tch::TchError;

use crate::error::TorchResult;
use crate::torch_cuda::{find, find_in_driver};

/// `cudaErrorNotReady`.
const NOT_READY: c_int = 600;
/// `cudaHostAllocPortable`: pinned for every GPU.
const PORTABLE: c_uint = 1;
/// `cudaEventDisableTiming`.
const DISABLE_TIMING: c_uint = 2;
/// `cudaStreamNonBlocking`: other threads may use the default stream while this one is captured.
const NON_BLOCKING: c_uint = 1;
/// `cudaStreamCaptureModeThreadLocal`: the capture restricts the calls of its own thread only.
const THREAD_LOCAL: c_int = 1;

/// The functions that pullquote calls, named as in CUDA's manual; 0 is success.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    pub set_device: unsafe extern "C" fn(device: c_int) -> c_int,
    pub host_alloc: unsafe extern "C" fn(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int,
    pub free_host: unsafe extern "C" fn(memory: *mut c_void) -> c_int,
    pub event_create_with_flags: unsafe extern "C" fn(event: *mut *mut c_void, flags: c_uint) -> c_int,
    pub event_record: unsafe extern "C" fn(event: *mut c_void, stream: *mut c_void) -> c_int,
    pub event_query: unsafe extern "C" fn(event: *mut c_void) -> c_int,
    pub event_destroy: unsafe extern "C" fn(event: *mut c_void) -> c_int,
    pub mem_get_info: unsafe extern "C" fn(free: *mut usize, total: *mut usize) -> c_int,
    pub get_last_error: unsafe extern "C" fn() -> c_int,
    pub get_error_string: unsafe extern "C" fn(error: c_int) -> *const c_char,
    pub driver_get_version: unsafe extern "C" fn(version: *mut c_int) -> c_int,
    pub runtime_get_version: unsafe extern "C" fn(version: *mut c_int) -> c_int,
    pub stream_create_with_flags: unsafe extern "C" fn(stream: *mut *mut c_void, flags: c_uint) -> c_int,
    pub stream_begin_capture: unsafe extern "C" fn(stream: *mut c_void, mode: c_int) -> c_int,
    pub stream_end_capture: unsafe extern "C" fn(stream: *mut c_void, graph: *mut *mut c_void) -> c_int,
    pub graph_instantiate:
        unsafe extern "C" fn(exec: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong) -> c_int,
    pub graph_destroy: unsafe extern "C" fn(graph: *mut c_void) -> c_int,
    pub graph_launch: unsafe extern "C" fn(exec: *mut c_void, stream: *mut c_void) -> c_int,
    pub graph_exec_destroy: unsafe extern "C" fn(exec: *mut c_void) -> c_int,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaError(String);

impl From<CudaError> for TchError {
    /// The message as torch reports it.
    fn from(error: CudaError) -> Self {
        Self::Torch(format!("CUDA error: {}", error.0))
    }
}

impl Runtime {
    /// The runtime that torch uses; `None` where torch has no CUDA.
    pub fn of_torch() -> Option<&'static Self> {
        static LOADED: std::sync::OnceLock<Option<Runtime>> = std::sync::OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref()
    }

    #[expect(clippy::missing_transmute_annotations, reason = "the fields have the types")]
    fn load() -> Option<Self> {
        use std::mem::transmute;
        // The runtime's function makes a context on the calling thread's current GPU, half a gigabyte on one that may
        // not even be used; the driver's takes no context, and the same events and returns the same codes.
        let event_query = find_in_driver(c"cuEventQuery").or_else(|| find(c"cudaEventQuery"))?;
        // SAFETY: the types are those of CUDA's headers since version 12, which torch 2.11 needs.
        unsafe {
            Some(Self {
                set_device: transmute::<*mut c_void, _>(find(c"cudaSetDevice")?),
                host_alloc: transmute::<*mut c_void, _>(find(c"cudaHostAlloc")?),
                free_host: transmute::<*mut c_void, _>(find(c"cudaFreeHost")?),
                event_create_with_flags: transmute::<*mut c_void, _>(find(c"cudaEventCreateWithFlags")?),
                event_record: transmute::<*mut c_void, _>(find(c"cudaEventRecord")?),
                event_query: transmute::<*mut c_void, _>(event_query),
                event_destroy: transmute::<*mut c_void, _>(find(c"cudaEventDestroy")?),
                mem_get_info: transmute::<*mut c_void, _>(find(c"cudaMemGetInfo")?),
                get_last_error: transmute::<*mut c_void, _>(find(c"cudaGetLastError")?),
                get_error_string: transmute::<*mut c_void, _>(find(c"cudaGetErrorString")?),
                driver_get_version: transmute::<*mut c_void, _>(find(c"cudaDriverGetVersion")?),
                runtime_get_version: transmute::<*mut c_void, _>(find(c"cudaRuntimeGetVersion")?),
                stream_create_with_flags: transmute::<*mut c_void, _>(find(c"cudaStreamCreateWithFlags")?),
                stream_begin_capture: transmute::<*mut c_void, _>(find(c"cudaStreamBeginCapture")?),
                stream_end_capture: transmute::<*mut c_void, _>(find(c"cudaStreamEndCapture")?),
                graph_instantiate: transmute::<*mut c_void, _>(find(c"cudaGraphInstantiate")?),
                graph_destroy: transmute::<*mut c_void, _>(find(c"cudaGraphDestroy")?),
                graph_launch: transmute::<*mut c_void, _>(find(c"cudaGraphLaunch")?),
                graph_exec_destroy: transmute::<*mut c_void, _>(find(c"cudaGraphExecDestroy")?),
            })
        }
    }

    /// Makes a GPU the calling thread's current one.
    pub fn use_device(&self, device: usize) -> Result<(), CudaError> {
        // SAFETY: a number that is not a device is an error.
        self.check(unsafe { (self.set_device)(c_int::try_from(device).unwrap_or(c_int::MAX)) })
    }

    /// Free bytes of the current GPU's memory. After an error that breaks a GPU for the process, this fails as all
    /// calls do.
    pub fn free_memory(&self) -> Result<u64, CudaError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places can be written to.
        self.check(unsafe { (self.mem_get_info)(&raw mut free, &raw mut total) })?;
        Ok(free as u64)
    }

    /// Forgets the calling thread's last error, so that torch does not report it as one of its own.
    pub fn clear_error(&self) {
        // SAFETY: it has no arguments.
        unsafe { (self.get_last_error)() };
    }

    /// Why torch finds no GPU although there may be one: the driver is older than torch's CUDA.
    pub fn driver_problem(&self) -> Option<String> {
        let (mut driver, mut runtime) = (0, 0);
        // SAFETY: the places can be written to.
        let known = unsafe {
            (self.driver_get_version)(&raw mut driver) == 0 && (self.runtime_get_version)(&raw mut runtime) == 0
        };
        // 13000 is 13.0; a driver supports all versions with its major number. 0 means no driver.
        (known && driver > 0 && driver / 1000 < runtime / 1000).then(|| {
            let text = |version: c_int| format!("{}.{}", version / 1000, version % 1000 / 10);
            let (driver, runtime) = (text(driver), text(runtime));
            format!("NVIDIA's driver supports CUDA {driver}, but this torch needs CUDA {runtime}: update the driver")
        })
    }

    fn check(&self, code: c_int) -> Result<(), CudaError> {
        if code == 0 {
            return Ok(());
        }
        self.clear_error();
        // SAFETY: every code has a text that lives forever; an unknown one may have none.
        let text = unsafe {
            let text = (self.get_error_string)(code);
            if text.is_null() { "unknown".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(CudaError(format!("{text} ({code})")))
    }
}

/// Pinned host memory, which GPUs read and write by themselves. Its owner must not drop it while one may.
#[derive(Debug)]
pub struct PinnedMemory {
    runtime: &'static Runtime,
    address: NonNull<u8>,
}

// SAFETY: it is plain memory, and its functions may be called from any thread.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    /// Allocates zeros.
    pub fn new(runtime: &'static Runtime, bytes: usize) -> TorchResult<Self> {
        let mut address = null_mut();
        // SAFETY: the place can be written to.
        runtime.check(unsafe { (runtime.host_alloc)(&raw mut address, bytes, PORTABLE) })?;
        let address = NonNull::new(address.cast::<u8>()).ok_or_else(|| CudaError("out of memory".to_owned()))?;
        // SAFETY: it has this number of bytes.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { runtime, address })
    }

    /// Where it begins: aligned to a page.
    pub const fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // SAFETY: `host_alloc` gave it, and it is freed once. If the GPU is broken, this fails, and the memory stays
        // allocated.
        if unsafe { (self.runtime.free_host)(self.address.as_ptr().cast()) } != 0 {
            self.runtime.clear_error();
        }
    }
}

/// A CUDA event: a place in a GPU's queue.
#[derive(Debug)]
pub struct Event {
    runtime: &'static Runtime,
    event: NonNull<c_void>,
}

// SAFETY: CUDA's functions take an event from any thread.
unsafe impl Send for Event {}

impl Event {
    /// An event of the current GPU.
    pub fn new(runtime: &'static Runtime) -> Result<Self, CudaError> {
        let mut event = null_mut();
        // SAFETY: the place can be written to.
        runtime.check(unsafe { (runtime.event_create_with_flags)(&raw mut event, DISABLE_TIMING) })?;
        let event = NonNull::new(event).ok_or_else(|| CudaError("no event".to_owned()))?;
        Ok(Self { runtime, event })
    }

    /// Records the event after everything that torch has queued on the current GPU. Threads that change nothing queue
    /// on the default stream, as torch does.
    pub fn record(&self) -> Result<(), CudaError> {
        // SAFETY: the event is alive, and null is the default stream.
        self.runtime.check(unsafe { (self.runtime.event_record)(self.event.as_ptr(), null_mut()) })
    }

    /// Whether the GPU has reached it. Never waits, and any thread may call it, whatever its current GPU; an event that
    /// was not recorded is done.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        let code = unsafe { (self.runtime.event_query)(self.event.as_ptr()) };
        if code == NOT_READY {
            // CUDA notes it as the thread's last error, although it is none.
            self.runtime.clear_error();
            return Ok(false);
        }
        self.runtime.check(code).map(|()| true)
    }
}

/// A stream of our own, on which graphs are captured. It is never destroyed: torch keeps a workspace of cuBLAS for each
/// stream, by its address, and another stream at that address would take it.
#[derive(Clone, Copy, Debug)]
pub struct CaptureStream {
    runtime: &'static Runtime,
    stream: NonNull<c_void>,
}

// SAFETY: CUDA's functions take a stream from any thread.
unsafe impl Send for CaptureStream {}

impl CaptureStream {
    /// A stream of the current GPU.
    pub fn new(runtime: &'static Runtime) -> Result<Self, CudaError> {
        let mut stream = null_mut();
        // SAFETY: the place can be written to.
        runtime.check(unsafe { (runtime.stream_create_with_flags)(&raw mut stream, NON_BLOCKING) })?;
        let stream = NonNull::new(stream).ok_or_else(|| CudaError("no stream".to_owned()))?;
        Ok(Self { runtime, stream })
    }

    /// The stream's handle, for CUDA and torch.
    pub fn address(self) -> usize {
        self.stream.as_ptr().expose_provenance()
    }

    /// Captures what `work` queues on this stream, which nothing else uses. The capture ends whatever fails.
    pub fn capture(self, work: &mut dyn FnMut() -> TorchResult<()>) -> TorchResult<GraphExec> {
        let runtime = self.runtime;
        // SAFETY: the stream is alive.
        runtime.check(unsafe { (runtime.stream_begin_capture)(self.stream.as_ptr(), THREAD_LOCAL) })?;
        let queued = catch_unwind(AssertUnwindSafe(work));
        let mut graph = null_mut();
        // SAFETY: the stream is alive, and the place can be written to.
        let ended = runtime.check(unsafe { (runtime.stream_end_capture)(self.stream.as_ptr(), &raw mut graph) });
        let queued = queued.unwrap_or_else(|panic| Err(TchError::Kind(panic_message(&*panic))));
        let made = queued.and_then(|()| Ok(ended?)).and_then(|()| {
            let mut exec = null_mut();
            // SAFETY: the place can be written to, and a null graph is an error.
            runtime.check(unsafe { (runtime.graph_instantiate)(&raw mut exec, graph, 0) })?;
            let exec = NonNull::new(exec).ok_or_else(|| CudaError("no executable graph".to_owned()))?;
            Ok(GraphExec { runtime, exec })
        });
        // SAFETY: the graph is ours, and destroyed once; what was made of it does not need it.
        if !graph.is_null() && unsafe { (runtime.graph_destroy)(graph) } != 0 {
            runtime.clear_error();
        }
        made
    }
}

/// A captured graph, ready to be launched any number of times.
#[derive(Debug)]
pub struct GraphExec {
    runtime: &'static Runtime,
    exec: NonNull<c_void>,
}

// SAFETY: CUDA's functions take it from any thread, one at a time.
unsafe impl Send for GraphExec {}

impl GraphExec {
    /// Queues it on the default stream, as torch's operators are.
    pub fn launch(&self) -> Result<(), CudaError> {
        // SAFETY: it is alive, and null is the default stream.
        self.runtime.check(unsafe { (self.runtime.graph_launch)(self.exec.as_ptr(), null_mut()) })
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: it is ours, and destroyed once. CUDA lets a launch that is not done end first.
        if unsafe { (self.runtime.graph_exec_destroy)(self.exec.as_ptr()) } != 0 {
            self.runtime.clear_error();
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours, and destroyed once; CUDA allows it before the event is done.
        if unsafe { (self.runtime.event_destroy)(self.event.as_ptr()) } != 0 {
            self.runtime.clear_error();
        }
    }
}
