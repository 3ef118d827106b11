"""The text of PDFs, Word documents, EPUB books and others, with its pages. Needs ``pip install "pullquote[documents]"``.

`_document_parser` reads the files, in a process of its own.

>>> from pullquote import documents, highlights  # doctest: +SKIP
>>> report = documents.read("report.pdf")  # doctest: +SKIP
>>> highlights("What did it cost?", [report]).best(1)[0].rectangles  # doctest: +SKIP
(Rectangle(page=3, left=72.0, bottom=510.2, right=523.1, top=523.8),)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO, cast, get_args
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from pullquote._document_formats import DocumentFormat
from pullquote._native import FileKind
from pullquote._request.options import Format, HasPages, Request, is_file, one_format
from pullquote._request.signatures import checked
from pullquote._results.fields import Rectangle
from pullquote._results.highlight import LINE, Highlight, shortened
from pullquote._text_files import check_is_text, decode, unreadable
from pullquote.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LimitExceededError,
)

__all__ = ["Document", "DocumentFormat", "Limits", "Rectangle", "detect", "read"]

PARSER = Path(__file__).with_name("_document_parser.py")
FORMATS = get_args(DocumentFormat)
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of reading one document; exceeding them raises an error.

    - `max_bytes`: bytes of the file; `max_pages`: pages of a PDF; `max_chars`: characters of its text.
    - `seconds`: time; `max_memory`: bytes of memory of the process that reads it, on Linux and macOS.
    """

    max_bytes: int = 64 * MEBIBYTE
    max_pages: int = 5000
    max_chars: int = 10_000_000
    seconds: float = 60.0
    max_memory: int = 4096 * MEBIBYTE

    def __post_init__(self) -> None:
        """Check the limits."""
        for limit in fields(self):
            value = getattr(self, limit.name)
            wanted = (int, float) if limit.name == "seconds" else int
            if not isinstance(value, wanted) or isinstance(value, bool) or value <= 0:
                message = f"{limit.name} must be a number above 0, not {value!r}"
                raise InvalidArgumentError(message)


Limits.__init__ = checked(Limits.__init__)  # type: ignore[method-assign]  # its errors name what was meant


@dataclass(frozen=True, slots=True)
class Document:
    """A document as text: a page for `highlights`, whose highlights have its page numbers and rectangles.

    - `text`, `format`: the text, and what it is. A PDF is text, column by column, without running heads. DOCX, EPUB and RTF are
      HTML, which keeps tables, and of DOCX and EPUB headings and lists. Texts are themselves.
    - `page_starts`: int64 ``[pages]``, the first character of each page of a PDF; empty for other documents.
    - `page_sizes`: float32 ``[pages, 2]``, width and height in points.
    - `boxes`: float32 ``[characters, 4]``, left, bottom, right and top of each character of a PDF; zeros where it has none.
    - `name`: the path, or the name that `read` was given; the page's id, unless the call has others.
    """

    text: str
    format: Format
    page_starts: NDArray[np.int64] = field(repr=False)
    page_sizes: NDArray[np.float32] = field(repr=False)
    boxes: NDArray[np.float32] = field(repr=False)
    name: str | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        names = ("page_starts", "page_sizes", "boxes")
        same = (self.text, self.format, self.name) == (other.text, other.format, other.name)
        return same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((self.text, self.format, self.name))

    def __repr__(self) -> str:
        pages = f", pages={len(self.page_starts)}" if len(self.page_starts) else ""
        start = f"Document(name={self.name!r}, format={self.format!r}{pages}, {len(self.text):,} characters, "
        return f"{start}{shortened(self.text[:LINE], LINE - len(start) - 3)!r})"

    def page_number(self, highlight: Highlight) -> int | None:
        """The page, counted from 1, on which a highlight of this document begins; `None` without pages.

        Raises `InvalidArgumentError` for a highlight of another page.
        """
        return self._place_of(highlight)[0]

    def rectangles(self, highlight: Highlight) -> list[Rectangle]:
        """One rectangle for each line of a highlight of this document, in its order; none without pages.

        Raises `InvalidArgumentError` for a highlight of another page.
        """
        return self._place_of(highlight)[1]

    def _place_of(self, highlight: Highlight) -> tuple[int | None, list[Rectangle]]:
        if not isinstance(highlight, Highlight):
            message = f"highlight must be a Highlight of this document, not {highlight!r:.80}"
            raise InvalidTypeError(message)
        start, end = highlight.source_start, highlight.source_end
        if len(self.page_starts) and self.text[start:end] != highlight.text:
            message = f"the highlight {highlight.text!r:.80} is of another page: this document does not have it there"
            raise InvalidArgumentError(message)
        return self.place(start, end)

    def place(self, start: int, end: int) -> tuple[int | None, list[Rectangle]]:
        """The page, counted from 1, on which a span of the text begins, and a rectangle for each of its lines; as above."""
        if not len(self.page_starts):
            return None, []
        made: list[Rectangle] = []
        for position in range(start, end):
            left, bottom, right, top = self.boxes[position].tolist()
            if right <= left or self.text[position].isspace():
                continue
            box = Rectangle(self._page(position), left, bottom, right, top)
            if made and _is_same_line(made[-1], box):
                made[-1] = _union(made[-1], box)
            else:
                made.append(box)
        return self._page(start), made

    def _page(self, position: int) -> int:
        return int(np.searchsorted(self.page_starts, position, side="right"))


