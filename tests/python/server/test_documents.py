"""Stored documents, in memory and in a file that survives kills and a full disk."""

import os
import random
import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from support.messages import names_all, raises
from support.server_process import ServerProcess, StartError, letter_server, running_server

TEXT = "Bread is baked from flour. The moon is white. 🍞"


def test_put_get_and_delete_document(server: ServerProcess) -> None:
    address = "/documents/" + quote("https://example.com/a?b=1#c", safe="")
    put = server.client.put(address, json={"title": "Bread", "text": TEXT})
    assert (put.status_code, put.json()["id"]) == (201, "https://example.com/a?b=1#c")
    assert server.client.put(address, json={"title": "Bread", "text": TEXT}).status_code == 200
    read = server.client.get(address).json()
    assert (read["title"], read["text"], read["text_hash"]) == ("Bread", TEXT, put.json()["text_hash"])
    assert server.client.delete(address).status_code == 204
    assert server.client.delete(address).status_code == 404
    missing = server.client.get(address)
    assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "not_found")


def test_post_documents_stores_many(server: ServerProcess) -> None:
    documents = [{"id": f"many/{number}", "title": "T", "text": f"Page {number}."} for number in range(20)]
    assert server.client.post("/documents", json={"documents": documents}).json() == {"created": 20, "replaced": 0}
    again = [*documents[:3], {"id": "many/new", "text": "New."}]
    assert server.client.post("/documents", json={"documents": again}).json() == {"created": 1, "replaced": 3}
    stored = server.client.get("/documents/many%2F7").json()
    assert (stored["title"], stored["text"]) == ("T", "Page 7.")
    for entry in [*documents, *again[3:]]:
        assert server.client.delete(f"/documents/{entry['id'].replace('/', '%2F')}").status_code == 204
    for body, field in (
        ({"documents": []}, "documents"),
        ({"documents": [{"id": "a"}]}, "documents[0]"),
        ({"documents": [{"id": "a", "text": "b"}, {"id": "x" * 2049, "text": "b"}]}, "documents[1].id"),
        ({"documents": [["a", None, "b"]]}, "documents[0]"),
    ):
        refused = server.client.post("/documents", json=body)
        assert refused.status_code == 422
        assert refused.json()["error"]["field"] == field
    assert server.client.get("/documents/a").status_code == 404


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_documents_are_listed_by_page_and_deleted_by_prefix(kind: str, tmp_path: Path) -> None:
    where = ["--store", str(tmp_path / "documents.db")] if kind == "file" else []
    with letter_server("--api-key", "k", *where) as server:
        server.client.headers["x-api-key"] = "k"
        pages = [f"https://example.com/{number}?a=b&c" for number in range(7)]
        for name in [*pages, "other", "https://example.org/"]:
            body = {"title": "T", "text": "# Title\n\n## Part\n\n- a\n- b\n\n[c](https://d.example)\n"}
            assert server.client.put("/documents/" + quote(name, safe=""), json=body).status_code == 201

        def listed(**parameters: Any) -> dict[str, Any]:
            answer = server.client.get("/documents", params=parameters)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        first = listed(prefix="https://example.com/", limit=3)
        assert (first["total"], first["next"]) == (7, pages[2])
        second = listed(prefix="https://example.com/", limit=3, after=first["next"])
        last = listed(prefix="https://example.com/", limit=3, after=second["next"])
        assert "next" not in last
        assert [entry["id"] for page in (first, second, last) for entry in page["documents"]] == pages
        entry, stored = first["documents"][0], server.client.get("/documents/" + quote(pages[0], safe="")).json()
        assert (entry["title"], entry["text_hash"], entry["format"]) == ("T", stored["text_hash"], "markdown")
        assert (stored["format"], entry["bytes"]) == ("markdown", len(pages[0]) + 1 + len(stored["text"]))
        assert entry["stored_at"] > 1_700_000_000
        assert listed()["total"] == 9
        assert listed(prefix="none") == {"documents": [], "total": 0}
        for parameters, field in (
            ({"limit": "0"}, "limit"),
            ({"limit": "many"}, "limit"),
            ({"limit": "1001"}, "limit"),
            ({"page": "2"}, "page"),
            ({"prefix": ["a", "b"]}, "prefix"),
        ):
            refused = server.client.get("/documents", params=parameters)
            assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)
        wrong: list[tuple[dict[str, str], str]] = [({}, "prefix"), ({"prefix": ""}, "prefix"), ({"all": "yes"}, "all")]
        for parameters, field in [*wrong, ({"prefix": "a", "all": "true"}, "all")]:
            refused = server.client.delete("/documents", params=parameters)
            assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)
        assert listed()["total"] == 9
        assert server.client.delete("/documents", params={"prefix": "https://example.com/"}).json() == {"deleted": 7}
        assert [entry["id"] for entry in listed()["documents"]] == ["https://example.org/", "other"]
        del server.client.headers["x-api-key"]
        assert server.client.get("/documents").status_code == 401
        assert server.client.delete("/documents", params={"all": "true"}).status_code == 401
        assert server.client.delete("/documents", params={"all": "true"}, headers={"x-api-key": "k"}).json() == {
            "deleted": 2
        }


