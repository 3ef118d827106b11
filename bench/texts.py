"""Texts to measure with: files of pages, and English prose of any length.

No sentence of the prose occurs twice, because equal windows are encoded once.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from bench.record import REPOSITORY

QUERY = "Who led the work, and what did it cost?"

BLANK_LINE = re.compile(r"\n\s*\n")

_PAGES = ("apollo_program.en.txt", "martin_luther.en.txt", "state_of_the_union.en.txt")
_SENTENCE_END = re.compile(r"(?<=\w)(?=[.!?]\s)")


def page_files(directory: Path) -> list[Path]:
    """List a directory's pages by name: its ``.txt`` and ``.md`` files, its README aside."""
    return sorted(file for file in directory.iterdir() if file.suffix in {".txt", ".md"} and file.name != "README.md")


def entries(file: Path) -> list[dict[str, Any]]:
    """Read a ``.jsonl`` or ``.jsonl.gz`` file: an object from each line."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def prose(characters: int) -> str:
    """Take a number of characters of the demo's English pages.

    They hold about 156,000. For more, they are repeated with the number of the repetition at the end of every sentence.
    """
    once = _pages()
    sentences = _SENTENCE_END.split(once)
    parts, length = [once], len(once)
    while length < characters:
        parts.append(f" {len(parts)}".join(sentences))
        length += len(parts[-1]) + 2
    return "\n\n".join(parts)[:characters]


def prose_pages(count: int, characters: int) -> list[str]:
    """Cut `prose` into consecutive pages of this number of characters."""
    text = prose(count * characters)
    return [text[first : first + characters] for first in range(0, count * characters, characters)]


def different_pages(count: int, characters: int) -> list[str]:
    """Cut pages of this number of characters out of the demo's, each at another offset; they overlap."""
    text = _pages()
    room = len(text) - characters
    return [text[start : start + characters] for start in (number * room // count for number in range(count))]


def _pages() -> str:
    directory = REPOSITORY / "demo" / "pages"
    return "\n\n".join((directory / name).read_text(encoding="utf-8") for name in _PAGES)
