//! Models: a batch of token ids to one vector for each row, on any device.

mod bert;
mod dispatcher;
pub mod layout;
pub mod network;
pub(crate) mod pooling;
pub(crate) mod script;
pub mod varlen;
mod weights;
