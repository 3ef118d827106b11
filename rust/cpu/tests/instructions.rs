//! Every operation of every instruction set that this processor has, against scalar code.

#![allow(clippy::float_cmp, reason = "what is exact is compared exactly")]

use pullquote_core::encoder::model::Activation;
use pullquote_core::error::ErrorKind;
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::linear::{Linear, LinearScratch, MAX_INPUT, MAX_PAIR, OutputRows, Weight};
use pullquote_cpu::math;
use pullquote_cpu::product::Element;
use pullquote_cpu::vector::{Bf16, ByteProduct, MAX_LANES, Simd, Task};

/// A test whose body is compiled for each set, and run by each of them.
macro_rules! by_each_set {
    ($name:ident, $simd:ident, $set:ident => $body:block) => {
        #[test]
        fn $name() {
            struct Checked(InstructionSet);
            struct Compiled(InstructionSet);
            impl Task for Compiled {
                type Output = ();
                #[inline(always)]
                fn run<S: Simd>(self, $simd: S) {
                    let $set = self.0.name();
                    $body
                }
            }
            impl Task for Checked {
                type Output = ();
                fn run<S: Simd>(self, simd: S) {
                    simd.vectorize(Compiled(self.0));
                }
            }
            for set in InstructionSet::available() {
                set.dispatch(Checked(set));
            }
        }
    };
}

/// Numbers of all sizes and signs, the same in every run.
fn samples() -> Vec<f32> {
    let mut state = 9_u64;
    let mut numbers: Vec<f32> = (0..4096)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = f32::from(u16::try_from(state >> 48).expect("it has 16 bits")) / 32768.0 - 1.0;
            share * 2_f32.powi(i32::try_from(state >> 40 & 31).expect("it is small") - 16)
        })
        .collect();
    numbers.extend([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1.0, -1.0, 255.0, 126.5, 3.0, 4.0, 5.0, 6.0]);
    numbers
}

fn lanes<S: Simd>(simd: S, values: S::Floats) -> Vec<f32> {
    let mut found = vec![f32::NAN; S::LANES];
    simd.store(&mut found, values);
    found
}

fn words<S: Simd>(simd: S, values: S::Words) -> Vec<f32> {
    lanes(simd, simd.words_to_floats(values))
}

fn same(left: f32, right: f32) -> bool {
    left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
}

by_each_set!(arithmetic_is_that_of_plain_numbers, simd, set => {
    let numbers = samples();
    for (a, b) in numbers.chunks_exact(S::LANES).zip(numbers[3..].chunks_exact(S::LANES)) {
        let (left, right) = (simd.load(a), simd.load(b));
        let results = [
            lanes(simd, simd.add(left, right)),
            lanes(simd, simd.sub(left, right)),
            lanes(simd, simd.mul(left, right)),
            lanes(simd, simd.div(left, right)),
            lanes(simd, simd.select_negative(left, right, simd.splat(7.0))),
        ];
        for lane in 0..S::LANES {
            let (a, b) = (a[lane], b[lane]);
            let expected = [a + b, a - b, a * b, a / b, if a < 0.0 { b } else { 7.0 }];
            for (found, expected) in results.iter().zip(expected) {
                assert!(same(found[lane], expected), "{set}: {a} {b}: {} {expected}", found[lane]);
            }
            let (found, exact) = (lanes(simd, simd.mul_add(left, right, simd.splat(1.0)))[lane], f64::from(a) * f64::from(b) + 1.0);
            assert!((f64::from(found) - exact).abs() <= 1.2e-7 * (f64::from(a * b).abs() + 1.0), "{set}: {a} {b}");
        }
    }
});

by_each_set!(min_max_and_reductions_pass_nan_through, simd, set => {
    let numbers = samples();
    for a in numbers.chunks_exact(S::LANES) {
        let values = simd.load(a);
        let most = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = a.iter().copied().fold(f32::INFINITY, f32::min);
        assert!(simd.reduce_max(values) == most && simd.reduce_min(values) == least, "{set}: {a:?}");
        let (sum, size) = a.iter().fold((0.0, 0.0), |(sum, size), value| (sum + f64::from(*value), size + f64::from(value.abs())));
        assert!((f64::from(simd.reduce_add(values)) - sum).abs() <= 1e-6 * size, "{set}: {a:?}");
    }
    let (nan, one) = (simd.splat(f32::NAN), simd.splat(1.0));
    // NaN passes through as the second operand only.
    assert!(lanes(simd, simd.max(one, nan))[0].is_nan() && lanes(simd, simd.min(one, nan))[0].is_nan(), "{set}");
    assert!(same(lanes(simd, simd.max(nan, one))[0], 1.0) && same(lanes(simd, simd.min(nan, one))[0], 1.0), "{set}");
});

