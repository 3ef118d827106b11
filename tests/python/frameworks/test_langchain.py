"""`pullquote.langchain` in LangChain's own retrievers and vector stores."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("langchain_core")

from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

import pullquote
from pullquote._models.choice import embedded_model
from pullquote.errors import InvalidArgumentError, InvalidTypeError, ModelNotFoundError
from pullquote.langchain import PullquoteCompressor, PullquoteEmbeddings
from support.messages import raises
from support.sources import BREAD, MOON, QUESTION, TEXTS, TIDES, CountingHighlighter

DOCUMENTS = [Document(text, id=f"d{number}", metadata={"url": f"/{number}"}) for number, text in enumerate(TEXTS)]


def test_passages_are_exact_and_keep_id_and_metadata(source: pullquote.Highlighter | pullquote.Client) -> None:
    found = PullquoteCompressor(source, top_k=1).compress_documents(DOCUMENTS, QUESTION)
    assert found[0].page_content == "The Moon is 384,400 km away from the Earth 🌙."
    scores = [passage.metadata["relevance_score"] for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    for passage in found:
        document = next(document for document in DOCUMENTS if document.id == passage.metadata["source_id"])
        assert passage.metadata["url"] == document.metadata["url"]
        assert document.page_content[passage.metadata["start"] : passage.metadata["end"]] == passage.page_content
    assert "start" not in DOCUMENTS[0].metadata
    assert len({passage.id for passage in PullquoteCompressor(source).compress_documents(DOCUMENTS, QUESTION)}) > 3
    assert PullquoteCompressor(source).compress_documents([Document(MOON)], QUESTION)[0].id is None


def test_start_index_of_a_splitter_is_that_of_the_passage(highlighter: pullquote.Highlighter) -> None:
    chunk = Document(MOON, metadata={"start_index": 1000})
    (found,) = PullquoteCompressor(highlighter, top_k=1).compress_documents([chunk], QUESTION)
    assert found.metadata["start_index"] == 1000 + MOON.index(found.page_content)
    assert chunk.metadata == {"start_index": 1000}


def test_embeddings_compute_the_model_that_is_named(highlighter: pullquote.Highlighter) -> None:
    named = PullquoteEmbeddings(model=str(embedded_model()))
    assert np.allclose(named.embed_query("moon"), PullquoteEmbeddings().embed_query("moon"), atol=1e-6)
    assert PullquoteEmbeddings(highlighter, model="all-MiniLM-L6-v2").highlighter is highlighter
    with raises(ModelNotFoundError, "/nowhere"):
        PullquoteEmbeddings(model="/nowhere")
    with raises(InvalidArgumentError, "model='org/other'", "'all-MiniLM-L6-v2'"):
        PullquoteEmbeddings(highlighter, model="org/other")
    with raises(InvalidTypeError, "model_name", "PullquoteEmbeddings"):
        PullquoteEmbeddings(model_name="org/other")  # type: ignore[call-arg]


def test_all_documents_are_one_call(counting: CountingHighlighter) -> None:
    PullquoteCompressor(counting).compress_documents(DOCUMENTS, QUESTION)
    PullquoteEmbeddings(counting).embed_documents(TEXTS[:3])
    assert counting.calls == [4, 3]


def test_top_k_is_for_each_document_and_top_n_for_all(highlighter: pullquote.Highlighter) -> None:
    each = PullquoteCompressor(highlighter, top_k=1).compress_documents(DOCUMENTS, QUESTION)
    assert sorted(passage.metadata["source_id"] for passage in each) == ["d0", "d1", "d2"]
    best = PullquoteCompressor(highlighter, top_k=1, top_n=2).compress_documents(DOCUMENTS, QUESTION)
    assert list(best) == list(each)[:2]


def test_max_total_chars_is_for_all_documents(highlighter: pullquote.Highlighter) -> None:
    found = PullquoteCompressor(highlighter, max_total_chars=60).compress_documents(DOCUMENTS, QUESTION)
    assert 0 < sum(len(passage.page_content) for passage in found) <= 60


def test_min_score_may_leave_nothing(highlighter: pullquote.Highlighter) -> None:
    assert PullquoteCompressor(highlighter, min_score=1.0).compress_documents(DOCUMENTS, QUESTION) == []
    assert PullquoteCompressor(highlighter).compress_documents([], QUESTION) == []


def test_order_position_follows_the_documents(highlighter: pullquote.Highlighter) -> None:
    reader = PullquoteCompressor(highlighter, order="position", top_k=2, highlight_length=1)
    found = reader.compress_documents([DOCUMENTS[2], DOCUMENTS[0]], QUESTION)
    places = [(["d2", "d0"].index(passage.metadata["source_id"]), passage.metadata["start"]) for passage in found]
    assert places == sorted(places)
    assert len(places) > 2


def test_offsets_in_html_are_those_of_the_source(highlighter: pullquote.Highlighter) -> None:
    page = "<p>Cats sleep.</p><p>The Moon is 384,400&nbsp;km away.</p>"
    (found,) = PullquoteCompressor(highlighter, format="html", top_k=1).compress_documents([Document(page)], QUESTION)
    assert "384,400&nbsp;km" in page[found.metadata["start"] : found.metadata["end"]]
    assert "384,400\xa0km" in found.page_content


def test_title_of_the_metadata_tells_documents_apart(highlighter: pullquote.Highlighter) -> None:
    text = "It is 384,400 km away, on average."
    documents = [Document(text, metadata={"title": "Bread"}), Document(text, metadata={"title": "The Moon"})]
    found = PullquoteCompressor(highlighter, dedupe="none").compress_documents(documents, QUESTION)
    assert found[0].metadata["title"] == "The Moon"


def test_compressor_works_in_a_retriever_and_a_pipeline(source: pullquote.Highlighter | pullquote.Client) -> None:
    store = InMemoryVectorStore(PullquoteEmbeddings(source))
    store.add_documents(DOCUMENTS[:3])
    compressor = PullquoteCompressor(source, top_k=1, top_n=1)
    retriever = ContextualCompressionRetriever(
        base_compressor=DocumentCompressorPipeline(transformers=[compressor]),
        base_retriever=store.as_retriever(search_kwargs={"k": 2}),
    )
    (found,) = retriever.invoke(QUESTION)
    assert (found.metadata["source_id"], found.page_content[:20]) == ("d0", "The Moon is 384,400 ")
    (same,) = asyncio.run(retriever.ainvoke(QUESTION))
    assert same.page_content == found.page_content


def test_embeddings_are_those_of_the_highlighter(source: pullquote.Highlighter | pullquote.Client) -> None:
    embeddings = PullquoteEmbeddings(source)
    assert np.allclose(embeddings.embed_documents([MOON, BREAD]), source.embed([MOON, BREAD]), atol=1e-6)
    assert np.allclose(embeddings.embed_query(TIDES), source.embed([TIDES], role="query")[0], atol=1e-6)
    assert embeddings.embed_documents([]) == []


def test_compressor_can_be_made_of_its_serialized_form() -> None:
    made = PullquoteCompressor(top_n=2, min_score="auto")
    again = PullquoteCompressor.model_validate_json(made.model_dump_json())
    assert (again.top_n, again.options) == (2, {"min_score": "auto"})
    with raises(InvalidTypeError, "top_j", "top_k"):
        PullquoteCompressor(options={"top_j": 1})  # type: ignore[call-arg]


def test_options_are_checked(highlighter: pullquote.Highlighter) -> None:
    with raises(InvalidTypeError, "PullquoteCompressor", "top_j", "top_k"):
        PullquoteCompressor(highlighter, top_j=1)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "topn", "'top_n' of all documents", "'top_k' of each"):
        PullquoteCompressor(highlighter, topn=1)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "PullquoteEmbeddings", "'model_name'", "'model'"):
        PullquoteEmbeddings(model_name="BAAI/bge-small-en-v1.5")  # type: ignore[call-arg]
    with raises(InvalidTypeError, "titles", "PullquoteCompressor sets it"):
        PullquoteCompressor(highlighter, titles=["a"])
    with raises(ValueError, "top_n"):
        PullquoteCompressor(highlighter, top_n=0)
    for wrong in ({"unit": "chapter"}, {"top_k": -1}, {"min_score": 2.0}, {"effort": 3}):
        with raises((InvalidArgumentError, InvalidTypeError), *wrong):
            PullquoteCompressor(highlighter, **wrong)
    for adapter in (PullquoteCompressor, PullquoteEmbeddings):
        with raises(InvalidTypeError, "highlighter", "'all-MiniLM-L6-v2'"):
            adapter("all-MiniLM-L6-v2")  # type: ignore[arg-type]
    with raises(InvalidArgumentError, "top_k", "0"):
        PullquoteCompressor(highlighter, top_k=0).compress_documents(DOCUMENTS, QUESTION)
