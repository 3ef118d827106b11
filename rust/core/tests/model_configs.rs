//! The configurations of real models: what each is understood as, and why others are refused.
//!
//! The settings are those of the models' `config.json` on the hub, without the ones that no encoder reads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use pullquote_core::encoder::model::transformer::{Bias, BlockNorms, Norm, QueryNorm, alibi_slopes, bucket};
use pullquote_core::encoder::model::{
    Activation, Expansion, Model, ModelOptions, Module, Pooling, PromptOverrides, PromptSource, Pruner, PrunerLayout,
    Residual, Transformer,
};
use pullquote_core::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};

/// A temporary directory with these files.
pub(super) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A model's directory with this name and these files.
pub(super) fn folder(name: &str, files: &[(&str, &Value)]) -> (Folder, PathBuf) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unique = format!("pullquote-configs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Folder(std::env::temp_dir().join(unique));
    let root = folder.0.join(name);
    for (file, content) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the temporary directory is writable");
        std::fs::write(path, content.to_string()).expect("the temporary directory is writable");
    }
    (folder, root)
}

pub(super) fn read(name: &str, config: &Value) -> Result<(Model, Transformer)> {
    let (_folder, root) = folder(name, &[("config.json", config)]);
    let model = Model::read(root)?;
    let transformer = Transformer::read(&model)?;
    Ok((model, transformer))
}

pub(super) fn bert(model_type: &str, hidden: usize, layers: usize, more: &Value) -> Value {
    let mut config = json!({
        "model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 12,
        "intermediate_size": 4 * hidden, "hidden_act": "gelu", "max_position_embeddings": 512, "layer_norm_eps": 1e-12,
    });
    config.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
    config
}

