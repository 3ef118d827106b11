"""LangChain: a document compressor, and embeddings. Needs ``pip install "pullquote[langchain]"``.

The compressor replaces each retrieved document with the passages that answer the query. It needs no language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pullquote._adapter import (
    Source,
    breadcrumbs_of,
    check_options,
    check_source,
    default_source,
    embedding_source,
    find_passages,
    title_of,
)
from pullquote._extras import needs_extra
from pullquote._request.options import Options
from pullquote._request.signatures import checked
from pullquote._results.highlight import Highlight

with needs_extra("langchain"):
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from pydantic import ConfigDict, Field

__all__ = ["PullquoteCompressor", "PullquoteEmbeddings"]


class PullquoteCompressor(BaseDocumentCompressor):
    """Turns retrieved documents into the passages that answer the query, best first.

    Pass it to `ContextualCompressionRetriever` or `DocumentCompressorPipeline`. All documents of a call are one call of
    `highlights`, so budgets such as `max_total_tokens` are for all of them. No documents give no passages.

    Each passage is a `Document` with the metadata of its document, and in its metadata `relevance_score` (0 to 1), `source_id`
    (its document's id), `start` and `end`: ``document.page_content[start:end]`` is the passage (in HTML, its source). A
    `start_index`, which splitters add, is that of the passage. Its own id is its document's with `start` and `end`.
    `breadcrumbs`, such as ``Plans > Student``, is there if something above the passage names its subject.
    ``metadata["title"]`` of a document is its title for the ranking.

    - `highlighter`: a `Highlighter` or `Client`; `None` is the highlighter that `pullquote.highlights` shares.
    - `top_n`: maximum passages of all documents together; `None` is all.
    - `options`: those of `Highlighter.highlights` except `titles`, `pairing` and `fuse`; `top_k` is for each document.

    Raises `InvalidTypeError` for an unknown option. Calls raise the errors of `Highlighter.highlights`. ``acompress_documents``
    works in a thread.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    highlighter: Any = Field(default=None, exclude=True, repr=False)
    top_n: int | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)

    def __init__(
        self, highlighter: Source | None = None, *, top_n: int | None = None, **options: Unpack[Options]
    ) -> None:
        """Keep the options; the first call loads the model."""
        checked = check_options(options, type(self).__name__, ["top_n"])
        check_source(highlighter)
        fields: dict[str, Any] = {"highlighter": highlighter, "top_n": top_n, "options": checked}
        super().__init__(**fields)

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - LangChain's signature
    ) -> Sequence[Document]:
        """The passages of the documents that answer the query."""
        texts = [document.page_content for document in documents]
        titles = [title_of(document.metadata) for document in documents]
        options = check_options(self.options, type(self).__name__)
        passages = find_passages(default_source(self.highlighter), query, texts, titles, options, self.top_n)
        return [_passage(documents[passage.page], passage) for passage in passages]


def _passage(document: Document, passage: Highlight) -> Document:
    start, end = passage.source_start, passage.source_end
    found: dict[str, Any] = {"relevance_score": passage.score, "start": start, "end": end, **breadcrumbs_of(passage)}
    if isinstance(first := document.metadata.get("start_index"), int):
        found["start_index"] = first + start
    if document.id is None:
        return Document(passage.text, metadata={**document.metadata, **found})
    # Stores and retrievers take documents with equal ids as one.
    metadata = {**document.metadata, "source_id": document.id, **found}
    return Document(passage.text, id=f"{document.id}:{start}-{end}", metadata=metadata)


class PullquoteEmbeddings(Embeddings):
    """The vectors of a `Highlighter` or `Client`, for LangChain's vector stores. `None` is the shared highlighter.

    Instead, `model` is a model's name or directory, as of `pullquote.highlights`. Vectors have length one, and as many numbers
    as the model's dimension. All texts of a call are one call of `embed`.

    Raises `InvalidArgumentError` for a `model` that is not that of the highlighter.
    """

    @checked
    def __init__(self, highlighter: Source | None = None, *, model: str | None = None) -> None:
        """Keep the highlighter, or load the model; without both, the first call loads the embedded one."""
        self.highlighter = embedding_source(highlighter, model, "model")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return default_source(self.highlighter).embed(texts).tolist() if texts else []

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query, with the model's prompt for queries."""
        vector: list[float] = default_source(self.highlighter).embed([text], role="query")[0].tolist()
        return vector
