"""`pullquote highlight` with addresses: fetched with the server's guard and limits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pullquote import errors
from pullquote._cli import main
from support.fake_web import ARTICLE, FakeWeb, fake_web
from support.messages import names_all

ASKED = [
    "highlight",
    "-q",
    "How is bread made?",
    "-k",
    "1",
    "--json",
    "--encoder",
    "support.fake_letter_encoder:letters",
]
ALLOWED = ["--fetch-allow", "127.0.0.1/32"]


@pytest.fixture(scope="module")
def web() -> Iterator[FakeWeb]:
    with fake_web() as running:
        yield running


def test_fetched_page_is_a_page_like_others(web: FakeWeb, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = web.page("/article", ARTICLE)
    path = tmp_path / "page.txt"
    path.write_text("Bread is baked.", encoding="utf-8")
    assert main([*ASKED, *ALLOWED, url, str(path)]) == 0
    fetched, of_file = map(json.loads, capsys.readouterr().out.splitlines())
    assert (fetched["id"], fetched["format"], of_file["id"]) == (url, "html", str(path))
    (best,) = fetched["highlights"]
    assert "Bread is baked from flour & water 🍞." in best["text"]
    assert "flour &amp; water 🍞." in ARTICLE[best["source_start"] : best["source_end"]]
    assert "page_number" not in best


def test_private_address_needs_fetch_allow(web: FakeWeb, capsys: pytest.CaptureFixture[str]) -> None:
    url = web.page("/article", ARTICLE)
    before = len(web.requests)
    assert main([*ASKED, url]) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, url, "not public", "--fetch-allow")
    assert len(web.requests) == before
    assert main([*ASKED, "--fetch-allow", "10.0.0.0/40", url]) == errors.InvalidArgumentError.exit_code
    assert names_all(capsys.readouterr().err, "10.0.0.0/40")


@pytest.mark.parametrize(
    ("path", "options", "error", "named"),
    [
        ("/absent", [], errors.NotFoundError, "does not have it"),
        ("/failing", [], errors.UnavailableError, "503"),
        ("/image", [], errors.InvalidTextError, "image/png"),
        ("/large", ["--fetch-max-bytes", "1000"], errors.LimitExceededError, "1000"),
        ("/slow", ["--fetch-timeout", "0.1"], errors.DeadlineExceededError, "in time"),
        ("/circle", ["--fetch-redirects", "2"], errors.LimitExceededError, "2 times"),
        ("/damaged.pdf", [], (errors.InvalidTextError, errors.NotInstalledError), "PDF"),
    ],
)
def test_pages_that_cannot_be_fetched(
    web: FakeWeb,
    path: str,
    options: list[str],
    error: type[errors.PullquoteError] | tuple[type[errors.PullquoteError], ...],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    web.pages["/failing"] = (503, {"content-type": "text/html"}, b"<p>no</p>")
    web.page("/image", b"\x89PNG", "image/png")
    web.page("/large", "x" * 1001, "text/plain")
    web.page("/damaged.pdf", b"%PDF-1.7 nothing else", "application/pdf")
    web.redirect("/circle", "/circle")
    url, sound = web.url + path, web.page("/article", ARTICLE)
    code = main([*ASKED, *ALLOWED, *options, url, sound])
    printed = capsys.readouterr()
    assert code in {kind.exit_code for kind in (error if isinstance(error, tuple) else (error,))}
    assert names_all(printed.err, url, named), printed.err
    # The others continue.
    assert json.loads(printed.out)["id"] == sound
