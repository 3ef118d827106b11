"""Forms with PDFs, DOCX and EPUBs at `/highlights`, and pages of PDFs as images at `/render`."""

import asyncio
import json
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fpdf")
pytest.importorskip("docx")
pytest.importorskip("pypdfium2")
pytest.importorskip("mammoth")

import pullquote
from frameworks.sample_documents import (
    ANSWER,
    CHAPTERS,
    ENCRYPTION,
    QUESTION,
    RTF,
    epub,
    pdf,
    three_pages,
    word_document,
)
from pullquote import documents
from pullquote.errors import InvalidArgumentError, InvalidTypeError
from support.fake_web import fake_web
from support.messages import names_all, raises
from support.server_process import ServerProcess, letter_server

PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EPUB = "application/epub+zip"

ASKED: dict[str, Any] = {"query": QUESTION, "top_k": 1, "highlight_length": 1}


def post(server: ServerProcess, *files: Any, path: str = "/highlights", **fields: Any) -> httpx.Response:
    """Send files, each a name and its bytes."""
    request = {"request": json.dumps(fields)} if fields else {}
    return server.client.post(path, data=request, files=[("file", file) for file in files])


def test_highlights_of_a_pdf_have_their_page_and_rectangles(
    server: ServerProcess, highlighter: pullquote.Highlighter
) -> None:
    data = pdf(three_pages)
    report = documents.read(data)
    (expected,) = highlighter.highlights(QUESTION, [report.text], format=report.format, top_k=1, highlight_length=1)[0]
    # The second answer is without a process.
    for _ in range(2):
        answer = post(server, ("report.pdf", data), **ASKED)
        assert answer.status_code == 200, answer.text
        (page,) = answer.json()["results"]
        (best,) = page["highlights"]
        assert (page["id"], page["format"], page["answered"]) == ("report.pdf", "text", True)
        assert (best["text"], best["start"], best["page_number"]) == (expected.text, expected.start, 2)
        rectangles = [list(asdict(rectangle).values()) for rectangle in report.rectangles(expected)]
        assert [list(rectangle.values()) for rectangle in best["rectangles"]] == [
            pytest.approx(rectangle) for rectangle in rectangles
        ]
        assert len(rectangles) == 3  # of the heading and two lines


def test_files_of_all_kinds_go_together(server: ServerProcess) -> None:
    latin = ("page.txt", "Stra\xdfe. ".encode("latin-1") + ANSWER.encode())
    files = [("report.pdf", pdf(three_pages)), ("report.docx", word_document()), ("book.epub", epub(CHAPTERS))]
    files += [latin, ("letter.rtf", RTF)]
    answer = post(server, *files, **ASKED, offsets="utf16", return_texts=True)
    assert answer.status_code == 200, answer.text
    pages = answer.json()["results"]
    assert [(page["id"], page["format"]) for page in pages] == [
        ("report.pdf", "text"),
        ("report.docx", "html"),
        ("book.epub", "html"),
        ("page.txt", "text"),
        ("letter.rtf", "html"),
    ]
    for page in pages:
        (best,) = page["highlights"]
        assert ANSWER in " ".join(best["text"].split())
        assert ("page_number" in best) == ("rectangles" in best) == (page["id"] == "report.pdf")
    assert pages[3]["text"].startswith("Straße.")


def test_client_uploads_files(server: ServerProcess, tmp_path: Path) -> None:
    report = tmp_path / "report.pdf"
    report.write_bytes(pdf(three_pages))
    local = documents.read(report)
    with pullquote.Client(server.url) as client:
        found = client.highlights(QUESTION, files=[report, str(report), word_document(), b"Bread."], top_k=1)
        (here,) = client.highlights(QUESTION, [local.text], format="text", top_k=1)[0]
        assert found.ids == ["report.pdf", "report.pdf", None, None]
        for (best,) in found[:2]:
            assert (best.text, best.start) == (here.text, here.start)
            assert best.score == pytest.approx(here.score, abs=1e-5)
            assert best.page_number == local.page_number(here) == 2
            assert [asdict(each) for each in best.rectangles] == [
                pytest.approx(asdict(each)) for each in local.rectangles(here)
            ]
        assert best.to_dict()["page_number"] == 2
        assert best.to_dict()["rectangles"][0]["page"] == 2
        (of_word,) = found[2]
        assert (of_word.page_number, of_word.rectangles) == (None, ())
        assert found.formats == ["text", "text", "html", "text"]
        whole = client.highlights(QUESTION, files=[report], ids=[7], return_texts=True, return_vectors=True)
        assert (whole.ids, whole.page_text(0)) == ([7], local.text)
        assert whole.vectors is not None
        assert len(whole.vectors) == len(whole[7])
        assert whole[7][0].page_number == 2
        assert [here.text for here in whole[7]] == [local.text[here.start : here.end] for here in whole[7]]


