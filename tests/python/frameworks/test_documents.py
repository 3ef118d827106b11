"""`pullquote.documents`: pages and rectangles of PDFs, Word documents, EPUB books, and files that cannot be read."""

import contextlib
import io
import itertools
import json
import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("fpdf")
pytest.importorskip("docx")
pytest.importorskip("pypdfium2")
pytest.importorskip("mammoth")

from docx import Document as WordDocument
from fpdf import FPDF
from fpdf.enums import AccessPermission, EncryptionMethod

import pullquote
from frameworks.sample_documents import (
    ANSWER,
    CHAPTERS,
    CONTAINER,
    ENCRYPTION,
    FILLER,
    MILLIMETRE,
    QUESTION,
    RTF,
    XHTML,
    epub,
    pdf,
    three_pages,
    word_document,
)
from pullquote import documents
from pullquote._cli import main
from pullquote.documents import Limits
from pullquote.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    InvalidTextError,
    InvalidTypeError,
    LimitExceededError,
    OutOfMemoryError,
    PullquoteError,
    UsageWarning,
)
from support.fake_web import fake_web
from support.messages import names_all, raises


def test_highlight_knows_its_page_and_rectangles(highlighter: pullquote.Highlighter) -> None:
    report = documents.read(pdf(three_pages))
    (found,) = highlighter.highlights(QUESTION, [report.text], format=report.format, top_k=1, highlight_length=1)
    (best,) = found
    assert " ".join(best.text.split()) == f"The Moon {ANSWER}"
    assert report.page_number(best) == 2
    heading, first, last = report.rectangles(best)
    assert (heading.page, first.page, last.page) == (2, 2, 2)
    assert heading.bottom >= first.top
    # A4 is 297 mm high; the text begins 20 mm from the left and, after two lines of 6 mm, 112 mm from the top.
    assert first.left == pytest.approx(21 * MILLIMETRE, abs=2)
    assert first.bottom <= (297 - 115) * MILLIMETRE <= first.top
    assert first.right <= 110 * MILLIMETRE
    assert last.top <= first.bottom + 3
    assert report.page_sizes[1].tolist() == pytest.approx([210 * MILLIMETRE, 297 * MILLIMETRE], abs=0.1)


def test_pdf_supports_a_claim() -> None:
    report = documents.read(pdf(three_pages))
    (sentence,) = pullquote.cite(f"{ANSWER} [1]", [report.text], format=report.format).sentences
    (passage,) = sentence.passages
    assert (sentence.support, sentence.markers[0].status) == ("full", "supported")
    assert report.text[passage.start : passage.end] == passage.text
    assert " ".join(passage.text.split()).endswith(ANSWER)


def test_documents_of_the_same_content_are_equal() -> None:
    content = pdf(three_pages)
    assert documents.read(content) == documents.read(content)
    assert len({documents.read(content), documents.read(content)}) == 1
    assert documents.read(content) != documents.read(content, name="other")
    assert documents.read(content) != documents.read(b"A text.")
    with raises(InvalidArgumentError, "source", "empty"):
        documents.read("")


def test_each_character_has_a_box_and_pages_follow_each_other() -> None:
    report = documents.read(pdf(three_pages))
    assert report.format == "text"
    assert report.boxes.shape == (len(report.text), 4)
    starts = [*report.page_starts.tolist(), len(report.text)]
    pages = [report.text[start:end] for start, end in itertools.pairwise(starts)]
    assert [" ".join(page.split()) for page in pages] == [FILLER, f"The Moon {ANSWER} It raises the tides.", FILLER]
    letters = [position for position, character in enumerate(report.text) if character.isalnum()]
    assert (report.boxes[letters, 2] > report.boxes[letters, 0]).all()


