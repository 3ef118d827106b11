"""``pullquote highlight``: the passages of files, as text or as JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullquote import _native
from pullquote._cli.documents import places, read_file
from pullquote._cli.fetch import is_address, read_address
from pullquote._cli.messages import as_flags
from pullquote._cli.settings import call_options
from pullquote._cli.source import EXIT_NO_INPUT, call_timeout, complain, highlighter_or_client, input_files
from pullquote._progress_bar import ProgressBar
from pullquote._request.options import Options
from pullquote._results.highlight import Highlight
from pullquote._results.terminal import Style
from pullquote.errors import InvalidArgumentError, PullquoteError

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["add_options", "run"]

# Characters in one call: enough to keep every device busy, few enough to show progress.
GROUP_CHARACTERS = 1_000_000


def add_options(highlight: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    highlight.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="page, or the https:// address of one; - is standard input, as is no FILE in a pipe",
    )
    highlight.add_argument(
        "-q",
        "--query",
        required=True,
        action="append",
        help="question about every page; repeatable",
    )


def run(options: argparse.Namespace) -> int:
    """Print the passages of each file, and return the exit code."""
    if options.mark and not options.files and Path(options.mark[1]).is_file():
        message = (
            f"--mark takes two texts, and the second is a file, {options.mark[1]!r}; name both, as --mark '<b>' '</b>'"
        )
        raise InvalidArgumentError(message)
    style = Style(sys.stdout)
    code = 0
    files = input_files(options.files)
    total = len(files)
    with highlighter_or_client(options) as source, ProgressBar(total, "page", is_shown=total > 1) as progress:
        documents: dict[str, Document] = {}
        for names, texts, errors in _groups(files, options, documents):
            for message, error_code in errors:
                progress.clear()
                complain(as_flags(message, options.parser))
                code = code or error_code
            if texts:
                found = source.highlights(options.query, texts, **_call_options(options))
                progress.clear()
                for number, highlights in enumerate(found):
                    query = None if options.fuse or len(options.query) == 1 else options.query[number // len(texts)]
                    name = names[number % len(texts)]
                    page_format = found.formats[number % len(texts)]
                    _show(_FileAnswer(name, query, page_format, highlights, documents.get(name)), options, style)
                sys.stdout.flush()
            progress.update(len(names) + len(errors))
    return code


def _call_options(options: argparse.Namespace) -> Options:
    # Text output marks the matched words.
    return {
        **call_options(options, "highlight"),
        "pairing": "all",
        "timeout": call_timeout(options),
        "explain": options.explain or options.mark is not None or not options.json,
    }


def _groups(
    files: list[str], options: argparse.Namespace, documents: dict[str, Document]
) -> Iterator[tuple[list[str], list[str], list[tuple[str, int]]]]:
    """Names, texts and errors of neighbouring files, about `GROUP_CHARACTERS` at a time; all files if pages share a budget.

    Adds fetched pages and files that are not text to `documents`.
    """
    limits = (options.max_total_chars, options.max_total_tokens, options.max_total_highlights)
    shared = any(limits) or options.dedupe == "answer"
    limit = sys.maxsize if shared else GROUP_CHARACTERS
    names: list[str] = []
    texts: list[str] = []
    errors: list[tuple[str, int]] = []
    size = 0
    for name in files:
        try:
            if is_address(name):
                document: Document | None = read_address(name, options)
                text = document.text if document else ""
            else:
                text, document = read_file(name, options.encoding)
            if document is not None:
                documents[name] = document
        except PullquoteError as error:
            errors.append((str(error), error.exit_code))
        except OSError as error:
            errors.append((f"{name}: {error.strerror or error}{_nearly_address(name)}", EXIT_NO_INPUT))
        else:
            names.append(name)
            texts.append(text)
            size += len(text)
        if size >= limit:
            yield names, texts, errors
            names, texts, errors, size = [], [], [], 0
    yield names, texts, errors


def _nearly_address(name: str) -> str:
    """What helps if a file that is not there is named like a page of the web."""
    if "://" in name:
        return "; only addresses that begin with http:// or https:// are fetched"
    return f"; a page of the web is https://{name}" if name.startswith("www.") else ""


@dataclass(frozen=True, slots=True)
class _FileAnswer:
    """The passages of a file for a query; `query` is `None` if there is only one."""

    page: str
    query: str | None
    format: str
    highlights: list[Highlight]
    document: Document | None

    @property
    def is_answered(self) -> bool:
        """As `Highlights.answered`, for this page and query."""
        return any(highlight.score >= _native.ANSWERED for highlight in self.highlights)


def _show(answer: _FileAnswer, options: argparse.Namespace, style: Style) -> None:
    if options.json:
        question = {} if answer.query is None else {"query": answer.query}
        rows = [_row(highlight, options) | places(answer.document, highlight) for highlight in answer.highlights]
        row = {
            "page": answer.page,
            **question,
            "format": answer.format,
            "answered": answer.is_answered,
            "highlights": rows,
        }
        print(json.dumps(row, ensure_ascii=False))
        return
    kind = "" if answer.format == "text" else style.dim(f"  ({answer.format})")
    print(style.bold(answer.page if answer.query is None else f"{answer.page}  {answer.query}") + kind)
    if not answer.highlights:
        print("  no passage\n")
    elif not answer.is_answered:
        print("  nothing here answers this; the nearest passages:\n")
    for highlight in answer.highlights:
        number = answer.document and answer.document.page_number(highlight)
        place = f"page {number}  " if number else ""
        print(f"  {style.dim(f'{highlight.score:.3f}  {place}characters {highlight.start}-{highlight.end}')}")
        text = style.passage(highlight) if options.mark is None else style.wrapped(_marked(highlight, options.mark))
        print(text, end="\n\n")


def _marked(highlight: Highlight, mark: list[str]) -> str:
    pre, post = mark
    return highlight.marked(pre, post, encoder="html" if pre.startswith("<") else None, words=bool(highlight.matches))


def _row(highlight: Highlight, options: argparse.Namespace) -> dict[str, Any]:
    """A highlight for JSON, without fields that the options do not request; the page's name replaces its number."""
    row: dict[str, Any] = {**highlight.to_dict()}
    if options.mark is not None:
        row["marked"] = _marked(highlight, options.mark)
    # Those of PDFs come from the document that was read here.
    dropped = ["page", "id", "page_number", "rectangles", *([] if options.fuse else ["query"])]
    dropped += [] if options.context else ["before", "after"]
    dropped += [] if highlight.header else ["header"]
    dropped += [] if options.explain else ["matches"]
    for name in dropped:
        del row[name]
    return row
