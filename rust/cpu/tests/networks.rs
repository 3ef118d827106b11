//! Models on every instruction set that this processor has: against a plain version in float64, against each other, and
//! rows of a batch against single rows.

mod models;

use models::{
    Draft, EVEN, ODD, Sizes, Tensor, batch, draft, largest_difference, min_cosine, rows, single_rows, sized_draft,
    weights, write, write_small_files,
};
use pullquote_core::encoder::dtype::Dtype;
use pullquote_core::encoder::{Batch, Output};
use pullquote_cpu::instructions::InstructionSet;
use pullquote_cpu::network::Workspace;
use serde_json::json;

const POOLINGS: [&str; 4] = ["mean", "cls", "max", "lasttoken"];
const FAMILIES: [&str; 4] = ["bert", "roberta", "xlm-roberta", "camembert"];
const LENGTHS: [&[u32]; 6] =
    [&[7], &[1], &[5, 5, 5], &[3, 20, 1, 9, 3, 20, 2], &[20, 19, 18, 4, 4, 1], &[1, 1, 1, 1, 1, 1, 1, 1, 1]];

/// The reference: a model in float64, one row at a time.
mod plain {
    use super::{Batch, Draft, Tensor};

    type Row = Vec<f64>;

    pub(super) fn rows(draft: &Draft, batch: &Batch) -> Vec<Vec<f32>> {
        let mut start = 0;
        let mut found = Vec::new();
        for length in batch.lengths.iter().map(|length| *length as usize) {
            found.push(row(draft, &batch.ids[start..start + length]));
            start += length;
        }
        found
    }