by_each_set!(integers_are_rounded_and_stored, simd, set => {
    for a in samples().chunks_exact(S::LANES) {
        let near: Vec<f32> = a.iter().map(|value| value.clamp(-1e5, 1e5)).collect();
        let found = lanes(simd, simd.round(simd.load(&near)));
        let expected = near.iter().map(|value| value.round_ties_even());
        assert!(found.iter().zip(expected).all(|(found, expected)| *found == expected), "{set}: {near:?} {found:?}");
    }
    for first in (0..256_u16).step_by(S::LANES) {
        let values: Vec<f32> = (first..).take(S::LANES).map(f32::from).collect();
        let (mut bytes, mut pairs) = ([77_u8; MAX_LANES], [77_i16; MAX_LANES]);
        simd.store_u8(&mut bytes, simd.load(&values));
        simd.store_i16(&mut pairs, simd.load(&values));
        for lane in 0..S::LANES {
            assert!(f32::from(bytes[lane]) == values[lane] && f32::from(pairs[lane]) == values[lane], "{set}: {values:?}");
        }
        assert!(bytes[S::LANES..].iter().all(|byte| *byte == 77) && pairs[S::LANES..].iter().all(|pair| *pair == 77), "{set}");
        if S::BYTE_PRODUCT == ByteProduct::SignedQuads {
            simd.store_i8(&mut bytes, simd.load(&values));
            let signed = bytes.iter().zip(&values).all(|(byte, value)| f32::from(byte.cast_signed()) == value - 128.0);
            assert!(signed, "{set}: {values:?}");
        }
    }
});

by_each_set!(bfloat16_is_rounded_to_nearest_even, simd, set => {
    let mut numbers = samples();
    // Halves of the last bit, above, below and between.
    numbers.extend((0..64_u32).map(|low| f32::from_bits(0x3f80_7ff0 + low * 0x801)));
    numbers.extend([f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e38, -1e38, 3e-38, -3e-38]);
    numbers.resize(numbers.len().next_multiple_of(MAX_LANES), f32::NAN);
    for a in numbers.chunks_exact(S::LANES) {
        let mut found = [Bf16(0); MAX_LANES];
        simd.store_bf16(&mut found, simd.load(a));
        let widened = lanes(simd, simd.load_bf16(&found));
        for (lane, value) in a.iter().enumerate() {
            let expected = half::bf16::from_f32(*value).to_f32();
            assert!(same(widened[lane], expected), "{set}: {value} {} {expected}", widened[lane]);
            assert!(same(Bf16::from_f32(*value).to_f32(), expected), "{value}");
        }
    }
});

by_each_set!(dot_bf16_multiplies_pairs_and_sums, simd, set => {
    let word = |low: f32, high: f32| u32::from(Bf16::from_f32(low).0) | u32::from(Bf16::from_f32(high).0) << 16;
    let mut left = Vec::new();
    let mut right = Vec::new();
    let mut exact = Vec::new();
    for lane in 0..u8::try_from(S::LANES).expect("it is small") {
        // Whole numbers of few digits, whose products and sums are exact.
        let [a, b, c, d] = [1, 3, 5, 7].map(|step| f32::from(lane * step % 13) - 6.0);
        left.push(word(a, b));
        right.push(word(c, d));
        exact.push(a * c + b * d + 0.5);
    }
    let found = simd.dot_bf16(simd.load_words(&left), simd.load_words(&right), simd.splat(0.5));
    assert_eq!(lanes(simd, found), exact, "{set}");
});

by_each_set!(dot_bytes_is_exact_for_extreme_values, simd, set => {
    // All pairs of extreme values, with weights that together reach the most that is allowed.
    let (inputs, weights) = ([0_u8, 1, 127, 128, 225], [-127_i8, -73, -72, -18, -1, 0, 1, 18, 72, 73, 127]);
    let allowed = |pair: &(i8, i8)| f32::from(pair.0.unsigned_abs()) + f32::from(pair.1.unsigned_abs()) <= MAX_PAIR;
    for a in inputs.iter().flat_map(|a| inputs.map(|b| (*a, b))) {
        for b in weights.iter().flat_map(|a| weights.map(|b| (*a, b))).filter(allowed) {
            let signed = |value: u8| value.wrapping_sub(128);
            let (left, right) = match S::BYTE_PRODUCT {
                ByteProduct::Quads => (u32::from_le_bytes([a.0, a.1, a.0, a.1]), quad(b)),
                ByteProduct::SignedQuads => (u32::from_le_bytes([a.0, a.1, a.0, a.1].map(signed)), quad(b)),
                ByteProduct::Pairs => (
                    u32::from(a.0) | u32::from(a.1) << 16,
                    u32::from(i16::from(b.0).cast_unsigned()) | u32::from(i16::from(b.1).cast_unsigned()) << 16,
                ),
            };
            let start = simd.splat_word(1000);
            let found = words(simd, simd.dot_bytes(simd.splat_word(left), simd.splat_word(right), start));
            let product = |a: u8, b: i8| i32::from(a) * i32::from(b);
            let pair = product(a.0, b.0) + product(a.1, b.1);
            let expected = 1000 + match S::BYTE_PRODUCT {
                ByteProduct::Quads => 2 * pair,
                ByteProduct::SignedQuads => 2 * (pair - 128 * (i32::from(b.0) + i32::from(b.1))),
                ByteProduct::Pairs => pair,
            };
            assert!(found.iter().all(|sum| f64::from(*sum) == f64::from(expected)), "{set}: {a:?} {b:?}: {found:?} {expected}");
        }
    }
});

