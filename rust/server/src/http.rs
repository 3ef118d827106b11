//! What every request has, whatever its route: admission, authentication, body limits, errors, negotiation, telemetry.

pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod concurrency;
pub(crate) mod dtype;
pub(crate) mod failure;
pub(crate) mod health;
pub(crate) mod host_check;
pub(crate) mod input;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod message_head;
pub(crate) mod metrics;
pub(crate) mod middleware;
pub(crate) mod negotiation;
pub(crate) mod otel;
pub(crate) mod process_memory;
pub(crate) mod reply;
pub(crate) mod request_id;
pub(crate) mod route_table;
pub(crate) mod slots;
pub(crate) mod tei_headers;
pub(crate) mod trace_context;
pub(crate) mod unread_bodies;
pub(crate) mod vector_headers;
pub(crate) mod work_memory;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
