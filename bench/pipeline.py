"""A Python pipeline of processes joined by queues, as servers for this task are usually built: the third side.

    pages -> cutting processes -> tokenizing process -> model process -> chooser (the parent)

All processes live as long as the pipeline, every queue is bounded, and what passes through them is pickled: strings,
then numpy arrays, batch by batch.

The cutting processes receive the spans that pullquote cuts, so that this side embeds the same windows. They still do
the work of cutting: one pass over the text with a regular expression for sentences, whose result is discarded.
"""

from __future__ import annotations

import multiprocessing
import queue
import re
import threading
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from bench.contenders import DEADLINE_SECONDS, Run, Setting, load_sentence_transformer
from bench.machine_noise import cores
from bench.scores import choose
from bench.varlen_model import VarlenModel
from bench.workload import Page

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*\s*")
Received = TypeVar("Received")

_PAGES_WAITING = 64
# Few, so that windows gather before the tokenizing process, which sorts those that wait; the model never waits.
_BATCHES_WAITING = 4
_QUERY = -1  # the page number of the queries, which pass through the pipeline like the windows of a page


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of the page with the number `page`."""

    page: int
    texts: list[str]


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows of any pages, padded to the longest of them.

    `rows` is int64 ``[n, 2]``: page and window. `ids` and `mask` are int64 ``[n, longest]``.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    mask: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vectors:
    """A batch's vectors, float32 ``[n, dimension]`` and of length one; `rows` as in `Batch`."""

    rows: NDArray[np.int64]
    values: NDArray[np.float32]


