"""Assertions on error messages by the names and values that they contain, so that their wording can change."""

import re
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


def pattern(*names: object) -> str:
    """A regular expression for a text that contains all names as whole words, in any order."""
    return "(?s)" + "".join(rf"(?=.*(?<!\w){re.escape(str(name))}(?!\w))" for name in names)


def names_all(message: str, *names: object) -> bool:
    return re.match(pattern(*names), message) is not None


def raises(kind: type[E] | tuple[type[E], ...], *names: object) -> pytest.RaisesExc[E]:
    """`pytest.raises`, for an error whose message contains all names."""
    return pytest.raises(kind, match=pattern(*names))