fn quad((low, high): (i8, i8)) -> u32 {
    u32::from_le_bytes([low, high, low, high].map(i8::cast_unsigned))
}

by_each_set!(math_functions_are_good_to_a_few_units_of_the_last_place, simd, set => {
    for step in -8_000..8_000_i16 {
        let x = f32::from(step) / 400.0;
        let wide = f64::from(x);
        let one = |values: S::Floats| f64::from(lanes(simd, values)[S::LANES - 1]);
        let values = simd.splat(x);
        let close = |found: f64, exact: f64, scale: f64| (found - exact).abs() <= 1e-6 * scale.max(1e-30);
        // The power's rounding grows with it.
        let found = one(math::exp(simd, values));
        assert!(close(found, wide.exp(), wide.exp() * wide.abs().max(1.0)), "{set}: exp {x}: {found}");
        let exact = wide / 2.0 * (1.0 + erf(wide / 2.0_f64.sqrt()));
        let found = one(math::gelu(simd, values));
        assert!(close(found, exact, wide.abs().max(1.0)), "{set}: gelu {x}: {found} {exact}");
        let found = one(math::gelu_bf16(simd, values));
        assert!((found - exact).abs() < 6e-5, "{set}: gelu_bf16 {x}: {found} {exact}");
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044_715 * wide.powi(3));
        let exact = wide / 2.0 * (1.0 + inner.tanh());
        let found = one(math::gelu_tanh(simd, values));
        assert!(close(found, exact, wide.abs().max(1.0)), "{set}: gelu_tanh {x}: {found} {exact}");
        assert!(one(math::activate(simd, Activation::Relu, values)) == wide.max(0.0), "{set}: relu {x}");
    }
    let nan = simd.splat(f32::NAN);
    let found = [
        math::exp(simd, nan),
        math::gelu(simd, nan),
        math::gelu_bf16(simd, nan),
        math::gelu_tanh(simd, nan),
        math::activate(simd, Activation::Relu, nan),
    ];
    assert!(found.iter().all(|values| lanes(simd, *values)[0].is_nan()), "{set}");
    // Far below zero the exponential is exactly zero.
    let found = [-100.0, -1e30, f32::NEG_INFINITY].map(|x| lanes(simd, math::exp(simd, simd.splat(x)))[0]);
    assert!(found.iter().all(|value| *value == 0.0), "{set}: {found:?}");
});

/// The error function by its series, which is exact enough up to five; beyond, it is one.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let terms = (0..200).scan(x, |term, n| {
        let n = f64::from(n);
        let found = *term / (2.0 * n + 1.0);
        *term *= -x * x / (n + 1.0);
        Some(found)
    });
    terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

/// Integers, whose sums are exact in any order.
fn integers(count: usize, seed: usize, span: usize) -> Vec<f32> {
    let number = |place: usize| u16::try_from((place * 31 + seed * 17 + place / 7) % span).expect("it is small");
    (0..count).map(|place| f32::from(number(place))).collect()
}

struct CheckLinear(InstructionSet);

impl Task for CheckLinear {
    type Output = ();

    fn run<S: Simd>(self, simd: S) {
        for (inputs, outputs) in [(32, 16), (32, 32), (64, 48), (32, 64), (96, 80), (160, 112), (1536, 48)] {
            for rows in [1, 2, 5, 40].map(|tiles| tiles * S::TILE.rows()) {
                check_floats::<S, f32>(simd, self.0, inputs, outputs, rows);
                check_floats::<S, Bf16>(simd, self.0, inputs, outputs, rows);
                check_int8::<S, f32>(simd, self.0, inputs, outputs, rows);
                if S::HAS_BF16 {
                    check_int8::<S, Bf16>(simd, self.0, inputs, outputs, rows);
                }
            }
        }
    }
}