def test_sentence_that_continues_on_the_next_page_stays_whole(highlighter: pullquote.Highlighter) -> None:
    def write(made: FPDF) -> None:
        made.add_page()
        made.multi_cell(0, 6, f"{FILLER} The Moon is 384,400 km away")
        made.add_page()
        made.multi_cell(0, 6, f"from the Earth, on average. {FILLER}")

    report = documents.read(pdf(write))
    (best,) = highlighter.highlights(QUESTION, [report.text], format=report.format, top_k=1, highlight_length=1)[0]
    assert " ".join(best.text.split()) == ANSWER
    pages = [rectangle.page for rectangle in report.rectangles(best)]
    assert (pages[0], pages[-1], pages) == (1, 2, sorted(pages))


def test_hyphen_at_the_end_of_a_line_does_not_split_the_word(highlighter: pullquote.Highlighter) -> None:
    def write(made: FPDF) -> None:
        made.add_page()
        made.multi_cell(0, 6, f"{FILLER}\n\nThe library has parsing and structures man-\nagement of certificates.")

    report = documents.read(pdf(write))
    assert "man-\nagement" in report.text
    (best,) = highlighter.highlights("management", [report.text], format=report.format, top_k=1, explain=True)[0]
    assert [match.word for match in best.matches] == ["management"]
    assert len(report.rectangles(best)) == 2


def test_paragraphs_and_headings_are_apart() -> None:
    def write(made: FPDF) -> None:
        made.add_page()
        made.set_font("Helvetica", size=20)
        made.multi_cell(0, 10, "The Moon")
        made.set_font("Helvetica", size=11)
        for text in (ANSWER, FILLER):
            made.ln(6)
            made.multi_cell(120, 5, f"{text} {FILLER}", align="L")

    paragraphs = documents.read(pdf(write)).text.strip().split("\n\n")
    assert [" ".join(paragraph.split()) for paragraph in paragraphs] == [
        "The Moon",
        f"{ANSWER} {FILLER}",
        f"{FILLER} {FILLER}",
    ]


def printed(made: FPDF, lines: list[str], left: float = 20, top: float = 40) -> None:
    """Lines of text at the same edge, 5 mm apart."""
    for number, line in enumerate(lines):
        made.text(left, top + 5 * number, line)


def test_running_heads_and_page_numbers_of_pdf_are_left_out() -> None:
    bodies = [
        ["Bread is baked. The company sold the mill in 1999 because the cost", "of repairs had grown far beyond what"],
        ["Owners of the Example Company were able to pay.", "The buyer was a bank."],
        ["It is now a museum.", "Cats sleep a lot."],
    ]

    def write(made: FPDF) -> None:
        for number, body in enumerate(bodies, 7):
            made.add_page()
            made.text(20, 15, "Chapter 2: Money")
            printed(made, body)
            made.text(20, 285, "Annual report of the Example Company")
            made.text(190, 285, str(number))

    report = documents.read(pdf(write))
    assert not names_all(report.text, "Chapter 2")
    assert not names_all(report.text, "Annual report")
    assert len(report.page_starts) == 3
    assert [report.text[start:].split(maxsplit=1)[0] for start in report.page_starts] == ["Bread", "Owners", "It"]

    # A title in large letters, and what only one page has, stay.
    def slides(made: FPDF) -> None:
        for number in range(4):
            made.add_page()
            made.set_font("Helvetica", size=24)
            made.text(20, 20, "Results")
            made.set_font("Helvetica", size=12)
            printed(made, [f"Number {number} is here.", "It is so."])

    assert documents.read(pdf(slides)).text.count("Results") == 4