    fn tensor<'draft>(draft: &'draft Draft, name: &str) -> &'draft Tensor {
        &draft.tensors.iter().find(|(known, _)| known == name).expect("it is there").1
    }

    fn matrix_row(tensor: &Tensor, row: usize) -> Row {
        let width = tensor.shape[1];
        tensor.values[row * width..][..width].iter().map(|value| f64::from(*value)).collect()
    }

    fn linear(draft: &Draft, name: &str, input: &[f64]) -> Row {
        let (weight, bias) = (tensor(draft, &format!("{name}.weight")), tensor(draft, &format!("{name}.bias")));
        let dot =
            |output| matrix_row(weight, output).iter().zip(input).map(|(weight, value)| weight * value).sum::<f64>();
        bias.values.iter().enumerate().map(|(output, bias)| dot(output) + f64::from(*bias)).collect()
    }

    fn norm(draft: &Draft, name: &str, row: &[f64]) -> Row {
        let count = f64::from(u16::try_from(row.len()).expect("it is small"));
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let (weight, bias) = (tensor(draft, &format!("{name}.weight")), tensor(draft, &format!("{name}.bias")));
        let numbers = weight.values.iter().zip(&bias.values);
        let normal = row.iter().map(|value| (value - mean) / (variance + 1e-12).sqrt());
        normal.zip(numbers).map(|(value, (weight, bias))| value * f64::from(*weight) + f64::from(*bias)).collect()
    }

    /// The error function by its series.
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

    fn activate(name: &str, x: f64) -> f64 {
        match name {
            "gelu" => x / 2.0 * (1.0 + erf(x / 2.0_f64.sqrt())),
            "gelu_new" => x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh()),
            "relu" => x.max(0.0),
            other => panic!("no activation {other}"),
        }
    }

    fn add(left: &[f64], right: &[f64]) -> Row {
        left.iter().zip(right).map(|(left, right)| left + right).collect()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "sizes are small; compared with float32"
    )]
    fn row(draft: &Draft, ids: &[i32]) -> Vec<f32> {
        let number =
            |name: &str| usize::try_from(draft.config[name].as_u64().expect("it is one")).expect("it is small");
        let (hidden, heads) = (number("hidden_size"), number("num_attention_heads"));
        let width = hidden / heads;
        let first = if draft.config["model_type"] == "bert" { 0 } else { 2 };
        let words = tensor(draft, "embeddings.word_embeddings.weight");
        let positions = tensor(draft, "embeddings.position_embeddings.weight");
        let kind = matrix_row(tensor(draft, "embeddings.token_type_embeddings.weight"), 0);
        let embed = |(position, id): (usize, &i32)| {
            let word = matrix_row(words, usize::try_from(*id).expect("ids are positive"));
            norm(draft, "embeddings.LayerNorm", &add(&add(&word, &matrix_row(positions, first + position)), &kind))
        };
        let mut tokens: Vec<Row> = ids.iter().enumerate().map(embed).collect();
        for layer in 0..number("num_hidden_layers") {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let part = |part: &str| -> Vec<Row> {
                tokens.iter().map(|token| linear(draft, &name(&format!("attention.self.{part}")), token)).collect()
            };
            let (queries, keys, values) = (part("query"), part("key"), part("value"));
            let attended = queries.iter().map(|query| {
                let mut context = vec![0.0; hidden];
                for head in (0..hidden).step_by(width) {
                    let dot = |key: &Row| -> f64 {
                        (head..head + width).map(|place| query[place] * key[place]).sum::<f64>() / (width as f64).sqrt()
                    };
                    let scores: Row = keys.iter().map(dot).collect();
                    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let shares: Row = scores.iter().map(|score| (score - highest).exp()).collect();
                    let total: f64 = shares.iter().sum();
                    for (share, value) in shares.iter().zip(&values) {
                        (head..head + width).for_each(|place| context[place] += share / total * value[place]);
                    }
                }
                context
            });
            let attended: Vec<Row> = attended.collect();
            let activation = draft.config["hidden_act"].as_str().expect("it is text");
            let step = |(token, context): (&Row, &Row)| {
                let context = linear(draft, &name("attention.output.dense"), context);
                let middle = norm(draft, &name("attention.output.LayerNorm"), &add(&context, token));
                let intermediate = linear(draft, &name("intermediate.dense"), &middle);
                let intermediate: Row = intermediate.into_iter().map(|value| activate(activation, value)).collect();
                let out = linear(draft, &name("output.dense"), &intermediate);
                norm(draft, &name("output.LayerNorm"), &add(&out, &middle))
            };
            tokens = tokens.iter().zip(&attended).map(step).collect();
        }
        let column = |place: usize| tokens.iter().map(move |token| token[place]);
        let pooled: Row = match draft.pooling {
            "mean" => (0..hidden).map(|place| column(place).sum::<f64>() / tokens.len() as f64).collect(),
            "max" => (0..hidden).map(|place| column(place).fold(f64::NEG_INFINITY, f64::max)).collect(),
            "cls" => tokens[0].clone(),
            _ => tokens[tokens.len() - 1].clone(),
        };
        let length = pooled.iter().map(|value| value * value).sum::<f64>().sqrt();
        pooled.iter().map(|value| (value / length) as f32).collect()
    }
}

#[test]
fn float32_matches_reference_on_every_instruction_set() {
    for (family, pooling) in FAMILIES.into_iter().flat_map(|family| POOLINGS.map(|pooling| (family, pooling))) {
        for activation in ["gelu", "gelu_new", "relu"] {
            let mut draft = draft(family);
            draft.pooling = pooling;
            draft.config["hidden_act"] = json!(activation);
            let directory = write(&draft);
            for set in InstructionSet::available() {
                let network = directory.network(Dtype::Float32, set);
                for (seed, lengths) in (0..).zip(LENGTHS) {
                    let batch = batch(seed, lengths);
                    let difference = largest_difference(&rows(&network, &batch), &plain::rows(&draft, &batch));
                    assert!(
                        difference < 1e-5,
                        "{} {family} {pooling} {activation} {lengths:?}: {difference}",
                        set.name()
                    );
                }
            }
        }
    }
}

