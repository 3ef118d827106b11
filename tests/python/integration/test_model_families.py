"""Every family of models gives the vectors of transformers and sentence-transformers, from its directory alone."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pullquote import Highlighter, _native
from support import tiny_models

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pullquote.errors.TruncationWarning")]

SCRIPTS = ["abcdefghijkl", "абвгдежзик", "αβγδεζηθικ", "".join(chr(letter) for letter in range(0x4E00, 0x4E40))]


def texts() -> list[str]:
    """200 texts of 1 to 1,100 tokens in four scripts; one is longer."""
    chosen = random.Random(7)
    lengths = [0, 1, 2, 3, 5, 8, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 505, 509, 510, 511, 700, 1300]
    found = []
    for number in range(200):
        letters = SCRIPTS[number % len(SCRIPTS)]
        length = lengths[number] if number < len(lengths) else chosen.choice([4, 9, 20, 40, 80, 160])
        words = ["".join(chosen.choices(letters, k=chosen.randint(1, 3))) for _ in range(length)]
        found.append(" ".join(words)[: 2 * length + 1] if number < len(lengths) else " ".join(words))
    return found


TEXTS = texts()


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, NDArray[np.float32]]]:
    """The directory of each family, and its vectors by sentence-transformers."""
    folder = tmp_path_factory.mktemp("families")
    found = {}
    for name, make in tiny_models.FAMILIES.items():
        is_decoder = name.startswith(("qwen", "gemma3-causal"))
        model = tiny_models.save(
            make(), folder / name, pooling="lasttoken" if is_decoder else "mean", ends_only=is_decoder
        )
        found[name] = folder / name, np.asarray(model.encode(TEXTS, batch_size=16, show_progress_bar=False))
    return found


def relative_difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """The largest difference of a value, where vectors have unit length."""
    return float((np.abs(ours - theirs).max(axis=1) / np.linalg.norm(theirs, axis=1)).max())


def least_cosine(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return float(((ours * theirs).sum(axis=1) / lengths).min())


@pytest.mark.parametrize("encoder", [None, "torch"])
@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_float32_matches_sentence_transformers(family: str, encoder: Any, saved: dict[str, Any]) -> None:
    path, expected = saved[family]
    with Highlighter(path, devices="cpu", dtype="float32", encoder=encoder) as highlighter:
        assert relative_difference(highlighter.embed(TEXTS), expected) < 1e-5


@pytest.mark.parametrize("instruction_set", _native.instruction_sets()[1:])
def test_every_instruction_set_matches(
    instruction_set: str, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLQUOTE_CPU", instruction_set)
    for path, expected in saved.values():
        with Highlighter(path, devices="cpu", dtype="float32") as highlighter:
            assert relative_difference(highlighter.embed(TEXTS[:40]), expected[:40]) < 1e-5, path


# Random weights are the hardest case: nothing in them was learned to survive rounding.
LEAST = {"bfloat16": 0.9995, "int8": 0.995}


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
@pytest.mark.parametrize("dtype", LEAST)
def test_narrow_dtypes_keep_cosine(family: str, dtype: str, saved: dict[str, Any]) -> None:
    path, expected = saved[family]
    with Highlighter(path, devices="cpu", dtype=dtype) as highlighter:
        assert least_cosine(highlighter.embed(TEXTS), expected) > LEAST[dtype]


def test_windows_of_unit_token_reach_models_limit(saved: dict[str, Any]) -> None:
    page = " ".join(TEXTS[:24])
    with Highlighter(saved["nomic_bert"][0], devices="cpu", dtype="float32") as highlighter:
        # Two tokens of the limit are special.
        for highlight_length, is_cut in [(tiny_models.LONGEST - 2, False), (tiny_models.LONGEST - 1, True)]:
            found = highlighter.highlights(
                "ab cd", [page], unit="token", highlight_length=highlight_length, step_size=900, top_k=1, effort="full"
            )
            assert (found.work.truncated > 0) == is_cut
            best = found[0][0]
            assert page[best.start : best.end] == best.text
            assert len(highlighter.parse_pieces(best.text, 1, 1, unit="token")) <= highlight_length
        assert best.cosine is not None


@pytest.mark.parametrize("family", ["gte", "nomic_bert"])
def test_models_with_code_of_their_own_match_transformers(family: str, saved: dict[str, Any], tmp_path: Path) -> None:
    path, expected = saved[family]
    tiny_models.write_with_own_code(path, tmp_path / "own")
    for encoder in (None, "torch"):
        with Highlighter(tmp_path / "own", devices="cpu", dtype="float32", encoder=encoder) as highlighter:
            assert relative_difference(highlighter.embed(TEXTS), expected) < 1e-5


@pytest.mark.parametrize("query_norm", [False, True])
def test_jina_bert_matches_reference(query_norm: bool, tmp_path: Path) -> None:
    model = tiny_models.save_jina(tmp_path / "jina", query_norm=query_norm)
    tokenizer = tiny_models.tokenizer()
    with torch.no_grad():
        rows = [model(torch.tensor(tokenizer(text, truncation=True)["input_ids"])).numpy() for text in TEXTS]
    expected = np.stack(rows)
    for encoder in (None, "torch"):
        with Highlighter(tmp_path / "jina", devices="cpu", dtype="float32", encoder=encoder) as highlighter:
            assert relative_difference(highlighter.embed(TEXTS), expected) < 1e-5
    for dtype, least in LEAST.items():
        with Highlighter(tmp_path / "jina", devices="cpu", dtype=dtype) as highlighter:
            assert least_cosine(highlighter.embed(TEXTS), expected) > least