def test_sentence_goes_on_over_running_lines_and_before_capitals(highlighter: pullquote.Highlighter) -> None:
    sentence = [
        "The company sold the old mill to a bank in 1999 because the cost of all its",
        "Repairs in Bern had grown far beyond what the owners of the house of the",
        "Miller family were able to pay, and nobody else in the whole of that valley",
    ]

    def write(made: FPDF) -> None:
        for number, body in enumerate([sentence, ["Wanted it. Bread is baked.", "Cats sleep."], ["Salt is mined."]], 1):
            made.add_page()
            made.text(20, 15, "Chapter 2: Money")
            printed(made, body)
            made.text(100, 285, f"Page {number} of 3")

    report = documents.read(pdf(write))
    (best,) = highlighter.highlights("Why was the mill sold?", [report], top_k=1, highlight_length=1)[0]
    assert best.text == f"{' '.join(sentence)} Wanted it."
    assert {rectangle.page for rectangle in best.rectangles} == {1, 2}
    assert len(best.rectangles) == 4


LEFT = [
    "The left column starts with a long sentence",
    "about the river and the many boats that sail",
    "upon it every day. It then turns to bridges,",
]
RIGHT = [
    "In the right column the text is about trains",
    "and how they cross the hills at night. They",
    "carry coal, wood and salt to the harbour.",
]


@pytest.mark.parametrize(
    ("left", "right", "is_prose"),
    [(LEFT, RIGHT, True), (["Moon", "Sun", "Mars"], RIGHT, False), (LEFT, ["1.20", "33.10", "4.00"], False)],
)
def test_columns_of_prose_are_read_one_after_the_other(left: list[str], right: list[str], is_prose: bool) -> None:
    def write(made: FPDF) -> None:
        made.add_page()
        for number, (first, second) in enumerate(zip(left, right, strict=True)):
            made.text(15, 40 + 5 * number, first)
            made.text(115, 40 + 5 * number, second)

    text = documents.read(pdf(write)).text
    if is_prose:
        assert text.split() == " ".join(left + right).split()
    else:
        assert [line.split() for line in text.splitlines() if line] == [
            f"{a} {b}".split() for a, b in zip(left, right, strict=True)
        ]


def test_lines_that_were_not_wrapped_stay_lines() -> None:
    def write(made: FPDF) -> None:
        made.add_page()
        printed(
            made,
            [
                "Contents",
                "Methods of the study ............................ 3",
                "Results of the study ............................ 9",
            ],
        )
        printed(made, ["Maria Schmidt", "12 Main Street", "Springfield"], top=80)
        printed(
            made,
            [
                "* Bring the book back to the library by Monday at noon",
                "* Bring the film back to the library by Friday",
            ],
            top=120,
        )

    text = documents.read(pdf(write)).text
    assert [line for line in text.splitlines() if line] == [
        "Contents",
        "Methods of the study ............................ 3",
        "Results of the study ............................ 9",
        "Maria Schmidt",
        "12 Main Street",
        "Springfield",
        "* Bring the book back to the library by Monday at noon",
        "* Bring the film back to the library by Friday",
    ]


def by_hand(codes: bytes, shown: bytes) -> bytes:
    """A PDF whose font maps bytes to characters."""
    codes = b"begincmap 1 begincodespacerange <00> <ff> endcodespacerange " + codes + b" endcmap"
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 4 0 R>>>>/Contents 6 0 R>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(codes), codes),
        b"<</Length %d>>stream\n%s\nendstream" % (len(shown), shown),
    ]
    objects = b"".join(b"%d 0 obj%s\nendobj\n" % (number, part) for number, part in enumerate(parts, 1))
    return b"%PDF-1.7\n" + objects + b"trailer<</Root 1 0 R>>\n"


def test_word_without_spaces_over_two_lines_of_pdf_is_whole() -> None:
    # Capital letters are hiragana.
    codes = b"1 beginbfrange <41> <5A> <3042> endbfrange"
    lines = b"".join(b"(%s) Tj T* " % line for line in (b"ABCABCABC", b"BCABCABCA", b"ABC"))
    report = documents.read(by_hand(codes, b"BT /F 12 Tf 14 TL 72 700 Td " + lines + b"ET"))
    assert len(report.text) == 21
    assert "\n" not in report.text


