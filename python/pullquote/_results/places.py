"""Places of passages on the pages of documents that the caller has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from pullquote import _native
from pullquote._request.options import HasPages

__all__ = ["with_places"]


def with_places(
    columns: _native.HighlightColumns, documents: Sequence[HasPages | None], texts: list[str]
) -> _native.HighlightColumns:
    """The columns of an answer, whose highlights have the page numbers and rectangles of their documents."""
    rows = json.loads(columns.json(texts))
    for page, fields in rows:
        if (document := documents[page]) is not None:
            number, rectangles = document.place(fields["source_start"], fields["source_end"])
            fields["page_number"], fields["rectangles"] = number, [asdict(each) for each in rectangles]
    return _native.HighlightColumns(json.dumps(rows))
