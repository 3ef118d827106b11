"""The cost of a second look: a reranker's time for 8, 32 and 128 candidates, against sentence-transformers' CrossEncoder.

Weights are random, of the size of ms-marco-MiniLM-L6-v2: no published weights could be had, and time does not depend on them.
Candidates are windows of real pages, about 100 tokens each. Both compute in the same process, one after the other, with as many
threads as cores; the best of five runs counts. ``python bench/rerank.py``
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pullquote
from pullquote import Highlighter
from pullquote._models.choice import embedded_model

PAGES = Path(__file__).parents[1] / "demo" / "pages"
QUERY = "How long does a battery of an electric car last in the cold?"
CANDIDATES = (8, 32, 128)
RUNS = 5


def save_model(path: Path) -> None:
    """Save a classifier with one label and random weights."""
    import transformers  # noqa: PLC0415 - slow to import

    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    config.num_labels = 1
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(embedded_model()).save_pretrained(path)


def candidates() -> list[str]:
    """Windows of five sentences, none twice: a cached pair would cost nothing."""
    found: list[str] = []
    for page in sorted(PAGES.glob("*.en.*")):
        text = page.read_text("utf-8", errors="ignore")
        found += [text[start:end] for start, end in pullquote.parse_pieces(text, 5, 5)]
    return [text for text in dict.fromkeys(found) if 300 < len(text) < 700]


def best(run: Callable[[], Any]) -> float:
    """The least time of a call, in seconds."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Print a table in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", nargs="*", default=["float32", "bfloat16", "int8"])
    dtypes = parser.parse_args().dtype
    import torch  # noqa: PLC0415 - slow to import
    from sentence_transformers import CrossEncoder  # noqa: PLC0415

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    texts = candidates()
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reranker"
        save_model(path)
        theirs = CrossEncoder(str(path), device="cpu")
        rows["CrossEncoder, float32"] = [
            best(partial(theirs.predict, [(QUERY, text) for text in texts[:count]])) for count in CANDIDATES
        ]
        for dtype in dtypes:
            with Highlighter(devices="cpu", dtype=dtype, reranker=path, cache_bytes=0) as ours:
                rows[f"pullquote, {dtype} ({ours.backend})"] = [
                    best(partial(ours.rerank, QUERY, texts[:count])) for count in CANDIDATES
                ]
    print(f"{threads} threads, milliseconds, best of {RUNS}\n")
    print("| | " + " | ".join(f"{count} candidates" for count in CANDIDATES) + " |")
    print("|---|" + "---:|" * len(CANDIDATES))
    for name, times in rows.items():
        print(f"| {name} | " + " | ".join(f"{1000 * one:.0f}" for one in times) + " |")


if __name__ == "__main__":
    main()
