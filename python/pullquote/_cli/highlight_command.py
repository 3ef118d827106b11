"""``pullquote highlight``: the passages of files, as text or as JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pullquote._cli.documents import places, read_file
from pullquote._cli.fetch import is_address, read_address
from pullquote._cli.messages import as_flags
from pullquote._cli.settings import call_options
from pullquote._cli.source import EXIT_NO_INPUT, call_timeout, complain, highlighter_or_client, input_files
from pullquote._progress_bar import ProgressBar
from pullquote._request.options import Options
from pullquote._results.highlight import Highlight
from pullquote._results.terminal import Style
from pullquote._text_files import NotTextError
from pullquote.errors import InvalidArgumentError, PullquoteError

if TYPE_CHECKING:
    from pullquote.documents import Document

__all__ = ["add_options", "run"]

# Characters in one call: enough to keep every device busy, few enough to show progress.
GROUP_CHARACTERS = 1_000_000
# Files with twins of a passage that are named.
SHOWN_FILES = 5
# As of grep.
EXIT_NOTHING_ANSWERS = 1


def add_options(highlight: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    highlight.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="page, or the https:// address of one; - is standard input, as is no FILE in a pipe; "
        "without --query, the first is the question",
    )
    highlight.add_argument("-q", "--query", action="append", help="question about every page; repeatable")
    highlight.add_argument(
        "-r", "--recursive", action="store_true", help="read folders, at any depth, without hidden files"
    )
    highlight.add_argument(
        "--exit-zero", action="store_true", help="exit with 0 also if nothing answers, which is 1 otherwise"
    )


def run(options: argparse.Namespace) -> int:
    """Print the passages of each file, and return the exit code."""
    options.query, given = _query_and_files(options)
    if options.mark and not given and Path(options.mark[1]).is_file():
        message = (
            f"--mark takes two texts, and the second is a file, {options.mark[1]!r}; name both, as --mark '<b>' '</b>'"
        )
        raise InvalidArgumentError(message)
    style = Style(sys.stdout)
    reader = _Reader(options)
    files = reader.find(input_files(given))
    with highlighter_or_client(options) as source, ProgressBar(len(files), "page", is_shown=len(files) > 1) as progress:
        code, is_answered, first = 0, False, 0
        for names, texts, errors in reader.groups(files):
            for message, error_code in errors:
                progress.clear()
                complain(as_flags(message, options.parser))
                code = code or error_code
            if texts:
                found = source.highlights(options.query, texts, **_call_options(options))
                progress.clear()
                is_answered |= found.answered
                for number, highlights in enumerate(found):
                    query = None if options.fuse or len(options.query) == 1 else options.query[number // len(texts)]
                    page = number % len(texts)
                    document = reader.documents.get(names[page])
                    note = found.note_of(number)
                    answer = _FileAnswer(
                        names[page], first + page, query, found.formats[page], highlights, note, document, names
                    )
                    _show(answer, options, style)
                sys.stdout.flush()
            first += len(texts)
            progress.update(len(names) + len(errors))
    if reader.skipped:
        complain(f"skipped {reader.skipped} {'file that is' if reader.skipped == 1 else 'files that are'} not text")
    if not (first or code):
        complain(f"{', '.join(given)}: there is no file of text to read")
        return EXIT_NO_INPUT
    return code or (0 if is_answered or options.exit_zero else EXIT_NOTHING_ANSWERS)


def _query_and_files(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The questions and the files: without ``--query``, the first word is the question, unless it is a file."""
    if options.query:
        return options.query, options.files
    # Of a question that is too long for a path, this is false.
    if not options.files or os.path.exists(options.files[0]):  # noqa: PTH110
        options.parser.error("no question; name it first, as pullquote highlight 'Who paid?' FILE, or by --query")
    return options.files[:1], options.files[1:]


def _call_options(options: argparse.Namespace) -> Options:
    # Text output marks the matched words.
    return {
        **call_options(options, "highlight"),
        "pairing": "all",
        "timeout": call_timeout(options),
        "explain": options.explain or options.mark is not None or not options.json,
    }