def _is_same_line(line: Rectangle, box: Rectangle) -> bool:
    """Whether a box continues a line, to the right or to the left: its middle is at the line's height, and it is near."""
    middle = (box.bottom + box.top) / 2
    near = 2 * (line.top - line.bottom)
    is_near = box.left <= line.right + near and box.right >= line.left - near
    return line.page == box.page and line.bottom <= middle <= line.top and is_near


def _union(one: Rectangle, other: Rectangle) -> Rectangle:
    bottom, top = min(one.bottom, other.bottom), max(one.top, other.top)
    return Rectangle(one.page, min(one.left, other.left), bottom, max(one.right, other.right), top)


def detect(data: bytes) -> DocumentFormat:
    """The `format` of a file, by its bytes; ``"text"`` if `read` takes it as text, or refuses it."""
    kind = FileKind.of(data)
    return cast("DocumentFormat", kind.name) if kind.parsed_format else "text"


@checked
def read(
    source: str | os.PathLike[str] | bytes | BinaryIO | TextIO,
    *,
    format: DocumentFormat = "auto",  # noqa: A002 - the field's word
    password: str | None = None,
    encoding: str | None = None,
    limits: Limits | None = None,
    name: str | None = None,
) -> Document:
    """Read a document: a path, the bytes of a file, or an open file.

    Each file that is not text is parsed in a process of its own. So a file that crashes its parser, or needs too much memory or
    time, only raises an error here.

    - `format`: ``"auto"`` detects the others by their bytes; ``"text"`` is plain text, Markdown or HTML, whose `Document.format`
      is ``"auto"``.
    - `encoding`: of text. `None` is that of a byte order mark, UTF-16 where the bytes show it, else UTF-8.
    - `password`: of an encrypted PDF.
    - `name`: its name in errors, and `Document.name` (default: the path).

    Raises `InvalidTextError` if the file is damaged, encrypted, in another encoding, or has no text, as scans without text
    recognition; `LimitExceededError`, `DeadlineExceededError` and `OutOfMemoryError` beyond `limits`; `InvalidArgumentError` for
    an unknown format or encoding; `NotInstalledError`, an `ImportError`, if the library for the format is not installed;
    `InvalidTypeError` for an argument of the wrong type; `NotFoundError`, an `OSError` too, if the file cannot be read.
    """
    limits = limits or Limits()
    _check_types(source, password, limits)
    named = name or _name_of(source)
    name = named or "the document"
    data = _bytes(source, name, limits)
    if len(data) > limits.max_bytes:
        raise _too_large(name, len(data), limits)
    if format not in FORMATS:
        message = f"format must be one of {', '.join(FORMATS)}, not {format!r}"
        raise InvalidArgumentError(message)
    kind = FileKind.of(data) if format == "auto" else FileKind.of_name(format)
    if kind and kind.parsed_format:
        return replace(_parse(name, data, kind, password, limits), name=named)
    if format == "auto":
        check_is_text(data, name)
    return replace(_text_document(name, data, encoding), name=named)


def read_pages(pages: Sequence[Any], ids: list[Any] | None) -> tuple[list[Any], list[Any] | None]:
    """Documents in place of files among pages, and ids: those given, else the names of documents if any has one."""
    read_ones = [page if isinstance(page, Document) or not is_file(page) else read(page) for page in pages]
    names = [page.name if isinstance(page, Document) else None for page in read_ones]
    return read_ones, names if ids is None and any(names) else ids