class Pipeline:
    """The processes and the queues between them; `run` feeds pages and chooses highlights.

    Unless it `pads`, the model process drops the padding of the batches it receives.
    """

    def __init__(self, setting: Setting, max_tokens: int, *, pads: bool = True) -> None:
        context = multiprocessing.get_context("spawn")
        cutters = max(1, min(4, cores() // 2))
        self._pages: Queue[tuple[int, Page]] = context.Queue(_PAGES_WAITING)
        self._vectors: Queue[Vectors] = context.Queue(_PAGES_WAITING)
        windows: Queue[Windows] = context.Queue(_PAGES_WAITING)
        batches: Queue[Batch] = context.Queue(_BATCHES_WAITING)
        ready = context.Queue(cutters + 2)
        self._processes: list[BaseProcess] = [
            *(context.Process(target=_cut, args=(self._pages, windows, ready), daemon=True) for _ in range(cutters)),
            context.Process(target=_tokenize, args=(setting, max_tokens, windows, batches, ready), daemon=True),
            context.Process(
                target=_encode if pads else _encode_varlen, args=(setting, batches, self._vectors, ready), daemon=True
            ),
        ]
        for process in self._processes:
            process.start()
        told = [self._receive(ready) for _ in self._processes]
        stages = "; ".join(sorted(line for line in told if line))
        self.threads = f"{cutters} cutting process{'es' * (cutters > 1)}; {stages}; the parent"

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """Feed the pages, gather their vectors and choose; timed from the first page in to the last highlight out."""
        queries = [query] if isinstance(query, str) else query
        ends = np.cumsum([len(one) for one in queries])
        asked = Page("".join(queries), np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1))
        start = time.perf_counter()
        # A queue is bounded, so its feeder must run concurrently with the chooser, not before it.
        feeder = threading.Thread(target=self._feed, args=([(_QUERY, asked), *enumerate(pages)],), daemon=True)
        feeder.start()
        gathered = self._gather([*pages, asked])
        chosen = [
            choose(page.spans, gathered[number], gathered[_QUERY][number % len(queries)])
            for number, page in enumerate(pages)
        ]
        seconds = time.perf_counter() - start
        feeder.join()
        return Run(seconds, chosen, {})

    def close(self) -> None:
        """Stop all processes; they hold nothing that could be lost."""
        self._pages.cancel_join_thread()  # unsent items must not keep this process from ending
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _feed(self, pages: list[tuple[int, Page]]) -> None:
        for page in pages:
            self._pages.put(page)

    def _gather(self, pages: list[Page]) -> list[NDArray[np.float32]]:
        """Wait for each page's vectors, in the order of its windows. The queries' are last, at index -1."""
        lengths = [len(page.spans) for page in pages]
        left = sum(lengths)
        gathered: list[NDArray[np.float32]] = []
        while left:
            got = self._receive(self._vectors)
            if not gathered:
                gathered = [np.empty((length, got.values.shape[1]), np.float32) for length in lengths]
            for (page, window), vector in zip(got.rows.tolist(), got.values, strict=True):
                gathered[page][window] = vector
            left -= len(got.rows)
        return gathered

    def _receive(self, waiting: Queue[Received]) -> Received:
        """Wait for a queue's next item. Raises `ChildProcessError` if a process ended; its traceback is on stderr."""
        until = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return waiting.get(timeout=2)
            except queue.Empty:
                if any(process.exitcode is not None for process in self._processes):
                    message = "a process of the pipeline has died"
                    raise ChildProcessError(message) from None
                if time.monotonic() > until:
                    message = f"nothing came through the pipeline in {DEADLINE_SECONDS:.0f} seconds"
                    raise TimeoutError(message) from None


def _cut(pages: Queue[tuple[int, Page]], windows: Queue[Windows], ready: Queue[str]) -> None:
    ready.put("")
    while True:
        number, page = pages.get()
        for _ in _SENTENCE.finditer(page.text):  # the work of cutting; its result is not used
            pass
        windows.put(Windows(number, page.windows()))


def _tokenize(
    setting: Setting,
    max_tokens: int,
    windows: Queue[Windows],
    batches: Queue[Batch],
    ready: Queue[str],
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(setting.model))
    ready.put("a tokenizing process with one thread for each core")
    while True:
        waiting = _all_that_waits(windows)
        # By characters, as sentence-transformers does: the lengths in tokens are unknown before tokenizing.
        waiting.sort(key=lambda one: -len(one[0]))
        for start in range(0, len(waiting), setting.batch_size):
            part = waiting[start : start + setting.batch_size]
            encoded = tokenizer(
                [text for text, _, _ in part], padding=True, truncation=True, max_length=max_tokens, return_tensors="np"
            )
            rows = np.array([(page, window) for _, page, window in part], dtype=np.int64)
            batches.put(Batch(rows, encoded["input_ids"], encoded["attention_mask"]))


def _all_that_waits(windows: Queue[Windows]) -> list[tuple[str, int, int]]:
    """Take the windows of all pages in the queue, each with its page and number; waits for the first page."""
    waiting: list[tuple[str, int, int]] = []
    part = windows.get()
    while True:
        waiting += [(text, part.page, window) for window, text in enumerate(part.texts)]
        try:
            part = windows.get_nowait()
        except queue.Empty:
            return waiting


def _encode(setting: Setting, batches: Queue[Batch], vectors: Queue[Vectors], ready: Queue[str]) -> None:
    model = load_sentence_transformer(setting)
    ready.put(f"a model process, where torch computes with {torch.get_num_threads()} threads")
    with torch.inference_mode():
        while True:
            batch = batches.get()
            features = {
                "input_ids": torch.from_numpy(batch.ids).to(setting.device),
                "attention_mask": torch.from_numpy(batch.mask).to(setting.device),
            }
            embeddings = model(features)["sentence_embedding"]
            vectors.put(Vectors(batch.rows, embeddings.float().cpu().numpy()))


def _encode_varlen(setting: Setting, batches: Queue[Batch], vectors: Queue[Vectors], ready: Queue[str]) -> None:
    model = VarlenModel(setting.model, setting.dtype, setting.device)
    ready.put("a model process that does not pad rows")
    while True:
        batch = batches.get()
        vectors.put(Vectors(batch.rows, model.encode(batch.ids, batch.mask)))
