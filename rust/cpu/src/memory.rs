//! Buffers for weights and activations.

use bytemuck::{Pod, Zeroable};

/// A cache line, which is as wide as the widest register.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u32; 16]);

/// Values of a plain type, from the start of a cache line. It grows and never shrinks, so it allocates nothing from
/// batch to batch.
#[derive(Clone, Debug, Default)]
pub struct AlignedBuffer(Vec<CacheLine>);

impl AlignedBuffer {
    /// The first `count` values, which are what was written last, whatever type that had.
    pub fn slice_mut<T: Pod>(&mut self, count: usize) -> &mut [T] {
        let lines = (count * size_of::<T>()).div_ceil(size_of::<CacheLine>());
        if self.0.len() < lines {
            self.0.resize(lines, CacheLine::zeroed());
        }
        &mut bytemuck::cast_slice_mut(&mut self.0[..lines])[..count]
    }

    pub fn words(&self) -> &[u32] {
        bytemuck::cast_slice(&self.0)
    }
}