def test_highlights_of_stored_document_ids(server: ServerProcess) -> None:
    server.client.put("/documents/one", json={"text": TEXT})
    server.client.put("/documents/two", json={"title": "Cats", "text": "Cats sleep a lot."})
    sent = {"query": "bread", "documents": [{"id": "one", "text": TEXT}, {"id": "two", "text": "Cats sleep a lot."}]}
    expected = server.client.post("/highlights", json=sent).json()["results"]
    mixed = {"query": "bread", "documents": [{"id": "one"}, {"id": "two", "text": "Cats sleep a lot."}]}
    named = {"query": "bread", "documents": {"ids": ["one", "two"]}}
    for asked in (mixed, named):
        found = server.client.post("/highlights", json=asked).json()["results"]
        assert [(page["id"], page["text_hash"]) for page in found] == [(p["id"], p["text_hash"]) for p in expected]
        assert found[0]["highlights"][0]["text"] == expected[0]["highlights"][0]["text"]
    some = {"query": "bread", "documents": {"ids": ["three", "one"]}}
    for query in ("bread", ["bread", "cats"]):
        missing, *others = server.client.post("/highlights", json=some | {"query": query, "pairing": "all"}).json()[
            "results"
        ]
        assert (missing["error"]["kind"], missing["id"], missing["highlights"]) == ("not_found", "three", [])
        assert (missing["windows"], missing["answered"], missing["index"]) == (0, False, 0)
        assert names_all(missing["error"]["message"], "three")
        assert (others[0]["highlights"][0]["text"], "error" in others[0]) == (
            expected[0]["highlights"][0]["text"],
            False,
        )
    ranks = server.client.post("/rerank", json=some)
    for answer in (ranks, server.client.post("/highlights", json={"query": "bread", "documents": {"ids": ["three"]}})):
        assert answer.status_code == 404
        assert names_all(answer.text, "three", "documents[0]")
    nothing = server.client.post("/highlights", json={"query": "bread", "documents": [{"title": "x"}]})
    assert (nothing.status_code, nothing.json()["error"]["field"]) == (422, "documents[0]")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_store_documents_and_store_bytes_are_507(kind: str, tmp_path: Path) -> None:
    where = ["--store", str(tmp_path / "documents.db")] if kind == "file" else []
    with letter_server("--store-documents", "2", "--store-bytes", "100", *where) as server:

        def put(name: str, text: str) -> httpx.Response:
            return server.client.put(f"/documents/{name}", json={"text": text})

        assert put("a", "x" * 40).status_code == 201
        refused = put("b", "x" * 60)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (507, "store_full")
        assert put("b", "x" * 50).status_code == 201
        assert put("c", "x").status_code == 507
        many = {"documents": [{"id": "a", "text": "y"}, {"id": "c", "text": "x"}]}
        full = server.client.post("/documents", json=many)
        assert (full.status_code, full.json()["error"]["field"]) == (507, "documents[1]")
        assert server.client.get("/documents/a").json()["text"] == "x" * 40
        assert put("a", "x" * 45).status_code == 200
        assert server.client.delete("/documents/b").status_code == 204
        assert put("c", "x").status_code == 201
        assert server.client.get("/documents/a").json()["text"] == "x" * 45


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("x" * 2049, {"text": "a"}, 422),
        ("a%00b", {"text": "a"}, 422),
        # As a path, an HTTP library would shorten it.
        ("%2e%2e", {"text": "a"}, 422),
        ("%2e", {"text": "a"}, 422),
        ("a", {"text": 3}, 422),
        ("a", {"text": "b", "url": "c"}, 422),
        ("a", {}, 422),
    ],
    ids=str,
)
def test_invalid_document_is_422(server: ServerProcess, name: str, body: dict[str, Any], status: int) -> None:
    assert server.client.put(f"/documents/{name}", json=body).status_code == status


