//! What a transformer's layers compute, written for processors with AVX-512 and its bfloat16 instructions: linear layers,
//! attention, the layer norm of a sum, and the ways to bytes and back.
//!
//! torch's own operators compute the same, in more passes over memory; they are what other processors run, and what these
//! are tested against. Everything here runs on the calling thread and depends on one row of the batch at a time.

#[cfg(target_arch = "x86_64")]
mod attention;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod layer;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod rows;

use tch::Tensor;

/// Rows as bytes: `value · smoothing = (byte - zero) · scale`.
#[derive(Debug)]
pub struct Bytes {
    /// `uint8 [rows, width]`.
    pub values: Tensor,
    /// `float32 [rows, 1]`.
    pub scales: Tensor,
    /// `float32 [rows, 1]`: whole numbers.
    pub zeros: Tensor,
}

/// The numbers that make products of bytes results of a layer, all `float32 [outputs]`.
#[derive(Debug)]
pub struct Results {
    /// The products of a row of ones.
    pub columns: Tensor,
    /// What is added at the end.
    pub bias: Tensor,
}

/// Places that kernels write to and read again; whoever calls them keeps it, and grows it so to the longest row.
#[derive(Debug, Default)]
pub struct Scratch {
    #[cfg(target_arch = "x86_64")]
    wide: attention::Scratch<f32>,
    #[cfg(target_arch = "x86_64")]
    narrow: attention::Scratch<lanes::Narrow>,
    /// A row of sums.
    #[cfg(target_arch = "x86_64")]
    sums: Vec<f32>,
}

/// A linear layer, laid out for [`Kernels::linear`].
#[derive(Debug)]
pub struct Layer {
    #[cfg(target_arch = "x86_64")]
    layer: layer::Layer,
    #[cfg(not(target_arch = "x86_64"))]
    never: std::convert::Infallible,
}

/// Proof that this processor has the instructions, and that a model's sizes fill its registers.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    #[cfg(target_arch = "x86_64")]
    narrow: bool,
    #[cfg(not(target_arch = "x86_64"))]
    never: std::convert::Infallible,
}

#[cfg(target_arch = "x86_64")]
mod present {
    use std::slice::{from_raw_parts, from_raw_parts_mut};

    use tch::{Device, Kind, TchError, Tensor};

    use super::attention::{self, Sizes, attend, fits};
    use super::lanes::{Element, LANES, Narrow};
    use super::{Bytes, Kernels, Layer, Results, Scratch, layer, rows};
    use crate::failure::TorchResult;
    use crate::layout::Group;
    use crate::norm::Norm;
    use crate::operators::Fused;
    use crate::shape::Shape;
    use crate::sides::{count, sides, two_sides};

    impl Kernels {
        /// The kernels for a model with activations of this type, unless the processor or the sizes do not fit.
        #[must_use]
        pub(crate) fn for_model(kind: Kind, shape: &Shape) -> Option<Self> {
            let features = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bf16");
            let whole = |width: i64| usize::try_from(width).is_ok_and(|width| width.is_multiple_of(LANES));
            let width = usize::try_from(shape.hidden / shape.heads).unwrap_or(0);
            let narrow = match kind {
                Kind::Float if fits::<f32>(width) => false,
                Kind::BFloat16 if fits::<Narrow>(width) => true,
                _ => return None,
            };
            (features && whole(shape.hidden) && whole(shape.intermediate)).then_some(Self { narrow })
        }

        /// Lays out a weight `[outputs, inputs]` of the activations' type, and a bias `float32 [outputs]`.
        pub(crate) fn lay_out(self, weight: &Tensor, bias: &Tensor) -> TorchResult<Layer> {
            let (outputs, _) = two_sides(weight)?;
            let bias = read::<f32>(bias)?;
            if size(outputs)? != bias.len() {
                return Err(TchError::Shape(format!("expected a bias of {outputs} values, found {}", bias.len())));
            }
            let layer = if self.narrow {
                layer::Layer::new(read::<Narrow>(weight)?, bias)
            } else {
                layer::Layer::new(read::<f32>(weight)?, bias)
            };
            Ok(Layer { layer })
        }

        /// `input · weightᵀ + bias`, then the function, from `[tokens, inputs]` to `[tokens, outputs]`.
        pub(crate) fn linear(self, input: &Tensor, layer: &Layer, fused: Fused) -> TorchResult<Tensor> {
            if self.narrow {
                linear::<Narrow>(input, &layer.layer, fused)
            } else {
                linear::<f32>(input, &layer.layer, fused)
            }
        }

