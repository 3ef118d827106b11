"""Pages that are documents, paths and open files: they are read, and keep their names, formats, page numbers and rectangles."""

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullquote
from pullquote import Highlighter, documents, errors
from pullquote.documents import Document, Limits
from pullquote.engine import Engine
from support.messages import raises
from support.server_process import ServerProcess

QUERY = "How far is the moon?"
MOON = "Cats sleep a lot. The moon is 384,400 km away."
BREAD = "Bread is baked.\f"


def two_pages(name: str | None = "report.pdf") -> Document:
    """As of a PDF, with a page for each text, and a box for each character."""
    text = BREAD + MOON
    boxes = np.array([[position, 10, position + 1, 20] for position in range(len(text))], np.float32)
    sizes = np.full((2, 2), 100, np.float32)
    return Document(text, "text", np.array([0, len(BREAD)]), sizes, boxes, name)


@pytest.fixture(params=["Highlighter", "AsyncHighlighter", "Client", "AsyncClient", "Engine"])
def find(request: pytest.FixtureRequest, highlighter: Highlighter) -> Callable[..., Any]:
    """`highlights` of each class that has pages."""
    if request.param == "Highlighter":
        return highlighter.highlights
    if request.param == "AsyncHighlighter":
        shared = pullquote.AsyncHighlighter.sharing(highlighter)
        return lambda *texts, **options: asyncio.run(shared.highlights(*texts, **options))
    if request.param == "Engine":

        def run(query: str, texts: Any, **options: Any) -> pullquote.Highlights | None:
            with Engine(dtype="float32", threads=1) as engine:
                engine.add_request("one", query, texts, options)
                while not (done := engine.step()):
                    pass
                return done[0].outputs

        return run
    server: ServerProcess = request.getfixturevalue("server")
    if request.param == "Client":
        return pullquote.Client(server.url).highlights

    async def call(*texts: Any, **options: Any) -> pullquote.Highlights:
        async with pullquote.AsyncClient(server.url) as client:
            return await client.highlights(*texts, **options)

    return lambda *texts, **options: asyncio.run(call(*texts, **options))


