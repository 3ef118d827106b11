"""The work of every side of a measurement: real pages, their windows, and the windows' tokens.

The windows are cut once, untimed, so that all sides embed exactly the same texts. The counts of pages, windows and tokens
are the same for every side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pullquote
from bench.texts import BLANK_LINE, entries, page_files

HIGHLIGHT_LENGTH = 3
STEP_SIZE = 1
TOP_K = 3

_PAGE_CHARACTERS = (
    6_000  # of a page cut from a longer text: the length of an ordinary web page; `demo/pages` has 40 of them
)


@dataclass(frozen=True, slots=True)
class Page:
    """A text and its windows.

    `spans` is int64 ``[n, 2]``: start and end of each window in characters, as `pullquote.parse_pieces` cuts them.
    """

    text: str
    spans: NDArray[np.int64]

    def windows(self) -> list[str]:
        """Slice the windows' texts, in the order of their spans."""
        return [self.text[start:end] for start, end in self.spans.tolist()]


@dataclass(frozen=True, slots=True)
class Workload:
    """One query for many pages.

    `tokens` counts the ids of all windows, special ones included and padding not, cut at the model's `max_tokens`;
    `truncated` counts the windows that were.
    """

    query: str
    pages: list[Page]
    tokens: int
    truncated: int
    max_tokens: int

    @property
    def pieces(self) -> int:
        """The windows of all pages."""
        return sum(len(page.spans) for page in self.pages)

    def counts(self) -> dict[str, int | str]:
        """The counts that a record keeps."""
        return {
            "query": self.query,
            "pages": len(self.pages),
            "characters": sum(len(page.text) for page in self.pages),
            "utf8_bytes": sum(len(page.text.encode()) for page in self.pages),
            "pieces": self.pieces,
            "tokens": self.tokens,
            "truncated_pieces": self.truncated,
            "max_tokens": self.max_tokens,
            "highlight_length": HIGHLIGHT_LENGTH,
            "step_size": STEP_SIZE,
            "top_k": TOP_K,
        }


def load_workload(paths: list[Path], query: str, model: Path, limit: int | None) -> Workload:
    """Read pages, and make a workload.

    A directory's ``.txt`` and ``.md`` files (its README aside) are cut at blank lines into pages of about 6,000
    characters; ``.jsonl`` and ``.jsonl.gz`` files hold a page a line, an object with ``"text"``, and are taken whole.
    Of more than `limit` pages, takes `limit` at equal steps. Raises `ValueError` for any other path, and if there are no
    pages.
    """
    texts = [text for path in paths for text in _texts(path) if text.strip()]  # so that each page has a window
    if limit is not None and limit < len(texts):
        texts = [texts[number * len(texts) // limit] for number in range(limit)]
    if not texts:
        message = f"no pages in {', '.join(map(str, paths))}"
        raise ValueError(message)
    return make_workload(texts, query, model)


def make_workload(texts: list[str], query: str, model: Path) -> Workload:
    """Cut the pages' windows and count their tokens."""
    pages = cut_windows(texts)
    max_tokens = read_max_tokens(model)
    lengths = [length for page in window_lengths(pages, model) for length in page]
    return Workload(
        query=query,
        pages=pages,
        tokens=sum(min(length, max_tokens) for length in lengths),
        truncated=sum(length > max_tokens for length in lengths),
        max_tokens=max_tokens,
    )


def cut_windows(texts: list[str]) -> list[Page]:
    """Cut each text into the windows that all sides embed."""
    return [Page(text, pullquote.parse_pieces(text, HIGHLIGHT_LENGTH, STEP_SIZE)) for text in texts]


def read_max_tokens(model: Path) -> int:
    """The number of tokens of a window that the model reads, special ones included."""
    return int(json.loads((model / "sentence_bert_config.json").read_text())["max_seq_length"])


def window_lengths(pages: list[Page], model: Path) -> list[list[int]]:
    """Count the tokens of each page's windows, special ones included, and those beyond the model's limit."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - takes seconds, and constants of this module do not need it

    tokenizer = AutoTokenizer.from_pretrained(str(model))
    return [
        [len(ids) for ids in tokenizer(page.windows(), padding=False, truncation=False, verbose=False)["input_ids"]]
        for page in pages
    ]


def _texts(path: Path) -> list[str]:
    if path.is_dir():
        return [page for file in page_files(path) for page in _cut_at_blank_lines(file.read_text(encoding="utf-8"))]
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return [entry["text"] for entry in entries(path)]
    message = f"pages are a directory of .txt and .md files, or a .jsonl or .jsonl.gz file, not {path}"
    raise ValueError(message)


def _cut_at_blank_lines(text: str) -> list[str]:
    """Pages of at least `_PAGE_CHARACTERS` that end at a blank line; a short remainder goes to the last one."""
    starts = [0]
    for blank in BLANK_LINE.finditer(text):
        if blank.end() - starts[-1] >= _PAGE_CHARACTERS and len(text) - blank.end() >= _PAGE_CHARACTERS // 2:
            starts.append(blank.end())
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