def test_characters_beyond_the_basic_plane_are_one_character() -> None:
    report = documents.read(
        by_hand(b"1 beginbfchar <41> <D83CDF19> endbfchar", b"BT /F 12 Tf 72 700 Td (A is the moon.) Tj ET")
    )
    assert report.text.startswith("🌙 is ")
    assert len(report.boxes) == len(report.text)
    assert report.boxes[2, 0] > report.boxes[0, 2] > 72


@pytest.mark.parametrize("method", [EncryptionMethod.RC4, EncryptionMethod.AES_256])
def test_encrypted_pdf_needs_its_password(method: EncryptionMethod) -> None:
    encrypt = {"owner_password": "owner", "user_password": "moon", "encryption_method": method}
    data = pdf(three_pages, encrypt={**encrypt, "permissions": AccessPermission.all()})
    with raises(InvalidTextError, "encrypted", "PDF", "password"):
        documents.read(data)
    with raises(InvalidTextError, "password", "wrong"):
        documents.read(data, password="sun")
    assert "384,400 km" in documents.read(data, password="moon").text


def test_scan_without_text_says_so() -> None:
    def write(made: FPDF) -> None:
        for _ in range(2):
            made.add_page()
            made.rect(20, 20, 100, 100)

    with raises(InvalidTextError, "scan", "2", "ocrmypdf"):
        documents.read(pdf(write))


def test_damaged_files_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.7\nnothing else")
    with raises(InvalidTextError, path, "damaged"):
        documents.read(path)
    word = io.BytesIO()
    WordDocument().save(word)
    with raises(InvalidTextError, "DOCX", "damaged"):
        documents.read(word.getvalue()[:2000])
    with raises(InvalidTextError, "DOCX", "damaged"):
        documents.read(b"PK\x03\x04 nothing else", format="docx")
    with raises(InvalidTextError, "utf-8", "19"):
        documents.read(b"neither of them is \xff\xfe\x80")


def test_random_damage_is_an_error_or_a_text() -> None:
    data = pdf(three_pages)
    drawn = random.Random(27)
    for _ in range(12):
        damaged = bytearray(data)
        for _ in range(40):
            damaged[drawn.randrange(20, len(damaged))] = drawn.randrange(256)
        with contextlib.suppress(InvalidTextError, LimitExceededError, OutOfMemoryError, DeadlineExceededError):
            assert documents.read(bytes(damaged)).text