def test_documents_paths_and_open_files_are_pages(find: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "moon.md"
    path.write_text(f"# Moon\n\n{MOON}", encoding="utf-8")
    with path.open("rb") as opened, path.open(encoding="utf-8") as text:
        found = find(QUERY, [two_pages(), path, opened, text, io.BytesIO(MOON.encode()), MOON], top_k=1)
    assert found.ids == ["report.pdf", str(path), str(path), str(path), None, None]
    assert found.texts == [BREAD + MOON, *[f"# Moon\n\n{MOON}"] * 3, MOON, MOON]
    assert [page[0].page_number for page in found] == [2, *[None] * 5]
    assert all("384,400" in page[0].text for page in found)
    best = found["report.pdf"][0]
    (line,) = best.rectangles
    assert (line.page, line.left, line.right) == (2, best.start, best.end)
    assert list(found.to_pandas()["page_number"]) == [2, *[None] * 5]
    assert found.to_arrow()["rectangles"].to_pylist()[0] == found.to_dict()["results"][0]["highlights"][0]["rectangles"]


def test_ids_of_the_call_win_over_names(find: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "moon.txt"
    path.write_text(MOON, encoding="utf-8")
    for pages, options in (([path], {"ids": ["m"]}), ({"m": path}, {}), ([("m", path)], {})):
        assert find(QUERY, pages, **options)["m"] == find(QUERY, {"m": MOON})["m"]
    assert find(QUERY, [two_pages(None)]).ids is None


def test_format_is_that_of_each_document(highlighter: Highlighter) -> None:
    html = Document("<p>The moon is far.</p>", "html", *[np.empty(0)] * 3)  # type: ignore[arg-type]  # no pages
    assert highlighter.highlights(QUERY, [html]).formats == ["html"]
    assert highlighter.highlights(QUERY, [two_pages(), html]).formats == ["text", "html"]
    looks_like_html = Document(html.text, "text", *[np.empty(0)] * 3)  # type: ignore[arg-type]  # no pages
    pages: list[str | Document] = [looks_like_html, html, html.text]
    found = highlighter.highlights(QUERY, pages, format=["auto", "auto", "text"])
    assert found.formats == ["text", "html", "text"]
    mixed: list[str | Document] = ["The moon.", two_pages()]
    with raises(errors.InvalidArgumentError, "format='markdown'", "texts[1]", "'text'"):
        highlighter.highlights(QUERY, mixed, format="markdown")


def test_files_that_cannot_be_read_are_our_errors(find: Callable[..., Any], tmp_path: Path) -> None:
    for wrong, kind in ((tmp_path / "nope.txt", FileNotFoundError), (tmp_path, OSError)):
        with raises(kind, wrong) as caught:
            find(QUERY, [wrong])
        assert isinstance(caught.value, errors.PullquoteError)
        assert caught.value.exit_code == 66


def test_client_names_files_of_a_mapping_and_open_files(server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "moon.txt"
    path.write_text(MOON, encoding="utf-8")
    with pullquote.Client(server.url) as client:
        found = client.highlights(QUERY, files={"a.txt": MOON.encode(), "b.txt": path})
        assert found.ids == ["a.txt", "b.txt"]
        with path.open("rb") as opened:
            again = client.highlights(QUERY, files=[opened, io.BytesIO(MOON.encode())])
        assert again.ids == ["moon.txt", None]
        assert [[one.text for one in page] for page in again] == [[one.text for one in page] for page in found]
        with raises(FileNotFoundError, "nope.pdf") as caught:
            client.highlights(QUERY, files=[tmp_path / "nope.pdf"])
        assert isinstance(caught.value, errors.PullquoteError)
        with raises(errors.InvalidTypeError, "files[0]", "StringIO"):
            client.highlights(QUERY, files=[io.StringIO(MOON)])  # type: ignore[list-item]  # wrong on purpose


def test_documents_and_files_can_be_stored(server: ServerProcess, tmp_path: Path) -> None:
    path = tmp_path / "stored-moon.txt"
    path.write_text(MOON, encoding="utf-8")

    async def put() -> None:
        async with pullquote.AsyncClient(server.url) as client:
            await client.put_documents({"stored-bread": io.BytesIO(b"Bread is baked.")})

    with pullquote.Client(server.url) as client:
        stored: list[Document | Path] = [two_pages("stored-report"), path]
        client.put_documents(stored)
        asyncio.run(put())
        for name, text in (("stored-report", BREAD + MOON), (str(path), MOON), ("stored-bread", "Bread is baked.")):
            assert client.get_document(name).text == text
            client.delete_document(name)


def test_places_of_highlights_of_other_pages_are_refused(highlighter: Highlighter) -> None:
    document = two_pages()
    (other,) = highlighter.highlights(QUERY, [MOON], top_k=1)[0]
    (own,) = highlighter.highlights(QUERY, [document], top_k=1)[0]
    assert (document.page_number(own), document.rectangles(own)) == (2, [*own.rectangles])
    for place in (document.page_number, document.rectangles):
        with raises(errors.InvalidArgumentError, other.text):
            place(other)
        with raises(errors.InvalidTypeError, "highlight", 0):
            place(0)  # type: ignore[arg-type]  # wrong on purpose


def test_repr_of_a_document_is_a_line() -> None:
    shown = repr(two_pages())
    assert "\n" not in shown
    assert len(shown) < 120
    for part in ("report.pdf", "text", "pages=2", f"{len(BREAD + MOON)} characters", "Bread is"):
        assert part in shown


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan")])
@pytest.mark.parametrize(
    "texts", [lambda page: ["a", page], lambda page: [(0, "a"), (1, page)], lambda page: {1: page}]
)
def test_missing_values_say_what_to_do(highlighter: Highlighter, texts: Callable[[Any], Any], missing: object) -> None:
    with raises(errors.InvalidTypeError, "texts[1]", "missing", "dropna()", "drop_nulls()", 'fillna("")'):
        highlighter.highlights(QUERY, texts(missing))


def test_missing_values_of_a_series_of_pandas(highlighter: Highlighter) -> None:
    import pandas

    for series in (pandas.Series(["a", None]), pandas.Series(["a", None], dtype="string")):
        with raises(errors.InvalidTypeError, "texts[1]", "dropna()"):
            highlighter.highlights(QUERY, series)


def test_wrong_limits_and_addresses_are_our_errors(tmp_path: Path) -> None:
    with raises(errors.InvalidTypeError, "max_page", "max_pages"):
        Limits(max_page=3)  # type: ignore[call-arg]  # wrong on purpose
    for name in ("max_bytes", "max_pages", "max_chars", "seconds", "max_memory"):
        for value in (-3, 0, "3"):
            with raises(errors.InvalidArgumentError, name, repr(value)):
                Limits(**{name: value})  # type: ignore[arg-type]  # wrong on purpose
    with raises(errors.InvalidArgumentError, "file:///a%20b.pdf", "'/a b.pdf'"):
        documents.read("file:///a%20b.pdf")
    with raises(FileNotFoundError, "nope.pdf") as caught:
        documents.read(tmp_path / "nope.pdf")
    assert isinstance(caught.value, errors.NotFoundError)
