"""The sides of the end-to-end measurement, with a common interface: `run` does the work and returns its duration.

pullquote and sentence-transformers run each in a process of its own, because both set libtorch's threads for a whole
process; they are timed inside it. The third side, a pipeline of processes, is in `pipeline.py`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers.utils.logging import disable_progress_bar

import pullquote
from bench.scores import Chosen, choose_on_each
from bench.workload import HIGHLIGHT_LENGTH, STEP_SIZE, TOP_K, Page
from pullquote import Highlight
from pullquote.engine import Work

DEADLINE_SECONDS = 900.0  # seconds for one answer of another process, model loading included


def work_as_dict(work: Work) -> dict[str, Any]:
    """`Highlights.work` for a record."""
    return {name: getattr(work, name) for name in work.__match_args__}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all sides share: a model's directory, torch's names of dtype and device, and the rivals' windows in a batch."""

    model: Path
    dtype: str
    device: str
    batch_size: int


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run: its seconds, each page's highlights, and `Highlights.work` (pullquote only)."""

    seconds: float
    chosen: list[Chosen]
    work: dict[str, float]


class Contender(Protocol):
    """One way to do the work, loaded and waiting."""

    threads: str

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """Find every page's highlights once, for one query or one for each page."""

    def close(self) -> None:
        """End its processes and give its memory back."""


class Pullquote:
    """`Highlighter.highlights`, one call for all pages; it cuts the windows itself."""

    def __init__(self, setting: Setting) -> None:
        self._highlighter = pullquote.Highlighter(
            setting.model, devices=[setting.device], dtype=setting.dtype, cache_bytes=0
        )
        self.threads = "1 process; as many threads for text as cores, and one encoder thread for each core"

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """One call, timed from texts to highlights."""
        texts = [page.text for page in pages]
        start = time.perf_counter()
        result = self._highlighter.highlights(
            query,
            texts,
            pairing="all" if isinstance(query, str) else "each",
            highlight_length=HIGHLIGHT_LENGTH,
            step_size=STEP_SIZE,
            top_k=TOP_K,
            # As `parse_pieces` cuts the rivals' windows, and as they rank: windows, by cosine.
            format="text",
            expand=False,
            dedupe="none",
            lexical_weight=0.0,
            effort="full",
        )
        found = list(result)
        seconds = time.perf_counter() - start
        return Run(seconds, as_chosen(found), work_as_dict(result.work))

    def close(self) -> None:
        """Stop the encoder's threads."""
        self._highlighter.close()


def as_chosen(found: list[list[Highlight]]) -> list[Chosen]:
    """Convert pullquote's highlights into the common type."""
    return [
        Chosen(
            np.array([(one.start, one.end) for one in page], dtype=np.int64).reshape(-1, 2),
            np.array([one.cosine for one in page], dtype=np.float32),
            None,
        )
        for page in found
    ]


class SentenceTransformers:
    """`SentenceTransformer.encode` of all windows in one call; it sorts them by length itself.

    The windows' spans are given, so it is spared the cutting.
    """

    def __init__(self, setting: Setting) -> None:
        self._model = load_sentence_transformer(setting)
        self._batch_size = setting.batch_size
        threads = torch.get_num_threads()
        self.threads = f"1 process; torch computes with {threads} threads, tokenizers with one for each core"

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """Slice, encode and choose, timed from texts and spans to highlights."""
        start = time.perf_counter()
        windows = [window for page in pages for window in page.windows()]
        query_vectors = self._encode([query] if isinstance(query, str) else query)
        vectors = self._encode(windows)
        chosen = choose_on_each(pages, vectors, query_vectors)
        return Run(time.perf_counter() - start, chosen, {})

    def close(self) -> None:
        """Nothing, because its process ends with it."""

    def _encode(self, texts: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        vectors = self._model.encode(
            texts, batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)


def load_sentence_transformer(setting: Setting) -> SentenceTransformer:
    """Load the model as sentence-transformers does, on the setting's device and in its dtype."""
    disable_progress_bar()
    model = SentenceTransformer(str(setting.model), device=setting.device)
    return model.to(getattr(torch, setting.dtype)).eval()


class InProcess:
    """A side in a process of its own; it loads there, and later calls are sent to it."""

    def __init__(self, kind: Callable[[Setting], Contender], setting: Setting) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(kind, setting, theirs), daemon=True)
        self._process.start()
        theirs.close()  # so that this side sees the end of the other
        self.threads = str(self._answer())

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """Run in that process, which measures the seconds: sending the request and the answer is not included."""
        self._connection.send((query, pages))
        run = self._answer()
        assert isinstance(run, Run)
        return run

    def close(self) -> None:
        """Ask the process to end, and wait for it."""
        with contextlib.suppress(BrokenPipeError):  # it may have ended with an error
            self._connection.send(None)
        self._process.join(timeout=60)
        if self._process.is_alive():
            self._process.terminate()
        self._connection.close()

    def _answer(self) -> object:
        """Receive an answer. Raises `EOFError` if the process ended; its traceback is on stderr."""
        if not self._connection.poll(DEADLINE_SECONDS):
            message = f"no answer in {DEADLINE_SECONDS:.0f} seconds"
            raise TimeoutError(message)
        return self._connection.recv()


def _serve(kind: Callable[[Setting], Contender], setting: Setting, parent: Connection) -> None:
    side = kind(setting)
    parent.send(side.threads)
    while (task := parent.recv()) is not None:
        query, pages = task
        parent.send(side.run(query, pages))
    side.close()