@pytest.mark.parametrize(
    ("limits", "error", "named"),
    [
        (Limits(max_bytes=100), LimitExceededError, "max_bytes"),
        (Limits(max_pages=2), LimitExceededError, "max_pages"),
        (Limits(max_chars=100), LimitExceededError, "max_chars"),
        (Limits(seconds=0.001), DeadlineExceededError, "0.001"),
    ],
)
def test_limits_are_errors(limits: Limits, error: type[PullquoteError], named: str, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(pdf(three_pages))
    for source in (path, path.read_bytes()):
        with raises(error, named):
            documents.read(source, limits=limits)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit a process's memory")
def test_any_memory_limit_is_an_answer_or_out_of_memory() -> None:
    data = pdf(three_pages)
    for megabytes in range(10, 61, 2):
        with contextlib.suppress(OutOfMemoryError):
            assert documents.read(data, limits=Limits(max_memory=megabytes * 1_000_000)).text
    with raises(OutOfMemoryError, "10000000"):
        documents.read(data, limits=Limits(max_memory=10_000_000))


def test_crash_of_the_parser_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os, sys; sys.stdin.buffer.read(); os.abort()", encoding="utf-8")
    data = pdf(three_pages)
    with monkeypatch.context() as patch:
        patch.setattr(documents, "PARSER", crashing)
        with raises(InvalidTextError, "PDF", "signal 6"):
            documents.read(data)
    assert documents.read(data).text


def test_word_document_keeps_its_structure(highlighter: pullquote.Highlighter, tmp_path: Path) -> None:
    path = tmp_path / "report.docx"
    path.write_bytes(word_document())
    report = documents.read(path)
    assert report.format == "html"
    found = highlighter.highlights(QUESTION, [report.text], format=report.format, top_k=1)
    assert found[0][0].text == f"The Moon\n\n{ANSWER}"
    assert report.page_number(found[0][0]) is None
    assert report.rectangles(found[0][0]) == []
    found = highlighter.highlights("How far is Mars from the Sun?", [report.text], format=report.format, top_k=1)
    assert "228 million km" in found[0][0].text
    assert "Distance from the Sun" in found[0][0].text


def test_book_is_html_in_reading_order(highlighter: pullquote.Highlighter, tmp_path: Path) -> None:
    path = tmp_path / "book.epub"
    path.write_bytes(epub(CHAPTERS))
    assert documents.detect(path.read_bytes()) == "epub"
    book = documents.read(path)
    assert book.format == "html"
    assert book.text.startswith("<!doctype html><html><head><title>Moon &amp; Mars</title>")
    assert book.text.index("Salt is mined") < book.text.index(ANSWER)
    for unseen in ("Contents of the book", "color", "none.js"):
        assert unseen not in book.text
    (found,) = highlighter.highlights(QUESTION, [book.text], format=book.format, top_k=1)
    assert found[0].text.startswith(f"The\N{NO-BREAK SPACE}Moon\n\n{ANSWER}")
    assert ANSWER in book.text[found[0].source_start : found[0].source_end]
    assert book.page_number(found[0]) is None
    table = highlighter.highlights("How far is Mars from the Sun?", [book.text], format=book.format, top_k=1)
    assert "228 million km" in table[0][0].text
    assert "Distance from the Sun" in table[0][0].text
    shown = table.page_text(0)
    assert "It raises <tides>." in shown
    assert "Not shown" not in shown


def test_rtf_is_html_in_any_code_page(highlighter: pullquote.Highlighter, tmp_path: Path) -> None:
    path = tmp_path / "letter.rtf"
    path.write_bytes(RTF)
    assert documents.detect(RTF) == "rtf"
    letter = documents.read(path)
    assert letter.format == "html"
    assert letter.text.removeprefix("<!doctype html><html><body><p>").split("<p>")[:5] == [
        "The Moon\u2019s caf\xe9 \u2014 raw caf\xe9",
        "bold in italics \N{GRINNING FACE} \u03c0 {braces} \\bin3 slash",
        "\u041f\u0440\u0438\u0432\u0435\u0442",
        "a link and b",
        ANSWER,
    ]
    for unseen in ("Not shown", "moon.example", "cdef", "Arial", "Writer"):
        assert unseen not in letter.text
    (found,) = highlighter.highlights(QUESTION, [letter.text], format=letter.format, top_k=1, highlight_length=1)
    assert found[0].text == ANSWER
    table = highlighter.highlights("How far is Mars from the Sun?", [letter.text], format=letter.format, top_k=1)
    assert "228 million km" in table[0][0].text
    assert "It raises <tides>." in table.page_text(0)


def test_rtfs_that_cannot_be_read_say_why() -> None:
    for data, named in [
        (rb"{\rtf1 {\*\generator Writer;}\par}", "without text"),
        (rb"{\rtf1\uc a}", "damaged"),
        (rb"{\rtf1 \u99999999999 a}", "damaged"),
    ]:
        with raises(InvalidTextError, "RTF", named):
            documents.read(data)
    with raises(LimitExceededError, "max_chars", 10):
        documents.read(RTF, limits=Limits(max_chars=10))
    drawn = random.Random(27)
    for _ in range(12):
        damaged = bytearray(RTF)
        for _ in range(40):
            damaged[drawn.randrange(6, len(damaged))] = drawn.randrange(256)
        with contextlib.suppress(InvalidTextError):
            assert documents.read(bytes(damaged)).text


def test_chapters_that_are_not_well_formed_are_read() -> None:
    broken = {"a.html": "<p>One <b>two<p>Caf\xe9 &copy; &unknown; <i/>three < four", "b.html": "<div><p>Last."}
    text = documents.read(epub(broken)).text
    assert text.index("Caf\xe9 \xa9 &amp;unknown;") < text.index("Last.")
    latin = XHTML.replace("utf-8", "iso-8859-1").replace("{body}", "<p>Stra\xdfe</p>").encode("latin-1")
    encoded: dict[str, str | bytes] = {
        "OEBPS/a.html": latin,
        "OEBPS/b.html": XHTML.replace("{body}", "<p>Br\xfccke</p>").encode("utf-16"),
    }
    text = documents.read(epub(broken, encoded)).text
    assert "<p>Stra\xdfe</p>" in text
    assert "<p>Br\xfccke</p>" in text


ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY file SYSTEM "file:///etc/passwd">]>'


