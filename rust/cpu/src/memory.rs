//! Memory that begins at a cache line, for weights and for activations.

use bytemuck::{Pod, Zeroable};

/// A cache line, which is also the widest register.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; 16]);

/// Values of one plain type, from a cache line on. Grows and never shrinks, so that it allocates nothing from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct Aligned(Vec<Line>);

impl Aligned {
    /// The first values. What they are is what was written last, whatever type that had.
    pub fn take<T: Pod>(&mut self, count: usize) -> &mut [T] {
        let lines = (count * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            self.0.resize(lines, Line::zeroed());
        }
        &mut bytemuck::cast_slice_mut(&mut self.0[..lines])[..count]
    }

    /// All words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        bytemuck::cast_slice(&self.0)
    }
}
