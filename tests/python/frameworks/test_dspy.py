"""`pullquote.dspy` in DSPy's own agents and types."""

import pytest

dspy = pytest.importorskip("dspy")

import numpy as np

import pullquote
from pullquote.dspy import citations, passages_tool
from pullquote.errors import InvalidArgumentError, InvalidTypeError
from support.messages import raises
from support.sources import BREAD, MOON, QUESTION, TEXTS, CountingHighlighter

DOCUMENTS = {f"d{number}": text for number, text in enumerate(TEXTS)}


def test_tool_returns_exact_passages(source: pullquote.Highlighter | pullquote.Client) -> None:
    tool = passages_tool(DOCUMENTS, source, top_k=1)
    assert tool.args["question"]["type"] == "string"
    found = tool(question=QUESTION)
    assert found[0]["text"] == "The Moon is 384,400 km away from the Earth 🌙."
    assert [passage["score"] for passage in found] == sorted((passage["score"] for passage in found), reverse=True)
    for passage in found:
        assert DOCUMENTS[passage["document"]][passage["start"] : passage["end"]] == passage["text"]


def test_tool_honours_limits_in_one_call(counting: CountingHighlighter) -> None:
    assert len(passages_tool(DOCUMENTS, counting, top_n=2)(question=QUESTION)) == 2
    assert passages_tool(DOCUMENTS, counting, min_score=1.0)(question=QUESTION) == []
    budget = passages_tool(DOCUMENTS, counting, max_total_chars=60)(question=QUESTION)
    assert 0 < sum(len(passage["text"]) for passage in budget) <= 60
    assert counting.calls == [4, 4, 4]
    assert passages_tool({}, counting)(question=QUESTION) == []
    with raises(InvalidArgumentError, "top_n", "0"):
        passages_tool({"Facts": "The Moon is far."}, top_n=0)
    with raises(InvalidTypeError, "passages_tool", "top_j", "top_k"):
        passages_tool(DOCUMENTS, top_j=1)  # type: ignore[call-arg]
    with raises(InvalidTypeError, "documents", "mapping", "list"):
        passages_tool(TEXTS)  # type: ignore[arg-type]


def test_agent_calls_the_tool(highlighter: pullquote.Highlighter) -> None:
    """An agent with a scripted language model, which asks the tool once and then answers."""
    model = dspy.utils.DummyLM(
        [
            {"next_thought": "Look.", "next_tool_name": "find_passages", "next_tool_args": {"question": QUESTION}},
            {"next_thought": "Enough.", "next_tool_name": "finish", "next_tool_args": {}},
            {"reasoning": "It says so.", "answer": "384,400 km"},
        ]
    )
    agent = dspy.ReAct("question -> answer", tools=[passages_tool(DOCUMENTS, highlighter, top_n=1)])
    with dspy.context(lm=model):
        answer = agent(question=QUESTION)
    assert answer.answer == "384,400 km"
    assert "The Moon is 384,400 km away" in str(answer.trajectory["observation_0"])


def test_citations_name_pages_and_characters(highlighter: pullquote.Highlighter) -> None:
    found = highlighter.highlights(QUESTION, TEXTS, top_k=1)
    cited = citations(found, list(DOCUMENTS))
    assert len(cited) == 3
    with raises(InvalidArgumentError, "titles: 1", "pages: 4"):
        citations(found, ["one"])
    for citation in cited:
        page = TEXTS[citation.document_index]
        assert page[citation.start_char_index : citation.end_char_index] == citation.cited_text
        assert citation.format() == {
            "type": "char_location",
            "cited_text": citation.cited_text,
            "document_index": citation.document_index,
            "document_title": f"d{citation.document_index}",
            "start_char_index": citation.start_char_index,
            "end_char_index": citation.end_char_index,
        }


def test_embedder_takes_the_highlighters_vectors(source: pullquote.Highlighter | pullquote.Client) -> None:
    vectors = dspy.Embedder(source.embed, caching=False)([MOON, BREAD])
    assert np.allclose(vectors, source.embed([MOON, BREAD]), atol=1e-6)
