"""Haystack 3: a component that extracts passages. Needs ``pip install "pullquote[haystack]"``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypedDict

from pullquote._adapter import (
    Source,
    breadcrumbs_of,
    check_limit,
    check_options,
    check_source,
    default_source,
    find_passages,
    title_of,
)
from pullquote._engine.highlighter import Highlighter
from pullquote._extras import needs_extra
from pullquote._request.signatures import checked
from pullquote._results.highlight import Highlight
from pullquote.client import Client
from pullquote.errors import InvalidArgumentError

with needs_extra("haystack"):
    from haystack import Document, ExtractedAnswer, component, default_from_dict, default_to_dict
    from haystack.utils import Secret

__all__ = ["PullquoteExtractor"]


class Extracted(TypedDict):
    """The result of `PullquoteExtractor.run`: the same passages as documents and as answers, best first."""

    documents: list[Document]
    answers: list[ExtractedAnswer]


@component
class PullquoteExtractor:
    """Extracts the passages of documents that answer a query, as documents for a prompt and as answers with spans.

    All documents of a run are one call of `highlights`, so budgets such as ``max_total_tokens`` are for all of them. Documents
    without text are left out, and ``meta["title"]`` is a document's title for the ranking.

    - `documents`: each with a passage as `content`, its document's `meta`, the document's id as ``meta["source_id"]``,
      ``meta["start"]`` and ``meta["end"]`` in the document's content, and a `score` from 0 to 1; ``meta["breadcrumbs"]``, such as
      ``Plans > Student``, if something above the passage names its subject.
    - `answers`: an `ExtractedAnswer` for each, whose `document_offset` is the span in `document`. With the option `context`, its
      `context` is the passage with the sentences around it, and `context_offset` the passage's span in that.

    - `model`: directory of a model; `None` is the highlighter that `pullquote.highlights` shares, with the embedded model.
    - `url`, `api_key`: instead, the address or addresses of ``pullquote serve``, and its key.
    - `highlighter`: instead, a `Highlighter` or `Client`. A pipeline with one cannot be serialized.
    - `top_k`: maximum passages of all documents together; `run` may replace it.
    - `options`: those of `Highlighter.highlights` except `titles`, `pairing` and `fuse`. ``{"top_k": 1}`` is for each document.

    Raises `InvalidArgumentError` for more than one of `model`, `url` and `highlighter`, and `InvalidTypeError` for an unknown
    option.
    """

    @checked
    def __init__(
        self,
        model: str | None = None,
        *,
        url: str | list[str] | None = None,
        api_key: Secret | None = None,
        highlighter: Source | None = None,
        top_k: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Keep the arguments; `warm_up` loads the model."""
        if sum(each is not None for each in (model, url, highlighter)) > 1:
            message = "model, url and highlighter exclude each other; pass one of them"
            raise InvalidArgumentError(message)
        check_source(highlighter)
        check_limit("top_k", top_k)
        self.model, self.url, self.api_key, self.highlighter = model, url, api_key, highlighter
        self.top_k = top_k
        self.options = dict(check_options(options or {}, type(self).__name__))
        self._source = highlighter

    def warm_up(self) -> None:
        """Load the model, or make the client. `run` does it if the pipeline has not."""
        if self._source is not None:
            return
        if self.url is not None:
            self._source = Client(self.url, api_key=self.api_key.resolve_value() if self.api_key else None)
        else:
            self._source = Highlighter(self.model) if self.model is not None else default_source(None)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component; ``Pipeline.loads(text, allowed_modules=["pullquote.haystack"])`` makes it again.

        Raises `InvalidArgumentError` with a `highlighter`, which is an object of this process.
        """
        if self.highlighter is not None:
            message = "highlighter cannot be serialized; pass model or url instead"
            raise InvalidArgumentError(message)
        key = self.api_key.to_dict() if self.api_key else None
        return default_to_dict(
            self, model=self.model, url=self.url, api_key=key, top_k=self.top_k, options=dict(self.options)
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PullquoteExtractor:
        """Make the component of its serialized form."""
        parameters = data.get("init_parameters", {})
        if parameters.get("api_key") is not None:
            parameters = {**parameters, "api_key": Secret.from_dict(parameters["api_key"])}
        made: PullquoteExtractor = default_from_dict(cls, {**data, "init_parameters": parameters})
        return made

    @component.output_types(documents=list[Document], answers=list[ExtractedAnswer])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> Extracted:
        """Extract the passages; `top_k` replaces the component's. Raises the errors of `Highlighter.highlights`."""
        self.warm_up()
        texts = {number: document.content for number, document in enumerate(documents) if document.content is not None}
        pages = [documents[number] for number in texts]
        titles = [title_of(page.meta) for page in pages]
        options = check_options(self.options, type(self).__name__)
        limit = self.top_k if top_k is None else top_k
        passages = find_passages(default_source(self._source), query, list(texts.values()), titles, options, limit)
        return {
            "documents": [_document(pages[passage.page], passage) for passage in passages],
            "answers": [_answer(query, pages, passage) for passage in passages],
        }

    @component.output_types(documents=list[Document], answers=list[ExtractedAnswer])
    async def run_async(self, query: str, documents: list[Document], top_k: int | None = None) -> Extracted:
        """`run`, in a thread."""
        return await asyncio.to_thread(self.run, query, documents, top_k)


def _document(page: Document, passage: Highlight) -> Document:
    where = {"source_id": page.id, "start": passage.source_start, "end": passage.source_end, **breadcrumbs_of(passage)}
    return Document(content=passage.text, meta={**page.meta, **where}, score=passage.score)


def _answer(query: str, pages: Sequence[Document], passage: Highlight) -> ExtractedAnswer:
    page = pages[passage.page]
    has_context = bool(passage.before or passage.after)
    first = len(passage.before)
    return ExtractedAnswer(
        query=query,
        score=passage.score,
        data=passage.text,
        document=page,
        document_offset=ExtractedAnswer.Span(passage.source_start, passage.source_end),
        context=passage.before + passage.text + passage.after if has_context else None,
        context_offset=ExtractedAnswer.Span(first, first + len(passage.text)) if has_context else None,
        meta=dict(page.meta),
    )
