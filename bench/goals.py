"""Goals: bounds of measured numbers. Each record has a line for each goal, met or missed.

`REASONS` says why a record misses a goal; `bench/tables.py` shows it, and wants one for each missed goal and no others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured number with its bounds; `form` is the format of its numbers."""

    what: str
    measured: float
    least: float = -math.inf
    most: float = math.inf
    form: str = ".2f"

    @property
    def is_met(self) -> bool:
        """Whether the number lies between its bounds. NaN does not."""
        return self.least <= self.measured <= self.most

    def line(self) -> str:
        """The goal as a line of a record."""
        bounds = [
            f"at {word} {bound:{self.form}}"
            for word, bound in (("least", self.least), ("most", self.most))
            if math.isfinite(bound)
        ]
        verdict = "met" if self.is_met else "**missed**"
        return f"- goal {verdict}: {self.what}: {self.measured:{self.form}} ({' and '.join(bounds)})"


_WIRE = "both sides are near what a socket carries, and FastAPI checks no value (bench/notes/wire.md)"
_SERVER = "the server takes most of the time (bench/notes/wire.md)"
_SPREAD = "less than the spread of the rounds"
_SHORT_PAGES = "a call with lists of strings does the same work; only one call for each page costs more"
_MANY_WORKERS = "many threads for each core: locks and switches (decision 0008)"
_SLOWER = (
    "a Zen 3 takes 2.5 times as long as a Zen 5 for text, and 7 times to encode; "
    "whether our code became slower there is not known"
)
_SHARED_CORE = "both processors seem to be threads of one core, which each side's products fill; rounds differ twofold"

# By measurement, then by the goal's name.
REASONS: dict[str, dict[str, str]] = {
    "arrow": {
        "seconds of a call to those of a table, embedded": _SHORT_PAGES,
        "seconds of a call to those of a table, one layer of 32": _SHORT_PAGES,
        "peak memory over the table's texts": "the answers of such short pages are larger than their texts",
    },
    "concurrency": {
        "one layer of 32, threads: throughput of 256 clients to the best": _SPREAD,
        "one layer of 32, asyncio tasks: throughput of 256 clients to the best": _SPREAD,
    },
    "families": {
        "float32: least times as fast as ONNX Runtime": "both sides are near the processor's limit (bench/notes/families.md)",
    },
    "growth": {
        "processor time of four times the text": (
            "headings without text: a bounded number of passages is tried, which only the larger page reaches"
        ),
    },
    "growth_of_routes": {
        "processor time of four times the text": "the smaller request takes some milliseconds; sorted and hashed words",
    },
    "instant": {
        "pages a second of processor time against the default": "the encoder is faster on this processor, the work on text is not",
        "ten pages, auto, s": _SLOWER,
        "ten pages, instant, s": _SLOWER,
    },
    "jobs": {
        "pages a second of parquet on Ray, to those of the local job": _SPREAD,
    },
    "many_pages": {
        "largest loss of hits against all pages": "a page's first sentence depends on the pages compared (decision 0026)",
    },
    "overload": {
        "milliseconds of a refusal, 99th percentile": "not known; half of them take 0.014 ms at most",
    },
    "rerank": {
        "pullquote float32: least times as fast as CrossEncoder float32": _SHARED_CORE,
        "pullquote int8: least times as fast as CrossEncoder float32": _SHARED_CORE,
        "pullquote float32: least times as fast as onnxruntime float32": _SHARED_CORE,
        "pullquote int8: least times as fast as onnxruntime int8": _SHARED_CORE,
    },
    "scaling": {
        "embedded model, length from 1: power of tokens with which time grows": "attention grows with the length of a window",
    },
    "sequences": {
        "workers: 128: throughput to the best": _MANY_WORKERS,
        "workers: 128: tokens for a second of a core, to the best": _MANY_WORKERS,
    },
    "serving": {
        "answers a second over what encoder_125m does alone": "not known",
        "answers a second over what minilm does alone": "not known",
    },
    "soak": {
        "memory in the last quarter over that in the first": "not known; caches fill meanwhile",
    },
    "stages": {
        "text work of a page, ms": _SLOWER,
    },
    "startup": {
        "first answer to second": "the machine was not quiet",
        "seconds to import, load and answer": _SLOWER,
        "seconds of a whole command": _SLOWER,
    },
    "whole_pages": {
        "pullquote, effort full: share of the time that is not encoding, all pages at once": (
            "the encoder became faster in int8, and tokenizing did not"
        ),
    },
    "wire": {
        "our raw vectors, read by our client, over FastAPI's JSON read by aiohttp": _SPREAD,
        "our raw vectors over what a bare socket carries": _SERVER,
        "our raw vectors over FastAPI's, the same client": _WIRE,
        "the same, both read by aiohttp": _WIRE,
        "our JSON over orjson's, both read by aiohttp": "the time is that of the reader",
        "our client over aiohttp, the same raw route": _SERVER,
        "the same, over aiohttp that fills one array as ours does": _SERVER,
    },
}
