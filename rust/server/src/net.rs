//! Connections: where the server listens, how many it accepts, and their timeouts. Nothing here depends on routes.

pub(crate) mod body_drain;
pub(crate) mod connections;
pub(crate) mod listener;
pub(crate) mod shutdown;
pub(crate) mod timeouts;