def test_entities_of_a_book_are_not_expanded() -> None:
    text = documents.read(epub({"a.html": f"{ENTITIES}<p>&b; &file; end</p>"})).text
    assert 30 * "a" not in text
    assert "root:" not in text
    assert "&amp;b; &amp;file; end" in text


def test_books_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    path = tmp_path / "book.epub"
    whole = epub(CHAPTERS)
    font = epub(CHAPTERS, {"META-INF/encryption.xml": ENCRYPTION.replace("{}", "OEBPS/font.otf")})
    assert ANSWER in documents.read(font).text
    drm = epub(CHAPTERS, {"META-INF/encryption.xml": ENCRYPTION.replace("{}", "OEBPS/text/one.xhtml")})
    cases = [
        (whole[:1500], ["damaged"]),
        (whole.replace(b"two & three", b"two & thrEe", 1), ["damaged"]),
        (epub(CHAPTERS, package="<package/>"), ["without text"]),
        (epub(CHAPTERS, {"META-INF/container.xml": "<container/>"}), ["damaged", "container.xml"]),
        (epub(CHAPTERS, {"META-INF/container.xml": CONTAINER.replace("book", "no")}), ["damaged", "OEBPS/no.opf"]),
        (epub({"a.html": "<p> </p><img src='a.png'/>"}), ["without text"]),
        (epub({}), ["without text"]),
        (drm, ["encrypted"]),
    ]
    for data, named in cases:
        path.write_bytes(data)
        with raises(InvalidTextError, path, "EPUB", *named):
            documents.read(path)
    with raises(InvalidTextError, "EPUB", "damaged"):
        documents.read(b"PK\x03\x04 nothing else", format="epub")


def test_book_beyond_its_limits_is_an_error() -> None:
    with raises(LimitExceededError, "max_chars", 100):
        documents.read(epub(CHAPTERS), limits=Limits(max_chars=100))
    # 100 MB that compress to 100 kB.
    bomb = epub({"a.html": "<p>" + " " * 100_000_000})
    assert len(bomb) < 200_000
    with raises(LimitExceededError, "max_chars", 1_000_000):
        documents.read(bomb, limits=Limits(max_chars=1_000_000))


