"""PDFs, Word documents, EPUB books and RTFs, made for tests."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

from docx import Document as WordDocument
from fpdf import FPDF

QUESTION = "How far away is the Moon?"
ANSWER = "The Moon is 384,400 km away from the Earth, on average."
FILLER = "Bread is baked from flour and water. Salt is mined in Poland. Cats sleep a lot."

MILLIMETRE = 72 / 25.4


def pdf(write: Callable[..., None], *, encrypt: dict[str, Any] | None = None) -> bytes:
    made = FPDF(format="A4")
    made.set_font("Helvetica", size=12)
    if encrypt:
        made.set_encryption(**encrypt)
    write(made)
    return bytes(made.output())


def three_pages(made: FPDF) -> None:
    made.add_page()
    made.multi_cell(0, 6, FILLER)
    made.add_page()
    made.set_xy(20, 100)
    made.multi_cell(90, 6, f"The Moon\n\n{ANSWER} It raises the tides.", align="L")
    made.add_page()
    made.multi_cell(0, 6, FILLER)


def word_document() -> bytes:
    made = WordDocument()
    made.add_heading("Distances", 1)
    made.add_paragraph(FILLER)
    made.add_heading("The Moon", 2)
    made.add_paragraph(ANSWER)
    table = made.add_table(rows=2, cols=2)
    for cell, text in zip(
        [*table.rows[0].cells, *table.rows[1].cells],
        ["Planet", "Distance from the Sun", "Mars", "228 million km"],
        strict=True,
    ):
        cell.text = text
    stored = io.BytesIO()
    made.save(stored)
    return stored.getvalue()


XHTML = """<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">
<head><title/><script src="none.js"/><style>p { color: red }</style></head><body>{body}</body></html>"""

CHAPTERS = {
    "text/one.xhtml": f"<h1>Distances</h1><p>{FILLER}</p>",
    "text/two%20&#38; three.xhtml": f'<h2><a id="moon"/>The&nbsp;Moon</h2><p hidden="hidden">Not shown.</p><p>{ANSWER}<br/>'
    "It <![CDATA[raises <tides>]]>.</p><table><tr><th>Planet</th><th>Distance from the Sun</th></tr>"
    "<tr><td>Mars</td><td>228 million km</td></tr></table>",
}

CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'


def epub(chapters: dict[str, str], more: dict[str, str | bytes] | None = None, package: str | None = None) -> bytes:
    """A book whose manifest lists its chapters in the other order than its spine, with a table of contents."""
    ids = list(enumerate(chapters))
    items = [f'<item id="c{number}" href="{href}" media-type="application/xhtml+xml"/>' for number, href in ids]
    spine = [f'<itemref idref="c{number}"/>' for number, _ in ids]
    made = f"""<?xml version="1.0"?><opf:package xmlns:opf="http://www.idpf.org/2007/opf">
    <metadata><dc:title>Moon &amp; Mars</dc:title></metadata>
    <manifest><item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>{"".join(items[::-1])}
    <item id="i" href="moon.svg" media-type="image/svg+xml"/></manifest>
    <spine><itemref idref="n"/><itemref idref="i"/>{"".join(spine)}</spine></opf:package>"""
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package or made,
    }
    files["OEBPS/nav.xhtml"] = XHTML.replace("{body}", "<ol><li>Contents of the book</li></ol>")
    for href, body in chapters.items():
        files[f"OEBPS/{href.replace('%20', ' ').replace('&#38;', '&')}"] = XHTML.replace("{body}", body)
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (files | (more or {})).items():
            archive.writestr(name, text)
    return stored.getvalue()


ENCRYPTION = '<encryption><enc:EncryptedData><enc:CipherReference URI="{}"/></enc:EncryptedData></encryption>'

# Two code pages, escapes of Unicode (one beyond 16 bits, one with a fallback of two characters), destinations, a link, a picture
# in digits and one in bytes, lists, nested groups and a table.
RTF = (
    rb"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\froman\fcharset0 Times New Roman;}{\f1\fswiss\fcharset204 Arial CYR;}}
{\colortbl;\red0\green0\blue0;}{\*\generator Writer 1;}{\info{\title Not shown}{\author Not shown}}{\header Not shown}
\viewkind4\uc1\pard\f0\fs24 The Moon\u8217?s caf\'e9 \'97 raw caf"""
    + b"\xe9"
    + rb"""\par
{\b bold {\i in italics}} \u-10179?\u-8704? {\uc2\u960 pi} \{braces\} \\bin3 slash\par
{\f1 \'cf\'f0\'e8\'e2\'e5\'f2}\par
{\field{\*\fldinst{HYPERLINK "https://moon.example/a"}}{\fldrslt{\ul a link}}}
 and {\field{\*\fldinst{HYPERLINK "b"}}{\fldrslt{b}}}\par
{\*\shppict{\pict{\*\picprop\shplid1{\sp{\sn x}{\sv 1}}}\pngblip\bin9 }}{{\par a}}{\pict\wmetafile8
"""
    + 99 * b"0123456789abcdef\n"
    + rb"""}{\pntext\f0 1.\tab}"""
    + ANSWER.encode()
    + rb"""\line It raises <tides>.\par
\trowd\cellx1000\cellx2000\intbl Planet\cell Distance from the Sun\cell\row
\trowd\cellx1000\cellx2000\intbl Mars\cell 228 million km\cell\row\pard\plain }"""
)