        /// Attention within each group, from `[tokens, 3 · hidden]` to `[tokens, hidden]`; queries come scaled. Groups stand one
        /// behind the other; tokens behind the last become zeros.
        pub(crate) fn attend(
            self,
            mixed: &Tensor,
            groups: &[Group],
            heads: i64,
            scratch: &mut Scratch,
        ) -> TorchResult<Tensor> {
            if self.narrow {
                attend_groups::<Narrow>(mixed, groups, heads, &mut scratch.narrow)
            } else {
                attend_groups::<f32>(mixed, groups, heads, &mut scratch.wide)
            }
        }

        /// The layer norm of `rows + residual`, in the place of the rows, which nobody else may have.
        pub(crate) fn add_norm(
            self,
            rows: &mut Tensor,
            residual: &Tensor,
            norm: &Norm,
            scratch: &mut Scratch,
        ) -> TorchResult<()> {
            if self.narrow {
                add_norm::<Narrow>(rows, residual, norm, &mut scratch.sums)
            } else {
                add_norm::<f32>(rows, residual, norm, &mut scratch.sums)
            }
        }

        /// Rows `[rows, width]` times `smoothing` `[width]` as bytes.
        pub(crate) fn quantize(self, input: &Tensor, smoothing: &Tensor) -> TorchResult<Bytes> {
            if self.narrow { quantize::<Narrow>(input, smoothing) } else { quantize::<f32>(input, smoothing) }
        }

        /// Products `[rows, outputs]` of bytes as results of a layer, in the activations' type.
        pub(crate) fn finish(
            self,
            products: &Tensor,
            bytes: &Bytes,
            results: &Results,
            fused: Fused,
        ) -> TorchResult<Tensor> {
            if self.narrow {
                finish::<Narrow>(products, bytes, results, fused)
            } else {
                finish::<f32>(products, bytes, results, fused)
            }
        }
    }

    // What follows is called by `Kernels` alone, which exists only where its features were detected.

    fn linear<E: Element>(input: &Tensor, layer: &layer::Layer, fused: Fused) -> TorchResult<Tensor> {
        let shape = sides(input)?;
        let found = size(shape.last().copied().unwrap_or(0))?;
        if found != layer.inputs::<E>() {
            return Err(TchError::Shape(format!("expected {} inputs, found {found}", layer.inputs::<E>())));
        }
        let outputs = i64::try_from(layer.outputs()).map_err(|_| TchError::Shape("too many outputs".to_owned()))?;
        let mut results = Tensor::f_empty(&*shape.with_last(outputs), (E::KIND, Device::Cpu))?;
        // SAFETY: the features were detected.
        unsafe { layer::apply(layer, read::<E>(input)?, write::<E>(&mut results)?, fused) };
        Ok(results)
    }

    fn attend_groups<E: Element>(
        mixed: &Tensor,
        groups: &[Group],
        heads: i64,
        scratch: &mut attention::Scratch<E>,
    ) -> TorchResult<Tensor> {
        let (tokens, triple) = two_sides(mixed)?;
        let mut context = Tensor::f_empty([tokens, triple / 3], (E::KIND, Device::Cpu))?;
        let (heads, triple) = (size(heads)?, size(triple)?);
        let mixed = read::<E>(mixed)?;
        let places = write::<E>(&mut context)?;
        for group in groups {
            let (start, end) = (size(group.start)?, size(group.start + group.tokens())?);
            let sizes = Sizes { length: size(group.length)?, heads, width: triple / 3 / heads };
            let (mixed, places) =
                (&mixed[start * triple..end * triple], &mut places[start * triple / 3..end * triple / 3]);
            // SAFETY: the features were detected.
            unsafe { attend(mixed, places, sizes, scratch) };
        }
        let end = groups.last().map_or(0, |group| group.start + group.tokens());
        places[size(end)? * triple / 3..].fill(E::ZERO);
        Ok(context)
    }

    fn add_norm<E: Element>(rows: &mut Tensor, residual: &Tensor, norm: &Norm, sums: &mut Vec<f32>) -> TorchResult<()> {
        #[expect(clippy::cast_possible_truncation, reason = "an epsilon is a small number")]
        let epsilon = norm.epsilon as f32;
        let norm = rows::Norm { weight: read::<E>(&norm.weight)?, bias: read::<E>(&norm.bias)?, epsilon };
        // SAFETY: the features were detected.
        unsafe { rows::add_norm(write::<E>(rows)?, read::<E>(residual)?, &norm, sums) };
        Ok(())
    }