def test_text_files_need_no_library(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Moon\n\n{ANSWER}", encoding="utf-8")
    page = documents.read(path)
    assert (page.text, page.format) == (f"# Moon\n\n{ANSWER}", "auto")
    path.write_text("Die Straße ist lang.", encoding="latin-1")
    assert documents.read(path, encoding="latin-1").text == "Die Straße ist lang."
    with pytest.warns(UsageWarning, match=rf"{path.name}.*windows-1252.*encoding="):
        assert documents.read(path).text == "Die Straße ist lang."
    path.write_bytes(b"The moon \xff\xfe\x80 is far.")
    with raises(InvalidTextError, path, "utf-8", "encoding="):
        documents.read(path)
    for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
        path.write_bytes("Straßen sind lang.".encode(encoding))
        assert documents.read(path).text == "Straßen sind lang."
    path.write_bytes(b"\x89PNG\r\n")
    with raises(InvalidTextError, path, "PNG"):
        documents.read(path)
    with raises(InvalidArgumentError, "klingon"):
        documents.read(b"text", encoding="klingon")
    # What a caller says is text may begin like another file.
    assert documents.read(b"GIF89a is a format.", format="text").text == "GIF89a is a format."
    with raises(FileNotFoundError, "nowhere"):
        documents.read(tmp_path / "nowhere")
    with raises(InvalidArgumentError, "format", "epub", "odt"):
        documents.read(path, format="odt")  # type: ignore[arg-type]
    with raises(InvalidArgumentError, "source", "https://example.org/a.pdf"):
        documents.read("https://example.org/a.pdf")
    for name, wrong in {"source": {"source": 3}, "password": {"password": 3}, "limits": {"limits": 3}}.items():
        with raises(InvalidTypeError, name, "int"):
            documents.read(**{"source": path, **wrong})  # type: ignore[arg-type]


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = tmp_path / "without.py"
    code = f"import runpy, sys; sys.modules['pypdfium2'] = None; runpy.run_path({str(documents.PARSER)!r}, run_name='__main__')"
    without.write_text(code, encoding="utf-8")
    monkeypatch.setattr(documents, "PARSER", without)
    with raises(ModuleNotFoundError, "PDF", "pypdfium2", "pullquote[documents]") as caught:
        documents.read(pdf(three_pages))
    assert isinstance(caught.value, PullquoteError)
    assert caught.value.exit_code == 69
    assert ANSWER in documents.read(epub(CHAPTERS)).text


def test_command_line_reads_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf(three_pages))
    (tmp_path / "report.docx").write_bytes(word_document())
    (tmp_path / "book.epub").write_bytes(epub(CHAPTERS))
    (tmp_path / "letter.rtf").write_bytes(RTF)
    (tmp_path / "page.txt").write_text(ANSWER, encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing else")
    names = ("report.pdf", "broken.pdf", "report.docx", "page.txt", "book.epub", "letter.rtf")
    files = [str(tmp_path / name) for name in names]
    command = ["highlight", "--device", "cpu", "-q", QUESTION, "-k", "1", *files]
    assert main([*command, "--json"]) == InvalidTextError.exit_code
    printed = capsys.readouterr()
    assert names_all(printed.err, files[1], "damaged")
    pdf_row, *rows = map(json.loads, printed.out.splitlines())
    assert [row["id"] for row in (pdf_row, *rows)] == [files[0], *files[2:]]
    (best,) = pdf_row["highlights"]
    assert (best["page_number"], best["rectangles"][0]["page"]) == (2, 2)
    for row in rows:
        assert ANSWER in row["highlights"][0]["text"]
        assert "page_number" not in row["highlights"][0]
    main(command)
    assert "page 2  characters" in capsys.readouterr().out
    with (tmp_path / "report.pdf").open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        main(command[:-6])
    assert "page 2  characters" in capsys.readouterr().out


def test_command_line_reads_documents_of_the_web(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_web() as web:
        sound = web.page("/report", pdf(three_pages), "application/pdf")
        damaged = web.page("/damaged", b"%PDF-1.7\nnothing else", "application/pdf; charset=binary")
        command = ["highlight", "--device", "cpu", "-q", QUESTION, "-k", "1", "--fetch-allow", "127.0.0.1/32", "--json"]
        assert main([*command, sound, damaged]) == InvalidTextError.exit_code
    printed = capsys.readouterr()
    assert names_all(printed.err, damaged, "damaged")
    (row,) = map(json.loads, printed.out.splitlines())
    assert (row["id"], row["highlights"][0]["page_number"]) == (sound, 2)
