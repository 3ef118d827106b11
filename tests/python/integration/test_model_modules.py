"""Modules after the transformer, static embeddings, prompts, and pickled weights, against sentence-transformers."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling, StaticEmbedding, Transformer

from pullquote import Highlighter
from pullquote.errors import InvalidArgumentError, InvalidModelError, ModelNotFoundError, UnsupportedModelError
from support import tiny_models
from support.messages import raises

pytestmark = pytest.mark.slow

TEXTS = ["ab cd e fg", "a", "", "Ελληνικα αβ γδ", "мир и дом", "一丁七 丂", "ab " * 60]


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT as transformers saves it."""
    path = tmp_path_factory.mktemp("modules") / "body"
    model = tiny_models.FAMILIES["bert"]()
    tiny_models.randomize(model)
    model.save_pretrained(path)
    tiny_models.tokenizer().save_pretrained(path)
    return path


def saved(path: Path, modules: list[Any]) -> SentenceTransformer:
    for seed, module in enumerate(modules[1:]):
        tiny_models.randomize(module, seed)
    SentenceTransformer(modules=modules, device="cpu").save(str(path))
    return SentenceTransformer(str(path), device="cpu")


def embed(path: Path, **settings: Any) -> NDArray[np.float32]:
    with Highlighter(path, devices="cpu", dtype="float32", **settings) as highlighter:
        return highlighter.embed(TEXTS)


def assert_both_equal(path: Path, expected: NDArray[np.float32], **settings: Any) -> None:
    """Of the CPU encoder and of libtorch."""
    for encoder in (None, "torch"):
        assert_equal(embed(path, encoder=encoder, **settings), expected)


def assert_equal(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    assert ours.shape == theirs.shape
    scale = np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1e-3)
    assert (np.abs(ours - theirs) / scale).max() < 1e-5


@pytest.mark.parametrize("pooling", [*Pooling.POOLING_MODES, ("cls", "weightedmean", "mean_sqrt_len_tokens")])
def test_poolings_match_sentence_transformers(pooling: Any, body: Path, tmp_path: Path) -> None:
    model = saved(tmp_path / "model", [Transformer(str(body)), Pooling(64, pooling)])
    assert_both_equal(tmp_path / "model", model.encode(TEXTS))


ACTIVATIONS = [
    torch.nn.Tanh(),
    torch.nn.Identity(),
    torch.nn.ReLU(),
    torch.nn.GELU(),
    torch.nn.SiLU(),
    torch.nn.Sigmoid(),
]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda activation: type(activation).__name__)
def test_dense_modules_match_sentence_transformers(activation: torch.nn.Module, body: Path, tmp_path: Path) -> None:
    dense = [Dense(64, 100, bias=False, activation_function=activation), Dense(100, 24, activation_function=activation)]
    modules = [Transformer(str(body)), Pooling(64, "mean"), dense[0], Normalize(), dense[1], LayerNorm(24), Normalize()]
    model = saved(tmp_path / "model", modules)
    assert_both_equal(tmp_path / "model", model.encode(TEXTS))


def test_do_lower_case_matches_sentence_transformers(body: Path, tmp_path: Path) -> None:
    """BGE's files ask for it; here of a tokenizer that keeps case itself."""
    cased = tmp_path / "cased"
    shutil.copytree(body, cased)
    tokenizer = json.loads((cased / "tokenizer.json").read_text("utf-8"))
    tokenizer["normalizer"] |= {"lowercase": False, "strip_accents": False}
    (cased / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    SentenceTransformer(modules=[Transformer(str(cased)), Pooling(64, "mean")], device="cpu").save(
        str(tmp_path / "model")
    )
    settings = tmp_path / "model" / "sentence_bert_config.json"
    settings.write_text(json.dumps({"max_seq_length": 512, "do_lower_case": True}), "utf-8")
    texts = ["AB Cd", "МИР и Дом", "ΕΛΛΗΝΙΚΑ αβ"]
    expected = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts)
    with Highlighter(tmp_path / "model", devices="cpu", dtype="float32") as highlighter:
        assert_equal(highlighter.embed(texts), expected)
        assert_equal(highlighter.embed([text.lower() for text in texts[:2]]), expected[:2])


