"""DeBERTa with the tokenizer of its own class; other tests of it are those of rerankers and pruners."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder

from pullquote import Highlighter
from support import tiny_models

pytestmark = pytest.mark.slow

PIECES = [
    *(f"▁{first}{second}" for first in "abcdt" for second in "aeioh"),
    *(f"{first}{second}" for first in "nrst" for second in "aeio"),
]


def test_reranker_with_tokenizer_of_deberta_matches_cross_encoder(tmp_path: Path) -> None:
    special = [(name, 0.0) for name in ("[PAD]", "[CLS]", "[SEP]", "[UNK]")]
    letters = [("▁", -2.0), *((letter, -3.0) for letter in "abcdefghijklmnopqrstuvwxyz.,?")]
    vocabulary = [*special, *letters, *((piece, -2.5) for piece in PIECES)]
    settings = tiny_models.DEBERTA | {"vocab_size": 400, "num_labels": 1, "pad_token_id": 0}
    config = transformers.DebertaV2Config(**settings)
    model = transformers.DebertaV2ForSequenceClassification(config)
    tiny_models.randomize(model)
    model.save_pretrained(tmp_path)
    transformers.DebertaV2Tokenizer(vocab=vocabulary, model_max_length=512).save_pretrained(tmp_path)
    query = "what is the bar? "
    texts = ["the bread is on the table.", "  a  cat, and two trees  ", "b", "the bread " * 60, "Über 漢字", ""]
    reference: CrossEncoder = CrossEncoder(str(tmp_path), device="cpu")
    expected = reference.predict([(query, text) for text in texts], activation_fn=torch.nn.Identity())
    with Highlighter(devices="cpu", dtype="float32", reranker=tmp_path) as highlighter:
        ranked = sorted(highlighter.rerank(query, texts, raw_scores=True), key=lambda one: one.index)
    assert np.std(expected) > 0.01
    assert np.abs(np.array([one.score for one in ranked]) - expected).max() < 1e-5
