"""Sides for whole pages: `highlights()` with its defaults, and scripts around OpenVINO, ONNX Runtime and fastembed.

The scripts are written by hand for this task. OpenVINO and ONNX Runtime compute a batch on each core, because with all cores
on one batch the same pages take longer. Each side runs in a process of its own, by `contenders.InProcess`.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import pullquote
from bench.contenders import Run, Setting, as_chosen, work_as_dict
from bench.encoders import export_float32, load_fastembed
from bench.machine_noise import cores
from bench.scores import choose_on_each
from bench.workload import Page, read_max_tokens

DIMENSION = 384


class Full:
    """All defaults, except that every window is encoded and nothing is cached. Uses only the model of the setting."""

    options: ClassVar[dict[str, Any]] = {"effort": "full"}

    def __init__(self, setting: Setting) -> None:
        self._highlighter = pullquote.Highlighter(setting.model, cache_bytes=0)
        self.threads = f"1 process, {self._highlighter.dtype}; one thread for text and one encoder thread for each core"

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """One call, timed from texts to highlights."""
        texts = [page.text for page in pages]
        pairing: Any = "all" if isinstance(query, str) else "each"
        start = time.perf_counter()
        result = self._highlighter.highlights(query, texts, pairing=pairing, **self.options)
        found = list(result)
        return Run(time.perf_counter() - start, as_chosen(found), work_as_dict(result.work))

    def close(self) -> None:
        """Stop the encoder's threads."""
        self._highlighter.close()


class Auto(Full):
    """All defaults, except that nothing is cached."""

    options: ClassVar[dict[str, Any]] = {}


class Script:
    """tokenizers on all cores, batches of equally long windows, an engine for the vectors, numpy for the rest.

    The windows' spans are given, so it is spared the cutting. Pooling and normalization are part of the graph.
    """

    threads: str

    def __init__(self, setting: Setting) -> None:
        self._batch_size = setting.batch_size
        self._tokenizer = Tokenizer.from_file(str(setting.model / "tokenizer.json"))
        self._tokenizer.enable_truncation(read_max_tokens(setting.model))
        self._tokenizer.no_padding()
        with tempfile.TemporaryDirectory() as directory:
            export_float32(setting.model, Path(directory) / "model.onnx")
            self._load(Path(directory) / "model.onnx", setting)

    def run(self, query: str | list[str], pages: list[Page]) -> Run:
        """Slice, encode and choose, timed from texts and spans to highlights."""
        start = time.perf_counter()
        queries = [query] if isinstance(query, str) else query
        vectors = self._encode([*queries, *(window for page in pages for window in page.windows())])
        chosen = choose_on_each(pages, vectors[len(queries) :], vectors[: len(queries)])
        return Run(time.perf_counter() - start, chosen, {})

    def close(self) -> None:
        """Nothing, because its process ends with it."""

    def _load(self, graph: Path, setting: Setting) -> None:
        raise NotImplementedError

    def _start(self, inputs: dict[str, NDArray[np.int64]], vectors: NDArray[np.float32], rows: list[int]) -> None:
        """Start a batch whose vectors will be written to these rows."""
        raise NotImplementedError

    def _wait(self) -> None:
        """Wait for all batches."""
        raise NotImplementedError

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        vectors = np.empty((len(rows), DIMENSION), dtype=np.float32)
        for first in range(0, len(order), self._batch_size):
            batch = order[first : first + self._batch_size]
            ids = np.zeros((len(batch), len(rows[batch[0]])), dtype=np.int64)
            mask = np.zeros_like(ids)
            for place, row in enumerate(batch):
                ids[place, : len(rows[row])] = rows[row]
                mask[place, : len(rows[row])] = 1
            self._start({"ids": ids, "mask": mask}, vectors, batch)
        self._wait()
        return vectors


class OpenVINO(Script):
    """By OpenVINO, which has a queue of requests."""

    def _load(self, graph: Path, setting: Setting) -> None:
        import openvino  # noqa: PLC0415 - only this side's process loads it

        options = {
            "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[setting.dtype],
            "PERFORMANCE_HINT": "THROUGHPUT",
            "NUM_STREAMS": cores(),
            "INFERENCE_NUM_THREADS": cores(),
        }
        self._requests = openvino.AsyncInferQueue(openvino.Core().compile_model(str(graph), "CPU", options))
        self._requests.set_callback(_keep)
        self.threads = f"1 process, {setting.dtype}; tokenizers with one thread for each core, then a stream for each"

    def _start(self, inputs: dict[str, NDArray[np.int64]], vectors: NDArray[np.float32], rows: list[int]) -> None:
        self._requests.start_async(inputs, (vectors, rows))

    def _wait(self) -> None:
        self._requests.wait_all()


class OnnxRuntime(Script):
    """By ONNX Runtime: one session, which a thread for each core runs."""

    def _load(self, graph: Path, setting: Setting) -> None:
        import onnxruntime  # noqa: PLC0415 - only this side's process loads it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._pool = ThreadPoolExecutor(cores())
        self._futures: list[Future[None]] = []
        self.threads = f"1 process, {setting.dtype}; tokenizers with one thread for each core, then a batch on each"

    def _start(self, inputs: dict[str, NDArray[np.int64]], vectors: NDArray[np.float32], rows: list[int]) -> None:
        def run() -> None:
            vectors[rows] = self._session.run(None, inputs)[0]

        self._futures.append(self._pool.submit(run))

    def _wait(self) -> None:
        for future in self._futures:
            future.result()
        self._futures.clear()


class FastEmbed(Script):
    """By fastembed with its defaults: it tokenizes, batches and pools by itself."""

    def _load(self, graph: Path, setting: Setting) -> None:
        self._embedding = load_fastembed(setting.model, graph)
        self.threads = f"1 process, {setting.dtype}; fastembed's own, as many threads as cores"

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        return np.stack(list(self._embedding.embed(texts)))


def _keep(request: Any, where: tuple[NDArray[np.float32], list[int]]) -> None:
    """Copy what a finished request computed to its rows."""
    vectors, batch = where
    vectors[batch] = request.get_tensor("vectors").data
