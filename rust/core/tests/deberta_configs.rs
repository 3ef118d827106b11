//! `DeBERTa`'s configurations, and those of pruners and rerankers that are made of it.

use pullquote_core::encoder::model::transformer::{Bias, Disentangled};
use pullquote_core::encoder::model::{Activation, Model, Module, Pooling, Pruner, PrunerLayout};
use pullquote_core::error::ErrorKind;
use serde_json::{Value, json};

use super::model_configs::{bert, folder, read};

/// As mxbai-rerank-base-v1's, with more.
fn deberta(more: &Value) -> Value {
    let mut config = bert("deberta-v2", 768, 12, more);
    for (key, value) in [
        ("relative_attention", json!(true)),
        ("position_buckets", json!(256)),
        ("norm_rel_ebd", json!("layer_norm")),
        ("share_att_key", json!(true)),
        ("pos_att_type", json!("p2c|c2p")),
        ("layer_norm_eps", json!(1e-7)),
        ("max_relative_positions", json!(-1)),
        ("position_biased_input", json!(false)),
        ("type_vocab_size", json!(0)),
    ] {
        config.as_object_mut().expect("it is one").entry(key).or_insert(value);
    }
    config
}

const BASE: Disentangled =
    Disentangled { longest: 512, buckets: Some(256), keys: true, queries: true, shares_projections: true, norm: true };

#[test]
fn distances_are_read_from_the_configuration() {
    let (model, plain) = read("mxbai-rerank-base-v1", &deberta(&json!({}))).expect("it is sound");
    assert_eq!((model.max_tokens, plain.bias), (512, Bias::Disentangled(BASE)));
    assert_eq!((plain.first_position, plain.token_types), (None, false));
    assert!((plain.attention_scale - 1.0 / f64::from(3 * 64).sqrt()).abs() < 1e-8);
    let own = json!({
        "pos_att_type": ["c2p"], "share_att_key": false, "position_buckets": -1, "max_relative_positions": 40,
        "norm_rel_ebd": "none", "position_biased_input": true, "type_vocab_size": 2,
    });
    let (_, own) = read("own", &deberta(&own)).expect("it is sound");
    let expected =
        Disentangled { longest: 40, buckets: None, queries: false, shares_projections: false, norm: false, ..BASE };
    assert_eq!((own.bias, own.first_position, own.token_types), (Bias::Disentangled(expected), Some(0), true));
    assert!((own.attention_scale - 1.0 / f64::from(2 * 64).sqrt()).abs() < 1e-8);
    let (_, none) = read("none", &deberta(&json!({"relative_attention": false}))).expect("it is sound");
    assert_eq!(none.bias, Bias::None);
    for (config, words) in [
        (json!({"embedding_size": 128}), ["embedding_size", "128", "768"]),
        (json!({"attention_head_size": 32}), ["attention_head_size", "32", "64"]),
        (json!({"pos_att_type": "p2p|c2p"}), ["pos_att_type", "p2p", "p2c"]),
        (json!({"norm_rel_ebd": "batch_norm"}), ["norm_rel_ebd", "batch_norm", "layer_norm"]),
        (json!({"position_buckets": 2}), ["position_buckets", "2", "4 and more"]),
        (json!({"auto_map": {"AutoModel": "own.Model"}}), ["auto_map", "own.Model", "JinaBert"]),
    ] {
        let error = read("other", &deberta(&config)).expect_err(words[0]);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    }
}

/// The rows that transformers 5.24 takes.
#[test]
fn distances_share_rows_by_their_logarithm() {
    let rows = |kind: Disentangled, distances: &[isize]| -> Vec<usize> {
        distances.iter().map(|distance| kind.row(*distance)).collect()
    };
    let far = [0, 5, -5, 127, 128, 129, 200, -300, 511, -511, -700, 700];
    assert_eq!(rows(BASE, &far), [256, 261, 251, 383, 384, 385, 425, 49, 511, 1, 0, 511]);
    let few = Disentangled { longest: 64, buckets: Some(16), ..BASE };
    assert_eq!(rows(few, &[0, 7, 8, 9, -9, 20, -63, 64, -300]), [16, 23, 24, 25, 7, 28, 1, 31, 0]);
    let each = Disentangled { longest: 40, buckets: None, ..BASE };
    assert_eq!(rows(each, &[0, 39, 40, -40, -41, 1000]), [40, 79, 79, 0, 0, 79]);
}

#[test]
fn classifier_has_the_function_of_its_pooler() {
    let class = |more: Value| {
        let mut config = deberta(&json!({"architectures": ["DebertaV2ForSequenceClassification"]}));
        config["id2label"] = json!({"0": "LABEL_0"});
        config.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
        let (_folder, root) = folder("model", &[("config.json", &config)]);
        Model::read_reranker(root)
    };
    for (more, activation) in [(json!({}), Activation::Gelu), (json!({"pooler_hidden_act": "relu"}), Activation::Relu)]
    {
        let model = class(more).expect("it is sound");
        let found = model.modules.iter().map(|module| match module {
            Module::Dense { name, outputs, activation, .. } => (*name, *outputs, *activation),
            other => panic!("{other:?}"),
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            [("pooler.dense", 768, activation), ("classifier", 1, Activation::Identity)]
        );
        assert_eq!(model.pooling, [Pooling::Cls]);
    }
    let wide = class(json!({"pooler_hidden_size": 1024})).expect_err("another width");
    assert!(wide.message().contains("pooler_hidden_size 1024"), "{wide}");
}

#[test]
fn provence_and_xprovence_are_pruners() {
    let read = |mut config: Value| {
        config["model_type"] = json!("Provence");
        let (_folder, root) = folder("model", &[("config.json", &config)]);
        Pruner::read(root)
    };
    let one = json!({"0": "LABEL_0"});
    let provence = deberta(&json!({
        "architectures": ["Provence"], "auto_map": {"AutoModel": "modeling_provence.Provence"}, "id2label": one,
    }));
    let class = "modeling_xprovence_hf.XProvenceForSequenceClassification";
    let xprovence = bert("", 768, 12, &json!({"auto_map": {"AutoModel": class}, "id2label": one, "pad_token_id": 1}));
    for (config, threshold, model_type, longest) in
        [(provence, 0.1, "deberta-v2", 512), (xprovence, 0.3, "xlm-roberta", 510)]
    {
        let found = read(config).expect("it is sound");
        assert_eq!((found.layout, found.ranks()), (PrunerLayout::Provence, true));
        assert!((found.threshold - threshold).abs() < 1e-6);
        assert_eq!((found.model.model_type.as_str(), found.model.max_tokens), (model_type, longest));
    }
}
