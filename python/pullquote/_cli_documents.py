"""PDFs and DOCX of the command line: recognized by their first bytes, so that other files import nothing of `documents`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullquote._cli_files import DOCX, PDF, kind_of
from pullquote._highlights import Highlight

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["places", "read_document"]


def read_document(name: str) -> Document | None:
    """The document of a PDF or DOCX; `None` for other files and for standard input.

    Raises the errors of `documents.read`.
    """
    if name == "-":
        return None
    if Path(name).is_dir() or kind_of(Path(name).read_bytes()) not in {PDF, DOCX}:
        return None
    from pullquote import documents  # noqa: PLC0415 - few files need it

    return documents.read(name)


def places(document: Document | None, highlight: Highlight) -> dict[str, Any]:
    """The page's number and the rectangles of a highlight of a PDF, for JSON; nothing for other documents."""
    number = None if document is None else document.page_number(highlight)
    if document is None or number is None:
        return {}
    return {"page_number": number, "rectangles": [asdict(rectangle) for rectangle in document.rectangles(highlight)]}