def test_client_opens_encrypted_files_and_says_what_is_wrong(server: ServerProcess) -> None:
    encrypted = pdf(three_pages, encrypt={"owner_password": "owner", "user_password": "moon"})
    with pullquote.Client(server.url) as client:
        (best,) = client.highlights(QUESTION, files=[encrypted], password="moon", top_k=1)[0]
        assert best.page_number == 2
        for wrong in (None, "sun"):
            with raises(InvalidArgumentError, "password", "encrypted"):
                client.highlights(QUESTION, files=[encrypted], password=wrong)
        calls: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"files": [b"%PDF-1.7 nothing"]}, InvalidArgumentError, "damaged"),
            ({"files": []}, InvalidArgumentError, "files"),
            ({"files": "report.pdf"}, InvalidTypeError, "[file]"),
            ({"files": [3]}, InvalidTypeError, "files[0]"),
            ({"files": [b"a"], "texts": ["a"]}, InvalidArgumentError, "texts"),
            ({"files": [b"a"], "titles": ["a"]}, InvalidArgumentError, "titles"),
            ({"files": [b"a"], "ids": [1, 2]}, InvalidArgumentError, "ids"),
            ({"texts": ["a"], "password": "a"}, InvalidArgumentError, "password"),
            ({"files": ["/no/such.pdf"]}, FileNotFoundError, "/no/such.pdf"),
        ]
        for options, kind, named in calls:
            with raises(kind, named):
                client.highlights(QUESTION, **options)


async def upload_with_async_client(server: ServerProcess) -> None:
    async with pullquote.AsyncClient(server.url) as client:
        (best,) = (await client.highlights(QUESTION, files=[pdf(three_pages)], top_k=1))[0]
    assert (best.page_number, best.rectangles[0].page) == (2, 2)


def test_async_client_uploads_files(server: ServerProcess) -> None:
    asyncio.run(upload_with_async_client(server))


def test_contents_reads_fetched_files() -> None:
    encrypted = pdf(three_pages, encrypt={"owner_password": "owner", "user_password": "moon"})
    pages = {
        "/report.pdf": (PDF, pdf(three_pages)),
        "/report.docx": (DOCX, word_document()),
        "/book.epub": (EPUB, epub(CHAPTERS)),
        "/letter.rtf": ("application/rtf", RTF),
        "/page.html": ("text/html", f"<p>{ANSWER}".encode()),
        "/damaged.pdf": (PDF, b"%PDF-1.7 nothing else"),
        "/encrypted.pdf": (PDF, encrypted),
    }
    with fake_web() as web, letter_server("--fetch", "--fetch-allow", "127.0.0.1/32") as server:
        urls = [web.page(path, content, kind) for path, (kind, content) in pages.items()]
        asked = {"query": QUESTION, "highlightsPerUrl": 1, "numSentences": 1}
        answer = server.client.post("/contents", json={"urls": urls, "text": True, "highlights": asked}).json()
    assert [page["url"] for page in answer["results"]] == urls[:5]
    for page in answer["results"]:
        assert ANSWER in " ".join(page["text"].split())
        assert "<p>" not in page["text"]
        ((highlight,), (span,)) = (page["highlights"], page["extras"]["highlightSpans"])
        assert page["text"][span["start"] : span["end"]] == highlight
    assert [status["status"] for status in answer["statuses"]] == ["success"] * 5 + ["error"] * 2
    errors = [status["error"] for status in answer["statuses"][5:]]
    assert [(error["tag"], error["httpStatusCode"]) for error in errors] == [("UNSUPPORTED_URL", 415)] * 2
    assert "damaged" in json.dumps(errors[0])
    assert "encrypted" in json.dumps(errors[1])


