"""The sides of the encoder's measurement. All encode the same rows, and all use all cores.

A side is loaded in a process of its own. The rivals get token ids, in batches of equally long rows, so that they neither
tokenize nor pad; their pooling is part of the exported graph. pullquote gets texts.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

import pullquote
from bench.machine_noise import cores
from bench.workload import read_max_tokens

Vectors = NDArray[np.float32]

# The inputs of a network that reads pairs, by the names that transformers gives them.
PAIR_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]

# Tokens of a rival's batch: 8 rows of 64, 4 of 128. With more, ONNX Runtime is slower and OpenVINO the same.
_BATCH_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts and their token ids, int64 ``[n, length]``, special ones included."""

    texts: list[str]
    ids: NDArray[np.int64]

    def batches(self) -> list[NDArray[np.int64]]:
        """Cut the ids into batches of about 512 tokens."""
        rows = max(1, _BATCH_TOKENS // self.ids.shape[1])
        return [self.ids[first : first + rows] for first in range(0, len(self.ids), rows)]


@dataclass(frozen=True, slots=True)
class Exported:
    """The model as ONNX, in float32 and with weights in int8."""

    float32: Path
    int8: Path


@dataclass(frozen=True, slots=True)
class Side:
    """One way to encode: the software, its dtype, and what shares the cores."""

    name: str
    dtype: str
    threads: str
    load: Callable[[Path, Exported], Callable[[Rows], Vectors]]


class Pooled(torch.nn.Module):
    """The transformer with mean pooling and normalization, as one graph."""

    def __init__(self, model: Path) -> None:
        super().__init__()
        self.body = AutoModel.from_pretrained(str(model), attn_implementation="eager", dtype=torch.float32).eval()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Rows' vectors, float32 ``[n, dimension]``."""
        hidden = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1))


def export(model: Path, directory: Path) -> Exported:
    """Write the model as ONNX, and a copy that ONNX Runtime quantizes dynamically."""
    exported = Exported(directory / "float32.onnx", directory / "int8.onnx")
    export_float32(model, exported.float32)
    quantize(exported)
    return exported


