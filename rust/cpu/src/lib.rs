//! The CPU encoder of pullquote: transformers on plain memory, without torch, oneDNN or C++.
//!
//! Every kernel is written once, against [`vector::Simd`], and compiled for each instruction set; [`instructions`]
//! chooses one when a model is loaded. In the order in which a batch travels: [`encoder`] checks it and submits it to a
//! worker; [`network`] runs it through [`linear`] layers, `attention` and layer `norm`s, and pools its rows.
//! [`product`] is the loop inside all matrix products, [`math`] has the functions without an instruction, `weights` the
//! model's files, and `memory` aligned buffers.

mod attention;
mod bias;
pub mod encoder;
mod head;
pub mod instructions;
mod int8_check;
pub mod linear;
mod load;
pub mod math;
mod memory;
pub mod network;
mod norm;
mod pooling;
pub mod product;
mod rotary;
mod table;
mod transformer;
pub mod vector;
mod weights;
