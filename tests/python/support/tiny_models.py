"""Tiny models with random weights, saved by transformers and sentence-transformers, one for each family."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling, Transformer
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

VOCABULARY = 400
# More than two blocks of keys of the CPU's attention.
LONGEST = 1100
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 96}
# As DistilBERT calls them.
RENAMED = {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 96}


# How pairs are joined: as BERT does, with token types; and as RoBERTa does.
BERT_PAIR = "<s> $A </s> $B:1 </s>:1"
ROBERTA_PAIR = "<s> $A </s> </s> $B </s>"


def tokenizer(
    *, ends_only: bool = False, pair: str | None = None, marks: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """Words of one to three letters of several scripts, and `marks`; texts between ``<s>`` and ``</s>``, or with ``ends_only``
    before that.
    """
    letters = [chr(letter) for start in (0x61, 0x430, 0x3B1) for letter in range(start, start + 24)]
    han = [chr(letter) for letter in range(0x4E00, 0x4E00 + 100)]
    pieces = (
        letters + [f"##{letter}" for letter in letters] + han + [f"{a}{b}" for a in letters[:8] for b in letters[:12]]
    )
    names = ["<s>", "<pad>", "</s>", "<unk>", *marks, *dict.fromkeys(pieces)][:VOCABULARY]
    found = Tokenizer(models.WordPiece({name: index for index, name in enumerate(names)}, unk_token=names[3]))
    found.normalizer = normalizers.BertNormalizer()
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    single = "$A </s>" if ends_only else "<s> $A </s>"
    special_tokens = [("<s>", 0), ("</s>", 2)]
    pairs = {} if pair is None else {"pair": pair}
    found.post_processor = processors.TemplateProcessing(single=single, special_tokens=special_tokens, **pairs)
    special = {"cls_token": names[0], "pad_token": names[1], "sep_token": names[2], "unk_token": names[3]}
    inputs = ["input_ids", "attention_mask"] + (["token_type_ids"] if pair == BERT_PAIR else [])
    return PreTrainedTokenizerFast(
        tokenizer_object=found, model_max_length=LONGEST, model_input_names=inputs, **special
    )


def randomize(model: torch.nn.Module, seed: int = 0) -> None:
    """Weights that keep the scale of their inputs, and norms and biases that are neither ones nor zeros."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                is_weight = name.endswith("weight")
                parameter.copy_(0.2 * noise + (1.0 if is_weight else 0.0))
            elif "embed" in name or "bias" in name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * (1.5 / parameter.shape[1]) ** 0.5)


def save(model: Any, path: Path, *, pooling: str = "mean", ends_only: bool = False) -> SentenceTransformer:
    """Save a model of transformers as sentence-transformers does, and load that."""
    body = path.with_name(f"{path.name}-body")
    randomize(model)
    model.save_pretrained(body)
    tokenizer(ends_only=ends_only).save_pretrained(body)
    transformer = Transformer(str(body), max_seq_length=LONGEST)
    pooled = Pooling(transformer.get_embedding_dimension(), pooling)
    SentenceTransformer(modules=[transformer, pooled], device="cpu").save(str(path))
    return SentenceTransformer(str(path), device="cpu")


def of_transformers(name: str, **settings: Any) -> Callable[[], Any]:
    """A function that makes a model of a family from the names of its classes."""

    def make() -> Any:
        config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **settings)
        return getattr(transformers, f"{name}Model")(config)

    return make


POSITIONS = {"max_position_embeddings": LONGEST}
OFFSET_POSITIONS = {"max_position_embeddings": LONGEST + 2, "pad_token_id": 1}
DECODER: dict[str, Any] = SIZES | {"num_key_value_heads": 2, "head_dim": 24, "max_position_embeddings": LONGEST}
MARKS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}

