//! The libtorch encoder of pullquote: NVIDIA GPUs, `TorchScript` modules, and a plain reference on CPUs.
//!
//! A wheel of its own, because it is bound to one torch; `pullquote` links none, and has its own encoder for CPUs
//! (`rust/cpu`). Python calls `_native.load`, which returns the encoder as a table of C functions ([`ffi::table`]). In
//! the order in which a batch travels: [`encoder`] checks it; [`cuda::device`] submits it to a GPU, or the core's
//! worker threads take it; [`model::network`] runs it through a transformer or a `TorchScript` module, and pools its
//! rows.
//!
//! `model` imports neither `cuda` nor `encoder`, `cuda` not `encoder`, and nothing imports `ffi`.

pub mod cuda;
mod dtype;
pub mod encoder;
mod error;
pub mod ffi;
pub mod model;
pub mod threads;
mod torch_cuda;
