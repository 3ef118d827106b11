"""Tiny pruners with random weights in each published layout, and what transformers computes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from safetensors.torch import save_file

from support import tiny_models
from support.tiny_models import (
    BERT_PAIR,
    DEBERTA,
    DEBERTA_PAIR,
    MODERN,
    OFFSET_POSITIONS,
    POSITIONS,
    ROBERTA_PAIR,
    SIZES,
    VOCABULARY,
)

Rule = Literal["open-provence", "provence", "tagger", "tokens"]
MODERN_PAIR = "<s> $A </s> $B </s>"
# Class, way to join pairs, and settings of each family.
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "modernbert": ("ModernBert", MODERN_PAIR, MODERN | {"local_attention": 32}),
    "modernbert-biases": (
        "ModernBert",
        MODERN_PAIR,
        MODERN
        | {"classifier_activation": "relu", "classifier_bias": True, "norm_bias": True, "classifier_pooling": "mean"},
    ),
    "bert": ("Bert", BERT_PAIR, SIZES | POSITIONS),
    "xlm-roberta": ("XLMRoberta", ROBERTA_PAIR, SIZES | OFFSET_POSITIONS),
    "deberta": ("DebertaV2", DEBERTA_PAIR, DEBERTA),
}
LAYOUTS: list[tuple[Rule, str]] = [
    ("tokens", "modernbert"),
    ("tokens", "modernbert-biases"),
    ("tokens", "bert"),
    ("tokens", "xlm-roberta"),
    ("open-provence", "modernbert"),
    ("open-provence", "modernbert-biases"),
    ("open-provence", "xlm-roberta"),
    ("open-provence", "bert"),
    ("tagger", "bert"),
    ("tokens", "deberta"),
    ("provence", "deberta"),
    ("provence", "xlm-roberta"),
]
TAGGER = "BertTaggerForSentenceExtractionWithBackoff"


class Provence(torch.nn.Module):
    """A classifier of sequences, and a head over the states of its last layer, before a norm after it."""

    def __init__(self, ranking_model: Any, hidden: int) -> None:
        super().__init__()
        self.ranking_model = ranking_model
        self.pruning_head = torch.nn.ModuleDict({"classifier": torch.nn.Linear(hidden, 2)})
        base = ranking_model.base_model
        layers = base.layers if hasattr(base, "layers") else base.encoder.layer
        layers[-1].register_forward_hook(self._keep)

    def _keep(self, _module: Any, _inputs: Any, output: Any) -> None:
        self.last = output[0] if isinstance(output, tuple) else output

    def forward(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ranks = self.ranking_model(**inputs).logits
        return self.pruning_head["classifier"](self.last), ranks


class OwnProvence(torch.nn.Module):
    """Provence's layout: the names of a classifier of sequences, and a head over the last states next to them."""

    def __init__(self, ranking_model: Any, hidden: int) -> None:
        super().__init__()
        self.ranking_model = ranking_model
        self.token_classifier = torch.nn.Linear(hidden, 2)

    def forward(self, **inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = self.ranking_model(**inputs, output_hidden_states=True)
        return self.token_classifier(outputs.hidden_states[-1]), outputs.logits

    def save(self, base: Any, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        tensors = {
            name.removeprefix("ranking_model."): tensor.contiguous() for name, tensor in self.state_dict().items()
        }
        save_file(tensors, path / "model.safetensors")
        name = "XProvenceForSequenceClassification" if base.model_type == "xlm-roberta" else "Provence"
        own = {"architectures": [name], "auto_map": {"AutoModel": f"modeling.{name}"}, "model_type": name}
        (path / "config.json").write_text(json.dumps(base.to_dict() | own | {"id2label": {"0": "LABEL_0"}}), "utf-8")


@dataclass
class TinyPruner:
    """A pruner's directory, and the model that was saved there."""

    path: Path
    rule: Rule
    tokenizer: Any
    model: Any

    def logits(self, texts: Sequence[tuple[str, list[str]]]) -> list[tuple[list[list[float]], float | None]]:
        """For each question with sentences, the logits of each sentence's tokens, and that of the pair; all in one batch."""
        rows, owners = [], []
        for question, sentences in texts:
            text, owner = "".join(sentences), []
            ends = [len("".join(sentences[: count + 1])) for count in range(len(sentences))]
            if self.rule == "provence":
                before = f"{question} </s> "
                encoded = self.tokenizer(before + text, return_offsets_mapping=True)
                ids = encoded["input_ids"]
                places = [last - len(before) for _, last in encoded["offset_mapping"]]
                owner = [next((n for n, end in enumerate(ends) if 0 < last <= end), None) for last in places]
            elif self.rule == "tokens":
                encoded = self.tokenizer(question, text, return_offsets_mapping=True)
                parts = zip(encoded.sequence_ids(), encoded["offset_mapping"], strict=True)
                owner = [
                    next(number for number, end in enumerate(ends) if last <= end) if part == 1 else None
                    for part, (_, last) in parts
                ]
                ids = encoded["input_ids"]
            else:
                alone = [self.tokenizer(part, add_special_tokens=False)["input_ids"] for part in [question, *sentences]]
                whole = self.tokenizer("a", "b")["input_ids"]
                first, second = (self.tokenizer(letter, add_special_tokens=False)["input_ids"][0] for letter in "ab")
                before, after = whole.index(first), whole.index(second)
                ids = [*whole[:before], *alone[0], *whole[before + 1 : after], *chain(*alone[1:]), *whole[after + 1 :]]
                start = before + len(alone[0]) + after - before - 1
                owner = [None] * start + [number for number, part in enumerate(alone[1:]) for _ in part]
                owner += [None] * (len(ids) - len(owner))
            rows.append(ids)
            owners.append(owner)
        labels, ranks = self._run(rows)
        found = []
        for number, (owner, (_, sentences)) in enumerate(zip(owners, texts, strict=True)):
            of_sentence: list[list[float]] = [[] for _ in sentences]
            for place, index in enumerate(owner):
                if index is not None:
                    of_sentence[index].append(float(labels[number, place, 1] - labels[number, place, 0]))
            found.append((of_sentence, None if ranks is None else float(ranks[number, 0])))
        return found

    def _run(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor | None]:
        longest = max(map(len, rows))
        ids = torch.tensor([row + [1] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self.tokenizer.model_input_names:
            # The second type begins after the first </s>.
            inputs["token_type_ids"] = ((ids == 2).cumsum(dim=1) - (ids == 2).long() > 0).long()
        with torch.no_grad():
            output = self.model(**inputs)
        return output if isinstance(output, tuple) else (output.logits, None)


def save_pruner(rule: Rule, family: str, path: Path, **config: Any) -> TinyPruner:
    """Save a pruner of a layout with random weights; `config` is added to its `config.json`."""
    name, pair, settings = FAMILIES[family]
    base = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **settings)
    tokenizer = tiny_models.tokenizer(pair=pair)
    if rule == "provence":
        base.num_labels = 1
        model: Any = OwnProvence(getattr(transformers, f"{name}ForSequenceClassification")(base), 64).eval()
        _randomize(model)
        model.save(base, path)
    elif rule != "open-provence":
        base.num_labels = 2
        model = getattr(transformers, f"{name}ForTokenClassification")(base)
        _randomize(model)
        model.eval().save_pretrained(path)
        if rule == "tagger":
            config = {"architectures": [TAGGER]} | config
    else:
        base.num_labels = 1
        model = Provence(getattr(transformers, f"{name}ForSequenceClassification")(base), 64).eval()
        _randomize(model)
        write_provence(model, base, path)
    tokenizer.save_pretrained(path)
    written = json.loads((path / "config.json").read_text("utf-8")) | config
    (path / "config.json").write_text(json.dumps(written), "utf-8")
    return TinyPruner(path, rule, tokenizer, model)


def _randomize(model: torch.nn.Module) -> None:
    """Random weights, with logits of which single precision keeps the probabilities apart."""
    tiny_models.randomize(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "classifier" in name:
                parameter.mul_(0.2)


def write_provence(model: Provence, base: Any, path: Path) -> None:
    """Write the weights and the configuration as OpenProvence does."""
    path.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path / "model.safetensors")
    own = {
        "model_type": "open_provence",
        "architectures": ["OpenProvenceForSequenceClassification"],
        "base_model_config": base.to_dict(),
        "pruning_config": {"hidden_size": base.hidden_size, "num_labels": 2, "sentence_pooling": "mean"},
        "max_length": 512,
        "num_labels": 1,
    }
    (path / "config.json").write_text(json.dumps(own), "utf-8")


def save_coverage_pruner(path: Path, source: Path) -> None:
    """A pruner in OpenProvence's layout that keeps sentences with tokens of the question; with the tokenizer of `source`."""
    base = tiny_models.coverage_config(layers=1, labels=1)
    model = Provence(transformers.BertForSequenceClassification(base), 64)
    tiny_models.mark_shared_tokens(model.ranking_model)
    with torch.no_grad():
        head: Any = model.pruning_head["classifier"]
        head.weight.fill_(0.0)
        head.weight[1, tiny_models.MARK] = MARK_WEIGHT
        head.bias.copy_(torch.tensor([0.0, MARK_BIAS]))
    write_provence(model, base, path)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(path)


# Shared tokens have marks of 4.6 and more, others below 0.3.
MARK_WEIGHT, MARK_BIAS = 4.0, -8.0