#[test]
fn odd_sizes_match_reference() {
    for (hidden, intermediate, heads) in
        [(4, 6, 1), (16, 16, 4), (48, 100, 3), (64, 64, 1), (96, 33, 2), (160, 250, 2), (384, 96, 12)]
    {
        let draft = sized_draft("bert", Sizes { hidden, intermediate, heads, longest: 40 });
        let directory = write(&draft);
        let batch = batch(3, &[40, 1, 17, 33]);
        let expected = plain::rows(&draft, &batch);
        for set in InstructionSet::available() {
            for (dtype, most) in [(Dtype::Float32, 1e-5), (Dtype::BFloat16, 3e-2), (Dtype::Int8, 1e-1)] {
                let difference = largest_difference(&rows(&directory.network(dtype, set), &batch), &expected);
                assert!(difference < most, "{} {dtype:?} {hidden} {intermediate} {heads}: {difference}", set.name());
            }
        }
    }
}

#[test]
fn rows_of_several_blocks_of_keys_match_reference() {
    let draft = sized_draft("bert", Sizes { hidden: 32, intermediate: 16, heads: 2, longest: 1100 });
    let directory = write(&draft);
    let batch = batch(6, &[1100, 3, 513]);
    let expected = plain::rows(&draft, &batch);
    for set in InstructionSet::available() {
        for (dtype, most) in [(Dtype::Float32, 1e-5), (Dtype::BFloat16, 3e-2)] {
            let difference = largest_difference(&rows(&directory.network(dtype, set), &batch), &expected);
            assert!(difference < most, "{} {dtype:?}: {difference}", set.name());
        }
    }
}

#[test]
fn narrow_dtypes_keep_cosine_on_every_instruction_set() {
    let draft = sized_draft("bert", EVEN);
    let directory = write(&draft);
    let batch = batch(2, &[12, 7, 300, 64, 1]);
    let exact = plain::rows(&draft, &batch);
    for set in InstructionSet::available() {
        for (dtype, least) in [(Dtype::BFloat16, 0.9999), (Dtype::Float16, 0.999_999), (Dtype::Int8, 0.9985)] {
            let network = directory.network(dtype, set);
            assert_eq!(network.dtype(), dtype);
            let cosine = min_cosine(&rows(&network, &batch), &exact);
            assert!(cosine > least, "{} {dtype:?}: {cosine}", set.name());
        }
    }
}

#[test]
fn row_is_bit_identical_in_any_batch() {
    let directory = write(&sized_draft("bert", EVEN));
    let together = batch(5, &[9, 2, 20, 9, 1, 130, 63, 64, 65]);
    for set in InstructionSet::available() {
        for dtype in Dtype::ALL {
            let network = directory.network(dtype, set);
            let found = rows(&network, &together);
            let single: Vec<Vec<f32>> = single_rows(&together).iter().flat_map(|row| rows(&network, row)).collect();
            assert_eq!(found, single, "{} {dtype:?}", set.name());
        }
    }
}

#[test]
fn weights_are_read_in_every_stored_dtype() {
    for stored in [safetensors::Dtype::F32, safetensors::Dtype::F16, safetensors::Dtype::BF16] {
        let mut draft = draft("bert");
        draft.stored = stored;
        for (_, tensor) in &mut draft.tensors {
            // The values that will be read.
            for value in &mut tensor.values {
                *value = match stored {
                    safetensors::Dtype::F16 => half::f16::from_f32(*value).to_f32(),
                    safetensors::Dtype::BF16 => half::bf16::from_f32(*value).to_f32(),
                    _ => *value,
                };
            }
        }
        let batch = batch(4, &[6, 13]);
        for set in InstructionSet::available() {
            let found = rows(&write(&draft).network(Dtype::Float32, set), &batch);
            assert!(largest_difference(&found, &plain::rows(&draft, &batch)) < 1e-5, "{stored:?}");
        }
    }
}