    fn quantize<E: Element>(input: &Tensor, smoothing: &Tensor) -> TorchResult<Bytes> {
        let (rows, width) = two_sides(input)?;
        let number = (Kind::Float, Device::Cpu);
        let mut bytes = Bytes {
            values: Tensor::f_empty([rows, width], (Kind::Uint8, Device::Cpu))?,
            scales: Tensor::f_empty([rows, 1], number)?,
            zeros: Tensor::f_empty([rows, 1], number)?,
        };
        let (input, smoothing) = (read::<E>(input)?, read::<f32>(smoothing)?);
        let (scales, zeros) = (write::<f32>(&mut bytes.scales)?, write::<f32>(&mut bytes.zeros)?);
        // SAFETY: the features were detected.
        unsafe { rows::quantize(input, smoothing, write::<u8>(&mut bytes.values)?, scales, zeros) };
        Ok(bytes)
    }

    fn finish<E: Element>(products: &Tensor, bytes: &Bytes, results: &Results, fused: Fused) -> TorchResult<Tensor> {
        let mut output = Tensor::f_empty(&*sides(products)?, (E::KIND, Device::Cpu))?;
        let finish = rows::Finish {
            scales: read(&bytes.scales)?,
            zeros: read(&bytes.zeros)?,
            columns: read(&results.columns)?,
            bias: read(&results.bias)?,
        };
        // SAFETY: the features were detected.
        unsafe { rows::finish(read::<f32>(products)?, write::<E>(&mut output)?, &finish, fused) };
        Ok(output)
    }

    /// A type whose values are plain data, as torch calls it.
    trait Plain {
        const KIND: Kind;
    }

    impl<E: Element> Plain for E {
        const KIND: Kind = E::KIND;
    }

    impl Plain for u8 {
        const KIND: Kind = Kind::Uint8;
    }

    /// A tensor's values.
    fn read<T: Plain>(tensor: &Tensor) -> TorchResult<&[T]> {
        let count = checked_count::<T>(tensor)?;
        // SAFETY: it lies in this process' memory, one value behind the other, of this type; tch knows it by reference, and
        // whoever shares its memory only reads (see `Sync` of `Network`).
        Ok(unsafe { from_raw_parts(tensor.data_ptr().cast::<T>(), count) })
    }

    /// A tensor's values, to be written. Nobody else may have the tensor: it was made just now.
    fn write<T: Plain>(tensor: &mut Tensor) -> TorchResult<&mut [T]> {
        let count = checked_count::<T>(tensor)?;
        // SAFETY: as in `read`, and no other tensor shares the memory.
        Ok(unsafe { from_raw_parts_mut(tensor.data_ptr().cast::<T>(), count) })
    }

    /// How many values a tensor has, which is what it must be to be looked at.
    fn checked_count<T: Plain>(tensor: &Tensor) -> TorchResult<usize> {
        let kind = tensor.f_kind()?;
        if kind == T::KIND && tensor.device() == Device::Cpu && tensor.is_contiguous() && !tensor.data_ptr().is_null() {
            return count(tensor);
        }
        Err(TchError::Kind(format!("expected contiguous {:?} on the CPU, found {tensor:?}", T::KIND)))
    }

    fn size(number: i64) -> TorchResult<usize> {
        usize::try_from(number).map_err(|_| TchError::Shape(format!("{number} is no size")))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod absent {
    use tch::{Kind, Tensor};

    use super::{Bytes, Kernels, Layer, Results, Scratch};
    use crate::failure::TorchResult;
    use crate::layout::Group;
    use crate::norm::Norm;
    use crate::operators::Fused;
    use crate::shape::Shape;

    // There are none for this processor, so that none of the others can be called.
    impl Kernels {
        pub(crate) fn for_model(_: Kind, _: &Shape) -> Option<Self> {
            None
        }

        pub(crate) fn lay_out(self, _: &Tensor, _: &Tensor) -> TorchResult<Layer> {
            match self.never {}
        }

        pub(crate) fn linear(self, _: &Tensor, layer: &Layer, _: Fused) -> TorchResult<Tensor> {
            match layer.never {}
        }

        pub(crate) fn attend(self, _: &Tensor, _: &[Group], _: i64, _: &mut Scratch) -> TorchResult<Tensor> {
            match self.never {}
        }

        pub(crate) fn add_norm(self, _: &mut Tensor, _: &Tensor, _: &Norm, _: &mut Scratch) -> TorchResult<()> {
            match self.never {}
        }

        pub(crate) fn quantize(self, _: &Tensor, _: &Tensor) -> TorchResult<Bytes> {
            match self.never {}
        }

        pub(crate) fn finish(self, _: &Tensor, _: &Bytes, _: &Results, _: Fused) -> TorchResult<Tensor> {
            match self.never {}
        }
    }
}