class _Reader:
    """Reads files, folders and addresses. `documents` has fetched pages and files that are not text, by their names."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.documents: dict[str, Document] = {}
        # Files of folders, of which those that are not text are skipped and counted.
        self._found: set[str] = set()
        self.skipped = 0

    def find(self, names: list[str]) -> list[str]:
        """The names, with the files of folders in their place if ``--recursive`` is given."""
        files: list[str] = []
        for name in names:
            if not (self._options.recursive and Path(name).is_dir()):
                files.append(name)
                continue
            paths = (path for path in sorted(Path(name).rglob("*")) if path.is_file())
            visible = [
                str(path) for path in paths if not any(part.startswith(".") for part in path.relative_to(name).parts)
            ]
            self._found |= {*visible}
            files += visible
        return files

    def groups(self, files: list[str]) -> Iterator[tuple[list[str], list[str], list[tuple[str, int]]]]:
        """Names, texts and errors of neighbouring files, about `GROUP_CHARACTERS` at a time; all files if pages share a budget."""
        options = self._options
        limits = (options.max_total_chars, options.max_total_tokens, options.max_total_highlights)
        shared = any(limits) or options.dedupe == "answer"
        limit = sys.maxsize if shared else GROUP_CHARACTERS
        names: list[str] = []
        texts: list[str] = []
        errors: list[tuple[str, int]] = []
        size = 0
        for name in files:
            try:
                text = self._read(name)
            except PullquoteError as error:
                if isinstance(error, NotTextError) and name in self._found:
                    self.skipped += 1
                else:
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

    def _read(self, name: str) -> str:
        if is_address(name):
            self.documents[name] = read_address(name, self._options)
            return self.documents[name].text
        text, document = read_file(name, self._options.encoding)
        if document is not None:
            self.documents[name] = document
        return text


def _nearly_address(name: str) -> str:
    """What helps if a file that is not there is named like a page of the web."""
    if "://" in name:
        return "; only addresses that begin with http:// or https:// are fetched"
    return f"; a page of the web is https://{name}" if name.startswith("www.") else ""


@dataclass(frozen=True, slots=True)
class _FileAnswer:
    """The passages of a file for a query, as in `Highlights`; `query` is `None` if there is only one."""

    name: str
    page: int
    query: str | None
    format: str
    highlights: list[Highlight]
    note: str
    document: Document | None
    # Of each page of the call, in which twins count theirs.
    names: list[str]


def _show(answer: _FileAnswer, options: argparse.Namespace, style: Style) -> None:
    if options.json:
        question = {} if answer.query is None else {"query": answer.query}
        rows = [
            _row(highlight, options) | _twins(highlight, answer.names) | places(answer.document, highlight)
            for highlight in answer.highlights
        ]
        row = {
            "id": answer.name,
            "page": answer.page,
            **question,
            "format": answer.format,
            "answered": not answer.note,
            "highlights": rows,
        }
        print(json.dumps(row, ensure_ascii=False))
        return
    if options.recursive and not answer.highlights:
        # Most files of a folder have nothing to say.
        return
    kind = "" if answer.format == "text" else style.dim(f"  ({answer.format})")
    print(style.bold(answer.name if answer.query is None else f"{answer.name}  {answer.query}") + kind)
    if answer.note:
        print(f"  {as_flags(answer.note, options.parser)}{'; the nearest:' if answer.highlights else ''}\n")
    for highlight in answer.highlights:
        number = answer.document and answer.document.page_number(highlight)
        place = f"page {number}  " if number else ""
        print(f"  {style.dim(f'{highlight.score:.3f}  {place}characters {highlight.start}-{highlight.end}')}")
        if options.mark is not None:
            text = style.wrapped(_marked(highlight, options.mark))
        else:
            text = style.passage(highlight, lists_words=options.explain)
        print(text, end="\n\n" if not highlight.twins else "\n")
        if highlight.twins:
            print(style.dim(f"    {_left_out(highlight, answer.names)}"), end="\n\n")


def _left_out(highlight: Highlight, names: list[str]) -> str:
    """How many twins a passage has, and the files that they are in."""
    count, files = len(highlight.twins), list(dict.fromkeys(names[twin.page] for twin in highlight.twins))
    more = f" and {len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
    return f"({count} like it left out: {', '.join(files[:SHOWN_FILES])}{more})"


def _twins(highlight: Highlight, names: list[str]) -> dict[str, Any]:
    """The twins for JSON, with the names of their files."""
    twins = [{"id": names[twin.page], "start": twin.start, "end": twin.end} for twin in highlight.twins]
    return {"twins": twins} if twins else {}


def _marked(highlight: Highlight, mark: list[str]) -> str:
    pre, post = mark
    return highlight.marked(pre, post, encoder="html" if pre.startswith("<") else None, words=bool(highlight.matches))


def _row(highlight: Highlight, options: argparse.Namespace) -> dict[str, Any]:
    """A highlight for JSON, without fields that the options do not request; the page's name replaces its number."""
    row: dict[str, Any] = {**highlight.to_dict()}
    if options.mark is not None:
        row["marked"] = _marked(highlight, options.mark)
    # Those of PDFs come from the document that was read here.
    dropped = ["page", "id", "page_number", "rectangles", "twins", *([] if options.fuse else ["query"])]
    dropped += [] if options.context else ["before", "after"]
    dropped += [] if highlight.header else ["header"]
    dropped += [] if options.explain else ["matches"]
    for name in dropped:
        del row[name]
    return row
