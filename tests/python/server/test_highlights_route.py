"""`POST /highlights`: the library's answers over HTTP."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pullquote import Highlighter, Highlights
from support.gated_server import encoded_texts, gated_server, open_gate
from support.messages import names_all
from support.server_process import ServerProcess, wait_for

TEXT = "Der Mond ist weiß 🌕. Brot wird aus Mehl gebacken 🍞. Öfen sind heiß."
HTML = "<title>Caf&eacute;</title><h1>Caf&eacute;</h1><p>Bread &amp; butter 🍞 cost 3 €.</p><p>The moon is white.</p>"


def ask(server: ServerProcess, **body: Any) -> dict[str, Any]:
    answer = server.client.post("/highlights", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def same(page: dict[str, Any], expected: Highlights, index: int) -> bool:
    """Whether a result has the library's highlights, except for a score's last bits, which depend on the batch."""
    got = [(h["text"], h["start"], h["end"]) for h in page["highlights"]]
    return got == [(h.text, h.start, h.end) for h in expected[index]] and np.allclose(
        [h["score"] for h in page["highlights"]], [h.score for h in expected[index]], atol=2e-5
    )


OPTIONS: list[dict[str, Any]] = [
    {},
    {"top_k": 1, "highlight_length": 1},
    {"max_chars": 300, "order": "position"},
    {"max_total_tokens": 200, "dedupe": "none"},
    {"max_total_highlights": 3},
    {"unit": "word", "highlight_length": 20, "step_size": 10},
    {"lexical_weight": 0, "expand": False},
    {"lexical_weight": 1.0, "min_score": 0.3},
    {"step_size": 4, "allow_gaps": True},
    {"format": "markdown"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_highlights_match_library(
    server: ServerProcess, highlighter: Highlighter, pages: dict[str, str], options: dict[str, Any]
) -> None:
    texts = list(pages.values())[:2]
    expected = highlighter.highlights("Who died?", texts, **options)
    found = ask(server, query="Who died?", documents=texts, **options)
    assert [page["index"] for page in found["results"]] == [0, 1]
    assert all(same(page, expected, index) for index, page in enumerate(found["results"]))
    assert found["offsets"] == "codepoint"
    assert found["usage"]["windows"] == expected.work.windows


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", path) for path in ("/highlights", "/locate", "/cite", "/prune", "/render", "/documents")]
    + [("PUT", "/documents/a")],
)
def test_option_after_the_path_is_refused(server: ServerProcess, method: str, path: str) -> None:
    body = {"query": "Where?", "documents": ["Here."]} if path == "/highlights" else {"text": "Here."}
    refused = server.client.request(method, path, params={"top_k": 1}, json=body)
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "top_k")
    assert names_all(refused.json()["error"]["message"], "body")


@pytest.mark.filterwarnings("ignore:no passage fits")
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        (TEXT, {}),
        ("Cats sleep.", {}),
        (" ", {}),
        (TEXT, {"min_score": 0.999}),
        ("Cats sleep.", {"min_score": "auto"}),
        (TEXT, {"max_chars": 5, "max_total_tokens": 2}),
    ],
)
def test_note_is_that_of_the_library(
    server: ServerProcess, highlighter: Highlighter, text: str, options: dict[str, Any], lines: bool
) -> None:
    body = {"query": "Woraus wird Brot gebacken?", "documents": [text], **options}
    accept = "application/x-ndjson" if lines else "application/json"
    answer = server.client.post("/highlights", json=body, headers={"accept": accept})
    last = json.loads(answer.text.splitlines()[-1])
    expected = highlighter.highlights(body["query"], [text], **options)
    assert (last["answered"], last.get("note", "")) == (expected.answered, expected.note)


@pytest.mark.parametrize("offsets", ["codepoint", "utf16", "byte"])
@pytest.mark.parametrize("written", ["text", "html"])
def test_offsets_unit_of_text_and_html(server: ServerProcess, offsets: str, written: str) -> None:
    source = HTML if written == "html" else TEXT
    found = ask(
        server,
        query="bread Brot Mehl",
        documents=[{"id": "x", "title": "t", "text": source}],
        offsets=offsets,
        format=written,
        highlight_length=1,
        context=1,
        explain=True,
        return_texts=True,
    )
    codec = {"codepoint": "utf-32-le", "utf16": "utf-16-le", "byte": "utf-8"}[offsets]
    width = {"codepoint": 4, "utf16": 2, "byte": 1}[offsets]

    def cut(text: str, start: int, end: int) -> str:
        return text.encode(codec)[start * width : end * width].decode(codec)

    (page,) = found["results"]
    assert page["id"] == "x"
    assert page["text_hash"] == "sha256:" + hashlib.sha256(source.encode()).hexdigest()
    text = page["text"]
    assert (text == source) == (written == "text")
    best = page["highlights"][0]
    assert best["matches"]
    for highlight in page["highlights"]:
        start, end = highlight["start"], highlight["end"]
        assert cut(text, start, end) == highlight["text"]
        assert cut(text, 0, start).endswith(highlight["before"])
        assert cut(text, end, len(text) * 4).startswith(highlight["after"])
        assert all(
            cut(text, m["start"], m["end"]).lower().startswith(m["word"][:3].lower()) for m in highlight["matches"]
        )
        assert ("source_start" in highlight) == (written == "html")
    if written == "html":
        assert "<p>Bread &amp; butter" in cut(source, best["source_start"], best["source_end"])


@pytest.mark.parametrize(("offsets", "start"), [("codepoint", 4), ("utf16", 5), ("byte", 8)])
def test_header_of_table_rows_has_its_place(server: ServerProcess, offsets: str, start: int) -> None:
    rows = "\n".join(f"bun {number},{number % 7},{number % 5}" for number in range(60))
    page = f"é🍞\n\nname,price,stock\n{rows}\n\nText."
    (found,) = ask(server, query="bun 44", documents=[page], offsets=offsets, top_k=1)["results"][0]["highlights"]
    assert "bun 44,2,4" in found["text"]
    assert (found["header"], found["header_start"]) == ("name,price,stock", start)
    (plain,) = ask(server, query="text", documents=["Bread is baked."], top_k=1)["results"][0]["highlights"]
    assert not {"header", "header_start"} & plain.keys()


def test_pairing_and_fuse_over_http(server: ServerProcess, highlighter: Highlighter, pages: dict[str, str]) -> None:
    texts, queries = list(pages.values())[:2], ["Who died?", "Why?"]
    each = ask(server, query=queries, documents=texts, pairing="each")
    assert [(page["query"], page["index"]) for page in each["results"]] == [(0, 0), (1, 1)]
    expected = highlighter.highlights(queries, texts, pairing="all")
    every = ask(server, query=queries, documents=texts, pairing="all")
    assert [(page["query"], page["index"]) for page in every["results"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(same(page, expected, index) for index, page in enumerate(every["results"]))
    fused = highlighter.highlights(queries, texts, fuse=True)
    joined = ask(server, query=queries, documents=texts, fuse=True)
    assert all("query" not in page and same(page, fused, index) for index, page in enumerate(joined["results"]))
    assert [h["query"] for h in joined["results"][0]["highlights"]] == [h.query for h in fused[0]]


def test_ndjson_matches_json(server: ServerProcess, pages: dict[str, str]) -> None:
    body = {"query": "Who died?", "documents": list(pages.values())[:4]}
    whole = ask(server, **body)
    with server.client.stream("POST", "/highlights", json=body, headers={"accept": "application/x-ndjson"}) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        *results, rest = [json.loads(line) for line in answer.iter_lines()]
    assert [[h["text"] for h in page["highlights"]] for page in results] == [
        [h["text"] for h in page["highlights"]] for page in whole["results"]
    ]
    assert rest.keys() == whole.keys() - {"results"}


SMALL = "The moon is far."


def large_request(**options: Any) -> dict[str, Any]:
    """A small page, and after it a large one whose encoding waits for the gate."""
    large = "blocker\n\n" + "\n\n".join(f"Sentence {number} of the large page is here." for number in range(1000))
    return {
        "query": "moon",
        "documents": [SMALL, large],
        "effort": "full",
        "highlight_length": 1,
        "top_k": 1,
        **options,
    }


def lines(server: ServerProcess, body: dict[str, Any], **headers: str) -> Any:
    accept = {"accept": "application/x-ndjson", "accept-encoding": "gzip, identity;q=0"}
    return server.client.stream("POST", "/highlights", json=body, headers=accept | headers)


def test_ndjson_line_is_sent_before_next_page_is_encoded(tmp_path: Path) -> None:
    with gated_server(tmp_path) as server:
        for query, options in (
            ("moon", {}),
            (["moon", "bread"], {"pairing": "all"}),
            (["moon", "bread"], {"fuse": True}),
        ):
            body = large_request(query=query, explain=True, **options)
            with lines(server, body) as answer:
                assert (answer.status_code, answer.headers.get("content-encoding")) == (200, None)
                read = answer.iter_lines()
                first = json.loads(next(read))
                assert (first["index"], first["highlights"][0]["text"]) == (0, SMALL)
                assert "blocker" not in encoded_texts(tmp_path)
                open_gate(tmp_path)
                *results, rest = [first, *map(json.loads, read)]
            whole = server.client.post("/highlights", json=body).json()
            by_place = sorted(results, key=lambda page: (page.get("query", 0), page["index"]))
            assert [page | {"windows_scored": 0} for page in by_place] == [
                page | {"windows_scored": 0} for page in whole["results"]
            ]
            assert rest.keys() == whole.keys() - {"results"}
            assert rest["usage"]["windows"] == whole["usage"]["windows"]
            (tmp_path / "gate").unlink()
            (tmp_path / "log").write_text("")


def test_ndjson_lines_of_pages_with_a_shared_limit_come_at_the_end(server: ServerProcess) -> None:
    documents = [SMALL, "The moon is white. " * 4000, SMALL + " It is white."]
    for options in (
        {"max_total_chars": 40},
        {"max_total_highlights": 1},
        {"dedupe": "answer"},
        {"return_vectors": True},
    ):
        body = {"query": "How far is the moon?", "documents": documents, "top_k": 2, **options}
        whole = ask(server, **body)
        with lines(server, body) as answer:
            *results, rest = [json.loads(line) for line in answer.iter_lines()]
        assert results == whole["results"]
        assert rest.keys() == whole.keys() - {"results"}


def test_ndjson_twins_count_the_pages_of_the_request(server: ServerProcess) -> None:
    # The second page is longer than a first group, so it is answered alone.
    body = {"query": "How far is the moon?", "documents": [SMALL, "The moon is white. " * 2000], "highlight_length": 1}
    with lines(server, body) as answer:
        _, repeated, _ = [json.loads(line) for line in answer.iter_lines()]
    (best,) = repeated["highlights"]
    assert {twin["page"] for twin in best["twins"]} == {1}


def test_ndjson_failure_after_first_line_is_last_line(tmp_path: Path) -> None:
    with gated_server(tmp_path) as server:
        with lines(server, large_request(), **{"request-timeout-ms": "2000", "x-request-id": "late"}) as answer:
            assert answer.status_code == 200
            first, last = [json.loads(line) for line in answer.iter_lines()]
        assert first["index"] == 0
        assert (last["error"]["kind"], last["error"]["retryable"]) == ("deadline_exceeded", True)
        assert last["request_id"] == "late"
        with lines(server, large_request()) as answer:
            next(answer.iter_lines())
        # The client is gone, so the work ends although the gate is shut.
        wait_for(lambda: "pullquote_requests_running 0" in server.client.get("/metrics").text)
        open_gate(tmp_path)


OK = {"query": "bread", "documents": ["Bread is baked."]}

BAD_BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "malformed_body"),
    (b"{", 400, "malformed_body"),
    (b'{"x": ' + b"[" * 200_000, 400, "malformed_body"),
    (b'{"query": "a", "documents": ["b"]} x', 400, "malformed_body"),
    (b'{"query": "\xff"}', 400, "invalid_text"),
    (b'{"query": "\\ud800", "documents": ["a"]}', 400, "malformed_body"),
    (b'{"query": "a\x00b", "documents": ["a"]}', 400, "malformed_body"),
    (b"[]", 422, "invalid_body"),
    (b"null", 422, "invalid_body"),
]

BAD_FIELDS: list[tuple[dict[str, Any], int, str, list[object]]] = [
    ({"query": ""}, 422, "query", []),
    ({"query": ["a", " "]}, 422, "query[1]", []),
    ({"query": []}, 422, "query", []),
    ({"query": 3}, 422, "query", []),
    ({"query": ["a"] * 65}, 422, "query", [65, 64]),
    ({"documents": []}, 422, "documents", []),
    ({"documents": "page"}, 422, "documents", ["string"]),
    ({"documents": ["a"] * 1001}, 422, "documents", [1001, 1000]),
    ({"documents": ["a", {"text": 3}]}, 422, "documents[1].text", ["integer"]),
    ({"documents": [{"text": "a", "url": "b"}]}, 422, "documents[0].url", ["url"]),
    ({"documents": ["a", "b" * (8 * 1024 * 1024 + 1)]}, 422, "documents[1]", [8388609, 8388608]),
    ({"topk": 3}, 422, "topk", ["topk", "top_k"]),
    ({"limit": 3}, 422, "limit", ["limit", "top_k"]),
    ({"threshold": 0.5}, 422, "threshold", ["threshold", "min_score"]),
    ({"top_k": 2.5}, 422, "top_k", ["top_k", "2.5"]),
    ({"top_k": 1e300}, 422, "top_k", ["top_k"]),
    ({"top_k": "3"}, 422, "top_k", ["top_k", "3"]),
    ({"top_k": 0}, 422, "top_k", ["top_k", 0]),
    ({"min_score": "0.5"}, 422, "min_score", ["min_score", "0.5"]),
    ({"min_score": 2}, 422, "min_score", ["min_score", 2]),
    ({"step_size": 0}, 422, "step_size", ["step_size", 0]),
    ({"lexical_weight": "some"}, 422, "lexical_weight", ["auto"]),
    ({"unit": "page"}, 422, "unit", ["unit", "page", "sentence", "word", "token"]),
    ({"offsets": "chars"}, 422, "offsets", ["chars", "codepoint", "utf16", "byte"]),
    ({"timeout": 0}, 422, "timeout", ["timeout", 0]),
    ({"query": ["a", "b"], "documents": ["a", "b", "c"]}, 422, "pairing", ["2 queries", "3 pages"]),
]


@pytest.mark.parametrize(("body", "status", "kind"), BAD_BODIES, ids=[str(row[0])[:30] for row in BAD_BODIES])
def test_malformed_body_is_refused(server: ServerProcess, body: bytes, status: int, kind: str) -> None:
    answer = server.client.post("/highlights", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind), answer.text


@pytest.mark.parametrize(
    ("change", "status", "field", "names"), BAD_FIELDS, ids=[str(row[0])[:40] for row in BAD_FIELDS]
)
def test_invalid_field_is_named(
    server: ServerProcess, change: dict[str, Any], status: int, field: str, names: list[object]
) -> None:
    answer = server.client.post("/highlights", json=OK | change)
    error = answer.json()["error"]
    assert (answer.status_code, error.get("field", "")) == (status, field), error
    assert names_all(error["message"], *names), error


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_content_types_are_415(server: ServerProcess, kind: str | None) -> None:
    """Refuses the types that a page of another site may send without a preflight."""
    headers = {} if kind is None else {"content-type": kind}
    answer = server.client.post("/highlights", content=json.dumps(OK).encode(), headers=headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (415, "unsupported_media_type")


def test_escaped_nul_in_text(server: ServerProcess) -> None:
    found = ask(server, query="bread", documents=["Bread\x00 is baked. The moon is white."], highlight_length=1)
    assert found["results"][0]["highlights"][0]["text"] == "Bread\x00 is baked."


def test_tags_are_around_words_that_match(server: ServerProcess, highlighter: Highlighter) -> None:
    text = "Brot & Butter 🍞 kosten <b>3 €</b>. Der Mond ist weiß."
    asked: dict[str, Any] = {"query": "Was kosten Brot und Butter?", "documents": [text], "format": "text", "top_k": 1}
    expected = highlighter.highlights(asked["query"], [text], format="text", top_k=1, explain=True)[0][0]
    for offsets in ("codepoint", "utf16"):
        [found] = ask(server, **asked, pre_tags="<em>", post_tags=["</em>"], offsets=offsets)["results"][0][
            "highlights"
        ]
        assert found["marked"] == expected.marked("<em>", "</em>")
        assert "<em>Brot</em> &amp; <em>Butter</em>" in found["marked"]
        assert "matches" not in found
    [plain] = ask(server, **asked, pre_tags=["*"], post_tags="*", encoder="default")["results"][0]["highlights"]
    assert plain["marked"] == expected.marked("*", "*", encoder=None)
    [only] = ask(server, **asked, post_tags="</em>")["results"][0]["highlights"]
    assert only["marked"] == expected.marked("<em>", "</em>")
    [closed] = ask(server, **asked, pre_tags='<b class="x"><i>')["results"][0]["highlights"]
    assert closed["marked"] == expected.marked('<b class="x"><i>', "</i></b>")
    assert "marked" not in ask(server, **asked)["results"][0]["highlights"][0]


def test_errors_use_plain_words_and_name_routes(server: ServerProcess) -> None:
    def message(path: str, **body: Any) -> str:
        return str(server.client.post(path, json=body).json()["error"])

    asked: dict[str, Any] = {"query": "a", "documents": ["b"]}
    assert names_all(message("/highlights", **asked, top_k=2.5), "top_k", 2.5, "whole number from 1")
    assert names_all(message("/highlights", **asked, topk=2), "topk", "top_k")
    assert names_all(message("/rerank", query="a", texts=["b"], top_n="3"), "top_n", "whole number")
    assert names_all(message("/highlights", query=["a", "b"], documents=["c", "d"]), "2 queries", '"each"', '"all"')
    assert names_all(message("/highlight", **asked), "/highlight", "did you mean /highlights")
    routes = message("/nowhere", **asked)
    assert names_all(routes, "POST /highlights", "GET /health", "GET /openapi.json")
    assert ".css" not in routes
    wrong_bodies: list[tuple[dict[str, Any], list[str]]] = [
        ({"query": "a", "texts": ["b"]}, ["texts", "documents"]),
        ({"query": "a", "pages": ["b"]}, ["pages", "documents"]),
        ({"question": "a", "documents": ["b"]}, ["question", "query"]),
        ({"documents": ["b"]}, ["missing", "query"]),
        ({"query": "a"}, ["missing", "documents"]),
        (asked | {"pre_tags": 3}, ["pre_tags", "must be a text"]),
        (asked | {"pre_tags": "[["}, ["[["]),
        (asked | {"post_tags": "</b>"}, ["</b>"]),
        (asked | {"return_text": True}, ["return_text", "return_texts"]),
        (asked | {"ids": ["x"]}, ["ids", "id", "title", "text"]),
    ]
    for body, names in wrong_bodies:
        said = message("/highlights", **body)
        assert names_all(said, *names), said
        assert " at line " not in said
    wrong = server.client.get("/highlights")
    assert (wrong.status_code, names_all(wrong.json()["error"]["message"], "GET", "POST")) == (405, True)


def test_answered_of_each_page_and_of_all(server: ServerProcess) -> None:
    bread, moon = "Bread is baked from flour. Ovens are hot.", "The moon is 384,400 km away."
    found = ask(server, query="How far away is the moon?", documents=[bread, moon])
    assert [page["answered"] for page in found["results"]] == [False, True]
    assert found["answered"] is True
    found = ask(server, query="How do I reset my password?", documents=[bread, moon])
    assert [page["answered"] for page in found["results"]] == [False, False]
    assert found["answered"] is False
    assert all(page["highlights"] for page in found["results"])
    found = ask(server, query="How do I reset my password?", documents=[bread, moon], min_score="auto")
    assert found["answered"] is False
    assert not any(page["highlights"] for page in found["results"])


def test_budget_that_no_sentence_fits_is_warned_of(server: ServerProcess) -> None:
    body = {"query": "How is bread made?", "documents": ["Bread is baked from flour."]}
    small = server.client.post("/highlights", json=body | {"max_chars": 3}).json()
    (warning,) = small["warnings"]
    assert names_all(warning, "max_chars", 3)
    for options in ({}, {"max_chars": 100}, {"max_chars": 3, "min_score": 0.99}, {"max_chars": 3, "documents": [""]}):
        assert "warnings" not in server.client.post("/highlights", json=body | options).json(), options


def test_form_takes_texts_without_libraries_for_documents(server: ServerProcess) -> None:
    """`frameworks/test_uploads.py` tests PDFs and DOCX."""
    form = {"request": json.dumps({"query": "How is bread made?", "top_k": 1, "highlight_length": 1})}
    text = ("bread.html", "<p>The moon is white.</p><p>Bread is baked from flour.</p>".encode("utf-16"))
    answer = server.client.post("/highlights", data=form, files={"file": text})
    (page,) = answer.json()["results"]
    assert (page["id"], page["format"]) == ("bread.html", "html")
    assert page["highlights"][0]["text"] == "Bread is baked from flour."
    answer = server.client.post("/highlights", data=form, files={"file": ("a.pdf", b"%PDF-1.7")})
    if importlib.util.find_spec("pypdfium2") is None:
        assert (answer.status_code, answer.json()["error"]["kind"]) == (501, "not_installed")
        assert names_all(answer.text, "pullquote[documents]")
    else:
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("content", "text", "warning"),
    [
        ("Le café est fermé.".encode("cp1252"), "Le café est fermé.", "windows-1252"),
        (b"The moon \xff\xfe\x80 is far.", "The moon \ufffd\ufffd\ufffd is far.", "U+FFFD"),
        ("Čeština a čas".encode()[:-1] + b"\xc4", "Čeština a ča\ufffd", "U+FFFD"),
        ("Le café est fermé.".encode(), "Le café est fermé.", None),
    ],
)
def test_encoding_of_uploaded_text_is_guessed_where_it_makes_words(
    server: ServerProcess, content: bytes, text: str, warning: str | None
) -> None:
    asked = json.dumps({"query": "moon", "return_texts": True})
    answer = server.client.post("/highlights", data={"request": asked}, files={"file": ("a.txt", content)}).json()
    assert answer["results"][0]["text"] == text
    warnings = answer.get("warnings", [])
    assert len(warnings) == (warning is not None)
    assert warning is None or names_all(warnings[0], "file[0]", warning)
