//! The libtorch encoder of pullquote: graphics cards, `TorchScript` modules, and a plain reference on a CPU.
//!
//! A wheel of its own, because it is bound to one torch; `pullquote` itself links none, and computes on CPUs by itself
//! (`rust/cpu`). Python calls `_native.load`, which hands out the encoder as a table of C functions ([`capsule`]). Behind it, in
//! the order in which a batch travels: [`encoder`] checks it, [`cuda`] runs it on a card and a worker of the core's on a CPU,
//! [`network`] brings it into a [`layout`], through [`bert`] or [`script`], and to rows by [`pooling`]. A card attends to rows of
//! any lengths by [`varlen`], where it can.

pub mod bert;
pub mod capsule;
pub mod cuda;
pub mod devices;
mod dispatcher;
pub mod encoder;
pub mod failure;
pub mod layout;
pub mod network;
pub mod pooling;
#[cfg(feature = "python")]
pub mod python;
pub mod script;
pub mod staging;
pub mod threads;
pub mod varlen;
pub mod weights;
