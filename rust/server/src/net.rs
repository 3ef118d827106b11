//! Connections: where the server listens, how many it accepts, their timeouts, and the client for other servers.
//! Nothing here depends on routes.

pub(crate) mod body_drain;
pub(crate) mod connections;
pub(crate) mod http_client;
pub(crate) mod listener;
pub(crate) mod shutdown;
pub(crate) mod timeouts;
