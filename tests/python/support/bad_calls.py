"""Invalid calls of `highlights`, with the class of their error and the names and values that its message contains."""

import io
import re
from pathlib import Path
from typing import Any

import polars

from pullquote import errors

BAD_CALLS: list[tuple[dict[str, Any], type[Exception], list[object]]] = [
    ({"query": ""}, errors.InvalidArgumentError, ["query", 0]),
    ({"query": " \n"}, errors.InvalidArgumentError, ["query", 0]),
    ({"query": 3}, errors.InvalidTypeError, ["query", "int"]),
    ({"query": []}, errors.InvalidArgumentError, ["query"]),
    ({"query": ["a", None]}, errors.InvalidTypeError, ["query[1]", "NoneType"]),
    ({"query": None}, errors.InvalidTypeError, ["query", "string", "NoneType"]),
    ({"texts": io.StringIO("page")}, errors.InvalidTypeError, ["texts", "file.read()"]),
    ({"texts": [["a", "page"]]}, errors.InvalidTypeError, ["texts[0]", "list", "tuple"]),
    ({"texts": [("a",)]}, errors.InvalidTypeError, ["texts[0]", "pair", "'a'"]),
    ({"k": 3}, errors.InvalidTypeError, ["k", "top_k"]),
    ({"threshold": 0.5}, errors.InvalidTypeError, ["threshold", "min_score"]),
    ({"num_results": 3}, errors.InvalidTypeError, ["num_results", "top_k"]),
    ({"max_length": 300}, errors.InvalidTypeError, ["max_length", "max_chars"]),
    ({"chunk_size": 3}, errors.InvalidTypeError, ["chunk_size", "highlight_length"]),
    ({"overlap": 1}, errors.InvalidTypeError, ["overlap", "step_size"]),
    ({"alpha": 0.5}, errors.InvalidTypeError, ["alpha", "lexical_weight"]),
    ({"device": "cpu"}, errors.InvalidTypeError, ["device", "devices", "Highlighter"]),
    ({"documents": ["page"]}, errors.InvalidTypeError, ["documents", "texts"]),
    ({"devices": "cpu"}, errors.InvalidTypeError, ["devices", "Highlighter"]),
    ({"texts": []}, errors.InvalidArgumentError, ["texts"]),
    ({"texts": "page"}, errors.InvalidTypeError, ["texts", "str", "[text]"]),
    ({"query": ["page"], "texts": "Where?"}, errors.InvalidTypeError, ["texts", "str", "highlights(query, texts)"]),
    (
        {"query": ["a", "b"], "texts": ["c.", "d."]},
        errors.InvalidArgumentError,
        ["2 queries", "2 pages", '"each"', '"all"'],
    ),
    ({"texts": {"page"}}, errors.InvalidTypeError, ["texts", "set", "list"]),
    ({"texts": {"text": 3}}, errors.InvalidTypeError, ["texts['text']", "int"]),
    ({"texts": [{"text": "page"}]}, errors.InvalidTypeError, ["texts[0]", "dict", "(id, text)"]),
    ({"texts": [("a", "page"), "b"]}, errors.InvalidTypeError, ["texts[1]", "(id, text)", "'b'"]),
    (
        {"texts": polars.DataFrame({"text": ["page"]})},
        errors.InvalidTypeError,
        ["texts", "DataFrame", "highlights_arrow"],
    ),
    ({"texts": [Path("page.txt")]}, errors.InvalidTypeError, ["texts[0]", "read_text"]),
    ({"texts": Path("page.txt")}, errors.InvalidTypeError, ["texts", "read_text"]),
    ({"texts": {"a": "page"}, "ids": ["b"]}, errors.InvalidArgumentError, ["ids"]),
    ({"ids": ["a", "b"]}, errors.InvalidArgumentError, ["ids: 2", "pages: 1"]),
    ({"topk": 3}, errors.InvalidTypeError, ["topk", "top_k"]),
    ({"max_token": 3}, errors.InvalidTypeError, ["max_token", "max_tokens"]),
    ({"top_k": 2.5}, errors.InvalidTypeError, ["top_k", "whole number from 1", 2.5]),
    ({"top_k": 2.0}, errors.InvalidTypeError, ["top_k", "whole number from 1", "2.0"]),
    ({"top_k": True}, errors.InvalidTypeError, ["top_k", "whole number from 1", "True"]),
    ({"unit": None}, errors.InvalidTypeError, ["unit", "sentence", "None"]),
    ({"explain": 1}, errors.InvalidTypeError, ["explain", "True or False", 1]),
    ({"format": "pdf"}, errors.InvalidArgumentError, ["pdf", "documents.read"]),
    ({"min_score": 50}, errors.InvalidArgumentError, ["min_score", "from 0 to 1", 50]),
    ({"min_score": -0.5}, errors.InvalidArgumentError, ["min_score", "from 0 to 1", "-0.5"]),
    ({"texts": b"page"}, errors.InvalidTypeError, ["texts", "bytes"]),
    ({"texts": None}, errors.InvalidTypeError, ["texts", "NoneType"]),
    ({"texts": ["page", b"page"]}, errors.InvalidTypeError, ["texts[1]", "bytes", "decode"]),
    ({"texts": ["page", 3.5]}, errors.InvalidTypeError, ["texts[1]", "float"]),
    ({"texts": ["ok \ud800 not"]}, errors.InvalidTextError, ["texts[0]", 3]),
    ({"query": "\udfff"}, errors.InvalidTextError, ["query", 0]),
    ({"highlight_length": 0}, errors.InvalidArgumentError, ["highlight_length", 0]),
    ({"highlight_length": -4}, errors.InvalidArgumentError, ["highlight_length", -4]),
    ({"step_size": 0}, errors.InvalidArgumentError, ["step_size", 0]),
    ({"step_size": 4}, errors.InvalidArgumentError, ["step_size", 4, "highlight_length", 3]),
    ({"unit": "line"}, errors.InvalidArgumentError, ["unit", "line", "sentence", "word", "token"]),
    ({"top_k": 0}, errors.InvalidArgumentError, ["top_k", 0]),
    ({"max_chars": 0}, errors.InvalidArgumentError, ["max_chars", 0]),
    ({"min_score": float("nan")}, errors.InvalidArgumentError, ["min_score", "NaN"]),
    ({"lexical_weight": 1.5}, errors.InvalidArgumentError, ["lexical_weight", 1.5]),
    ({"lexical_weight": "some"}, errors.InvalidArgumentError, ["lexical_weight", "some", "auto"]),
    ({"lexical_weight": float("nan")}, errors.InvalidArgumentError, ["lexical_weight", "NaN"]),
    ({"order": "random"}, errors.InvalidArgumentError, ["order", "random", "score", "position"]),
    ({"top_k": "3"}, errors.InvalidTypeError, ["top_k", "3"]),
    ({"timeout": 0}, errors.InvalidArgumentError, ["timeout", 0]),
    ({"timeout": 1e-9}, errors.DeadlineExceededError, ["timeout"]),
]
# Without addresses of objects, which differ between the processes of a test run.
BAD_CALL_IDS = [re.sub(r" at 0x\w+", "", str(change))[:40] for change, _, _ in BAD_CALLS]
