"""`pullquote.haystack` in Haystack's own pipelines."""

import asyncio
import os

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack")

from haystack import Document, ExtractedAnswer, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

import pullquote
from pullquote.errors import InvalidArgumentError, InvalidTypeError, PullquoteError
from pullquote.haystack import PullquoteExtractor
from support.messages import raises
from support.server_process import ServerProcess
from support.sources import QUESTION, TEXTS, CountingHighlighter

DOCUMENTS = [Document(id=f"d{number}", content=text, meta={"url": f"/{number}"}) for number, text in enumerate(TEXTS)]


def test_documents_and_answers_are_exact_passages(source: pullquote.Highlighter | pullquote.Client) -> None:
    found = PullquoteExtractor(highlighter=source, options={"top_k": 1}).run(QUESTION, DOCUMENTS)
    assert found["answers"][0].data == "The Moon is 384,400 km away from the Earth 🌙."
    assert len(found["documents"]) == len(found["answers"]) == 3
    for document, answer in zip(found["documents"], found["answers"], strict=True):
        origin = next(each for each in DOCUMENTS if each.id == document.meta["source_id"])
        span = answer.document_offset
        assert span is not None
        assert origin.content is not None
        assert document.content == answer.data == origin.content[span.start : span.end]
        assert (document.meta["start"], document.meta["end"]) == (span.start, span.end)
        assert (answer.document, answer.query) == (origin, QUESTION)
        assert document.meta["url"] == origin.meta["url"]
        assert document.score == answer.score
        assert ExtractedAnswer.from_dict(answer.to_dict()) == answer


def test_context_has_the_sentences_around_a_passage(highlighter: pullquote.Highlighter) -> None:
    extractor = PullquoteExtractor(highlighter=highlighter, top_k=1, options={"context": 1})
    (answer,) = extractor.run(QUESTION, DOCUMENTS)["answers"]
    assert answer.context is not None
    assert answer.context_offset is not None
    assert answer.context[answer.context_offset.start : answer.context_offset.end] == answer.data
    assert answer.context in TEXTS[0]
    assert len(answer.context) > len(str(answer.data))


def test_all_documents_are_one_call_without_those_that_have_no_text(counting: CountingHighlighter) -> None:
    extractor = PullquoteExtractor(highlighter=counting)
    documents = [Document(content=None, meta={"image": "a.png"}), *DOCUMENTS]
    found = extractor.run(QUESTION, documents)
    assert counting.calls == [4]
    assert found["documents"][0].meta["source_id"] == "d0"


def test_limits(highlighter: pullquote.Highlighter) -> None:
    def run(top_k: int | None = None, **arguments: object) -> list[Document]:
        extractor = PullquoteExtractor(highlighter=highlighter, **arguments)  # type: ignore[arg-type]
        return extractor.run(QUESTION, DOCUMENTS, top_k)["documents"]

    assert len(run(top_k=2)) == 2
    assert len(run(top_k=2, options={"top_k": 1})) == 2
    assert len(PullquoteExtractor(highlighter=highlighter, top_k=1).run(QUESTION, DOCUMENTS)["answers"]) == 1
    budget = run(options={"max_total_chars": 60})
    assert 0 < sum(len(str(document.content)) for document in budget) <= 60
    assert run(options={"min_score": 1.0}) == []
    assert PullquoteExtractor(highlighter=highlighter).run(QUESTION, []) == {"documents": [], "answers": []}


def pipeline(extractor: PullquoteExtractor) -> Pipeline:
    store = InMemoryDocumentStore()
    store.write_documents(DOCUMENTS)
    made = Pipeline()
    made.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    made.add_component("extractor", extractor)
    made.connect("retriever.documents", "extractor.documents")
    return made


def test_pipeline_runs_sync_and_async(source: pullquote.Highlighter | pullquote.Client) -> None:
    made = pipeline(PullquoteExtractor(highlighter=source, top_k=1))
    inputs = {"retriever": {"query": QUESTION}, "extractor": {"query": QUESTION}}
    answer = made.run(inputs)["extractor"]["answers"][0]
    assert "384,400 km" in answer.data
    again = asyncio.run(made.run_async(inputs))["extractor"]["answers"][0]
    assert again == answer


def test_pipeline_is_serialized_with_the_address_of_a_server(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLQUOTE_API_KEY", "k3y")
    key = Secret.from_env_var("PULLQUOTE_API_KEY")
    extractor = PullquoteExtractor(url=server.url, api_key=key, top_k=1, options={"context": 1})
    text = pipeline(extractor).dumps()
    assert "k3y" not in text
    again = Pipeline.loads(text, allowed_modules=["pullquote.haystack"]).get_component("extractor")
    assert isinstance(again, PullquoteExtractor)
    assert (again.url, again.api_key, again.top_k, again.options) == (server.url, key, 1, {"context": 1})
    assert "384,400 km" in str(again.run(QUESTION, DOCUMENTS)["answers"][0].data)


def test_warm_up_loads_the_model_once() -> None:
    extractor = PullquoteExtractor(model="/nowhere")
    with raises(PullquoteError, "/nowhere"):
        extractor.warm_up()
    shared = PullquoteExtractor()
    shared.warm_up()
    loaded = shared._source
    assert shared.run(QUESTION, DOCUMENTS, top_k=1)["documents"]
    assert shared._source is loaded is not None


def test_arguments_are_checked(highlighter: pullquote.Highlighter) -> None:
    with raises(InvalidArgumentError, "model", "url"):
        PullquoteExtractor("model", url="http://127.0.0.1:1")
    with raises(InvalidArgumentError, "top_k", "0"):
        PullquoteExtractor(top_k=0)
    with raises(InvalidTypeError, "PullquoteExtractor", "'top_n'", "'top_k'"):
        PullquoteExtractor(top_n=1)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "top_j", "top_k"):
        PullquoteExtractor(options={"top_j": 1})
    with raises(InvalidArgumentError, "highlighter"):
        PullquoteExtractor(highlighter=highlighter).to_dict()
