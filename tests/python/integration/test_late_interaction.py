"""Late interaction: token vectors and MaxSim are those of the formula in torch, and passages come in its order.

pylate gives the same numbers: bench/notes/late_interaction.md has the comparison, which needs an older transformers.
"""

import asyncio
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer

import pullquote
from pullquote import AsyncHighlighter, Client, Highlighter
from pullquote.errors import InvalidArgumentError, InvalidModelError, UnsupportedModelError
from support import tiny_models
from support.messages import raises
from support.server_process import ServerProcess, running_server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pullquote.errors.TruncationWarning")]

QUERIES = ["ab cd?", "a", "мир и дом, αβ γδ." * 9]
TEXTS = ["ab cd e fg. a, b.", "a", "Ελληνικα αβ γδ. мир и дом?", "一丁七 丂, " * 9, "ab, cd. " * 60]
# Layout, settings of its files, and what they mean: query length, document length, mask tokens, whether these are attended to.
CASES: dict[str, tuple[str, bool, dict[str, Any], tuple[int, int, bool, bool]]] = {
    "bert": ("bert", False, {}, (32, 180, True, False)),
    "attended": ("bert", False, {"attend_to_expansion_tokens": True, "query_length": 20}, (20, 180, True, True)),
    "no expansion": ("bert", False, {"do_query_expansion": False, "document_length": 40}, (32, 40, False, False)),
    "no skiplist": ("bert", False, {"skiplist_words": []}, (32, 180, True, False)),
    # Queries that are longer than the window of a layer: the last mask tokens see none of the others.
    "modernbert": ("modernbert", False, {"query_length": 48}, (48, 180, True, False)),
    "stanford": ("bert", True, {"query_maxlen": 24, "doc_maxlen": 60}, (24, 60, True, False)),
    "stanford attended": ("bert", True, {"attend_to_mask_tokens": True}, (32, 180, True, True)),
}


class Reference:
    """The model in torch, a text at a time."""

    def __init__(self, name: str, path: Path) -> None:
        family, self.is_stanford, settings, self.lengths = CASES[name]
        self.path = path
        tiny_models.save_late_interaction(path, family, stanford=self.is_stanford, **settings)
        kind = {"bert": transformers.BertModel, "modernbert": transformers.ModernBertModel}[family]
        self.body: Any = kind(transformers.AutoConfig.from_pretrained(path, attn_implementation="sdpa"))
        weights = load_file(path / "model.safetensors")
        weights = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
        self.linear: Any = weights.pop("linear.weight", None)
        self.body.load_state_dict(weights)
        self.body.train(False)
        self.tokenizer: Any = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        words = settings.get("skiplist_words", list(string.punctuation))
        unknown = self.tokenizer.token_to_id("<unk>")
        ids = [self.tokenizer.token_to_id(word) for word in words]
        self.skipped = {unknown if id_ is None else id_ for id_ in ids}

    def vectors(self, text: str, *, is_query: bool) -> NDArray[np.float32]:
        query_length, document_length, expands, attends = self.lengths
        limit = query_length if is_query else document_length
        ids = self.tokenizer.encode(text.strip(), add_special_tokens=False).ids[: limit - 3]
        ids = [0, self.tokenizer.token_to_id("[Q]" if is_query else "[D]"), *ids, 2]
        mask = [1] * len(ids)
        if is_query and expands:
            mask += [int(attends)] * (query_length - len(ids))
            ids += [self.tokenizer.token_to_id("<mask>")] * (query_length - len(ids))
        with torch.no_grad():
            hidden = self.body(torch.tensor([ids]), torch.tensor([mask])).last_hidden_state[0]
            hidden = self.projected(hidden)
        kept = [is_query or id_ not in self.skipped for id_ in ids]
        return np.asarray(torch.nn.functional.normalize(hidden[kept], dim=1))

    def projected(self, hidden: Any) -> Any:
        if self.is_stanford:
            return hidden @ self.linear.T
        first, second = (load_file(self.path / f"{number}_Dense" / "model.safetensors") for number in (1, 2))
        inside = hidden + torch.nn.functional.gelu(hidden @ first["linear.weight"].T + first["linear.bias"])
        return inside @ second["linear.weight"].T + inside @ second["residual.weight"].T

    def maxsim(self, query: str, text: str) -> float:
        cosines = self.vectors(query, is_query=True) @ self.vectors(text, is_query=False).T
        return float(cosines.max(axis=1).sum())


