"""Pages of about 24 kB, each with its own question, cut from real texts.

The articles of a file are joined, and the whole is cut at blank lines: short articles share a page with their neighbours and
long ones make several. No page occurs twice. A page's query is the middle one of the questions that it answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from bench.record import REPOSITORY
from bench.texts import BLANK_LINE, QUERY, entries, page_files

_PAGE_BYTES = 23_000  # in UTF-8; a page ends at the first blank line after them


@dataclass(frozen=True, slots=True)
class LargePage:
    """A page's text, its query, and the name of its file."""

    text: str
    query: str
    source: str


@dataclass(frozen=True, slots=True)
class _Article:
    """A text, and questions with the places of their answers, in characters."""

    text: str
    questions: list[tuple[int, str]]


def large_pages(paths: list[Path], limit: int) -> list[LargePage]:
    """Cut pages from files and directories as `bench/end_to_end.py` takes them, or from texts that every checkout has.

    ``.jsonl`` and ``.jsonl.gz`` files hold an article a line, an object with ``"text"`` and perhaps ``"questions"``. Without
    paths, these are the demo's pages and Python's own documentation. Of more than `limit` pages, takes `limit` at equal steps.
    Raises `ValueError` if there are none.
    """
    sources = [source for path in paths for source in _sources(path)] if paths else _at_hand()
    pages = [page for name, articles in sources for page in _cut(name, articles)]
    if not pages:
        message = f"no pages in {', '.join(map(str, paths))}"
        raise ValueError(message)
    count = min(limit, len(pages))
    return [pages[number * len(pages) // count] for number in range(count)]


def _at_hand() -> list[tuple[str, list[_Article]]]:
    manual = [_Article(text.strip(), []) for _, text in sorted(topics.items())]
    return [*_sources(REPOSITORY / "demo" / "pages"), ("pydoc_data.topics", manual)]


def _sources(path: Path) -> list[tuple[str, list[_Article]]]:
    if path.is_dir():
        return [(file.name, [_Article(file.read_text(encoding="utf-8"), [])]) for file in page_files(path)]
    return [(path.name, [_article(entry) for entry in entries(path)])]


def _article(entry: dict[str, Any]) -> _Article:
    questions = [one for one in entry.get("questions", []) if one["answers"]]
    return _Article(entry["text"], sorted((one["answers"][0]["start"], one["q"]) for one in questions))


def _cut(name: str, articles: list[_Article]) -> list[LargePage]:
    """Fill pages with paragraphs. A last page that is less than half full is left out."""
    pages: list[LargePage] = []
    parts: list[str] = []
    questions: list[str] = []
    size = 0

    def end_page() -> None:
        nonlocal parts, questions, size
        query = questions[len(questions) // 2] if questions else QUERY
        pages.append(LargePage("\n\n".join(parts), query, name))
        parts, questions, size = [], [], 0

    for article in articles:
        starts = [0, *(blank.end() for blank in BLANK_LINE.finditer(article.text))]
        for start, end in zip(starts, [*starts[1:], len(article.text)], strict=True):
            parts.append(article.text[start:end].rstrip())
            questions += [question for place, question in article.questions if start <= place < end]
            size += len(parts[-1].encode())
            if size >= _PAGE_BYTES:
                end_page()
    if size >= _PAGE_BYTES // 2:
        end_page()
    return pages
