"""Reads the text of a file that is not text, in a process of its own because a damaged file may crash it.

Run by `pullquote.documents` and by the server (`rust/server/src/uploads/parser.rs`); imports only `_pdf_layout` of pullquote.

Standard input: a line of JSON, ``{"format", "library", "password", "max_pages", "max_chars", "max_memory", "seconds"}``, then the
file. Standard output: a line of JSON, then float32 boxes. The JSON is ``{"text", "pages"}``, or ``{"error", "detail"}`` with
`error` one of ``damaged``, ``encrypted``, ``no_text``, ``pages``, ``chars``, ``memory``, ``no_page``, ``not_installed``:
`FileKind::failure` has their texts.

With ``"render": {"page", "width"}`` the output is ``{"area", "rotation"}`` and a PNG of that page.
"""

from __future__ import annotations

import array
import contextlib
import html
import importlib
import importlib.util
import io
import itertools
import json
import posixpath
import re
import struct
import sys
import zipfile
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

# What pdfium returns for the hyphen of a word that continues on the next line.
LINE_HYPHENS = {0x02, 0xFFFE}
NO_BOX = (0.0, 0.0, 0.0, 0.0)

# Memory that has to be free when reading begins.
SPARE_BYTES = 4 * 1024 * 1024

# Pixels of an image: a page that is very long for its width has less of them.
MAX_PIXELS = 40_000_000

# The media types of an EPUB's chapters: XHTML, and what EPUB 2 also has.
CHAPTERS = {"application/xhtml+xml", "text/html", "text/x-oeb1-document"}
# Elements of a chapter whose content is not its text.
UNSEEN = {"head", "script", "style", "template"}
# Elements that HTML never closes.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

# Bytes of a picture in an RTF, and its digits: no text has a run of them that long.
BINARY = re.compile(rb"\\bin(\d{1,10}) ?")
PICTURE = re.compile(rb"(?:[0-9A-Fa-f]{2}[\r\n]*){512,}")


class UnreadableError(Exception):
    """The document cannot be read; `error` says why."""

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(detail)
        self.error, self.detail = error, detail


def main() -> None:
    """Read standard input, and write standard output."""
    settings = json.loads(sys.stdin.buffer.readline())
    boxes = array.array("f")
    image = b""
    try:
        _import(settings["library"])
        _limit(settings["max_memory"], settings["seconds"])
        # Fails when the interpreter and the library alone are beyond the limit.
        bytearray(SPARE_BYTES)
        data = sys.stdin.buffer.read()
        if "render" in settings:
            answer, image = _render(data, settings)
        else:
            readers = {"pdf": _read_pdf, "docx": _read_docx, "epub": _read_epub, "rtf": _read_rtf}
            answer = readers[settings["format"]](data, settings, boxes)
    except UnreadableError as error:
        answer = {"error": error.error, "detail": error.detail}
    except MemoryError:
        boxes = array.array("f")
        answer = {"error": "memory", "detail": ""}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.write(image or boxes.tobytes())


def _import(library: str | None) -> None:
    """Import a library before the limit: an import that lacks memory may fail with any error."""
    try:
        if library:
            importlib.import_module(library)
    except ModuleNotFoundError:
        raise UnreadableError("not_installed", library or "") from None


def _limit(max_memory: int, seconds: float) -> None:
    """Limit memory and processor time, and forbid writing files, as far as the system can."""
    try:
        import resource
    except ImportError:
        return
    limits = {"RLIMIT_AS": max_memory, "RLIMIT_CPU": int(seconds) + 1, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
    for name, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit))


