//! The deadline and the priority of a call.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions {
    pub deadline: Option<Instant>,
    /// The server's priority of its requests: lower runs first.
    pub priority: Option<i32>,
}

impl CallOptions {
    /// A call with this timeout from now on. A timeout too long for the clock is none.
    pub fn new(timeout: Option<Duration>, priority: Option<i32>) -> Self {
        Self { deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)), priority }
    }
}
