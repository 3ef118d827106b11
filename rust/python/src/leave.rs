//! Leaving Python: release the lock, run, feel Ctrl-C, map errors and panics. The only way this crate runs anything long.

use std::any::Any;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use pullquote_core::engine::options::seconds;
use pullquote_core::error::{Error, ErrorKind, Result};
use pullquote_core::runtime::call::Call;
use pyo3::prelude::*;

use crate::failures::Failure;
use crate::inside::Inside;

/// Runs `work` without Python's lock. On Python's main thread a Ctrl-C stops the work within 50 ms or so, and what the
/// signal's handler raised (usually `KeyboardInterrupt`) is raised.
pub(crate) fn leave_python<R: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    work: impl FnOnce(&Call) -> Result<R> + Send,
) -> PyResult<R> {
    let timeout = timeout.map(seconds).transpose().map_err(Failure)?;
    let is_main = on_main_thread(py)?;
    // Dropped when this thread has Python's lock again.
    let _inside = Inside::enter();
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let result = py.detach(|| {
        let interrupted = || {
            Python::attach(|py| match py.check_signals() {
                Ok(()) => false,
                Err(error) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    true
                }
            })
        };
        let interrupted: Option<&(dyn Fn() -> bool + Sync)> = if is_main { Some(&interrupted) } else { None };
        let call = Call::new(timeout, interrupted);
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

/// Something of Rust's that a Python object owns. It is let go of without Python's lock: its end may wait for threads that want
/// the lock once more, to tell a loop how its last call ended, say.
pub(crate) struct Outside<T: Send>(Option<T>);

impl<T: Send> Outside<T> {
    pub(crate) const fn new(owned: T) -> Self {
        Self(Some(owned))
    }
}

impl<T: Send> Deref for Outside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken when it is dropped")
    }
}

impl<T: Send> Drop for Outside<T> {
    fn drop(&mut self) {
        let mut owned = self.0.take();
        let _inside = Inside::enter();
        // Where there is no Python any more, nobody wants its lock.
        let _ = Python::try_attach(|py| py.detach(|| drop(owned.take())));
    }
}

/// Only there do Python's signal handlers run.
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
