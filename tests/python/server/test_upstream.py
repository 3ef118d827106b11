"""`/search` with `--upstream`: highlights of another server's texts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.fake_web import FakeWeb, fake_web
from support.messages import raises
from support.server_process import ServerProcess, StartError, letter_server

BREAD = "Bread is baked from flour and water 🍞. The oven must be hot. Bakers get up early."
RESULTS = {
    "requestId": "theirs",
    "resolvedSearchType": "neural",
    "results": [
        {
            "id": "1",
            "url": "https://a.example",
            "title": "Baking",
            "text": BREAD,
            "author": "A. Baker",
            "extras": {"links": ["x"]},
        },
        {"id": "2", "url": "https://b.example", "title": None},
    ],
    "costDollars": {"total": 0.5},
}
HIGHLIGHTS_JSON = {"query": "How is bread baked from flour?", "maxCharacters": 50}
HIGHLIGHTS = {"query": "How is bread made?", "max_characters": 50}


@pytest.fixture(scope="module")
def there() -> Iterator[FakeWeb]:
    with fake_web() as made:
        yield made


@pytest.fixture(scope="module")
def handing(there: FakeWeb) -> Iterator[ServerProcess]:
    """A server without API keys and without a key for the upstream."""
    with letter_server("--upstream", there.url + "/") as server:
        yield server


@pytest.fixture(autouse=True)
def answer(there: FakeWeb) -> None:
    there.json("/search", RESULTS)


def client(server: ServerProcess, key: str = "client-key") -> Any:
    # Imported here, because it takes seconds (`conftest.py`).
    from exa_py import Exa

    return Exa(key, base_url=server.url)


def asked(there: FakeWeb) -> tuple[dict[str, str], dict[str, Any]]:
    path, headers, body = there.requests[-1]
    assert path == "/search"
    found: dict[str, Any] = json.loads(body)
    return headers, found


def test_upstream_texts_get_highlights(handing: ServerProcess, there: FakeWeb) -> None:
    exa = client(handing)
    found = exa.search("bread", include_domains=["a.example"], contents={"highlights": HIGHLIGHTS, "max_age_hours": 1})
    headers, body = asked(there)
    assert headers["x-api-key"] == "client-key"
    assert body == {"query": "bread", "includeDomains": ["a.example"], "contents": {"text": True, "maxAgeHours": 1}}
    first, second = found.results
    assert (first.url, first.author, first.text) == ("https://a.example", "A. Baker", None)
    assert first.highlights[0] == "Bread is baked from flour and water 🍞."
    spans = first.extras["highlight_spans"]
    assert [BREAD[span["start"] : span["end"]] for span in spans] == first.highlights
    assert [span["score"] for span in spans] == first.highlight_scores
    assert first.extras["links"] == ["x"]
    assert (second.highlights, second.text) == ([], None)
    assert (found.resolved_search_type, found.cost_dollars.total) == ("neural", 0.5)


def test_upstream_text_options_are_kept(handing: ServerProcess, there: FakeWeb) -> None:
    exa = client(handing)
    options: Any = {"highlights": HIGHLIGHTS, "text": {"max_characters": 5, "include_html_tags": True}}
    found = exa.search("bread", contents=options)
    assert asked(there)[1]["contents"] == {"text": {"includeHtmlTags": True}}
    assert found.results[0].text == "Bread"
    (span, *_) = found.results[0].extras["highlight_spans"]
    assert BREAD[span["start"] : span["end"]] == found.results[0].highlights[0]


def test_context_is_made_of_our_highlights(handing: ServerProcess, there: FakeWeb) -> None:
    contents = {"highlights": HIGHLIGHTS_JSON, "context": True}
    there.json("/search", RESULTS | {"context": "theirs"})
    found = handing.client.post("/search", json={"query": "bread", "contents": contents}).json()
    assert asked(there)[1]["contents"] == {"text": True}
    first = "Title: Baking\nURL: https://a.example\n" + "\n".join(found["results"][0]["highlights"])
    assert found["context"] == f"{first}\n\nURL: https://b.example\n"
    forwarded = handing.client.post("/search", json={"query": "bread", "contents": {"context": True}}).json()
    assert forwarded["context"] == "theirs"


def test_warnings_follow_those_of_the_upstream(handing: ServerProcess, there: FakeWeb) -> None:
    theirs = {"code": "THEIRS", "path": "category", "message": "a"}
    there.json("/search", RESULTS | {"warnings": [theirs]})
    highlights = {"query": "Who painted the ceiling of the chapel?", "stepSize": 1}
    found = handing.client.post("/search", json={"query": "bread", "contents": {"highlights": highlights}}).json()
    first, *ours = found["warnings"]
    assert first == theirs
    assert [(warning["code"], warning["path"]) for warning in ours] == [
        ("OPTION_IGNORED", "contents.highlights.stepSize"),
        ("QUERY_UNANSWERED", "contents.highlights"),
    ]
    there.json("/search", RESULTS)
    found = handing.client.post("/search", json={"query": "bread", "contents": {"highlights": HIGHLIGHTS_JSON}}).json()
    assert "warnings" not in found


def test_search_without_highlights_is_forwarded_unchanged(handing: ServerProcess, there: FakeWeb) -> None:
    sent = {
        "query": "bread",
        "numResults": 3,
        "contents": {"text": {"maxCharacters": 7}, "summary": True},
        "stream": False,
    }
    found = handing.client.post("/search", json=sent)
    assert asked(there)[1] == sent
    assert found.json() == RESULTS


def test_upstream_errors_are_forwarded(handing: ServerProcess, there: FakeWeb) -> None:
    error = {"requestId": "theirs", "error": "no credits", "tag": "NO_MORE_CREDITS"}
    there.json("/search", error, 402)
    found = handing.client.post("/search", json={"query": "bread", "contents": {"highlights": True}})
    assert (found.status_code, found.json()) == (402, error)


@pytest.mark.parametrize("strange", ["a text", {"results": "none"}, {"results": ["none"]}, {}])
def test_malformed_upstream_answer_is_502(handing: ServerProcess, there: FakeWeb, strange: object) -> None:
    there.json("/search", strange)
    found = handing.client.post("/search", json={"query": "bread", "contents": {"highlights": True}})
    assert (found.status_code, found.json()["tag"]) == (502, "UPSTREAM_FAILED")


def test_unreachable_upstream_is_502() -> None:
    with fake_web() as gone:
        url = gone.url
    with letter_server("--upstream", url) as server:
        found = server.client.post("/search", json={"query": "bread"})
    assert (found.status_code, found.json()["tag"]) == (502, "UPSTREAM_FAILED")


def test_upstream_redirect_is_502(handing: ServerProcess, there: FakeWeb) -> None:
    there.redirect("/search", "/elsewhere")
    assert handing.client.post("/search", json={"query": "bread"}).status_code == 502
    assert there.requests[-1][0] == "/search"


def test_upstream_key_replaces_client_key(there: FakeWeb) -> None:
    with letter_server("--upstream", there.url, "--upstream-key", "its-key") as server:
        client(server, "client-key").search("bread")
        assert asked(there)[0]["x-api-key"] == "its-key"
    with letter_server("--upstream", there.url, "--api-key", "our-key") as server:
        client(server, "our-key").search("bread")
        assert "our-key" not in str(asked(there)[0])


def test_invalid_upstream_stops_start() -> None:
    with (
        raises(StartError, "upstream", "exa"),
        letter_server("--upstream", "exa"),
    ):
        pass
