"""`pullquote.llamaindex` in LlamaIndex's own indexes and query engines."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, QueryBundle, TextNode

import pullquote
from pullquote._models.choice import embedded_model
from pullquote.errors import InvalidArgumentError, InvalidTypeError, ModelNotFoundError
from pullquote.llamaindex import PullquoteEmbedding, PullquotePostprocessor
from support.messages import raises
from support.sources import BREAD, MOON, QUESTION, TEXTS, CountingHighlighter


def nodes(*texts: str) -> list[NodeWithScore]:
    made = [
        TextNode(id_=f"n{number}", text=text, metadata={"url": f"/{number}"}, excluded_llm_metadata_keys=["url"])
        for number, text in enumerate(texts)
    ]
    return [NodeWithScore(node=node, score=0.5) for node in made]


def test_passages_are_nodes_with_metadata_and_source(source: pullquote.Highlighter | pullquote.Client) -> None:
    given = nodes(*TEXTS)
    found = PullquotePostprocessor(source, top_k=1).postprocess_nodes(given, query_str=QUESTION)
    assert found[0].text == "The Moon is 384,400 km away from the Earth 🌙."
    assert [each.score for each in found] == sorted((each.get_score() for each in found), reverse=True)
    assert len({each.node_id for each in found}) == len(found) == 3
    for each in found:
        node = each.node
        assert isinstance(node, TextNode)
        assert node.source_node is not None
        origin = next(one.node for one in given if one.node_id == node.source_node.node_id)
        assert origin.get_content()[node.start_char_idx : node.end_char_idx] == node.text
        assert node.metadata == origin.metadata
        # The prompt has what the node's own text would have: no `url`.
        assert node.get_content(MetadataMode.LLM) == node.text


def test_offsets_count_in_the_source_document(highlighter: pullquote.Highlighter) -> None:
    document = Document(text=f"{BREAD}\n\n{MOON}", id_="whole")
    parts = SentenceSplitter(chunk_size=24, chunk_overlap=0, include_prev_next_rel=False)([document])
    assert len(parts) > 1
    given = [NodeWithScore(node=part) for part in parts]
    found = PullquotePostprocessor(highlighter, top_k=1).postprocess_nodes(given, QueryBundle(QUESTION))
    for each in found:
        assert isinstance(each.node, TextNode)
        assert document.text[each.node.start_char_idx : each.node.end_char_idx] == each.node.text
        assert each.node.relationships[NodeRelationship.SOURCE].node_id == "whole"  # type: ignore[union-attr]


def test_all_nodes_are_one_call(counting: CountingHighlighter) -> None:
    PullquotePostprocessor(counting).postprocess_nodes(nodes(*TEXTS), query_str=QUESTION)
    PullquoteEmbedding(counting).get_text_embedding_batch([f"Text {number}." for number in range(30)])
    assert counting.calls == [4, 30]


def test_no_passages_are_an_empty_list(highlighter: pullquote.Highlighter) -> None:
    strict = PullquotePostprocessor(highlighter, min_score=1.0)
    assert strict.postprocess_nodes(nodes(*TEXTS), query_str=QUESTION) == []
    assert strict.postprocess_nodes([], query_str=QUESTION) == []
    assert PullquotePostprocessor(highlighter).postprocess_nodes(nodes(""), query_str=QUESTION) == []


def test_top_n_and_budget_are_for_all_nodes(highlighter: pullquote.Highlighter) -> None:
    given = nodes(*TEXTS)
    assert len(PullquotePostprocessor(highlighter, top_n=2).postprocess_nodes(given, query_str=QUESTION)) == 2
    found = PullquotePostprocessor(highlighter, max_total_chars=60).postprocess_nodes(given, query_str=QUESTION)
    assert 0 < sum(len(each.text) for each in found) <= 60


def test_query_engine_answers_from_passages(source: pullquote.Highlighter | pullquote.Client) -> None:
    documents = [Document(text=text, id_=f"d{number}") for number, text in enumerate([MOON, BREAD])]
    index = VectorStoreIndex.from_documents(documents, embed_model=PullquoteEmbedding(source))
    engine = RetrieverQueryEngine.from_args(
        index.as_retriever(similarity_top_k=2),
        llm=MockLLM(),
        node_postprocessors=[PullquotePostprocessor(source, top_k=1, top_n=1)],
    )
    answer = engine.query(QUESTION)
    assert [each.text[:19] for each in answer.source_nodes] == ["The Moon is 384,400"]
    assert "384,400" in str(answer)
    assert "Cats sleep" not in str(answer)


def test_async_calls_are_the_same(highlighter: pullquote.Highlighter) -> None:
    reader, embedding = PullquotePostprocessor(highlighter), PullquoteEmbedding(highlighter)

    async def both() -> tuple[list[NodeWithScore], list[list[float]], list[float]]:
        return (
            await reader.apostprocess_nodes(nodes(*TEXTS), query_str=QUESTION),
            await embedding.aget_text_embedding_batch([MOON, BREAD]),
            await embedding.aget_query_embedding(QUESTION),
        )

    found, vectors, vector = asyncio.run(both())
    expected = reader.postprocess_nodes(nodes(*TEXTS), query_str=QUESTION)
    assert [each.text for each in found] == [each.text for each in expected]
    assert np.allclose(vectors, highlighter.embed([MOON, BREAD]), atol=1e-6)
    assert np.allclose(vector, highlighter.embed([QUESTION], role="query")[0], atol=1e-6)


def test_embedding_computes_the_model_that_is_named(highlighter: pullquote.Highlighter) -> None:
    named = PullquoteEmbedding(model_name=str(embedded_model()))
    ours = PullquoteEmbedding()
    assert np.allclose(named.get_text_embedding("moon"), ours.get_text_embedding("moon"), atol=1e-6)
    assert (named.model_name, ours.model_name) == (str(embedded_model()), "all-MiniLM-L6-v2")
    assert PullquoteEmbedding.from_dict(ours.to_dict()).model_name == ours.model_name
    with raises(ModelNotFoundError, "/nowhere"):
        PullquoteEmbedding(model_name="/nowhere")
    with raises(InvalidArgumentError, "model_name='org/other'", "'all-MiniLM-L6-v2'"):
        PullquoteEmbedding(highlighter, model_name="org/other")


def test_arguments_are_checked(highlighter: pullquote.Highlighter) -> None:
    # BaseEmbedding would ignore it, and compute with another model.
    with raises(InvalidTypeError, "PullquoteEmbedding", "'model'", "'model_name'"):
        PullquoteEmbedding(model="BAAI/bge-small-en-v1.5")
    with raises(InvalidTypeError, "similarity_cutoff", "'min_score'"):
        PullquotePostprocessor(highlighter, similarity_cutoff=0.5)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "PullquotePostprocessor", "top_j", "top_k"):
        PullquotePostprocessor(highlighter, top_j=1)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "topn", "'top_n' of all documents", "'top_k' of each"):
        PullquotePostprocessor(highlighter, topn=1)  # type: ignore[call-arg]
    with raises(InvalidArgumentError, "query_bundle"):
        PullquotePostprocessor(highlighter).postprocess_nodes(nodes(MOON))
    kept = PullquotePostprocessor(highlighter, top_k=2, top_n=3).to_dict()
    assert kept["options"] == {"top_k": 2}
    assert PullquotePostprocessor.from_dict(kept).to_dict() == kept
