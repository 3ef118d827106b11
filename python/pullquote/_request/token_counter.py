"""The caller's own counter of tokens, for budgets of `highlights` and `prompt`."""

from __future__ import annotations

import operator
import os
import sys
import threading
from collections.abc import Callable

from pullquote.errors import InvalidArgumentError, InvalidTypeError, PullquoteError

__all__ = ["token_counter"]

# Threads of an engine count at the same time, which tokenizers of transformers do not allow ("Already borrowed").
_lock = threading.Lock()


def token_counter(count_tokens: object) -> Callable[[str], int]:
    """A counter that checks what `count_tokens` returns, and of which one call runs at a time.

    It raises `InvalidArgumentError` if `count_tokens` raises an error or returns a number below 0, and `InvalidTypeError` if it
    returns anything else; the same for a `count_tokens` that is no function.
    """
    if not callable(count_tokens):
        message = f"count_tokens must be a function from a text to its number of tokens, not {count_tokens!r:.80}"
        raise InvalidTypeError(message)

    def count(text: str) -> int:
        try:
            with _lock:
                counted = count_tokens(text)
        except PullquoteError:
            raise
        except Exception as error:
            message = f"count_tokens raised {type(error).__name__}: {error}"
            raise InvalidArgumentError(message) from error
        try:
            number = operator.index(counted)
        except TypeError:
            message = (
                f"count_tokens must return a whole number, not {counted!r:.80}; for a list of tokens, pass its length"
            )
            raise InvalidTypeError(message) from None
        if number < 0:
            message = f"count_tokens must return 0 or more, not {number}"
            raise InvalidArgumentError(message)
        return min(number, sys.maxsize)

    return count


def _forget_lock() -> None:
    """A fork's child has none of the threads that could hold the lock."""
    global _lock  # noqa: PLW0603 - fork leaves a lock as it was
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
