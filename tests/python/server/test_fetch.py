"""Pages that `/contents` fetches: media types, private addresses, limits, and failures of single pages."""

import gzip
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.fake_web import ARTICLE, FakeWeb, fake_web
from support.messages import raises
from support.server_process import ServerProcess, StartError, letter_server

FETCHING = (
    "--fetch",
    "--fetch-max-bytes",
    "100000",
    "--fetch-timeout",
    "3",
    "--fetch-redirects",
    "3",
)


@pytest.fixture(scope="module")
def pages_there() -> Iterator[FakeWeb]:
    with fake_web() as made:
        yield made


@pytest.fixture(scope="module")
def fetching() -> Iterator[ServerProcess]:
    """A server that may fetch from one private address."""
    with letter_server(*FETCHING, "--fetch-allow", "127.0.0.1/32") as server:
        yield server


def contents(server: ServerProcess, *urls: str, **asked: Any) -> dict[str, Any]:
    answer = server.client.post("/contents", json={"urls": urls, "text": True, **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def text_of(server: ServerProcess, url: str) -> str:
    found = contents(server, url)
    assert found["statuses"] == [{"id": url, "status": "success", "source": "crawled"}]
    (page,) = found["results"]
    return str(page["text"])


def tag_of(server: ServerProcess, url: str) -> tuple[str, int]:
    found = contents(server, url)
    assert found["results"] == []
    (status,) = found["statuses"]
    assert (status["id"], status["status"]) == (url, "error")
    return status["error"]["tag"], status["error"]["httpStatusCode"]


def test_fetched_html_becomes_text_and_highlights(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    url = pages_there.page("/article", ARTICLE)
    found = contents(
        fetching, url, highlights={"query": "How is bread baked?", "highlightsPerUrl": 1, "numSentences": 1}
    )
    (page,) = found["results"]
    assert (page["id"], page["url"], page["title"]) == (url, url, "Café bread")
    assert "<p>" not in page["text"]
    assert page["highlights"] == ["Bread is baked from flour & water 🍞."]
    (span,) = page["extras"]["highlightSpans"]
    assert page["text"][span["start"] : span["end"]] == page["highlights"][0]
    (_, headers, _) = pages_there.requests[-1]
    assert headers["user-agent"].startswith("pullquote/")


def test_fetch_mixed_media_types(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    kinds = {"/m": ("# Bread\n\nIt is *baked*.", "text/markdown"), "/t": ("Bread <b>is</b> baked.", "text/plain")}
    urls = [pages_there.page(path, content, kind) for path, (content, kind) in kinds.items()]
    urls.insert(1, pages_there.page("/h", "<p>Bread <b>is</b> baked.</p>"))
    found = contents(fetching, *urls, pages_there.url + "/lost", highlights={"query": "bread"})
    assert [page["url"] for page in found["results"]] == urls
    assert [page["text"] for page in found["results"]] == [kinds["/m"][0], "Bread is baked.", kinds["/t"][0]]
    for page in found["results"]:
        for highlight, span in zip(page["highlights"], page["extras"]["highlightSpans"], strict=True):
            assert page["text"][span["start"] : span["end"]] == highlight
    assert [status["status"] for status in found["statuses"]] == ["success"] * 3 + ["error"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("Žluťoučký kůň".encode("cp1250"), "text/html; charset=windows-1250"),
        (b"<meta charset=windows-1250>" + "Žluťoučký kůň".encode("cp1250"), "text/html"),
        ("Žluťoučký kůň".encode(), "text/plain"),
        ("\ufeffŽluťoučký kůň".encode("utf-16-le"), "text/plain; charset=latin1"),
        ("<p>Žluťoučký kůň</p>".encode(), None),
    ],
)
def test_fetch_decodes_charset(fetching: ServerProcess, pages_there: FakeWeb, content: bytes, kind: str | None) -> None:
    assert text_of(fetching, pages_there.page("/charset", content, kind)).strip() == "Žluťoučký kůň"


def test_fetch_decodes_gzip_in_gzip(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    kind = {"content-type": "text/plain"}
    pages_there.pages["/once"] = (200, kind | {"content-encoding": "gzip"}, gzip.compress(b"Bread."))
    pages_there.pages["/twice"] = (
        200,
        kind | {"content-encoding": "gzip, gzip"},
        gzip.compress(gzip.compress(b"Bread.")),
    )
    bomb = gzip.compress(gzip.compress(bytes(1_000_000)))
    pages_there.pages["/bomb"] = (200, kind | {"content-encoding": "gzip, gzip"}, bomb)
    pages_there.pages["/other"] = (200, kind | {"content-encoding": "gzip, made-up"}, b"x")
    for path in ("/once", "/twice"):
        assert text_of(fetching, pages_there.url + path) == "Bread."
    assert tag_of(fetching, pages_there.url + "/bomb") == ("CRAWL_UNKNOWN_ERROR", 500)
    assert tag_of(fetching, pages_there.url + "/other")[0] == "UNSUPPORTED_URL"


def test_fetch_redirects_limit(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    end = pages_there.page("/end", "<p>The end.</p>")
    pages_there.redirect("/two", "/end", 308)
    assert text_of(fetching, pages_there.redirect("/one", pages_there.url + "/two")) == "The end."
    loop = pages_there.redirect("/loop", "/loop")
    before = len(pages_there.requests)
    assert tag_of(fetching, loop) == ("CRAWL_UNKNOWN_ERROR", 500)
    assert len(pages_there.requests) == before + 4
    assert tag_of(fetching, pages_there.redirect("/file", "file:///etc/passwd")) == ("UNSUPPORTED_URL", 400)
    assert text_of(fetching, end) == "The end."


def test_fetch_redirect_to_private_address_is_refused(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    with fake_web("127.0.0.2") as inside:
        secret = inside.page("/secret", "<p>The secret.</p>")
        port = secret.rsplit(":", 1)[1]
        assert tag_of(fetching, secret) == ("SOURCE_NOT_AVAILABLE", 403)
        for number, address in enumerate(
            (secret, f"http://2130706434:{port}", f"//0x7f.2:{port}", f"http://[::ffff:7f00:2]:{port}")
        ):
            away = pages_there.redirect(f"/away{number}", address)
            assert tag_of(fetching, away) == ("SOURCE_NOT_AVAILABLE", 403), address
        assert inside.requests == []


def test_fetch_private_address_needs_fetch_allow(pages_there: FakeWeb) -> None:
    url = pages_there.page("/article", ARTICLE)
    port = url.split(":")[2]
    before = len(pages_there.requests)
    with letter_server("--fetch") as server:
        for host in ("127.0.0.1", "localhost", "0.0.0.0", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"):  # noqa: S104 - asked for
            assert tag_of(server, f"http://{host}:{port}") == ("SOURCE_NOT_AVAILABLE", 403), host
    assert len(pages_there.requests) == before


def test_nothing_is_fetched_without_fetch_option(server: ServerProcess, pages_there: FakeWeb) -> None:
    before = len(pages_there.requests)
    assert tag_of(server, pages_there.page("/article", ARTICLE)) == ("CRAWL_NOT_FOUND", 404)
    assert len(pages_there.requests) == before


def test_fetch_ignores_proxy_environment(pages_there: FakeWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_web() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with letter_server(*FETCHING, "--fetch-allow", "127.0.0.1/32") as server:
            body = {"urls": [pages_there.page("/article", ARTICLE)], "text": True}
            found = httpx.post(f"{server.url}/contents", json=body, trust_env=False).json()
        assert "Bread" in found["results"][0]["text"]
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("status", "tag"),
    [(404, ("CRAWL_NOT_FOUND", 404)), (410, ("CRAWL_NOT_FOUND", 404)), (503, ("CRAWL_HTTP_503", 503))],
)
def test_fetch_http_status_becomes_tag(
    fetching: ServerProcess, pages_there: FakeWeb, status: int, tag: tuple[str, int]
) -> None:
    pages_there.pages["/status"] = (status, {"content-type": "text/html"}, b"<p>no</p>")
    assert tag_of(fetching, pages_there.url + "/status") == tag


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/json", "text/css", "nonsense"])
def test_fetch_non_text_is_unsupported(fetching: ServerProcess, pages_there: FakeWeb, kind: str) -> None:
    assert tag_of(fetching, pages_there.page("/kind", b"%PDF-", kind)) == ("UNSUPPORTED_URL", 415)


@pytest.mark.parametrize(
    "url", ["ftp://example.com/x", "doc:1", "javascript:alert(1)", "http://", "https://a b/", "http://[::1"]
)
def test_fetch_invalid_url_is_unsupported(fetching: ServerProcess, url: str) -> None:
    assert tag_of(fetching, url) == ("UNSUPPORTED_URL", 400)


def test_fetch_max_bytes(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    too_large = ("CRAWL_UNKNOWN_ERROR", 500)
    assert len(text_of(fetching, pages_there.page("/fits", "x" * 100_000, "text/plain"))) == 100_000
    assert tag_of(fetching, pages_there.page("/large", "x" * 100_001, "text/plain")) == too_large
    assert tag_of(fetching, pages_there.url + "/endless") == too_large
    assert len(text_of(fetching, pages_there.packed("/packed", b"x" * 100_000))) == 100_000
    bomb = pages_there.packed("/bomb", b"x" * 200_000_000)
    assert len(pages_there.pages["/bomb"][2]) > 100_000
    small_bomb = pages_there.packed("/small", b"x" * 20_000_000)
    assert len(pages_there.pages["/small"][2]) < 100_000
    assert tag_of(fetching, bomb) == too_large
    assert tag_of(fetching, small_bomb) == too_large


def test_fetch_timeout_spares_other_pages(fetching: ServerProcess, pages_there: FakeWeb) -> None:
    url, slow = pages_there.page("/article", ARTICLE), pages_there.url + "/slow"
    found = contents(fetching, slow, url, slow)
    assert [page["url"] for page in found["results"]] == [url]
    assert [status.get("error", {}).get("tag") for status in found["statuses"]] == [
        "CRAWL_TIMEOUT",
        None,
        "CRAWL_TIMEOUT",
    ]


def test_fetch_connection_refused_is_status(fetching: ServerProcess) -> None:
    with fake_web() as gone:
        url = gone.url
    assert tag_of(fetching, url) == ("CRAWL_UNKNOWN_ERROR", 500)


def test_invalid_fetch_allow_stops_start() -> None:
    with (
        raises(StartError, "--fetch-allow", "10.0.0.0/40"),
        letter_server("--fetch-allow", "10.0.0.0/40"),
    ):
        pass
