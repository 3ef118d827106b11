"""What the first load of a model measures: the scale of its cosines, and whether int8 keeps its vectors. The user's cache keeps
both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pullquote_minilm
import pytest
from numpy.typing import NDArray

from pullquote import Highlighter

MINILM = Path(pullquote_minilm.__file__).parent / "model"
QUERY = "When does the museum open?"
PAGE = "The museum opens at nine. It was built in 1890 by a banker. The garden has old trees."
SHORT = Path(__file__).parents[2] / "data" / "short_questions"


def tensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    start, header = 8 + length, json.loads(data[8 : 8 + length])
    kinds = {"F16": np.float16, "F32": np.float32}
    return {
        name: np.frombuffer(data[start + one["data_offsets"][0] : start + one["data_offsets"][1]], kinds[one["dtype"]])
        .reshape(one["shape"])
        .astype(np.float32)
        for name, one in header.items()
        if name != "__metadata__" and one["dtype"] in kinds
    }


def write_table(folder: Path, table: np.ndarray[Any, Any]) -> None:
    """Write a model of static vectors, as sentence-transformers saves one."""
    data = table.astype("<f4").tobytes()
    tensor = {"dtype": "F32", "shape": list(table.shape), "data_offsets": [0, len(data)]}
    header = json.dumps({"embedding.weight": tensor}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    kinds = ["StaticEmbedding", "Normalize"]
    modules = [
        {
            "idx": at,
            "name": str(at),
            "path": "" if at == 0 else "1_Normalize",
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    shutil.copy(MINILM / "tokenizer.json", folder)


@pytest.fixture(scope="module")
def table() -> NDArray[np.float32]:
    """MiniLM's vectors of tokens, without what all have in common: a static model that knows words."""
    weights = tensors(MINILM / "model.safetensors")
    words = next(value for name, value in weights.items() if name.endswith("word_embeddings.weight"))
    made: NDArray[np.float32] = words - words.mean(axis=0)
    return made


@pytest.fixture
def static_model(tmp_path: Path, table: np.ndarray[Any, Any]) -> Path:
    folder = tmp_path / "static"
    folder.mkdir()
    write_table(folder, table)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Path]]:
    """An empty cache of the user's; returns its files of a kind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda kind: sorted((tmp_path / "cache" / "pullquote").glob(f"{kind}-*"))


def score(model: Path) -> float:
    with Highlighter(model) as highlighter:
        return highlighter.highlights(QUERY, [PAGE])[0][0].score


def test_first_load_measures_scale_and_second_reads_it(static_model: Path, cache: Callable[[str], list[Path]]) -> None:
    with Highlighter(static_model) as highlighter:
        (kept,) = cache("cosine_scale")
        first = highlighter.highlights(QUERY, [PAGE])[0][0].score
    assert score(static_model) == first
    assert cache("cosine_scale") == [kept]
    numbers = json.loads(kept.read_text())
    kept.write_text(json.dumps([*numbers[:4], numbers[4] - 1, *numbers[5:]]))
    assert score(static_model) < first / 2
    kept.write_text("[]")
    assert score(static_model) == first


def test_scale_is_measured_without_cache_to_write(
    static_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Callable[[str], list[Path]]
) -> None:
    first = score(static_model)
    assert cache("cosine_scale")
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert score(static_model) == first
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").mkdir(mode=0o500)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert score(static_model) == first


def test_changed_weights_are_measured_again(
    static_model: Path, table: np.ndarray[Any, Any], cache: Callable[[str], list[Path]]
) -> None:
    score(static_model)
    write_table(static_model, table[:, :96])
    score(static_model)
    first, second = (json.loads(path.read_text()) for path in cache("cosine_scale"))
    assert first != second


@pytest.mark.usefixtures("cache")
def test_static_model_gives_low_scores_to_unanswerable_questions(static_model: Path) -> None:
    rows = [json.loads(line) for line in (SHORT / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if not row["answers"] and row["page"].endswith(".txt")]
    with Highlighter(static_model) as highlighter:
        texts = [(SHORT / "pages" / row["page"]).read_text(encoding="utf-8") for row in rows]
        scores = [
            highlighter.highlights(row["query"], [text]).scores.max() for row, text in zip(rows, texts, strict=True)
        ]
    assert len(rows) > 10
    assert sum(score > 0.5 for score in scores) <= len(rows) / 10


def test_first_load_measures_int8_and_second_reads_it(tmp_path: Path, cache: Callable[[str], list[Path]]) -> None:
    folder = tmp_path / "minilm"
    shutil.copytree(MINILM, folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("pullquote")
    (folder / "config.json").write_text(json.dumps(config))
    with Highlighter() as default:
        if default.dtype != "int8":
            pytest.skip("no fast int8 here")
    types = {}
    for reached in (None, "0.9", "0.9999"):
        if reached is not None:
            (kept,) = cache("int8_reached")
            kept.write_text(reached)
        with Highlighter(folder) as highlighter:
            types[reached] = highlighter.dtype
    assert types["0.9999"] == "int8"
    assert types["0.9"] != "int8"