def _read_docx(data: bytes, settings: dict[str, Any], _: array.array[float]) -> dict[str, Any]:
    """The document as HTML, which keeps headings, lists and tables. A DOCX has no pages until something lays it out."""
    import mammoth

    try:
        made = mammoth.convert_to_html(io.BytesIO(data), convert_image=mammoth.images.img_element(lambda _: {}))
    except MemoryError:
        raise
    except Exception as error:  # it raises whatever its parts do: zipfile, expat, KeyError
        raise UnreadableError("damaged", f"{type(error).__name__}: {error}") from error
    # A paragraph in each cell would cut a table's rows apart.
    body = re.sub(r"(<t[dh]>)<p>|</p>(</t[dh]>)", r"\1\2", made.value)
    text = f"<!doctype html><html><body>{body}</body></html>"
    if len(text) > settings["max_chars"]:
        raise UnreadableError("chars", str(len(text)))
    if not made.value.strip():
        raise UnreadableError("no_text")
    return {"text": text, "pages": []}


def _read_epub(data: bytes, settings: dict[str, Any], _: array.array[float]) -> dict[str, Any]:
    """The chapters as HTML, in reading order. An EPUB has no pages until something lays it out."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            title, chapters = _chapters(archive, settings)
            bodies: list[str] = []
            length = 0
            for name in chapters:
                bodies.append(_body(_part(archive, name, settings)))
                length += len(bodies[-1])
                if length > settings["max_chars"]:
                    raise UnreadableError("chars", str(length))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise UnreadableError("damaged", f"{type(error).__name__}: {error}") from error
    if not any(re.sub(r"<[^>]*>", "", body).strip() for body in bodies):
        raise UnreadableError("no_text")
    body = "\n".join(f"<div>{body}</div>" for body in bodies)
    text = f"<!doctype html><html><head><title>{html.escape(title)}</title></head><body>{body}</body></html>"
    return {"text": text, "pages": []}


def _chapters(archive: zipfile.ZipFile, settings: dict[str, Any]) -> tuple[str, list[str]]:
    """The title of a book, and the files of its chapters in reading order, without its table of contents."""
    container = _Tags.of(_part(archive, "META-INF/container.xml", settings))
    package = next((attributes.get("full-path") for tag, attributes in container.found if tag == "rootfile"), None)
    if not package:
        raise UnreadableError("damaged", "META-INF/container.xml names no package")
    tags = _Tags.of(_part(archive, package, settings))
    items = {attributes.get("id"): attributes for tag, attributes in tags.found if tag == "item"}
    spine = [items.get(attributes.get("idref"), {}) for tag, attributes in tags.found if tag == "itemref"]
    listed = [item for item in spine if item.get("media-type") in CHAPTERS and item.get("href")]
    chapters = [item for item in listed if "nav" not in (item.get("properties") or "").split()]
    folder = posixpath.dirname(package)
    names = [_path(folder, item["href"] or "") for item in chapters]
    if not names:
        raise UnreadableError("no_text")
    if "META-INF/encryption.xml" in archive.namelist():
        encryption = _Tags.of(_part(archive, "META-INF/encryption.xml", settings))
        # Fonts may be obfuscated, which does not encrypt the text.
        locked = {
            _path("", attributes.get("uri") or "") for tag, attributes in encryption.found if tag == "cipherreference"
        }
        if locked & {package, *names}:
            raise UnreadableError("encrypted")
    return tags.title, names


def _path(folder: str, address: str) -> str:
    """The name in the archive of a relative address."""
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0]))).lstrip("/")


def _part(archive: zipfile.ZipFile, name: str, settings: dict[str, Any]) -> str:
    """A file of an archive as text."""
    # Eight bytes for each character: the markup takes more than the text.
    most = 8 * settings["max_chars"] + 1024 * 1024
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise UnreadableError("damaged", f"there is no {name} in it") from None
    if info.flag_bits & 1:
        raise UnreadableError("encrypted")
    with archive.open(info) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnreadableError("chars", str(len(data) // 8))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    declared = re.match(rb"""(?:\xef\xbb\xbf)?\s*<\?xml[^>]*encoding=["']([\w.-]+)["']""", data)
    try:
        return data.decode(declared[1].decode() if declared else "utf-8-sig", errors="replace")
    except LookupError:
        return data.decode("utf-8-sig", errors="replace")


def _body(source: str) -> str:
    chapter = _Chapter()
    chapter.feed(source)
    chapter.close()
    return "".join(chapter.parts)


# A tokenizer of HTML reads the XML of an EPUB: it expands no entities but those of HTML, and it reads what is not well-formed, as
# readers of books do.
class _Tags(HTMLParser):
    """The names without prefixes and the attributes of all start tags, and the text of the first title."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.title = ""
        self._is_title = False

    @classmethod
    def of(cls, source: str) -> _Tags:
        tags = cls()
        tags.feed(source)
        tags.close()
        return tags

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = tag.rpartition(":")[2]
        self.found.append((name, dict(attrs)))
        self._is_title = name == "title" and not self.title

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - HTMLParser's
        self._is_title = False

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self.title += data


class _Chapter(HTMLParser):
    """A chapter's body as HTML, in which no element hides what follows: XHTML closes elements that HTML does not, as <title/>."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._unseen = 0
        elif tag in UNSEEN:
            self._unseen += 1
        elif tag != "html" and not self._unseen:
            given = dict(attrs)
            is_hidden = "hidden" in given or given.get("aria-hidden") == "true"
            self.parts.append(f"<{tag} hidden>" if is_hidden else f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        if tag in UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag not in VOID and tag not in {"html", "body"} and not self._unseen:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(html.escape(data, quote=False))

    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.handle_data(data.removeprefix("CDATA["))


def _read_rtf(data: bytes, settings: dict[str, Any], _: array.array[float]) -> dict[str, Any]:
    """Paragraphs and the rows of tables as HTML. An RTF has no pages until something lays it out."""
    from striprtf.striprtf import rtf_to_text

    try:
        # It returns the halves of a character beyond 16 bits one by one.
        text = (
            rtf_to_text(_simple_rtf(data), errors="replace")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
        )
    except MemoryError:
        raise
    except Exception as error:  # it checks little: ValueError, TypeError, LookupError
        raise UnreadableError("damaged", f"{type(error).__name__}: {error}") from error
    if len(text) > settings["max_chars"]:
        raise UnreadableError("chars", str(len(text)))
    if not text.strip():
        raise UnreadableError("no_text")
    parts: list[str] = []
    # It ends each cell of a table with a stroke, and each row and paragraph with a line feed.
    for is_row, lines in itertools.groupby(html.escape(text, quote=False).split("\n"), lambda line: line.endswith("|")):
        if is_row:
            rows = (line.removesuffix("|").replace("|", "<td>") for line in lines)
            parts.append("<table>" + "".join(f"<tr><td>{row}" for row in rows) + "</table>")
        else:
            parts.extend(f"<p>{line}" for line in lines if line.strip())
    return {"text": f"<!doctype html><html><body>{''.join(parts)}</body></html>", "pages": []}


def _simple_rtf(data: bytes) -> str:
    """RTF that `striprtf` reads well: ASCII, no pictures, and links whose addresses stay out of the text."""
    # A backslash, written as its number: no control word begins with that.
    data = data.replace(rb"\\", rb"\'5c")
    parts: list[bytes] = []
    start = 0
    while binary := BINARY.search(data, start):
        parts.append(data[start : binary.start()])
        start = binary.end() + int(binary[1])
    rtf = PICTURE.sub(b"", b" ".join([*parts, data[start:]])).replace(rb"\fldinst", rb"\fldinst ")
    return re.sub(rb"[\x80-\xff]", lambda byte: rb"\'%02x" % ord(byte[0]), rtf).decode("ascii")


def _read_pdf(data: bytes, settings: dict[str, Any], boxes: array.array[float]) -> dict[str, Any]:
    """The text of all pages, a box for each character, and for each page its first character, width and height."""
    import pypdfium2

    layout = _layout()
    document = _open(pypdfium2, data, settings["password"])
    if len(document) > settings["max_pages"]:
        raise UnreadableError("pages", str(len(document)))
    read: list[Any] = []
    sizes: list[tuple[float, float]] = []
    length = 0
    for number in range(len(document)):
        try:
            page = document[number]
            sizes.append(page.get_size())
            text_page = page.get_textpage()
            read.append(layout.Page(*_characters(pypdfium2.raw, text_page.raw)))
            text_page.close()
            page.close()
        except pypdfium2.PdfiumError as error:
            raise UnreadableError("damaged", f"page {number + 1}: {error}") from error
        length += len(read[-1].text)
        if length > settings["max_chars"]:
            raise UnreadableError("chars", str(length))
    texts: list[str] = []
    pages: list[tuple[int, float, float]] = []
    length = 0
    for page, size, lines in zip(read, sizes, layout.lay_out(read), strict=True):
        pages.append((length, *size))
        for start, end, separator in lines:
            texts += (page.text[start:end], separator)
            boxes.extend(page.boxes[4 * start : 4 * end])
            boxes.extend(NO_BOX * len(separator))
            length += end - start + len(separator)
    text = "".join(texts)
    if not text.strip():
        raise UnreadableError("no_text", str(len(document)))
    return {"text": text, "pages": pages}


def _layout() -> Any:
    """`_pdf_layout`. Its folder is not on the path, because modules there have the names of others, such as haystack."""
    spec = importlib.util.spec_from_file_location("_pdf_layout", Path(__file__).with_name("_pdf_layout.py"))
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a file
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _render(data: bytes, settings: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A page as an image, and the part of it that the image shows."""
    import pypdfium2

    document = _open(pypdfium2, data, settings["password"])
    number = settings["render"]["page"]
    if number > len(document):
        raise UnreadableError("no_page", str(len(document)))
    try:
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(settings["render"]["width"] / width, (MAX_PIXELS / (width * height)) ** 0.5)
        bitmap = page.render(scale=scale, rev_byteorder=True)
        area, rotation = page.get_bbox(), page.get_rotation()
    except (pypdfium2.PdfiumError, ZeroDivisionError) as error:
        raise UnreadableError("damaged", f"page {number}: {error}") from error
    return {"area": area, "rotation": rotation}, _png(bitmap)


def _png(bitmap: Any) -> bytes:
    """A bitmap of three bytes a pixel as PNG."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    pixels, row = memoryview(bitmap.buffer), 3 * bitmap.width
    # Before each row: it is not filtered.
    rows = b"".join(
        b"\0" + bytes(pixels[start : start + row]) for start in range(0, bitmap.stride * bitmap.height, bitmap.stride)
    )
    header = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _open(pypdfium2: Any, data: bytes, password: str | None) -> Any:
    try:
        document = pypdfium2.PdfDocument(data, password=password)
        len(document)
    except pypdfium2.PdfiumError as error:
        kind = error.err_code
        is_locked = kind in {pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY}
        raise UnreadableError("encrypted" if is_locked else "damaged", str(error)) from error
    return document


def _characters(raw: Any, page: Any) -> tuple[str, array.array[float]]:
    """The characters of a page in pdfium's order, each one code point, and a box for each; lines end with a line feed."""
    rectangle = raw.FS_RECTF()
    made: list[str] = []
    boxes = array.array("f")
    high = 0
    for index in range(raw.FPDFText_CountChars(page)):
        code = raw.FPDFText_GetUnicode(page, index)
        if code == 0x0D:
            continue
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if high and 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
        high = 0
        made.append(_text(code))
        is_placed = raw.FPDFText_GetLooseCharBox(page, index, rectangle)
        boxes.extend((rectangle.left, rectangle.bottom, rectangle.right, rectangle.top) if is_placed else NO_BOX)
        if code in LINE_HYPHENS:
            # pdfium drops the end of the line here.
            made.append("\n")
            boxes.extend(NO_BOX)
    return "".join(made), boxes


def _text(code: int) -> str:
    if code in LINE_HYPHENS:
        return "-"
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        return "\ufffd"
    return " " if code < 0x20 and code != 0x0A else chr(code)


if __name__ == "__main__":
    main()
