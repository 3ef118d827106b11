//! The libtorch encoder of pullquote.
//!
//! A wheel of its own, because it is bound to one torch; `pullquote` itself links none. Python calls `_native.load`, which hands
//! out the encoder as a table of C functions ([`capsule`]). Behind it, in the order in which a batch travels:
//! [`encoder`] checks it, [`cpu`] or [`cuda`] runs it, [`network`] brings it into a [`layout`], through [`bert`] or
//! [`script`], and to rows by [`pooling`]. A card attends to rows of any lengths by [`varlen`], where it can. On a CPU a transformer's layers are [`linear`] ones, multiplied by our own
//! [`kernels`] or by oneDNN's [`operators`], with kernels between them; [`means`] says what of that this machine has.

pub mod bert;
pub mod capsule;
pub mod cpu;
pub mod cuda;
pub mod devices;
mod dispatcher;
pub mod encoder;
pub mod failure;
pub mod kernels;
pub mod layout;
pub mod linear;
pub mod means;
pub mod network;
pub mod norm;
pub mod operators;
pub mod pooling;
#[cfg(feature = "python")]
pub mod python;
pub mod script;
pub mod shape;
pub mod sides;
pub mod staging;
pub mod threads;
pub mod varlen;
pub mod weights;
pub mod workspace;