def quantize(exported: Exported) -> None:
    """Write the copy with weights in int8, which ONNX Runtime quantizes dynamically."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - no side's process loads it

    quantize_dynamic(str(exported.float32), str(exported.int8), weight_type=QuantType.QInt8)


def export_float32(model: Path, path: Path) -> None:
    """Write the model as ONNX: from ``ids`` and ``mask``, int64 ``[rows, length]``, to ``vectors``.

    The graph is the plain one: with attention fused by ``onnxruntime.transformers`` both rivals are slower here.
    """
    export_graph(Pooled(model), ["ids", "mask"], path, "vectors", {0: "rows"})


def export_tokens(model: Path, path: Path) -> None:
    """Write the model as ONNX with the inputs that fastembed names, up to the vectors of tokens, which it pools itself."""

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = AutoModel.from_pretrained(str(model), attn_implementation="eager", dtype=torch.float32).eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
            found = self.body(input_ids=ids, attention_mask=mask, token_type_ids=types)
            return torch.as_tensor(found.last_hidden_state)

    export_graph(Tokens(), PAIR_INPUTS, path, "last_hidden_state", {0: "rows", 1: "length"})


def export_graph(network: torch.nn.Module, inputs: list[str], path: Path, output: str, axes: dict[int, str]) -> None:
    """Write a network as ONNX that takes token ids, their mask and, if there is a third input, their types."""
    disable_progress_bar()
    ids = torch.full((2, 16), 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (ids, torch.ones_like(ids), torch.zeros_like(ids))[: len(inputs)],
            str(path),
            input_names=inputs,
            output_names=[output],
            dynamic_axes={name: {0: "rows", 1: "length"} for name in inputs} | {output: axes},
            opset_version=17,
            dynamo=False,
        )


def _pullquote(dtype: str) -> Side:
    def load(model: Path, _: Exported) -> Callable[[Rows], Vectors]:
        highlighter = pullquote.Highlighter(model, devices="cpu", dtype=dtype)
        return lambda rows: highlighter.embed(rows.texts)

    return Side("pullquote", dtype, "one worker for each core", load)


def _onnxruntime(dtype: str) -> Side:
    def load(_: Path, exported: Exported) -> Callable[[Rows], Vectors]:
        import onnxruntime  # noqa: PLC0415 - only its side's process loads it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        path = exported.int8 if dtype == "int8" else exported.float32
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return _shared_out(lambda ids: session.run(None, {"ids": ids, "mask": np.ones_like(ids)})[0])

    return Side("onnxruntime", dtype, "one session, run by one thread for each core", load)


def _openvino(dtype: str) -> Side:
    def load(_: Path, exported: Exported) -> Callable[[Rows], Vectors]:
        import openvino  # noqa: PLC0415 - as above

        hint = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        options = {
            "INFERENCE_PRECISION_HINT": hint,
            "PERFORMANCE_HINT": "THROUGHPUT",
            "NUM_STREAMS": cores(),
            "INFERENCE_NUM_THREADS": cores(),
        }
        compiled = openvino.Core().compile_model(str(exported.float32), "CPU", options)
        # Two threads that hand over their first array at once wait for each other forever (OpenVINO 2026.4.1).
        openvino.Tensor(np.zeros(1, dtype=np.int64))

        def encode(ids: NDArray[np.int64]) -> Vectors:
            request = compiled.create_infer_request()
            return np.array(request.infer({"ids": ids, "mask": np.ones_like(ids)})["vectors"])

        return _shared_out(encode)

    return Side("openvino", dtype, "one stream for each core", load)


def _fastembed() -> Side:
    def load(model: Path, exported: Exported) -> Callable[[Rows], Vectors]:
        embedding = load_fastembed(model, exported.float32)
        return lambda rows: np.stack(list(embedding.embed(rows.texts)))

    return Side("fastembed", "float32", "as installed: ONNX Runtime's threads on one batch of 256 texts", load)


def load_fastembed(model: Path, graph: Path) -> Any:
    """Load the model into fastembed, which otherwise fetches it from a hub: its files in one folder, and the graph."""
    from fastembed import TextEmbedding  # noqa: PLC0415 - only its side's process loads it
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415 - as above

    folder = graph.parent / "fastembed"
    folder.mkdir(exist_ok=True)
    for file in ("config.json", "tokenizer.json", "special_tokens_map.json"):
        shutil.copy(model / file, folder)
    # It cuts at the tokenizer's limit, 512 tokens; every other side cuts at the model's, 256.
    tokenizer = json.loads((model / "tokenizer_config.json").read_text())
    tokenizer["model_max_length"] = read_max_tokens(model)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    if not (folder / "model.onnx").exists():
        export_tokens(model, folder / "model.onnx")
    TextEmbedding.add_custom_model(
        model="pullquote/bench",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="file:///nowhere"),
        dim=384,
        model_file="model.onnx",
    )
    return TextEmbedding("pullquote/bench", specific_model_path=str(folder), threads=cores())


def _shared_out(encode: Callable[[NDArray[np.int64]], Vectors]) -> Callable[[Rows], Vectors]:
    """Give batches to one thread for each core, which is faster for all rivals than one batch on all cores."""
    pool = ThreadPoolExecutor(cores())
    return lambda rows: np.concatenate(list(pool.map(encode, rows.batches())))


def _sentence_transformers() -> Side:
    def load(model: Path, _: Exported) -> Callable[[Rows], Vectors]:
        disable_progress_bar()
        network = SentenceTransformer(str(model), device="cpu", model_kwargs={"dtype": torch.float32}).eval()
        return lambda rows: np.asarray(
            network.encode(rows.texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        )

    return Side("sentence-transformers", "float32", "as installed: torch's threads on one batch", load)


def sides() -> dict[str, Side]:
    """All sides, by name and dtype. Sides that are compared run one after the other."""
    every = [_pullquote("float32"), _onnxruntime("float32"), _openvino("float32")]
    every += [_pullquote("bfloat16"), _openvino("bfloat16"), _pullquote("int8"), _onnxruntime("int8")]
    every += [_fastembed(), _sentence_transformers()]
    return {f"{side.name} {side.dtype}": side for side in every}


# The side of this process, if it was started for one.
_loaded: list[Callable[[Rows], Vectors]] = []


def load(name: str, model: Path, exported: Exported) -> None:
    """Load a side into this process."""
    _loaded.append(sides()[name].load(model, exported))


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of the clock and of all cores together, and the vectors, of length one."""

    seconds: float
    processor_seconds: float
    vectors: Vectors


def run(rows: Rows) -> Run:
    """Encode the rows with this process' side.

    A tenth is encoded first, untimed: while other sides ran, the system reclaimed this one's memory.
    """
    tenth = max(1, len(rows.texts) // 10)
    _loaded[0](Rows(rows.texts[:tenth], rows.ids[:tenth]))
    start, start_of_processor = time.perf_counter(), time.process_time()
    vectors = _loaded[0](rows)
    return Run(time.perf_counter() - start, time.process_time() - start_of_processor, vectors)
