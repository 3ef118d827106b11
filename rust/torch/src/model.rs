//! Models: a batch of token ids to one vector for each row, on any device.

pub(crate) mod dispatcher;
mod head;
pub mod layout;
pub mod network;
pub(crate) mod pooling;
pub(crate) mod script;
mod transformer;
pub mod varlen;
mod weights;
