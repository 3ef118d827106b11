"""LlamaIndex: a node postprocessor, and embeddings. Needs ``pip install "pullquote[llamaindex]"``.

The postprocessor replaces each retrieved node with the passages that answer the query.
"""

from __future__ import annotations

import asyncio
from typing import Any, Unpack

from pullquote._adapter import (
    Source,
    breadcrumbs_of,
    check_options,
    check_source,
    default_source,
    embedding_source,
    find_passages,
    model_of,
    title_of,
)
from pullquote._extras import needs_extra
from pullquote._request.options import Options
from pullquote._request.signatures import did_you_mean
from pullquote._results.highlight import Highlight
from pullquote.errors import InvalidArgumentError, InvalidTypeError

with needs_extra("llamaindex"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import (
        BaseNode,
        MetadataMode,
        Node,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeType,
        TextNode,
    )

__all__ = ["PullquoteEmbedding", "PullquotePostprocessor"]

# LlamaIndex's default of ten texts for a call would leave devices idle.
BATCH_SIZE = 256


class PullquotePostprocessor(BaseNodePostprocessor):
    """Turns retrieved nodes into nodes of the passages that answer the query, best first.

    Pass it in `node_postprocessors` of a query engine. All nodes of a call are one call of `highlights`, so budgets such as
    `max_total_tokens` are for all of them. Where nothing passes `min_score`, the result is an empty list.

    Each passage is a `TextNode` with the metadata, metadata keys and templates of its node, and its source document. Its metadata
    has `breadcrumbs` too, such as ``Plans > Student``, if something above the passage names its subject.
    `start_char_idx` and `end_char_idx` count in the source document, if the node has its offsets there, and otherwise in the node.
    ``metadata["title"]`` of a node is its title for the ranking.

    - `highlighter`: a `Highlighter` or `Client`; `None` is the highlighter that `pullquote.highlights` shares.
    - `top_n`: maximum passages of all nodes together; `None` is all.
    - `options`: those of `Highlighter.highlights` except `titles`, `pairing` and `fuse`; `top_k` is for each node.

    Raises `InvalidTypeError` for an unknown option. Calls raise `InvalidArgumentError` without a query, and the errors of
    `Highlighter.highlights`.
    """

    top_n: int | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    _highlighter: Source | None = PrivateAttr()

    def __init__(
        self, highlighter: Source | None = None, *, top_n: int | None = None, **options: Unpack[Options]
    ) -> None:
        """Keep the options; the first call loads the model."""
        check_source(highlighter)
        fields: dict[str, Any] = {"top_n": top_n, "options": check_options(options, type(self).__name__, ["top_n"])}
        super().__init__(**fields)
        self._highlighter = highlighter

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialized form."""
        return "PullquotePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            message = "query_bundle is None; pass the query, since passages answer one"
            raise InvalidArgumentError(message)
        texts = [each.node.get_content(MetadataMode.NONE) for each in nodes]
        titles = [title_of(each.node.metadata) for each in nodes]
        options = check_options(self.options, type(self).__name__)
        source = default_source(self._highlighter)
        passages = find_passages(source, query_bundle.query_str, texts, titles, options, self.top_n)
        return [
            NodeWithScore(node=_passage(nodes[passage.page].node, passage), score=passage.score) for passage in passages
        ]


def _passage(node: BaseNode, passage: Highlight) -> TextNode:
    first = node.start_char_idx or 0 if isinstance(node, TextNode) else 0
    start, end = first + passage.source_start, first + passage.source_end
    made = TextNode(
        id_=f"{node.node_id}:{passage.source_start}-{passage.source_end}",
        text=passage.text,
        start_char_idx=start,
        end_char_idx=end,
        metadata={**node.metadata, **breadcrumbs_of(passage)},
        excluded_embed_metadata_keys=list(node.excluded_embed_metadata_keys),
        excluded_llm_metadata_keys=list(node.excluded_llm_metadata_keys),
        relationships={NodeRelationship.SOURCE: _source(node)},
    )
    made.metadata_template, made.metadata_separator = node.metadata_template, node.metadata_separator
    if isinstance(node, (TextNode, Node)):
        made.text_template = node.text_template
    return made


def _source(node: BaseNode) -> RelatedNodeType:
    return node.source_node or node.as_related_node_info()


class PullquoteEmbedding(BaseEmbedding):
    """The vectors of a `Highlighter` or `Client`, for LlamaIndex's indexes. `None` is the shared highlighter.

    Instead, `model_name` is a model's name or directory, as of `pullquote.highlights`. Vectors have length one.
    `embed_batch_size` texts are one call of `embed`.

    Raises `InvalidArgumentError` for a `model_name` that is not that of the highlighter, and `InvalidTypeError` for an unknown
    argument.
    """

    _highlighter: Source | None = PrivateAttr()

    def __init__(
        self,
        highlighter: Source | None = None,
        *,
        model_name: str | None = None,
        embed_batch_size: int = BATCH_SIZE,
        **settings: Any,
    ) -> None:
        """Keep the highlighter, or load the model; without both, the first call loads the embedded one.

        `settings` are those of LlamaIndex's `BaseEmbedding`. Raises `InvalidTypeError` for others, which that would ignore.
        """
        known = [name for name in type(self).model_fields if name != "model_name"]
        if unknown := settings.keys() - known:
            name = min(unknown)
            meant = did_you_mean(name, ["highlighter", "model_name", *known])
            message = f"{type(self).__name__}(): got an unexpected keyword argument {name!r}{meant}"
            raise InvalidTypeError(message)
        source = embedding_source(highlighter, model_name, "model_name")
        super().__init__(
            **{"model_name": model_name or model_of(highlighter), "embed_batch_size": embed_batch_size, **settings}
        )
        self._highlighter = source

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialized form."""
        return "PullquoteEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return default_source(self._highlighter).embed(texts).tolist() if texts else []

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = default_source(self._highlighter).embed([query], role="query")[0].tolist()
        return vector

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