FAMILIES: dict[str, Callable[[], Any]] = {
    "bert": of_transformers("Bert", **SIZES, **POSITIONS),
    "roberta": of_transformers("Roberta", **SIZES, **OFFSET_POSITIONS),
    "camembert": of_transformers("Camembert", **SIZES, **OFFSET_POSITIONS),
    "xlm-roberta": of_transformers("XLMRoberta", **SIZES, **OFFSET_POSITIONS),
    "mpnet": of_transformers("MPNet", **SIZES, **OFFSET_POSITIONS),
    "distilbert": of_transformers("DistilBert", **RENAMED, **POSITIONS),
    "nomic_bert": of_transformers("NomicBert", **SIZES, **POSITIONS),
    "gte": of_transformers("Gte", **SIZES, **POSITIONS),
    "modernbert": of_transformers("ModernBert", **SIZES, **POSITIONS, **MARKS, local_attention=32),
    "modernbert-biases": of_transformers(
        "ModernBert", **SIZES, **POSITIONS, **MARKS, attention_bias=True, mlp_bias=True, norm_bias=True
    ),
    "qwen2": of_transformers("Qwen2", **SIZES, num_key_value_heads=2, max_position_embeddings=LONGEST),
    "qwen3": of_transformers("Qwen3", **DECODER),
    "qwen3-window": of_transformers(
        "Qwen3", **DECODER, attention_bias=True, use_sliding_window=True, sliding_window=20, max_window_layers=1
    ),
    "gemma3": of_transformers(
        "Gemma3Text",
        **DECODER,
        sliding_window=32,
        use_bidirectional_attention=True,
        query_pre_attn_scalar=24,
        pad_token_id=1,
    ),
    "gemma3-causal": of_transformers(
        "Gemma3Text", **DECODER, sliding_window=32, sliding_window_pattern=2, query_pre_attn_scalar=24, pad_token_id=1
    ),
}


def _reranker(name: str, pair: str, **settings: Any) -> tuple[Callable[[], Any], str]:
    def make() -> Any:
        config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, num_labels=1, **settings)
        return getattr(transformers, f"{name}ForSequenceClassification")(config)

    return make, pair


MODERN = SIZES | POSITIONS | MARKS
# As the third version, with texts that are far longer than its buckets.
DEBERTA: dict[str, Any] = SIZES | {
    "max_position_embeddings": LONGEST,
    "relative_attention": True,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pad_token_id": 1,
}
DEBERTA_PAIR = "<s> $A </s> $B </s>"
# Makes a classifier with one label, and joins its pairs.
RERANKERS: dict[str, tuple[Callable[[], Any], str]] = {
    "bert": _reranker("Bert", BERT_PAIR, **SIZES, **POSITIONS),
    "xlm-roberta": _reranker("XLMRoberta", ROBERTA_PAIR, **SIZES, **OFFSET_POSITIONS),
    "camembert": _reranker("Camembert", ROBERTA_PAIR, **SIZES, **OFFSET_POSITIONS),
    "mpnet": _reranker("MPNet", ROBERTA_PAIR, **SIZES, **OFFSET_POSITIONS),
    "distilbert": _reranker("DistilBert", "<s> $A </s> $B </s>", **RENAMED, **POSITIONS),
    "gte": _reranker("Gte", "<s> $A </s> $B </s>", **SIZES, **POSITIONS),
    "modernbert": _reranker("ModernBert", "<s> $A </s> $B </s>", **MODERN, local_attention=32),
    "modernbert-mean": _reranker(
        "ModernBert",
        "<s> $A </s> $B </s>",
        **MODERN,
        classifier_pooling="mean",
        classifier_activation="relu",
        classifier_bias=True,
        norm_bias=True,
    ),
    "deberta": _reranker("DebertaV2", DEBERTA_PAIR, **DEBERTA),
    # As the second one: a row for each distance, projections of their own.
    "deberta-distances": _reranker(
        "DebertaV2",
        BERT_PAIR,
        **DEBERTA
        | {"max_relative_positions": 40, "position_buckets": -1, "norm_rel_ebd": "none", "share_att_key": False}
        | {"position_biased_input": True, "type_vocab_size": 2, "pooler_hidden_act": "relu"},
    ),
    "deberta-keys": _reranker("DebertaV2", DEBERTA_PAIR, **DEBERTA | {"pos_att_type": ["c2p"], "share_att_key": False}),
    "deberta-queries": _reranker("DebertaV2", DEBERTA_PAIR, **DEBERTA | {"pos_att_type": ["p2c"]}),
    "deberta-absolute": _reranker(
        "DebertaV2", DEBERTA_PAIR, **DEBERTA | {"relative_attention": False, "position_biased_input": True}
    ),
}


def save_reranker(name: str, path: Path) -> CrossEncoder:
    """Save a classifier of transformers with random weights, and load it with sentence-transformers."""
    make, pair = RERANKERS[name]
    model = make()
    randomize(model)
    model.save_pretrained(path)
    tokenizer(pair=pair).save_pretrained(path)
    loaded: CrossEncoder = CrossEncoder(str(path), device="cpu")
    return loaded