@pytest.mark.parametrize("end", [[LayerNorm(64)], [Normalize()], []], ids=["norm", "normalize", "pooling"])
def test_truncate_dim_cuts_and_normalizes(body: Path, tmp_path: Path, end: list[Any]) -> None:
    model = saved(tmp_path / "model", [Transformer(str(body)), Pooling(64, "mean"), *end])
    expected = model.encode(TEXTS, truncate_dim=16, normalize_embeddings=True)
    assert_both_equal(tmp_path / "model", expected, truncate_dim=16)
    with Highlighter(tmp_path / "model", devices="cpu", truncate_dim=16) as highlighter:
        assert highlighter.dimension == 16
    for wrong in (0, 65):
        with raises(InvalidArgumentError, "truncate_dim", wrong):
            embed(tmp_path / "model", truncate_dim=wrong)
        with raises(InvalidArgumentError, "truncate_dim", wrong):
            embed(tmp_path / "model", truncate_dim=wrong, encoder="torch")


def static_tokenizer() -> Any:
    return tiny_models.tokenizer().backend_tokenizer


def test_static_embeddings_match_sentence_transformers(tmp_path: Path) -> None:
    model = SentenceTransformer(modules=[StaticEmbedding(static_tokenizer(), embedding_dim=48)], device="cpu")
    model.save(str(tmp_path / "static"))
    assert_equal(embed(tmp_path / "static"), SentenceTransformer(str(tmp_path / "static"), device="cpu").encode(TEXTS))


def write_model2vec(path: Path, *, is_quantized: bool) -> NDArray[np.float32]:
    """Write the files of model2vec, and return the vectors of `TEXTS`: means without unknown tokens, of unit length."""
    tokenizer, chosen = static_tokenizer(), np.random.default_rng(3)
    count = tokenizer.get_vocab_size()
    tensors = {"embeddings": chosen.normal(size=(count, 48)).astype(np.float32)}
    table = tensors["embeddings"]
    if is_quantized:
        tensors = {
            "embeddings": tensors["embeddings"][:30],
            "mapping": chosen.integers(0, 30, count),
            "weights": chosen.random(count),
        }
        table = tensors["embeddings"][tensors["mapping"]] * tensors["weights"][:, None].astype(np.float32)
    path.mkdir()
    save_file(tensors, path / "model.safetensors")
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(
        json.dumps({"model_type": "model2vec", "normalize": True, "hidden_dim": 48}), "utf-8"
    )
    rows = []
    for text in TEXTS:
        ids = [
            index
            for index in tokenizer.encode(text, add_special_tokens=False).ids
            if index != tokenizer.token_to_id("<unk>")
        ]
        rows.append(table[ids].mean(axis=0) if ids else np.zeros(48))
    vectors = np.array(rows, np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


@pytest.mark.parametrize("is_quantized", [False, True])
def test_model2vec_files_give_means_of_rows(is_quantized: bool, tmp_path: Path) -> None:
    expected = write_model2vec(tmp_path / "potion", is_quantized=is_quantized)
    assert_equal(embed(tmp_path / "potion"), expected)
    with Highlighter(tmp_path / "potion", devices="cpu") as highlighter:
        assert highlighter.highlights("ab cd", ["мир и дом. ab cd e. 一丁七."], top_k=1)[0]


def test_model2vec_files_with_modules_match_sentence_transformers(tmp_path: Path) -> None:
    write_model2vec(path := tmp_path / "potion", is_quantized=False)
    # As model2vec writes them for potion-base.
    module = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": f"{module}StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{module}Normalize"},
    ]
    (path / "modules.json").write_text(json.dumps(modules), "utf-8")
    assert_equal(embed(path), SentenceTransformer(str(path), device="cpu").encode(TEXTS))