@pytest.fixture(scope="module", params=CASES)
def reference(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(request.param, tmp_path_factory.mktemp("late") / "model")


@pytest.fixture(scope="module")
def server(reference: Reference) -> Iterator[ServerProcess]:
    with running_server("--model", str(reference.path), "--dtype", "float32") as server:
        yield server


def test_embed_all_gives_token_vectors_in_float32(reference: Reference, server: ServerProcess) -> None:
    for texts, role in ((QUERIES, "query"), (TEXTS, "passage")):
        found = server.client.post("/embed_all", json={"inputs": texts, "prompt_name": role}).raise_for_status().json()
        for text, vectors in zip(texts, found, strict=True):
            expected = reference.vectors(text, is_query=role == "query")
            assert np.shape(vectors) == expected.shape
            assert np.abs(np.array(vectors, np.float32) - expected).max() < 1e-5
    short = server.client.post("/embed_all", json={"inputs": QUERIES[0], "prompt_name": "query"}).json()[0]
    query_length, _, expands, _ = reference.lengths
    assert len(short) == query_length if expands else len(short) < 10


def test_rerank_scores_by_maxsim(reference: Reference, server: ServerProcess) -> None:
    texts = TEXTS[:4]
    for query in QUERIES[:2]:
        body = {"query": query, "texts": texts, "raw_scores": True}
        ranked = server.client.post("/rerank", json=body).raise_for_status().json()
        expected = [reference.maxsim(query, text) for text in texts]
        for rank in ranked:
            assert rank["score"] == pytest.approx(expected[rank["index"]], rel=1e-5)
        tokens = len(reference.vectors(query, is_query=True))
        mean = server.client.post("/rerank", json=body | {"raw_scores": False}).json()
        assert [rank["index"] for rank in mean] == [rank["index"] for rank in ranked]
        assert mean[0]["score"] == pytest.approx(ranked[0]["score"] / tokens, rel=1e-5)
        scores = {"queries": query, "documents": texts, "use_activation": False}
        data = server.client.post("/score", json=scores).raise_for_status().json()["data"]
        assert [one["score"] for one in data] == pytest.approx(expected, rel=1e-5)
    pairs = {"queries": QUERIES[:2], "documents": texts[:2]}
    data = server.client.post("/score", json=pairs).raise_for_status().json()["data"]
    for one, query, text in zip(data, QUERIES, texts, strict=False):
        mean = reference.maxsim(query, text) / len(reference.vectors(query, is_query=True))
        assert one["score"] == pytest.approx(mean, rel=1e-5)


def test_highlighter_ranks_texts_by_maxsim(reference: Reference, server: ServerProcess) -> None:
    texts = [*TEXTS[:4], f" {TEXTS[0]}\n"]
    query = QUERIES[0]
    expected = [reference.maxsim(query, text) for text in texts]
    tokens = len(reference.vectors(query, is_query=True))
    with Highlighter(reference.path, devices="cpu", dtype="float32") as highlighter, Client(server.url) as client:
        raw = highlighter.rerank(query, texts, raw_scores=True)
        assert [one.score for one in raw] == pytest.approx(sorted(expected, reverse=True), rel=1e-5)
        for one in raw:
            assert one.text == texts[one.index]
            assert one.score == pytest.approx(expected[one.index], rel=1e-5)
        two = highlighter.rerank(query, texts, top_n=2)
        assert [one.score for one in two] == pytest.approx([one.score / tokens for one in raw[:2]], rel=1e-5)
        awaited = asyncio.run(AsyncHighlighter.sharing(highlighter).rerank(query, texts))
        assert awaited == highlighter.rerank(query, texts)
        for is_raw in (False, True):
            theirs = client.rerank(query, texts, raw_scores=is_raw)
            ours = highlighter.rerank(query, texts, raw_scores=is_raw)
            assert [one.index for one in theirs] == [one.index for one in ours]
            assert [one.score for one in theirs] == pytest.approx([one.score for one in ours], rel=1e-5)


@pytest.mark.parametrize("reference", ["bert"], indirect=True)
def test_server_says_that_there_is_no_vector_of_a_text(server: ServerProcess) -> None:
    assert server.client.get("/health").status_code == 200
    answer = server.client.post("/embed", json={"inputs": "ab"})
    assert answer.status_code == 400
    assert "embed_all" in answer.text
    found = server.client.post("/highlights", json={"query": "ab cd", "documents": ["ab cd e. fg a. b c."]})
    assert found.raise_for_status().json()


PAGE = "ab cd e fg. a b c. Ελληνικα αβ γδ. мир и дом? fg fg, e. cd cd a. kl ij gh. a e i. " * 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference("bert", tmp_path_factory.mktemp("late") / "model")


def test_highlights_rank_windows_by_maxsim(model: Reference) -> None:
    with Highlighter(model.path, devices="cpu", dtype="float32") as highlighter:
        options: Any = {"highlight_length": 2, "expand": False, "lexical_weight": 0.0, "top_k": 3}
        first = highlighter.highlights("ab cd?", [PAGE], **options)[0]
        # The cache keeps vectors in bytes, and so does the first call.
        assert highlighter.highlights("ab cd?", [PAGE], **options)[0] == first
        assert highlighter.cache.hits == 1
        for passage in first:
            mean = model.maxsim("ab cd?", passage.text) / 32
            assert passage.cosine == pytest.approx(mean, abs=3e-3)
        windows = [PAGE[start:end] for start, end in pullquote.parse_pieces(PAGE, 2)]
        best = max(model.maxsim("ab cd?", window) / 32 for window in windows)
        assert first[0].cosine == pytest.approx(best, abs=3e-3)
        grown, again = (
            [list(page) for page in highlighter.highlights("ab cd?", [PAGE, "Ελληνικα. мир"], titles=["ab", "e"])]
            for _ in range(2)
        )
        assert grown == again
        assert all(0.0 <= passage.score <= 1.0 for page in grown for passage in page)


def test_vectors_of_texts_and_instant_effort_are_refused(model: Reference) -> None:
    with Highlighter(model.path, devices="cpu") as highlighter:
        with raises(InvalidArgumentError, "late interaction", "embed_all"):
            highlighter.embed(["ab"])
        with raises(InvalidArgumentError, "instant", "auto"):
            highlighter.highlights("ab", [PAGE], effort="instant")
    with pytest.raises(UnsupportedModelError):
        Highlighter(model.path, encoder="torch")
    with raises(InvalidArgumentError, "truncate_dim"):
        Highlighter(model.path, devices="cpu", truncate_dim=8)


def test_tokenizer_without_prefix_is_refused(tmp_path: Path) -> None:
    tiny_models.save_late_interaction(tmp_path / "model", query_prefix="[unused7]")
    with raises(InvalidModelError, "unused7", "tokenizer.json"):
        Highlighter(tmp_path / "model", devices="cpu")
    settings = {"model_type": "MultiVectorEncoder"}
    (tmp_path / "model" / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")
    with raises(UnsupportedModelError, "MultiVectorEncoder", "pylate"):
        Highlighter(tmp_path / "model", devices="cpu")