fn apply<S: Simd, E: Element>(simd: S, layer: &Linear, input: &[f32], rows: usize, activation: Activation) -> Vec<f32> {
    let input: Vec<E> = input.iter().map(|value| E::from_f32(*value)).collect();
    // Into the middle of wider rows, whose other values must not change.
    let (stride, first) = (layer.outputs() + 48, 16);
    let mut values = vec![E::from_f32(99.0); rows * stride];
    let results = OutputRows { values: &mut values, stride, first };
    layer.apply(simd, &input, activation, results, &mut LinearScratch::default());
    let widen =
        |value: &E| bytemuck::bytes_of(value).iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let shift = 32 - 8 * size_of::<E>();
    let found = values.chunks_exact(stride).flat_map(|row| {
        assert!(
            row[..first]
                .iter()
                .chain(&row[first + layer.outputs()..])
                .all(|value| f32::from_bits(widen(value) << shift) == 99.0)
        );
        row[first..first + layer.outputs()].iter().map(|value| f32::from_bits(widen(value) << shift))
    });
    found.collect()
}

fn check_floats<S: Simd, E: Element>(simd: S, set: InstructionSet, inputs: usize, outputs: usize, rows: usize) {
    let values: Vec<f32> = integers(inputs * outputs, 3, 3).iter().map(|value| value - 1.0).collect();
    let bias: Vec<f32> = integers(outputs, 5, 5);
    let input: Vec<f32> = integers(rows * inputs, rows, 3).iter().map(|value| value - 1.0).collect();
    let layer = Linear::new::<S, E>(&Weight { values: values.clone(), outputs, inputs }, bias.clone());
    let found = apply::<S, E>(simd, &layer, &input, rows, Activation::Relu);
    for (row, results) in input.chunks_exact(inputs).zip(found.chunks_exact(outputs)) {
        for ((weight, bias), result) in values.chunks_exact(inputs).zip(&bias).zip(results) {
            let sum: f32 = row.iter().zip(weight).map(|(value, weight)| value * weight).sum();
            let expected = E::from_f32((sum + bias).max(0.0));
            let found = E::from_f32(*result);
            assert!(
                bytemuck::bytes_of(&found) == bytemuck::bytes_of(&expected),
                "{} {inputs} {outputs} {rows}",
                set.name()
            );
        }
    }
}

/// Rows from 0 to [`MAX_INPUT`] and pairs of weights up to 144 quantize to themselves, so results are exact sums of
/// products.
fn check_int8<S: Simd, E: Element>(simd: S, set: InstructionSet, inputs: usize, outputs: usize, rows: usize) {
    let mut values: Vec<f32> = integers(inputs * outputs, 3, 255).iter().map(|value| value - 127.0).collect();
    let mut input = integers(rows * inputs, rows, 226);
    for (number, row) in values.chunks_exact_mut(inputs).enumerate() {
        // Some rows have only the largest pairs, so that sums would be cut where they can.
        if number % 3 == 0 {
            row.fill(if number % 2 == 0 { 127.0 } else { -127.0 });
        }
        row[0] = 127.0;
        for pair in row.chunks_exact_mut(2) {
            let most = 144.0 - pair[0].abs();
            pair[1] = pair[1].clamp(-most, most);
        }
    }
    for (number, row) in input.chunks_exact_mut(inputs).enumerate() {
        if number % 4 == 0 {
            row.fill(MAX_INPUT);
        }
        (row[0], row[1]) = (0.0, MAX_INPUT);
    }
    let layer = Linear::quantized::<S>(Weight { values: values.clone(), outputs, inputs }, vec![0.0; outputs], None);
    let found = apply::<S, E>(simd, &layer, &input, rows, Activation::Identity);
    for (row, results) in input.chunks_exact(inputs).zip(found.chunks_exact(outputs)) {
        for (weight, result) in values.chunks_exact(inputs).zip(results) {
            let sum: f64 = row.iter().zip(weight).map(|(value, weight)| f64::from(*value) * f64::from(*weight)).sum();
            #[expect(clippy::cast_possible_truncation, reason = "compared with float32")]
            let (expected, found) = (E::from_f32(sum as f32), E::from_f32(*result));
            assert!(bytemuck::bytes_of(&found) == bytemuck::bytes_of(&expected), "{}: {sum} {result}", set.name());
        }
    }
}

#[test]
fn linear_layers_are_exact_on_every_instruction_set() {
    for set in InstructionSet::available() {
        set.dispatch(CheckLinear(set));
    }
}

#[test]
fn instruction_set_is_chosen_by_name() {
    let available = InstructionSet::available();
    assert_eq!(available.last().map(|set| set.name()), Some("portable"));
    for set in &available {
        assert_eq!(InstructionSet::named(set.name()).expect("it is there").name(), set.name());
    }
    let error = InstructionSet::named("avx1024").expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for word in ["\"avx1024\"", "unknown", "portable", available[0].name()] {
        assert!(error.message().contains(word), "{error}");
    }
}
