"""Invalid calls of `highlights`, with the class of their error and the names and values that its message contains."""

from typing import Any

from pullquote import errors

BAD_CALLS: list[tuple[dict[str, Any], type[Exception], list[object]]] = [
    ({"query": ""}, errors.InvalidArgumentError, ["query", 0]),
    ({"query": " \n"}, errors.InvalidArgumentError, ["query", 0]),
    ({"query": 3}, errors.InvalidTypeError, ["query", "int"]),
    ({"query": []}, errors.InvalidArgumentError, ["query"]),
    ({"query": ["a", None]}, errors.InvalidTypeError, ["query[1]", "NoneType"]),
    ({"texts": []}, errors.InvalidArgumentError, ["texts"]),
    ({"texts": "page"}, errors.InvalidTypeError, ["str", "[texts]"]),
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
BAD_CALL_IDS = [str(change)[:40] for change, _, _ in BAD_CALLS]