def test_prompts_are_options_and_in_repr(body: Path, tmp_path: Path) -> None:
    path = tmp_path / "bge-small-en-v1.5"
    modules = [Transformer(str(body)), Pooling(64, "mean")]
    SentenceTransformer(modules=modules, device="cpu", prompts={"query": "", "document": "", "ab": "ab cd "}).save(
        str(path)
    )
    model = SentenceTransformer(str(path), device="cpu")
    with Highlighter(path, devices="cpu", dtype="float32") as highlighter:
        assert highlighter.prompts == (
            "Represent this sentence for searching relevant passages: ",
            "",
            "pullquote's table of models",
        )
        assert "Represent this sentence" in repr(highlighter)
    with Highlighter(path, devices="cpu", dtype="float32", prompt_name="ab", passage_prompt="e fg ") as highlighter:
        assert highlighter.prompts == ("ab cd ", "e fg ", "the caller")
        assert_equal(highlighter.embed(TEXTS, role="query"), model.encode(TEXTS, prompt_name="ab"))
        assert_equal(highlighter.embed(TEXTS), model.encode(TEXTS, prompt="e fg "))
    with raises(InvalidArgumentError, "prompt_name", "cd"):
        Highlighter(path, devices="cpu", prompt_name="cd")


def test_torch_refuses_static_embeddings_and_names_the_cpu_encoder(tmp_path: Path) -> None:
    model = SentenceTransformer(modules=[StaticEmbedding(static_tokenizer(), embedding_dim=48)], device="cpu")
    model.save(str(tmp_path / "static"))
    with pytest.raises(UnsupportedModelError, match=re.compile("static embeddings.*CPU encoder", re.DOTALL)):
        Highlighter(tmp_path / "static", devices="cpu", encoder="torch")


def test_other_folders_than_a_model_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home directory, for example, has models somewhere below it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    below = tmp_path / "home" / "models" / "deep"
    below.mkdir(parents=True)
    for name in ("config.json", "pytorch_model.bin"):
        (below / name).write_text("{}")
    for directory in (tmp_path / "home", tmp_path / "home" / "models"):
        with pytest.raises(ModelNotFoundError, match=re.escape(str(directory / "config.json"))):
            Highlighter(directory)
    assert not (tmp_path / "cache").exists()


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `import torch` does where it is not installed."""
    monkeypatch.setitem(sys.modules, "torch", None)


def test_pickled_weights_are_converted_once_without_torch(
    body: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = saved(tmp_path / "model", [Transformer(str(body)), Pooling(64, "mean"), Dense(64, 24)])
    expected = model.encode(TEXTS)
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    names = sorted(tensors)
    # In two files, one of them in the other's order of dimensions.
    parts = {"pytorch_model-1.bin": names[::2], "pytorch_model-2.bin": names[1::2]}
    for file, chosen in parts.items():
        torch.save({name: tensors[name].t().contiguous().t() for name in chosen}, tmp_path / "model" / file)
    weight_map = {name: file for file, chosen in parts.items() for name in chosen}
    index = tmp_path / "model" / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}), "utf-8")
    dense = tmp_path / "model" / "2_Dense"
    torch.save(load_file(dense / "model.safetensors"), dense / "pytorch_model.bin")
    for folder in (tmp_path / "model", dense):
        (folder / "model.safetensors").unlink()
    without_torch(monkeypatch)
    assert_equal(embed(tmp_path / "model"), expected)
    converted = list((tmp_path / "cache").glob("**/model.safetensors"))
    times = [path.stat().st_mtime_ns for path in converted]
    assert len(converted) == 2
    assert_equal(embed(tmp_path / "model"), expected)
    assert [path.stat().st_mtime_ns for path in converted] == times


def pickled(body: Path, path: Path, content: Any, **options: Any) -> Path:
    """A copy of a model, with this in `pytorch_model.bin`."""
    shutil.copytree(body, path)
    (path / "model.safetensors").unlink()
    torch.save(content, path / "pytorch_model.bin", **options)
    return path


def test_pickles_of_old_torch_need_torch(body: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tensors = load_file(body / "model.safetensors")
    path = pickled(body, tmp_path / "old", tensors, _use_new_zipfile_serialization=False)
    with monkeypatch.context() as here:
        without_torch(here)
        with raises(ModelNotFoundError, path / "pytorch_model.bin", "pip install torch"):
            embed(path)
    assert_equal(embed(path), embed(body))


class Program:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def test_pickles_run_no_code(body: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = pickled(body, tmp_path / "evil", {"weight": Program(tmp_path / "made")})
    with raises(InvalidModelError, path / "pytorch_model.bin", "mkdir"):
        embed(path)
    assert not (tmp_path / "made").exists()