def failure(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["kind"], error.get("field", "")


def test_files_that_cannot_be_read_are_errors_of_their_field(server: ServerProcess) -> None:
    def blank(made: Any) -> None:
        made.add_page()

    whole = ("whole.pdf", pdf(three_pages))
    encrypted = pdf(three_pages, encrypt={"owner_password": "owner", "user_password": "moon"})
    cases: list[tuple[bytes, str]] = [
        (b"%PDF-1.7 nothing else", "damaged"),
        (pdf(blank), "ocrmypdf"),
        (b"PK\x03\x04 word/document.xml nothing else", "damaged"),
        (b"PK\x03\x04 META-INF/container.xml nothing else", "damaged"),
        (epub(CHAPTERS, {"META-INF/encryption.xml": ENCRYPTION.replace("{}", "OEBPS/book.opf")}), "encrypted"),
        (b"\x7fELF\0\0\0", "program"),
        (b"a\0b", "EPUB"),
    ]
    for data, named in cases:
        answer = post(server, whole, ("file", data), **ASKED)
        assert failure(answer) == (422, "invalid_body", "file[1]"), answer.text
        assert names_all(answer.text, named)
    without = post(server, whole, ("file", encrypted), **ASKED)
    assert failure(without) == (422, "invalid_body", "password")
    assert names_all(without.text, "file[1]", "encrypted", "PDF")
    with_password = {"request": json.dumps(ASKED), "password": "moon"}
    answer = server.client.post("/highlights", data=with_password, files={"file": ("a.pdf", encrypted)})
    assert answer.json()["results"][0]["highlights"][0]["page_number"] == 2
    wrong = server.client.post(
        "/highlights", data=with_password | {"password": "sun"}, files={"file": ("a.pdf", encrypted)}
    )
    assert failure(wrong) == (422, "invalid_body", "password")
    assert names_all(wrong.text, "file[0]", "wrong")


def test_forms_that_are_wrong_name_the_part(server: ServerProcess) -> None:
    file = ("report.pdf", pdf(three_pages))
    assert failure(post(server, file)) == (422, "invalid_body", "query")
    assert failure(post(server, file, **ASKED, documents=["a"])) == (422, "invalid_body", "documents")
    assert failure(server.client.post("/highlights", files={"report": file})) == (422, "invalid_body", "report")
    assert failure(post(server, file, **ASKED | {"top_k": []})) == (422, "invalid_body", "top_k")
    broken = server.client.post(
        "/highlights", content=b"--x", headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert failure(broken)[:2] == (400, "malformed_body")
    elsewhere = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    refused = server.client.post("/highlights", data={"request": "{}"}, files={"file": file}, headers=elsewhere)
    assert failure(refused)[:2] == (403, "wrong_origin")
    assert names_all(refused.text, "--cors-origin", "https://evil.example")


@pytest.mark.parametrize(
    ("options", "expected", "named"),
    [
        (["--upload-max-pages", "2"], (413, "limit_exceeded"), "3 pages"),
        (["--max-document-bytes", "100"], (413, "limit_exceeded"), "100"),
        (["--upload-timeout", "0.001"], (504, "deadline_exceeded"), "0.001"),
        (["--upload-max-memory", "10000000"], (413, "limit_exceeded"), "memory"),
    ],
)
def test_limits_of_uploads(options: list[str], expected: tuple[int, str], named: str) -> None:
    with letter_server(*options) as server:
        for _ in range(2):
            answer = post(server, ("report.pdf", pdf(three_pages)), **ASKED)
            assert failure(answer) == (*expected, "file[0]"), answer.text
            assert names_all(answer.text, named)
        assert post(server, ("page.txt", b"It is far away."), **ASKED).status_code == 200


def test_page_of_a_pdf_is_an_image(server: ServerProcess) -> None:
    file = ("report.pdf", pdf(three_pages))
    answer = post(server, file, path="/render", page=2, width=600)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png"), answer.text
    assert answer.content.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", answer.content[16:24]) == (600, pytest.approx(600 * 297 / 210, abs=1))
    area = [float(place) for place in answer.headers["x-page-area"].split(",")]
    assert area == pytest.approx([0, 0, 595.28, 841.89], abs=0.01)
    assert answer.headers["x-page-rotation"] == "0"
    assert post(server, file, path="/render").content != answer.content
    assert failure(post(server, file, path="/render", page=4)) == (422, "invalid_body", "file[0]")
    assert failure(post(server, file, path="/render", page=0)) == (422, "invalid_body", "page")
    assert failure(post(server, file, path="/render", width=1)) == (422, "invalid_body", "width")
    assert failure(post(server, file, file, path="/render")) == (422, "invalid_body", "file")
    assert failure(post(server, ("a.txt", b"a"), path="/render")) == (422, "invalid_body", "file[0]")
    assert failure(server.client.post("/render", json={}))[:2] == (415, "unsupported_media_type")