def save_jina_roberta(path: Path) -> CrossEncoder:
    """A classifier of transformers whose tensors have the names of jina-reranker-v2's own code; its config has no `model_type`."""
    plain = path.with_name(f"{path.name}-plain")
    loaded = save_reranker("xlm-roberta", plain)
    shutil.copytree(plain, path)
    tensors = load_file(path / "model.safetensors")
    for name in [name for name in tensors if ".self.query." in name]:
        parts = [tensors.pop(name.replace("query", part)) for part in ("query", "key", "value")]
        tensors[name.replace("attention.self.query", "mixer.Wqkv")] = torch.cat(parts)
    for old, new in (
        ("attention.output.dense", "mixer.out_proj"),
        ("attention.output.LayerNorm", "norm1"),
        ("intermediate.dense", "mlp.fc1"),
        (".output.dense", ".mlp.fc2"),
        (".output.LayerNorm", ".norm2"),
        ("embeddings.LayerNorm", "emb_ln"),
        ("encoder.layer.", "encoder.layers."),
    ):
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    save_file(tensors, path / "model.safetensors")
    config = json.loads((path / "config.json").read_text("utf-8"))
    del config["model_type"]
    config["auto_map"] = {
        "AutoConfig": "configuration_xlm_roberta.XLMRobertaFlashConfig",
        "AutoModel": "modeling_xlm_roberta.XLMRobertaModel",
        "AutoModelForSequenceClassification": "modeling_xlm_roberta.XLMRobertaForSequenceClassification",
    }
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    return loaded


def save_modular_reranker(path: Path) -> CrossEncoder:
    """A reranker in modules of sentence-transformers, as ettin-reranker."""
    body = path.with_name(f"{path.name}-body")
    model = FAMILIES["modernbert"]()
    randomize(model)
    model.save_pretrained(body)
    tokenizer(pair="<s> $A </s> $B </s>").save_pretrained(body)
    modules = [
        Transformer(str(body), max_seq_length=LONGEST),
        Pooling(64, "cls"),
        Dense(64, 64, bias=False, activation_function=torch.nn.GELU()),
        LayerNorm(64),
        Dense(64, 1, activation_function=torch.nn.Identity(), module_output_name="scores"),
    ]
    for seed, module in enumerate(modules[2:]):
        randomize(module, seed)
    CrossEncoder(modules=modules, device="cpu").save(str(path))
    loaded: CrossEncoder = CrossEncoder(str(path), device="cpu")
    return loaded


# A place for each role, one of them inside of a word's surroundings; and one that writes any role.
PAIR_TEMPLATE = """{%- for message in messages if message["role"] == "system" %}
c {{ message["content"] }}
{%- endfor %}
<s> a {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }} b
d {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}</s>
e f"""
ANY_ROLE_TEMPLATE = "{% for message in messages %}<s> {{ message['role'] }} {{ message['content'] }}</s>{% endfor %}"


def _language_tokenizer(path: Path, template: str) -> None:
    made = tokenizer()
    made.chat_template = template
    made.padding_side = "left"
    made.save_pretrained(path)


def save_language_reranker(path: Path, *, tied: bool, template: str, prompt: str = "") -> CrossEncoder:
    """A language model in modules of sentence-transformers: the logit of a token minus that of another one."""
    body = path.with_name(f"{path.name}-body")
    config = transformers.Qwen3Config(vocab_size=VOCABULARY, **DECODER, tie_word_embeddings=tied)
    model: Any = transformers.Qwen3ForCausalLM(config)
    randomize(model)
    model.save_pretrained(body)
    _language_tokenizer(body, template)
    modules = [Transformer(str(body), transformer_task="text-generation"), LogitScore(40, 50 if tied else None)]
    named = {"prompts": {"rerank": prompt}, "default_prompt_name": "rerank"} if prompt else {}
    CrossEncoder(modules=modules, device="cpu", **named).save(str(path))
    loaded: CrossEncoder = CrossEncoder(str(path), device="cpu")
    return loaded


