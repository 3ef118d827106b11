"""The checked arguments of `cite`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from pullquote._request.options import Format, Pages, Request, check_request
from pullquote.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["CiteCall", "CiteOptions", "check_cite"]


class CiteCall(NamedTuple):
    """A text, which is the request's query, and its pages."""

    request: Request
    numbers: list[int] | None

    @property
    def ids(self) -> list[str | None]:
        """The pages' ids as text, as markers have them."""
        return [None if each is None else str(each) for each in self.request.ids or ()]


class CiteOptions(TypedDict, total=False):
    """The options of `Highlighter.cite`, which documents them."""

    ids: Iterable[Any] | None
    titles: Iterable[str | None] | None
    numbers: Sequence[int] | None
    format: Format | Sequence[Format]
    timeout: float | None
    priority: int


def check_cite(answer: str, pages: Pages, options: CiteOptions) -> CiteCall:
    """Check the arguments of `Highlighter.cite`."""
    if not isinstance(answer, str):
        message = f"answer must be a string, not {type(answer).__name__}"
        raise InvalidTypeError(message)
    if isinstance(pages, str):
        message = "pages must be a list of pages, not one str; pass [page] for one page"
        raise InvalidTypeError(message)
    if not any(each.isalnum() for each in answer):
        message = f"answer has no letter and no digit: {answer!r:.80}"
        raise InvalidArgumentError(message)
    if (numbers := options.get("numbers")) is not None:
        numbers = list(numbers)
        if not all(isinstance(each, int) and each >= 0 for each in numbers):
            message = f"numbers must be indices of pages from 0, not {numbers!r:.80}"
            raise InvalidArgumentError(message)
    native = {name: value for name, value in options.items() if name != "numbers"}
    return CiteCall(check_request(answer, pages, native, are_names=True), numbers)
