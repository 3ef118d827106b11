"""Options of `highlights()` on a command line: each is named and described here, for all commands that ask."""

from __future__ import annotations

import argparse
from typing import Literal, get_args

from pullquote._options import (
    DEDUPE,
    EFFORT,
    HIGHLIGHT_LENGTH,
    ORDER,
    STEP_SIZE,
    UNIT,
    Dedupe,
    Effort,
    Format,
    Options,
    Order,
    Unit,
)

__all__ = ["add_options", "options_from_args"]


def add_options(command: argparse.ArgumentParser, *, format: Format) -> None:  # noqa: A002 - the option's name
    """Let a command take the options of a call; `format` is what its pages are where nothing is said."""
    command.add_argument("-k", "--top-k", type=int, help="at most so many highlights a page (default 3)")
    command.add_argument("--max-chars", type=int, help="at most so many characters a page")
    command.add_argument("--max-tokens", type=int, help="at most so many of the model's tokens a page")
    command.add_argument("--min-score", type=float, help="only highlights with at least this score")
    command.add_argument("--order", choices=get_args(Order), default=ORDER, help="default: %(default)s")
    command.add_argument(
        "--dedupe",
        choices=get_args(Dedupe),
        default=DEDUPE,
        help="where repeats are left out (default: %(default)s)",
    )
    command.add_argument("-C", "--context", type=int, default=0, help="so many sentences on each side, apart")
    command.add_argument("--explain", action="store_true", help="with JSON or Parquet: the words that matched")
    command.add_argument(
        "--lexical-weight", type=_weight, default="auto", help="how much words count, 0.0 to 1.0 (default: %(default)s)"
    )
    command.add_argument(
        "--effort",
        choices=get_args(Effort),
        default=EFFORT,
        help="how much of the pages is encoded (default: %(default)s, what could be among the best)",
    )
    command.add_argument(
        "--format",
        choices=get_args(Format),
        default=format,
        help="what pages are written in; auto looks (default: %(default)s)",
    )
    command.add_argument("--unit", choices=get_args(Unit), default=UNIT, help="default: %(default)s")
    command.add_argument("--highlight-length", type=int, default=HIGHLIGHT_LENGTH, help="units (default: %(default)s)")
    command.add_argument("--step-size", type=int, default=STEP_SIZE, help="units (default: %(default)s)")


def options_from_args(options: argparse.Namespace) -> Options:
    """The options of a call out of parsed arguments."""
    return {
        "format": options.format,
        "highlight_length": options.highlight_length,
        "step_size": options.step_size,
        "unit": options.unit,
        "top_k": options.top_k,
        "max_chars": options.max_chars,
        "max_tokens": options.max_tokens,
        "min_score": options.min_score,
        "order": options.order,
        "dedupe": options.dedupe,
        "context": options.context,
        "explain": options.explain,
        "lexical_weight": options.lexical_weight,
        "effort": options.effort,
    }


def _weight(text: str) -> float | Literal["auto"]:
    return "auto" if text == "auto" else float(text)
