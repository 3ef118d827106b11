//! Leaving Python: release the lock, run, check for Ctrl-C, map errors and panics. All long work of this crate runs
//! through it.

use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use pullquote_core::engine::options::seconds;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::{Call, CallProgress};
use pullquote_core::runtime::sync::lock;
use pyo3::prelude::*;

use crate::failures::Failure;
use crate::native_threads::NativeSection;

/// Runs `work` without Python's lock. On Python's main thread a Ctrl-C stops the work within 50 ms or so, and what the
/// signal's handler raised (usually `KeyboardInterrupt`) is raised.
pub(crate) fn leave_python<R: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    work: impl FnOnce(&Call) -> Result<R> + Send,
) -> PyResult<R> {
    leave_python_reporting(py, timeout, None, work)
}

/// The same; on Python's main thread it also calls `report` with the windows and the encoded rows so far, every 50 ms
/// or so.
pub(crate) fn leave_python_reporting<R: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    report: Option<&Py<PyAny>>,
    work: impl FnOnce(&Call) -> Result<R> + Send,
) -> PyResult<R> {
    // Dropped after this thread has taken Python's lock again.
    let _section = NativeSection::enter(py);
    let timeout = timeout.map(seconds).transpose().map_err(Failure)?;
    let is_main = on_main_thread(py)?;
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let progress: OnceLock<Box<dyn Fn() -> CallProgress + Send + Sync>> = OnceLock::new();
    let tell = |py: Python<'_>| match (report, progress.get()) {
        (Some(report), Some(progress)) => {
            let CallProgress { windows, rows, .. } = progress();
            report.call1(py, (windows, rows)).map(drop)
        }
        _ => Ok(()),
    };
    let result = py.detach(|| {
        let interrupted = || {
            Python::attach(|py| match py.check_signals().and_then(|()| tell(py)) {
                Ok(()) => false,
                Err(error) => {
                    *lock(&raised) = Some(error);
                    true
                }
            })
        };
        let interrupted: Option<&(dyn Fn() -> bool + Sync)> = if is_main { Some(&interrupted) } else { None };
        let call = Call::new(timeout, interrupted);
        let _ = progress.set(Box::new(call.progress_reader()));
        catch_unwind(AssertUnwindSafe(|| work(&call))).unwrap_or_else(|panic| {
            Err(Error::new(
                ErrorKind::Internal,
                format!("pullquote panicked: {}; please report this", panic_text(&*panic)),
            ))
        })
    });
    match (result, raised.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        (Ok(result), None) => Ok(result),
        (_, Some(raised)) => Err(raised),
        (Err(error), None) => Err(Failure(error).into()),
    }
}

/// A value that is dropped without Python's lock: its drop may wait for threads that need the lock to end, for instance
/// to complete a loop's last call.
pub(crate) struct DropDetached<T: Send>(Option<T>);

impl<T: Send> DropDetached<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send> Deref for DropDetached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl<T: Send> Drop for DropDetached<T> {
    fn drop(&mut self) {
        let mut value = self.0.take();
        let _section = NativeSection::enter_unattached();
        // Without an interpreter there is no lock to release, and `value` is dropped here.
        let _ = Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}

/// Python runs signal handlers on its main thread only.
fn on_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