def random_words(count: int) -> str:
    """Words that take space in the index."""
    numbers = random.Random(count)
    return " ".join(str(numbers.randrange(10**6)) for _ in range(count))


def fill(server: ServerProcess, text: str) -> int:
    """Store documents until one is refused, because the disk is full; returns how many there are."""
    for count in range(10_000):
        answer = server.client.put(f"/documents/{count}", json={"text": text})
        if answer.status_code != 201:
            assert (answer.status_code, answer.json()["error"]["kind"]) == (507, "store_full"), answer.text
            assert not answer.json()["error"]["retryable"]
            return count
    raise AssertionError("the disk did not become full")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a disk of 8 MB needs root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_full_disk_is_507_and_documents_can_be_deleted(small_disk: Path) -> None:
    text = random_words(2000)
    with letter_server("--store", str(small_disk / "documents.db")) as server:
        count = fill(server, text)
        batch = {"documents": [{"id": "0", "text": "a"}, {"id": "new", "text": text * 100}]}
        assert server.client.post("/documents", json=batch).status_code == 507
        stored = [server.client.get(f"/documents/{number}").json()["text"] for number in range(count)]
        assert stored == [text] * count
        for number in range(count):
            assert server.client.delete(f"/documents/{number}").status_code == 204
        assert fill(server, text) > count // 2


def test_limit_of_a_files_size_is_507(tmp_path: Path) -> None:
    with letter_server("--store", str(tmp_path / "documents.db")) as server:
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1_000_000, unlimited[1]))
        count = fill(server, random_words(2000))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert server.client.put(f"/documents/{count}", json={"text": "a"}).status_code == 201
        assert server.client.get("/documents/0").json()["text"] == random_words(2000)


def test_store_of_another_server_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "documents.db")
    second = ("--store", path, "--model", str(tmp_path / "no-model"))
    with letter_server("--store", path), raises(StartError, path, "another process"), running_server(*second):
        pass
    with raises(StartError, "no-model"), running_server(*second):
        pass


def test_store_file_survives_kill(tmp_path: Path) -> None:
    """One kill over HTTP; `rust/server/src/store/tests.rs` has twenty."""
    path = str(tmp_path / "documents.db")
    acknowledged: dict[str, str] = {}
    with letter_server("--store", path) as server:
        enough = threading.Event()

        def write(writer: int) -> None:
            with httpx.Client(base_url=server.url) as client:
                for number in range(100_000):
                    name, text = f"{writer}-{number}", f"{writer} {number} " * (1 + number % 50 * 20)
                    try:
                        if client.put(f"/documents/{name}", json={"text": text}).status_code == 201:
                            acknowledged[name] = text
                    except httpx.TransportError:
                        return
                    if number == 30:
                        enough.set()

        writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for writer in writers:
            writer.start()
        assert enough.wait(60)
        server.process.kill()
        for writer in writers:
            writer.join()
    with letter_server("--store", path) as server:
        assert len(acknowledged) > 30
        for name, text in acknowledged.items():
            assert server.client.get(f"/documents/{name}").json()["text"] == text