def save_known_language_reranker(path: Path) -> tuple[Any, PreTrainedTokenizerFast]:
    """A language model in the files of Qwen3-Reranker or mxbai-rerank-v2, without modules or a template for pairs."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("y", "e"), ("ye", "s"), ("n", "o"), ("?", "\u010a"), (".", "\u010a")]
    names = [*letters, *("".join(pair) for pair in merges)]
    found = Tokenizer(models.BPE({name: index for index, name in enumerate(names)}, merges))
    # As Qwen's: punctuation keeps the line breaks after it.
    pattern = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    split = pre_tokenizers.Split(pattern, "isolated")
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    found.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    made = PreTrainedTokenizerFast(tokenizer_object=found, model_max_length=LONGEST, **special)
    made.chat_template = ANY_ROLE_TEMPLATE
    made.save_pretrained(path)
    name = "Qwen3" if path.name.startswith("Qwen3") else "Qwen2"
    settings = DECODER if name == "Qwen3" else SIZES | POSITIONS | {"num_key_value_heads": 2}
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **settings, tie_word_embeddings=True)
    model: Any = getattr(transformers, f"{name}ForCausalLM")(config)
    randomize(model)
    model.eval().save_pretrained(path)
    return model, made


def save_last_token_reranker(path: Path, name: str = "Qwen3") -> CrossEncoder:
    """A classifier of the last token, as Qwen3-Reranker-0.6B-seq-cls."""
    sizes = DECODER if name == "Qwen3" else SIZES | POSITIONS | {"num_key_value_heads": 2}
    settings = sizes | {"num_labels": 1, "pad_token_id": 1}
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **settings)
    model: Any = getattr(transformers, f"{name}ForSequenceClassification")(config)
    randomize(model)
    model.save_pretrained(path)
    _language_tokenizer(path, PAIR_TEMPLATE)
    loaded: CrossEncoder = CrossEncoder(str(path), device="cpu")
    # For qwen2, transformers 5 cuts words as the real model's tokenizer does, whatever the file says.
    loaded[0].processor = PreTrainedTokenizerFast.from_pretrained(path)
    return loaded


LATE_MARKS = (".", ",", "?", "<mask>", "[Q]", "[D]")


def save_late_interaction(path: Path, family: str = "bert", *, stanford: bool = False, **settings: Any) -> None:
    """A model with a vector for each token: in pylate's layout with two dense layers, or in Stanford's.

    `settings` are those of pylate's ``config_sentence_transformers.json``, or of Stanford's ``artifact.metadata``.
    """
    model = FAMILIES[family]()
    randomize(model)
    generator = torch.Generator().manual_seed(7)

    def weight(outputs: int, inputs: int) -> torch.Tensor:
        made: torch.Tensor = torch.randn(outputs, inputs, generator=generator) * inputs**-0.5
        return made

    model.save_pretrained(path)
    found = tokenizer(marks=LATE_MARKS)
    found.add_special_tokens({"mask_token": "<mask>"})
    found.save_pretrained(path)
    if stanford:
        weights = {f"bert.{name}": tensor for name, tensor in load_file(path / "model.safetensors").items()}
        save_file(weights | {"linear.weight": weight(24, 64)}, path / "model.safetensors", {"format": "pt"})
        config = json.loads((path / "config.json").read_text("utf-8")) | {"architectures": ["HF_ColBERT"]}
        (path / "config.json").write_text(json.dumps(config), "utf-8")
        metadata = {"dim": 24, "query_token_id": "[Q]", "doc_token_id": "[D]"} | settings
        (path / "artifact.metadata").write_text(json.dumps(metadata), "utf-8")
        return
    layers = [
        ({"linear.weight": weight(64, 64), "linear.bias": weight(64, 1)[:, 0]}, 64, 64, "GELU"),
        ({"linear.weight": weight(40, 64), "residual.weight": weight(40, 64)}, 64, 40, "Identity"),
    ]
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, (tensors, inputs, outputs, activation) in enumerate(layers, 1):
        folder = path / f"{number}_Dense"
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        dense = {
            "in_features": inputs,
            "out_features": outputs,
            "bias": "linear.bias" in tensors,
            "activation_function": f"torch.nn.modules.{'linear' if activation == 'Identity' else 'activation'}.{activation}",
            "use_residual": True,
        }
        (folder / "config.json").write_text(json.dumps(dense), "utf-8")
        modules.append({"idx": number, "name": str(number), "path": folder.name, "type": "pylate.models.Dense.Dense"})
    (path / "modules.json").write_text(json.dumps(modules), "utf-8")
    settings = {"model_type": "ColBERT", "query_prefix": "[Q]", "document_prefix": "[D]"} | settings
    (path / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")


class JinaBert(torch.nn.Module):
    """What jina-bert-implementation and jina-bert-v2-qk-post-norm compute, from https://arxiv.org/abs/2310.19923, section 2.

    The names of the parameters are those of its checkpoints. transformers does not have it.
    """

    def __init__(self, *, query_norm: bool) -> None:
        super().__init__()
        self.hidden, self.inside, self.heads, self.query_norm = 60, 96, 6, query_norm
        hidden, inside = self.hidden, self.inside
        sizes = {"word": VOCABULARY, "token_type": 2}
        self.embeddings = torch.nn.ModuleDict(
            {f"{name}_embeddings": torch.nn.Embedding(count, hidden) for name, count in sizes.items()}
            | {"LayerNorm": torch.nn.LayerNorm(hidden, eps=1e-12)}
        )
        self.encoder = torch.nn.ModuleDict(
            {"layer": torch.nn.ModuleList(self._layer(hidden, inside) for _ in range(3))}
        )

    def _layer(self, hidden: int, inside: int) -> torch.nn.ModuleDict:
        linear, norm, tree = torch.nn.Linear, torch.nn.LayerNorm, torch.nn.ModuleDict
        attention: dict[str, torch.nn.Module] = {name: linear(hidden, hidden) for name in ("query", "key", "value")}
        output: dict[str, Any] = {"dense": linear(hidden, hidden)}
        up, down = linear(hidden, 2 * inside, bias=False), linear(inside, hidden)
        if not self.query_norm:
            output["LayerNorm"] = norm(hidden, eps=1e-12)
            mlp = tree({"gated_layers": up, "wo": down, "layernorm": norm(hidden, eps=1e-12)})
            return tree({"attention": tree({"self": tree(attention), "output": tree(output)}), "mlp": mlp})
        attention |= {f"layer_norm_{part}": norm(hidden, eps=1e-12) for part in "qk"}
        norms: dict[str, torch.nn.Module] = {f"layer_norm_{number}": norm(hidden, eps=1e-12) for number in (1, 2)}
        mlp = tree({"up_gated_layer": up, "down_layer": down})
        return tree({"attention": tree({"self": tree(attention), "output": tree(output)}), "mlp": mlp} | norms)

    def config(self) -> dict[str, Any]:
        code = "jina-bert-v2-qk-post-norm" if self.query_norm else "jina-bert-implementation"
        return {
            "model_type": "bert",
            "auto_map": {"AutoModel": f"jinaai/{code}--modeling_bert.JinaBertModel"},
            "position_embedding_type": "alibi",
            "feed_forward_type": "geglu",
            "hidden_size": self.hidden,
            "intermediate_size": self.inside,
            "num_attention_heads": self.heads,
            "num_hidden_layers": 3,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": LONGEST,
            "vocab_size": VOCABULARY,
        }

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean of one text's token vectors."""
        embeddings: Any = self.embeddings
        hidden = embeddings["LayerNorm"](
            embeddings["word_embeddings"](ids) + embeddings["token_type_embeddings"].weight[0]
        )
        # Four of six heads have the slopes of four heads, the others every second one of eight.
        slopes = torch.tensor([2.0 ** (-2 * head) for head in range(1, 5)] + [2.0**-1, 2.0**-3])
        places = torch.arange(len(ids))
        bias = -(places[:, None] - places[None]).abs() * slopes[:, None, None]
        layers: Any = self.encoder["layer"]
        for layer in layers:
            hidden = self._forward_layer(layer, hidden, bias)
        mean: torch.Tensor = hidden.mean(dim=0)
        return mean

    def _forward_layer(self, layer: Any, hidden: Any, bias: torch.Tensor) -> Any:
        attention, output, mlp = layer["attention"]["self"], layer["attention"]["output"], layer["mlp"]
        query, key, value = (attention[name](hidden) for name in ("query", "key", "value"))
        if self.query_norm:
            query, key = attention["layer_norm_q"](query), attention["layer_norm_k"](key)
        query, key, value = (part.unflatten(1, (self.heads, -1)).transpose(0, 1) for part in (query, key, value))
        scores = query @ key.transpose(1, 2) / (self.hidden / self.heads) ** 0.5 + bias
        context = (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)
        attended = output["dense"](context) + hidden
        if self.query_norm:
            attended = layer["layer_norm_1"](attended)
            plain, gate = mlp["up_gated_layer"](attended).chunk(2, dim=-1)
            return layer["layer_norm_2"](mlp["down_layer"](plain * torch.nn.functional.gelu(gate)) + attended)
        attended = output["LayerNorm"](attended)
        gate, plain = mlp["gated_layers"](attended).chunk(2, dim=-1)
        return mlp["layernorm"](mlp["wo"](plain * torch.nn.functional.gelu(gate)) + attended)