#[test]
fn sharded_and_prefixed_weights_match_one_file() {
    let draft = draft("xlm-roberta");
    let single = write(&draft);
    let parts = write_small_files(&draft);
    // Names with an outer module, and names from TensorFlow.
    let renamed = draft.tensors.iter().map(|(name, tensor)| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        (format!("roberta.{name}"), tensor.clone())
    });
    let renamed: Vec<(String, Tensor)> = renamed.collect();
    let (first, second) = renamed.split_at(9);
    let mut map = serde_json::Map::new();
    for (file, tensors) in [("a.safetensors", first), ("b.safetensors", second)] {
        parts.write(file, &weights(tensors, safetensors::Dtype::F32));
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(file))));
    }
    parts.write("model.safetensors.index.json", json!({"weight_map": map}).to_string().as_bytes());
    let batch = batch(8, &[6, 13]);
    let set = InstructionSet::available()[0];
    let found = rows(&parts.network(Dtype::Float32, set), &batch);
    assert_eq!(found, rows(&single.network(Dtype::Float32, set), &batch));
}

#[test]
fn reused_memory_does_not_change_next_batch() {
    // Values that are no numbers must not stay in places that a later, smaller batch only fills up to.
    let mut draft = sized_draft("bert", ODD);
    draft.tensors[0].1.values[7 * ODD.hidden] = f32::NAN;
    let directory = write(&draft);
    for set in InstructionSet::available() {
        for dtype in Dtype::ALL {
            let network = directory.network(dtype, set);
            let (mut workspace, mut found) = (pullquote_cpu::network::Workspace::default(), Vec::new());
            network.encode(&Batch::new(vec![7; 60], vec![20; 3]), &mut workspace, &mut found);
            assert!(found.iter().all(|value| value.is_nan()), "{} {dtype:?}", set.name());
            let sound = Batch::new(vec![1, 2, 3, 4, 5, 6, 8], vec![3, 4]);
            network.encode(&sound, &mut workspace, &mut found);
            assert_eq!(found, rows(&network, &sound).concat(), "{} {dtype:?}", set.name());
        }
    }
}

#[test]
fn unattended_tokens_change_no_other_token() {
    for (sizes, lengths) in [(ODD, [9, 3, 20, 18]), (EVEN, [40, 3, 70, 31])] {
        let directory = write(&sized_draft("bert", sizes));
        let unattended = [4, 2, 3, 17];
        for set in InstructionSet::available() {
            let network = directory.network(Dtype::Float32, set);
            let tokens = |batch: Batch| {
                let (mut workspace, mut values) = (Workspace::default(), Vec::new());
                network.encode(&Batch { output: Output::TokenVectors, ..batch }, &mut workspace, &mut values);
                values.chunks(sizes.hidden).map(<[f32]>::to_vec).collect::<Vec<_>>()
            };
            let whole = batch(5, &lengths);
            let filled_up = tokens(Batch { unattended: unattended.to_vec(), ..whole.clone() });
            let mut start = 0;
            for (row, (length, last)) in single_rows(&whole).into_iter().zip(lengths.into_iter().zip(unattended)) {
                let seen = (length - last) as usize;
                let alone = tokens(Batch::new(row.ids[..seen].to_vec(), vec![length - last]));
                let same = &filled_up[start..start + seen];
                assert!(largest_difference(same, &alone) < 1e-5, "{set:?}");
                let rest = &filled_up[start + seen..start + length as usize];
                assert!(rest.iter().flatten().all(|value| value.is_finite()), "{set:?}");
                // A last token attends to the first ones as if it were the only one after them.
                let ids = [&row.ids[..seen], &row.ids[seen..=seen]].concat();
                let one = tokens(Batch { unattended: vec![1], ..Batch::new(ids, vec![length - last + 1]) });
                assert!(largest_difference(&rest[..1], &one[seen..]) < 1e-5, "{set:?}");
                start += length as usize;
            }
        }
    }
}
