"""OpenSearch, Milvus and Elasticsearch: what they send, and the rules by which they accept answers."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from support.server_process import ServerProcess

PATH = "/predictions/semantic_highlighter"
QUESTION = "How is bread made?"
BREAD = "The moon is white 🌙. Bread is baked from flour 🍞. Cats sleep a lot. It rises before it is baked."
MOON = "Cats sleep a lot. The moon is 384,400 km away."
DOCS = Path(__file__).parents[3] / "docs" / "search_engines.md"
TEXTS = ["The moon is white.", "Bread is baked from flour.", "Cats sleep a lot."]


def settings(first_field: str) -> Any:
    """The JSON of our documentation that begins with this field."""
    found = re.search(rf'^```json\n(\{{\n  "{first_field}".*?)^```$', DOCS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def marked(text: str, highlights: list[dict[str, Any]]) -> list[str]:
    """The highlighted parts, by the rules of OpenSearch's `HighlightTagApplier`; Java's strings are UTF-16."""
    units = text.encode("utf-16-le")
    last_start, last_end = -1, 0
    parts = []
    for highlight in highlights:
        start, end = highlight["start"], highlight["end"]
        assert type(start) is type(end) is int
        assert 0 <= start < end <= len(units) // 2
        assert start > last_start, "not sorted, or the same start"
        assert start >= last_end, "overlapping"
        last_start, last_end = start, end
        parts.append(units[2 * start : 2 * end].decode("utf-16-le"))
    return parts


def ask(server: ServerProcess, body: dict[str, Any], status: int = 200) -> Any:
    answer = server.client.post(PATH, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()["highlights"] if status == 200 else answer.json()


@pytest.mark.parametrize("inputs", [None, [], "", "[]", "missing"])
def test_one_document_has_a_list(server: ServerProcess, inputs: Any) -> None:
    body = {"question": QUESTION, "context": BREAD, "inputs": inputs}
    if inputs == "missing":
        del body["inputs"]
    parts = marked(BREAD, ask(server, body))
    assert "Bread is baked from flour 🍞." in " ".join(parts)
    assert all(part in BREAD for part in parts)


@pytest.mark.parametrize("as_string", [False, True])
def test_many_documents_have_a_list_each(server: ServerProcess, as_string: bool) -> None:
    pairs = [{"question": QUESTION, "context": text} for text in (BREAD, "", MOON)]
    inputs = json.dumps(pairs) if as_string else pairs
    found = ask(server, {"question": "", "context": "", "inputs": inputs})
    assert len(found) == 3
    assert "Bread is baked from flour 🍞." in " ".join(marked(BREAD, found[0]))
    assert found[1] == []
    marked(MOON, found[2])


def test_each_document_has_its_own_question(server: ServerProcess) -> None:
    pairs = [{"question": QUESTION, "context": BREAD}, {"question": "How far is the moon?", "context": MOON}]
    found = ask(server, {"inputs": pairs, "highlight_length": 1, "top_k": 1})
    assert marked(BREAD, found[0]) == ["Bread is baked from flour 🍞."]
    assert marked(MOON, found[1]) == ["The moon is 384,400 km away."]


def test_template_of_a_connector_works(server: ServerProcess) -> None:
    """The bodies that the connector of our documentation makes, as OpenSearch fills it in."""
    (action,) = settings("name")["actions"]
    assert action["url"].endswith(PATH)
    pairs = [{"question": QUESTION, "context": BREAD}]
    for given in ({"question": QUESTION, "context": "Bread is baked."}, {"inputs": json.dumps(pairs)}):

        def fill(match: re.Match[str], given: dict[str, str] = given) -> str:
            return given.get(match[1], match[2])

        body = re.sub(r"\$\{parameters\.(\w+):-([^}]*)\}", fill, action["request_body"])
        headers = {"content-type": "application/json"}
        answer = server.client.post(PATH, content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["highlights"]) == 1


@pytest.mark.parametrize("options", [{}, {"format": "html"}, {"order": "score", "top_k": 20}, {"max_chars": 300}])
def test_highlights_of_random_texts_keep_the_rules(server: ServerProcess, options: dict[str, Any]) -> None:
    drawn = random.Random(1862)
    words = [
        "bread",
        "moon 🌙",
        "🍞",
        "<p>",
        "</p>",
        "&amp;",
        "ß",
        "flour.",
        "\n\n",
        "Is it?",
        "面包。",
        "e\u0301",
        "- item\n",
    ]
    texts = [" ".join(drawn.choices(words, k=drawn.randrange(0, 120))) for _ in range(6)]
    inputs = [{"question": QUESTION, "context": text} for text in texts]
    for text, highlights in zip(texts, ask(server, {"inputs": inputs, **options}), strict=True):
        assert all(part in text for part in marked(text, highlights))


def test_mistakes_name_the_field(server: ServerProcess) -> None:
    assert "question" in str(ask(server, {"context": BREAD}, 422))
    assert "inputs" in str(ask(server, {"inputs": "[{"}, 422))
    assert "inputs" in str(ask(server, {"inputs": [{"question": "a", "context": "b"}] * 1001}, 422))
    assert "top_j" in str(ask(server, {"question": "a", "context": "b", "top_j": 1}, 422))


@pytest.mark.parametrize("more", [{}, {"truncate": True, "truncation_direction": "Right"}])
def test_tei_provider_of_milvus(server: ServerProcess, more: dict[str, Any]) -> None:
    answer = server.client.post("/rerank", json={"query": QUESTION, "texts": TEXTS, **more}).json()
    scores = {row["index"]: row["score"] for row in answer}
    assert sorted(scores) == [0, 1, 2]
    assert max(scores, key=scores.__getitem__) == 1


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/rerank", {}),
        ("/rerank", {"truncate_prompt_tokens": 64}),
        ("/v2/rerank", {"model": "all-MiniLM-L6-v2", "max_tokens_per_doc": 64}),
    ],
)
def test_vllm_and_cohere_providers_of_milvus(server: ServerProcess, path: str, more: dict[str, Any]) -> None:
    """Milvus sorts the results by index, and needs one for each document."""
    headers = {"accept": "application/json", "authorization": "bearer k"}
    body = {"query": QUESTION, "documents": TEXTS, **more}
    answer = server.client.post(path, json=body, headers=headers).json()
    assert isinstance(answer["id"], str)
    rows = sorted(answer["results"], key=lambda row: row["index"])
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert max(rows, key=lambda row: row["relevance_score"])["index"] == 1


def test_inference_endpoint_of_elasticsearch(server: ServerProcess) -> None:
    """The body that our documentation's template makes, and the paths by which Elasticsearch reads the answer."""
    service = settings("service")["service_settings"]
    body = service["request"].replace("${query}", json.dumps(QUESTION)).replace("${input}", json.dumps(TEXTS))
    path = service["url"].removeprefix("http://pullquote:8080")
    headers = {"content-type": "application/json", "authorization": "Bearer k"}
    answer = server.client.post(path, content=body, headers=headers).json()
    paths = service["response"]["json_parser"].values()
    fields = [re.fullmatch(r"\$\.(\w+)\[\*\]\.(\w+)", path) for path in paths]
    scores, places = ([row[field[2]] for row in answer[field[1]]] for field in fields if field)
    assert (places[0], sorted(places)) == (1, [0, 1, 2])
    assert scores == sorted(scores, reverse=True)


def test_cohere_service_of_elasticsearch(server: ServerProcess) -> None:
    body = {"model": "all-MiniLM-L6-v2", "query": QUESTION, "documents": TEXTS, "return_documents": True, "top_n": 2}
    answer = server.client.post("/v2/rerank", json=body, headers={"request-source": "unspecified:elasticsearch"}).json()
    first, _ = answer["results"]
    assert (first["index"], first["document"]["text"]) == (1, TEXTS[1])
