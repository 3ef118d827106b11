//! The CPU encoder of pullquote: transformers on plain memory. No torch, no oneDNN, no C++.
//!
//! One algorithm, several instruction sets: every kernel is written once against [`vector::Simd`], and compiled for each set, of
//! which [`instructions`] chooses one when a model is loaded. In the order in which a batch travels: [`encoder`] checks it and
//! gives it to a worker, [`network`] takes it through [`linear`] layers, [`attention`] and [`norm`]s to rows by [`pooling`].
//! [`product`] is the loop in the middle of it, [`math`] what processors have no instructions for, [`weights`] the model's
//! files, and [`memory`] where everything lies.

pub mod attention;
pub mod encoder;
pub mod instructions;
pub mod linear;
pub mod math;
pub mod memory;
pub mod network;
pub mod norm;
pub mod pooling;
pub mod product;
pub mod vector;
pub mod weights;
