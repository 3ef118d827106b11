//! Connections: where the server listens, how many it accepts, and the timeouts that bound them. Nothing here knows of routes.

pub(crate) mod body_drain;
pub(crate) mod connections;
pub(crate) mod http2_streams;
pub(crate) mod listener;
pub(crate) mod shutdown;
pub(crate) mod write_timeout;