def read_request(request: Request) -> Request:
    """The request with the texts of its pages, of which some may be documents or files.

    Documents keep their formats.
    """
    if not any(is_file(page) for page in request.texts):
        return request
    pages, ids = read_pages(request.texts, request.ids)
    every: Format = request.options.get("format", "auto")
    formats = [*(request.formats or [every] * len(pages))]
    for number, (given, page) in enumerate(zip(formats, pages, strict=True)):
        own = page.format if isinstance(page, Document) else "auto"
        if "auto" not in {given, own} and given != own:
            message = f"format={given!r} is not that of texts[{number}], which is {own!r}; leave it out"
            raise InvalidArgumentError(message)
        formats[number] = own if given == "auto" else given
    every, differing = one_format(formats)
    with_pages: list[HasPages | None] = [
        page if isinstance(page, Document) and len(page.page_starts) else None for page in pages
    ]
    return replace(
        request,
        texts=[page.text if isinstance(page, Document) else page for page in pages],
        ids=ids,
        options={**request.options, "format": every},
        formats=differing,
        documents=with_pages if any(with_pages) else None,
    )


def _name_of(source: Any) -> str | None:
    if isinstance(source, (str, os.PathLike)):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else None


def _bytes(source: Any, name: str, limits: Limits) -> bytes:
    if isinstance(source, bytes):
        return source
    if not isinstance(source, (str, os.PathLike)):
        data = source.read()
        if isinstance(data, str):
            return data.encode("utf-8", "surrogatepass")
        if isinstance(data, bytes):
            return data
        message = f"{name} must be a file whose read() returns bytes, not {type(data).__name__}"
        raise InvalidTypeError(message)
    try:
        with Path(source).open("rb") as file:
            data = file.read(limits.max_bytes + 1)
        if len(data) > limits.max_bytes:
            raise _too_large(name, Path(source).stat().st_size, limits)
    except IsADirectoryError as error:
        error.strerror = f"is a directory; name its files, as sorted(Path({name!r}).glob('*.txt'))"
        raise unreadable(name, error) from None
    except OSError as error:
        raise unreadable(name, error) from None
    return data


def _too_large(name: str, size: int, limits: Limits) -> LimitExceededError:
    message = f"{name} has {size} bytes, and max_bytes is {limits.max_bytes}"
    return LimitExceededError(message)


def _check_types(source: object, password: object, limits: object) -> None:
    if not isinstance(source, (str, os.PathLike, bytes)) and not hasattr(source, "read"):
        message = f"source must be a path, the bytes of a file or an open file, not {type(source).__name__}"
        raise InvalidTypeError(message)
    if source == "":
        message = "source is an empty path; pass a path, the bytes of a file or an open file"
        raise InvalidArgumentError(message)
    if isinstance(source, str) and source.startswith("file:"):
        message = f"source must be a path, not the address {source}; pass {unquote(urlsplit(source).path)!r}"
        raise InvalidArgumentError(message)
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        message = (
            f"source must be a path or the bytes of a file, not the address {source}; fetch it, and pass its bytes"
        )
        raise InvalidArgumentError(message)
    if password is not None and not isinstance(password, str):
        message = f"password must be a string or None, not {type(password).__name__}"
        raise InvalidTypeError(message)
    if not isinstance(limits, Limits):
        message = f"limits must be documents.Limits(...) or None, not {type(limits).__name__}"
        raise InvalidTypeError(message)


def _text_document(name: str, data: bytes, encoding: str | None) -> Document:
    text = decode(data, name, encoding, 'encoding="latin-1"')
    return Document(text, "auto", np.empty(0, np.int64), np.empty((0, 2), np.float32), np.empty((0, 4), np.float32))


def parser_command() -> list[str]:
    """The program that reads a document, and its arguments; `_document_parser` describes its input and output."""
    # -P: its folder has modules with the names of others, such as haystack.
    return [sys.executable, "-P", str(PARSER)]


def _parse(name: str, data: bytes, kind: FileKind, password: str | None, limits: Limits) -> Document:
    settings = {
        "format": kind.name,
        "library": kind.library,
        "password": password,
        "max_pages": limits.max_pages,
        "max_chars": limits.max_chars,
        "max_memory": limits.max_memory,
        "seconds": limits.seconds,
    }

    def fail(error: str, detail: str) -> NoReturn:
        kind.fail(name, error, detail, password is not None, limits)

    command = parser_command()
    sent = json.dumps(settings).encode() + b"\n" + data
    try:
        done = subprocess.run(command, input=sent, capture_output=True, timeout=limits.seconds, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        fail("time", f"{limits.seconds} seconds")
    header, _, rest = done.stdout.partition(b"\n")
    if done.returncode or not header:
        fail("crashed", _ending(done))
    answer = json.loads(header)
    if "error" in answer:
        fail(answer["error"], answer["detail"])
    pages = np.array(answer["pages"], np.float64).reshape(-1, 3)
    return Document(
        answer["text"],
        kind.parsed_format or "text",
        pages[:, 0].astype(np.int64),
        pages[:, 1:].astype(np.float32),
        np.frombuffer(rest, np.float32).reshape(-1, 4),
    )


def _ending(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return last or f"exit code {done.returncode}"
