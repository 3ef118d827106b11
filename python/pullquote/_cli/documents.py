"""Files of the command line. Only those that are not text import `documents`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pullquote._native import FileKind
from pullquote._results.highlight import Highlight
from pullquote._text_files import check_is_text, decode, name_of, read_bytes

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["places", "read_file"]


def read_file(name: str, encoding: str | None) -> tuple[str, Document | None]:
    """The text of a file or of standard input, and its document if it is not text.

    Raises the errors of `documents.read`, and `OSError`.
    """
    data, shown = read_bytes(name), name_of(name)
    if FileKind.of(data).parsed_format:
        from pullquote import documents  # noqa: PLC0415 - few files need it

        document = documents.read(data, name=shown)
        return document.text, document
    check_is_text(data, shown)
    return decode(data, shown, encoding), None


def places(document: Document | None, highlight: Highlight) -> dict[str, Any]:
    """The page's number and the rectangles of a highlight of a PDF, for JSON; nothing for other documents."""
    number = None if document is None else document.page_number(highlight)
    if document is None or number is None:
        return {}
    return {"page_number": number, "rectangles": [asdict(rectangle) for rectangle in document.rectangles(highlight)]}