def save_jina(path: Path, *, query_norm: bool) -> JinaBert:
    """A directory of jina-embeddings-v2, and what computes it."""
    model = JinaBert(query_norm=query_norm).eval()
    randomize(model)
    path.mkdir()
    tokenizer().save_pretrained(path)
    (path / "config.json").write_text(json.dumps(model.config()), "utf-8")
    save_file(model.state_dict(), path / "model.safetensors")
    return model


def write_with_own_code(source: Path, path: Path) -> None:
    """Write a `gte` of transformers as a `new` of Alibaba-NLP/new-impl, or its `nomic_bert` as one of nomic-ai/nomic-bert-2048.

    transformers writes the tensors as they do.
    """
    shutil.copytree(source, path)
    config = json.loads((path / "config.json").read_text("utf-8"))
    if config["model_type"] == "nomic_bert":
        own = {
            "model_type": "nomic_bert",
            "n_embd": config["hidden_size"],
            "n_head": config["num_attention_heads"],
            "n_layer": config["num_hidden_layers"],
            "n_inner": config["intermediate_size"],
            "n_positions": config["max_position_embeddings"],
            "layer_norm_epsilon": config["layer_norm_eps"],
            "rotary_emb_base": 1000,
            "activation_function": "swiglu",
            "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
        }
    else:
        code = {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"}
        own = config | {"model_type": "new", "rope_theta": 160000, "auto_map": code}
        tensors = load_file(path / "model.safetensors")
        save_file({f"new.{name}": tensor for name, tensor in tensors.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(own), "utf-8")


def save_coverage_reranker(path: Path, source: Path) -> None:
    """A BERT whose logit is the higher, the more tokens of the query the passage has; with the tokenizer of `source`.

    In the first layer each token sees the same token of the other text, or else a special one, and marks what it saw. In
    the second one, the first token takes the mean of the marks of the query.
    """
    model: Any = transformers.BertForSequenceClassification(coverage_config(layers=2, labels=1))
    mark_shared_tokens(model)
    with torch.no_grad():
        second = model.bert.encoder.layer[1].attention
        second.self.query.bias[OTHER] = -6
        second.self.key.weight[OTHER, OTHER] = 10
        second.self.key.weight[OTHER, SPECIAL] = 5
        second.self.value.weight[MARK, MARK] = 1
        second.output.dense.weight[MARK, MARK] = 2
        model.bert.pooler.dense.weight[0, MARK] = 0.25
        model.classifier.weight[0, 0] = 20
        model.classifier.bias[0] = -13
    model.save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(path)


# Dimensions of the models that mark shared tokens: those of words, and of three facts.
WORDS, SPECIAL, OTHER, MARK = 48, 60, 61, 62


def coverage_config(*, layers: int, labels: int) -> Any:
    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=64,
        num_hidden_layers=layers,
        num_attention_heads=1,
        intermediate_size=16,
        max_position_embeddings=512,
        hidden_act="relu",
    )
    config.num_labels = labels
    return config


def mark_shared_tokens(model: Any) -> None:
    """Set all weights to zero, but for norms and what makes the first layer mark tokens that both texts of a pair have."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        embeddings, first = model.bert.embeddings, model.bert.encoder.layer[0].attention
        generator = torch.Generator().manual_seed(5)
        table = embeddings.word_embeddings.weight
        table[:, :WORDS] = torch.randint(0, 2, (30522, WORDS), generator=generator) * 2.0 - 1
        # [CLS] and [SEP], which begin and end texts.
        for token in (101, 102):
            table[token] = 0
            table[token, SPECIAL] = 4
        embeddings.token_type_embeddings.weight[:, OTHER] = torch.tensor([-1.0, 1.0])
        same = torch.zeros(64, 64)
        same[:WORDS, :WORDS] = torch.eye(WORDS) * 2.0
        first.self.query.weight.copy_(same)
        first.self.key.weight.copy_(same)
        first.self.query.weight[OTHER, OTHER] = -12
        first.self.key.weight[OTHER, OTHER] = 8
        first.self.query.bias[SPECIAL] = 1.7
        first.self.key.weight[SPECIAL, SPECIAL] = 8
        first.self.value.bias[MARK] = 1
        first.self.value.weight[MARK, SPECIAL] = -0.128
        first.output.dense.weight[MARK, MARK] = 6
