//! `DeBERTa`, versions 2 and 3.

use serde_json::Value;

use super::config::{Config, Keys};
use crate::encoder::model::names::DEBERTA;
use crate::encoder::model::transformer::{Bias, Disentangled, Transformer};
use crate::error::Result;

pub(super) fn deberta(config: &Config<'_>) -> Result<Transformer> {
    config.refuse_custom_code()?;
    let kernel = config.number_or("conv_kernel_size", 0)?;
    if kernel > 0 {
        return Err(config.unknown("conv_kernel_size", kernel, "0: models without a convolution"));
    }
    let plain = config.plain(&Keys { default_epsilon: 1e-7, ..Keys::BERT })?;
    for (key, own) in [("embedding_size", plain.hidden), ("attention_head_size", plain.head_width)] {
        let found = config.number_or(key, own)?;
        if found != own {
            return Err(config.unknown(key, found, own));
        }
    }
    let [keys, queries] = compared(config)?;
    let has_positions = config.flag("position_biased_input", true);
    Ok(Transformer {
        first_position: plain.first_position.filter(|_| has_positions),
        token_types: config.number_or("type_vocab_size", 0)? > 0,
        bias: if config.flag("relative_attention", false) { bias(config, keys, queries)? } else { Bias::None },
        // A score is the sum of as many products.
        attention_scale: plain.attention_scale / (1.0 + f64::from(keys) + f64::from(queries)).sqrt(),
        names: &[DEBERTA],
        ..plain
    })
}

/// Whether queries are compared with keys of distances, and keys with queries of distances: `pos_att_type`, as a list or
/// with `|` between.
fn compared(config: &Config<'_>) -> Result<[bool; 2]> {
    let kinds: Vec<String> = match config.value("pos_att_type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(kinds)) => kinds.to_lowercase().split('|').map(|kind| kind.trim().to_owned()).collect(),
        _ => Vec::new(),
    };
    match kinds.iter().find(|kind| !["c2p", "p2c"].contains(&kind.as_str())) {
        Some(other) => Err(config.unknown("pos_att_type", other, "c2p and p2c")),
        None => Ok(["c2p", "p2c"].map(|known| kinds.iter().any(|kind| kind == known))),
    }
}

fn bias(config: &Config<'_>, keys: bool, queries: bool) -> Result<Bias> {
    // Files have -1 for none.
    let is_positive = |key| config.value(key).and_then(Value::as_i64).is_some_and(|number| number > 0);
    let of_longest =
        if is_positive("max_relative_positions") { "max_relative_positions" } else { "max_position_embeddings" };
    let longest = config.number_or(of_longest, 512)?;
    let buckets = if is_positive("position_buckets") { Some(config.number("position_buckets")?) } else { None };
    if let Some(few) = buckets.filter(|buckets| *buckets < 4) {
        return Err(config.unknown("position_buckets", few, "4 and more"));
    }
    let norm = config.text("norm_rel_ebd").unwrap_or("none").to_lowercase();
    let norms: Vec<&str> = norm.split('|').map(str::trim).collect();
    if let Some(other) = norms.iter().find(|norm| !["none", "layer_norm"].contains(*norm)) {
        return Err(config.unknown("norm_rel_ebd", other, "none and layer_norm"));
    }
    Ok(Bias::Disentangled(Disentangled {
        longest,
        buckets,
        keys,
        queries,
        shares_projections: config.flag("share_att_key", false),
        norm: norms.contains(&"layer_norm"),
    }))
}