fn nomic(more: &Value) -> Value {
    let mut config = json!({
        "model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_embd": 768, "n_head": 12, "n_layer": 12,
        "n_inner": 3072, "n_positions": 8192, "type_vocab_size": 2, "layer_norm_epsilon": 1e-12, "rotary_emb_fraction": 1.0,
        "rotary_emb_base": 1000, "rotary_emb_interleaved": false, "qkv_proj_bias": false, "mlp_fc1_bias": false,
        "mlp_fc2_bias": false, "activation_function": "swiglu", "prenorm": false, "vocab_size": 30528,
        "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    });
    config.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
    config
}

fn gemma() -> Value {
    json!({
        "model_type": "gemma3_text", "hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 1152, "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "rope_local_base_freq": 10000.0,
        "sliding_window": 512, "_sliding_window_pattern": 6, "query_pre_attn_scalar": 256, "use_bidirectional_attention": true,
        "attn_logit_softcapping": null, "attention_bias": false,
    })
}

/// Name, configuration, tokens, and `(hidden, layers, heads of keys, width of a head, gated, first position)`.
type Understood = (&'static str, Value, usize, (usize, usize, usize, usize, bool, Option<usize>));

fn understood() -> Vec<Understood> {
    let roberta = json!({"max_position_embeddings": 514, "pad_token_id": 1, "layer_norm_eps": 1e-5});
    let jina_map = json!({"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"});
    let gte = json!({
        "position_embedding_type": "rope", "rope_theta": 20000, "rope_scaling": {"factor": 8.0, "type": "ntk"},
        "max_position_embeddings": 8192, "layer_norm_type": "layer_norm", "logn_attention_scale": false, "pack_qkv": true,
        "type_vocab_size": 1, "architectures": ["NewModel"], "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"},
    });
    let modern = json!({
        "hidden_activation": "gelu", "intermediate_size": 1152, "norm_eps": 1e-5, "local_attention": 128,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192, "attention_bias": false, "mlp_bias": false, "norm_bias": false,
        "position_embedding_type": "absolute",
    });
    let qwen = json!({
        "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "hidden_act": "silu",
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1_000_000, "rope_scaling": null,
        "sliding_window": null, "use_sliding_window": false, "max_window_layers": 28, "attention_bias": false,
    });
    let distilbert = json!({
        "model_type": "distilbert", "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072, "activation": "gelu",
        "max_position_embeddings": 512, "sinusoidal_pos_embds": false,
    });
    vec![
        ("all-MiniLM-L6-v2", bert("bert", 384, 6, &json!({})), 512, (384, 6, 12, 32, false, Some(0))),
        ("bge-base-en-v1.5", bert("bert", 768, 12, &json!({})), 512, (768, 12, 12, 64, false, Some(0))),
        ("all-distilroberta-v1", bert("roberta", 768, 6, &roberta), 512, (768, 6, 12, 64, false, Some(2))),
        ("multilingual-e5-base", bert("xlm-roberta", 768, 12, &roberta), 512, (768, 12, 12, 64, false, Some(2))),
        ("sentence-camembert-base", bert("camembert", 768, 12, &roberta), 512, (768, 12, 12, 64, false, Some(2))),
        ("all-mpnet-base-v2", bert("mpnet", 768, 12, &roberta), 512, (768, 12, 12, 64, false, Some(2))),
        ("multi-qa-distilbert-cos-v1", distilbert, 512, (768, 6, 12, 64, false, Some(0))),
        (
            "nomic-embed-text-v1.5, stretched",
            nomic(&json!({"rotary_scaling_factor": 2, "max_trained_positions": 2048})),
            2048,
            (768, 12, 12, 64, true, None),
        ),
        ("snowflake-arctic-embed-m-v2.0", bert("gte", 768, 12, &gte), 8192, (768, 12, 12, 64, true, None)),
        ("nomic-embed-text-v1.5", nomic(&json!({})), 8192, (768, 12, 12, 64, true, None)),
        ("gte-multilingual-base", bert("new", 768, 12, &gte), 8192, (768, 12, 12, 64, true, None)),
        ("gte-modernbert-base", bert("modernbert", 768, 22, &modern), 8192, (768, 22, 12, 64, true, None)),
        (
            "jina-embeddings-v2-base-en",
            bert(
                "bert",
                768,
                12,
                &json!({"position_embedding_type": "alibi", "feed_forward_type": "geglu", "auto_map": jina_map, "max_position_embeddings": 8192}),
            ),
            8192,
            (768, 12, 12, 64, true, None),
        ),
        ("Qwen3-Embedding-0.6B", qwen, 32768, (1024, 28, 8, 128, true, None)),
        ("embeddinggemma-300m", gemma(), 2048, (768, 24, 1, 256, true, None)),
    ]
}

#[test]
fn configurations_of_real_models_are_understood() {
    for (name, config, tokens, expected) in understood() {
        let (model, found) = read(name, &config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let sizes = (found.hidden, found.layers, found.key_heads, found.head_width, found.gated, found.first_position);
        assert_eq!((model.max_tokens, sizes), (tokens, expected), "{name}");
        assert_eq!(found.attention.len(), found.layers, "{name}");
    }
}

fn described(name: &str) -> Transformer {
    let known = understood();
    let (_, config, ..) = known.iter().find(|known| known.0 == name).expect("it is in the table");
    read(name, config).expect("it is understood").1
}

#[test]
fn details_of_families_are_understood() {
    let mpnet = described("all-mpnet-base-v2");
    assert_eq!((mpnet.bias, mpnet.token_types), (Bias::Buckets(32), false));
    let nomic = described("nomic-embed-text-v1.5");
    assert_eq!((nomic.activation, nomic.biases.qkv, nomic.token_types), (Activation::Silu, false, true));
    assert!((nomic.attention[0].rotary[1] - 1000_f32.powf(-1.0 / 32.0)).abs() < 1e-7);
    let modern = described("gte-modernbert-base");
    assert_eq!(modern.block, BlockNorms::PreNorm { skips_first: true, output_norms: false });
    assert_eq!(
        modern.attention.iter().take(4).map(|layer| layer.window).collect::<Vec<_>>(),
        [None, Some(64), Some(64), None]
    );
    assert_ne!(modern.attention[0].rotary, modern.attention[1].rotary);
    let jina = described("jina-embeddings-v2-base-en");
    assert_eq!((jina.bias, jina.query_norm, jina.names.len()), (Bias::Alibi, QueryNorm::Rows, 2));
    let qwen = described("Qwen3-Embedding-0.6B");
    assert_eq!((qwen.causal, qwen.norm, qwen.query_norm), (true, Norm::RootMeanSquare { offset: 0 }, QueryNorm::Heads));
    let gemma = described("embeddinggemma-300m");
    assert_eq!((gemma.causal, gemma.norm), (false, Norm::RootMeanSquare { offset: 1 }));
    assert_eq!(gemma.attention[4..6].iter().map(|layer| layer.window).collect::<Vec<_>>(), [Some(256), None]);
    // Formula 6 of https://kexue.fm/archives/9706: a base eight times as large, and all divided by 8^(2 / 64).
    let gte = described("gte-multilingual-base").attention[0].rotary[1];
    assert!((gte - 160_000_f32.powf(-1.0 / 32.0) / 8_f32.powf(1.0 / 32.0)).abs() < 1e-6);
}

#[test]
fn unsupported_models_name_field_and_known_values() {
    let long = json!({"rope_type": "yarn", "factor": 4.0});
    let jina_v3 = json!({
        "position_embedding_type": "rotary", "max_position_embeddings": 8194,
        "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"},
    });
    let mut gemma_cap = gemma();
    gemma_cap["attn_logit_softcapping"] = json!(50.0);
    let cases: [(&str, Value, &[&str]); 13] = [
        ("t5-base", json!({"model_type": "t5"}), &["model_type", "\"t5\"", "mpnet", "qwen3"]),
        (
            "deberta-v2-xlarge",
            bert("deberta-v2", 1536, 24, &json!({"conv_kernel_size": 3})),
            &["conv_kernel_size", "\"3\"", "0"],
        ),
        ("jina-embeddings-v3", bert("xlm-roberta", 1024, 24, &jina_v3), &["auto_map.AutoModel", "XLMRobertaLoRA"]),
        (
            "relative",
            bert("bert", 768, 12, &json!({"position_embedding_type": "relative_key"})),
            &["relative_key", "absolute"],
        ),
        (
            "nomic-embed-text-v2-moe",
            nomic(&json!({"num_experts": 8, "moe_every_n_layers": 2})),
            &["num_experts", "\"8\""],
        ),
        ("interleaved", nomic(&json!({"rotary_emb_interleaved": true})), &["rotary_emb_interleaved", "true", "false"]),
        (
            "logn",
            bert("new", 768, 12, &json!({"position_embedding_type": "rope", "logn_attention_scale": true})),
            &["logn_attention_scale"],
        ),
        (
            "yarn",
            bert("qwen3", 768, 12, &json!({"rope_scaling": long, "hidden_act": "silu"})),
            &["rope_type", "yarn", "default"],
        ),
        (
            "ms-marco-MiniLM-L6-v2",
            bert("bert", 384, 6, &json!({"architectures": ["BertForSequenceClassification"]})),
            &["architectures", "BertForSequenceClassification", "modules.json"],
        ),
        (
            "bge-reranker-base",
            bert("xlm-roberta", 768, 12, &json!({"architectures": ["XLMRobertaForSequenceClassification"]})),
            &["architectures", "XLMRobertaForSequenceClassification"],
        ),
        (
            "ColBERT of own code",
            bert("bert", 384, 12, &json!({"architectures": ["JinaColBERT"]})),
            &["architectures", "JinaColBERT"],
        ),
        (
            "unpacked",
            bert("new", 768, 12, &json!({"position_embedding_type": "rope", "pack_qkv": false})),
            &["pack_qkv", "false", "true"],
        ),
        ("gemma2", gemma_cap, &["attn_logit_softcapping", "50", "null"]),
    ];
    for (name, config, words) in cases {
        let error: Error = read(name, &config).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{name}: {error}");
        for word in words {
            assert!(error.message().contains(word), "{name}: {error} does not name {word:?}");
        }
    }
}

#[test]
fn modules_are_read_in_their_order() {
    let modules = json!([
        {"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
        {"type": "sentence_transformers.models.LayerNorm", "path": "3_LayerNorm"},
        {"type": "sentence_transformers.models.Normalize", "path": "4_Normalize"},
    ]);
    let pooling = json!({"pooling_mode_cls_token": true, "pooling_mode_weightedmean_tokens": true});
    let dense = json!({"in_features": 768, "out_features": 128, "bias": false, "activation_function": "torch.nn.modules.activation.Tanh"});
    let files: [(&str, &Value); 5] = [
        ("modules.json", &modules),
        ("0_Transformer/config.json", &bert("bert", 384, 6, &json!({}))),
        ("1_Pooling/config.json", &pooling),
        ("2_Dense/config.json", &dense),
        ("3_LayerNorm/config.json", &json!({"dimension": 128})),
    ];
    let (_folder, root) = folder("model", &files);
    let model = Model::read(&root).expect("it is sound");
    assert_eq!(model.directory, root.join("0_Transformer"));
    assert_eq!(model.pooling, [Pooling::Cls, Pooling::WeightedMean]);
    let expected = Module::Dense {
        folder: root.join("2_Dense"),
        name: "linear",
        inputs: 768,
        outputs: 128,
        bias: false,
        activation: Activation::Tanh,
        residual: Residual::None,
    };
    assert_eq!(model.modules[0], expected);
    let norm =
        Module::LayerNorm { folder: root.join("3_LayerNorm"), name: "norm", width: 128, bias: true, epsilon: 1e-5 };
    assert_eq!(model.modules[1..], [norm, Module::Normalize]);
    assert!(model.normalize);
}

#[test]
fn modules_outside_the_directory_and_unknown_activations_are_refused() {
    let config = bert("bert", 384, 6, &json!({}));
    let module = |kind: &str, path: &str| json!([{"type": kind, "path": path}]);
    let dense =
        json!({"in_features": 4, "out_features": 4, "activation_function": "torch.nn.modules.activation.Hardshrink"});
    let cases = [
        (module("models.Pooling", "../elsewhere"), ErrorKind::InvalidModel, "../elsewhere"),
        (module("models.Dense", "2_Dense"), ErrorKind::UnsupportedModel, "Hardshrink"),
        (module("models.Router", ""), ErrorKind::UnsupportedModel, "StaticEmbedding"),
        (module("models.Transformer", ""), ErrorKind::UnsupportedModel, "Pooling"),
    ];
    for (modules, kind, word) in cases {
        let files: [(&str, &Value); 3] =
            [("modules.json", &modules), ("config.json", &config), ("2_Dense/config.json", &dense)];
        let (_folder, root) = folder("model", &files);
        let error = Model::read(root).expect_err(word);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn modules_without_pooling_are_late_interaction() {
    let config = bert("bert", 384, 6, &json!({}));
    let modules = json!([
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "pylate.models.Dense.Dense", "path": "1_Dense"},
    ]);
    let dense = json!({
        "in_features": 384, "out_features": 96, "bias": false, "use_residual": true,
        "activation_function": "torch.nn.modules.linear.Identity",
    });
    let settings = json!({"model_type": "ColBERT", "query_length": 48, "document_length": 9000});
    let files: [(&str, &Value); 5] = [
        ("modules.json", &modules),
        ("config.json", &config),
        ("1_Dense/config.json", &dense),
        ("config_sentence_transformers.json", &settings),
        ("sentence_bert_config.json", &json!({"max_seq_length": 47})),
    ];
    let (_folder, root) = folder("model", &files);
    let model = Model::read(root).expect("it is sound");
    let late = model.late_interaction.expect("it has no pooling");
    assert_eq!((late.query_length, late.document_length, model.max_tokens), (48, 512, 512));
    assert_eq!((late.expansion, late.skipped_words.len()), (Expansion::Unattended, 32));
    assert_eq!((late.query_prefix.as_str(), late.document_prefix.as_str()), ("[Q] ", "[D] "));
    let is_projected = |module: &Module| matches!(module, Module::Dense { residual: Residual::Projected, .. });
    assert!(model.modules.iter().all(is_projected) && model.normalize && model.pooling.is_empty());
    let stanford = bert("bert", 384, 6, &json!({"architectures": ["HF_ColBERT"]}));
    let metadata = json!({"dim": 96, "query_maxlen": 24, "doc_maxlen": 300, "mask_punctuation": false});
    let (_folder, root) = folder("model", &[("config.json", &stanford), ("artifact.metadata", &metadata)]);
    let model = Model::read(root).expect("it is sound");
    let late = model.late_interaction.expect("its class says so");
    assert_eq!((late.query_length, late.document_length, late.query_prefix.as_str()), (24, 300, "[unused0]"));
    assert!(late.skipped_words.is_empty());
    assert!(matches!(&model.modules[..], [Module::Dense { name: "linear", inputs: 384, outputs: 96, .. }]));
}

#[test]
fn settings_of_sentence_transformers_are_read_or_refused() {
    let config = bert("bert", 384, 6, &json!({}));
    let read = |file: &str, content: &Value| {
        let (_folder, root) = folder("model", &[("config.json", &config), (file, content)]);
        Model::read(root)
    };
    let model =
        read("sentence_bert_config.json", &json!({"max_seq_length": 384, "do_lower_case": true})).expect("it is sound");
    assert_eq!((model.max_tokens, model.lowercase), (384, true));
    // Older versions.
    let model = read("sentence_roberta_config.json", &json!({"max_seq_length": 128})).expect("it is sound");
    assert_eq!((model.max_tokens, model.lowercase), (128, false));
    for (file, content, words) in [
        ("sentence_bert_config.json", json!({"transformer_task": "fill-mask"}), ["transformer_task", "fill-mask"]),
        ("sentence_bert_config.json", json!({"module_output_name": "scores"}), ["module_output_name", "scores"]),
        ("config_sentence_transformers.json", json!({"model_type": "CrossEncoder"}), ["model_type", "CrossEncoder"]),
    ] {
        let error = read(file, &content).expect_err(file);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{error}");
        assert!(words.iter().chain([&file]).all(|word| error.message().contains(word)), "{error}");
    }
}

#[test]
fn rerankers_are_classifiers_with_one_label() {
    let class = |more: Value| {
        let mut config = bert("bert", 384, 6, &json!({"architectures": ["BertForSequenceClassification"]}));
        let own = json!({"id2label": {"0": "LABEL_0"}});
        for (name, value) in own.as_object().into_iter().flatten().chain(more.as_object().into_iter().flatten()) {
            config[name] = value.clone();
        }
        config
    };
    let read = |config: &Value, prompts: &Value| {
        let (_folder, root) = folder("m", &[("config.json", config), ("config_sentence_transformers.json", prompts)]);
        Model::read_reranker(root)
    };
    let prompts = json!({"model_type": "CrossEncoder", "prompts": {"web": "Search: "}, "default_prompt_name": "web"});
    let model = read(&class(json!({})), &prompts).expect("it is sound");
    let names = model.modules.iter().map(|module| match module {
        Module::Dense { name, outputs, activation, .. } => (*name, *outputs, *activation),
        other => panic!("{other:?}"),
    });
    let names: Vec<_> = names.collect();
    assert_eq!(names, [("pooler.dense", 384, Activation::Tanh), ("classifier", 1, Activation::Identity)]);
    assert_eq!((model.prompts.query.as_str(), model.normalize, model.pooling), ("Search: ", false, vec![Pooling::Cls]));
    for (config, words) in [
        (json!({"id2label": {"0": "no", "1": "yes"}}), ["2 labels", "no reranker"]),
        (json!({"architectures": ["BertModel"]}), ["BertModel", "no reranker"]),
        (json!({"architectures": ["DebertaForSequenceClassification"]}), ["DebertaFor", "DebertaV2ForSequence"]),
        (json!({"auto_map": {"AutoModelForSequenceClassification": "own.Code"}}), ["auto_map", "own.Code"]),
        (json!({"sbert_ce_default_activation_function": "torch.nn.Tanh"}), ["activation", "Tanh"]),
    ] {
        let error = read(&class(config), &json!({})).expect_err(words[0]);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    }
}

#[test]
fn prompts_are_the_callers_or_the_files_or_those_of_the_table() {
    let config = bert("bert", 384, 6, &json!({}));
    let own = json!({"prompts": {"query": "q: ", "document": "d: ", "s2s": "similar: "}});
    let prompts = |name: &str, file: &Value, overrides: PromptOverrides| {
        let (_folder, root) = folder(name, &[("config.json", &config), ("config_sentence_transformers.json", file)]);
        Model::read_with(root, &ModelOptions { prompts: overrides, truncate_dim: None }).map(|model| model.prompts)
    };
    let plain = PromptOverrides::default;
    let cached = "models--intfloat--e5-base-v2/snapshots/0123";
    for (name, file, overrides, query, passage, source) in [
        ("mine", json!({}), plain(), "", "", PromptSource::None),
        ("mine", own.clone(), plain(), "q: ", "d: ", PromptSource::Files),
        ("e5-base-v2", own.clone(), plain(), "q: ", "d: ", PromptSource::Files),
        (
            "e5-base-v2",
            json!({"prompts": {"query": "", "document": ""}}),
            plain(),
            "query: ",
            "passage: ",
            PromptSource::Table,
        ),
        (cached, json!({}), plain(), "query: ", "passage: ", PromptSource::Table),
        ("e5-based", json!({}), plain(), "", "", PromptSource::None),
        (
            "multilingual-e5-large-instruct",
            json!({}),
            plain(),
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
            "",
            PromptSource::Table,
        ),
        ("snowflake-arctic-embed-m-v2.0", json!({}), plain(), "query: ", "", PromptSource::Table),
        (
            "snowflake-arctic-embed-m-v1.5",
            json!({}),
            plain(),
            "Represent this sentence for searching relevant passages: ",
            "",
            PromptSource::Table,
        ),
        (
            "stella",
            json!({"prompts": {"s2p_query": "to passages: ", "s2s_query": "similar: "}}),
            plain(),
            "to passages: ",
            "",
            PromptSource::Files,
        ),
        (
            "mine",
            own.clone(),
            PromptOverrides { name: Some("s2s".into()), ..plain() },
            "similar: ",
            "d: ",
            PromptSource::Caller,
        ),
        (
            "mine",
            own.clone(),
            PromptOverrides { query: Some(String::new()), ..plain() },
            "",
            "d: ",
            PromptSource::Caller,
        ),
        ("mine", json!({}), PromptOverrides { passage: Some("p ".into()), ..plain() }, "", "p ", PromptSource::Caller),
    ] {
        let found = prompts(name, &file, overrides).expect("they are sound");
        assert_eq!(
            (found.query.as_str(), found.passage.as_str(), found.source),
            (query, passage, source),
            "{name} {file}"
        );
    }
    let error =
        prompts("mine", &own, PromptOverrides { name: Some("s2p".into()), ..plain() }).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(["\"s2p\"", "s2s"].iter().all(|word| error.message().contains(word)), "{error}");
}

#[test]
fn alibi_slopes_and_buckets_are_those_of_the_papers() {
    assert_eq!(alibi_slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015_625, 0.007_812_5, 0.003_906_25]);
    let twelve = alibi_slopes(12);
    let expected = [0.5, 1.5, 2.5, 3.5].map(|power: f32| (-power).exp2());
    assert!(twelve[8..].iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-7), "{twelve:?}");
    let buckets: Vec<usize> =
        [0, -1, -7, -8, -16, -127, -128, -500, 1, 8, 500].map(|distance| bucket(distance, 32)).into();
    assert_eq!(buckets, [0, 1, 7, 8, 10, 15, 15, 15, 17, 24, 31]);
}

#[test]
fn pruners_have_one_of_three_layouts() {
    let read = |config: &Value| {
        let (_folder, root) = folder("models--own--m/snapshots/abc", &[("config.json", config)]);
        Pruner::read(root)
    };
    let classes = |name: &str| bert("bert", 384, 6, &json!({"architectures": [name]}));
    let tagger = read(&classes("BertTaggerForSentenceExtractionWithBackoff")).expect("it is sound");
    assert_eq!((tagger.layout, tagger.threshold, tagger.ranks()), (PrunerLayout::SentenceTagger, 0.5, false));
    assert_eq!((tagger.model.max_tokens, tagger.name.as_str()), (510, "own/m"));
    let tokens = read(&classes("BertForTokenClassification")).expect("it is sound");
    assert_eq!((tokens.layout, tokens.threshold, tokens.ranks()), (PrunerLayout::TokenClassifier, 0.2, false));
    let provence = |more: &Value| {
        let mut config = json!({
            "model_type": "open_provence",
            "base_model_config": bert("bert", 384, 6, &json!({})),
            "pruning_config": {"num_labels": 2, "sentence_pooling": "mean"},
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            config[name] = value.clone();
        }
        config
    };
    let plain = read(&provence(&json!({"max_length": 256}))).expect("it is sound");
    assert_eq!((plain.layout, plain.threshold, plain.ranks()), (PrunerLayout::OpenProvence, 0.1, true));
    let labels = plain.model.labels.as_ref().expect("it is a pruner");
    assert!(labels.before_final_norm && plain.model.max_tokens == 256);
    for (named, threshold) in [("default_threadshold", 0.3), ("default_threshold", 0.4)] {
        let own = read(&provence(&json!({named: threshold}))).expect("it is sound");
        assert!((f64::from(own.threshold) - threshold).abs() < 1e-6, "{named}");
    }
    let zilliz = read(&provence(&json!({"model_type": "semantic_highlight"}))).expect("it is sound");
    assert!((zilliz.threshold - 0.5).abs() < 1e-6);
    for (config, words) in [
        (classes("BertModel"), ["BertModel", "no pruner"]),
        (classes("DebertaForTokenClassification"), ["DebertaFor", "no pruner"]),
        (classes("Provence"), ["2 labels", "has 1"]),
        (
            bert("bert", 384, 6, &json!({"architectures": ["BertForTokenClassification"], "num_labels": 9})),
            ["9 labels", "2"],
        ),
        (provence(&json!({"num_pruning_labels": 3})), ["3 labels", "2"]),
        (provence(&json!({"pruning_config": {"sentence_pooling": "max"}})), ["sentence_pooling", "max"]),
    ] {
        let error = read(&config).expect_err(words[0]);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    }
}
