"""A browser's search for a text fragment, as its specification describes it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

BLANK_LINE = r"\n[ \t]*\n\s*"
ANY_LINE = r"\n\s*"
JOINERS = set(".,:;'’_״")


# The matcher: "find a range from a text directive" of https://wicg.github.io/scroll-to-text-fragment/, over a page whose
# blocks are divided by `gap`. Words are those of a regular expression, or, with `strict`, never end without punctuation or
# white space: a fragment must do for a browser with a dictionary of Chinese words and for one without.


@dataclass(frozen=True)
class FragmentBrowser:
    page: str
    gap: str = BLANK_LINE
    strict: bool = False

    def marks(self, fragment: str) -> tuple[int, int] | None:
        """The span that the fragment finds."""
        prefix, first, last, suffix = parsed(fragment)
        at = 0
        while True:
            if prefix:
                context = self.find(prefix, at, opens=True, closes=False)
                if context is None:
                    return None
                at = context[0] + 1
                here = self.after(context[1])
                found = self.find(first, here, opens=False, closes=bool(last) or not suffix)
                if found is None:
                    return None
                if found[0] != here:
                    continue
            else:
                found = self.find(first, at, opens=True, closes=bool(last) or not suffix)
                if found is None:
                    return None
                at = found[0] + 1
            end = self.end(found, last, suffix)
            if end is not None:
                return found[0], end

    def end(self, found: tuple[int, int], last: str, suffix: str) -> int | None:
        """The end of the passage that starts at `found`, if its other terms match."""
        at = found[1]
        while True:
            match = self.find(last, at, opens=True, closes=not suffix) if last else found
            if match is None or not suffix:
                return match and match[1]
            here = self.after(match[1])
            context = self.find(suffix, here, opens=False, closes=True)
            if context is not None and context[0] == here:
                return match[1]
            if context is None or not last:
                return None
            at = match[0] + 1

    def find(self, term: str, at: int, *, opens: bool, closes: bool) -> tuple[int, int] | None:
        """The first match of a term within a block."""
        pattern = re.compile(r"[ \t\n]+".join(map(re.escape, plain(term).split(" "))))
        text = plain(self.page)
        for start, end in self.blocks():
            place = max(at, start)
            while match := pattern.search(text, place, end):
                if (not opens or self.breaks(match.start())) and (not closes or self.breaks(match.end())):
                    return match.span()
                place = match.start() + 1
        return None

    def blocks(self) -> Iterator[tuple[int, int]]:
        start = 0
        for gap in re.finditer(self.gap, self.page):
            yield start, gap.start()
            start = gap.end()
        yield start, len(self.page)

    def after(self, at: int) -> int:
        return at + len(self.page[at:]) - len(self.page[at:].lstrip())

    def breaks(self, at: int) -> bool:
        around = [self.page[place : place + 1] if place >= 0 else "" for place in range(at - 2, at + 2)]
        near = wordy(around[1]) and wordy(around[2])
        if self.strict:
            before = wordy(around[0]) and around[1] in JOINERS and wordy(around[2])
            after = wordy(around[1]) and around[2] in JOINERS and wordy(around[3])
            return not (near or before or after)
        return not (near and around[1].isascii() and around[2].isascii())


def wordy(text: str) -> bool:
    return text.isalnum() or (text != "" and unicodedata.category(text)[0] == "M")


def plain(text: str) -> str:
    """Fold case and remove marks, character by character."""

    def base(character: str) -> str:
        folded = unicodedata.normalize("NFKD", character)[0].casefold()
        return folded if len(folded) == 1 else character

    return "".join(map(base, text))


def parsed(fragment: str) -> tuple[str, str, str, str]:
    assert fragment.startswith("#:~:text=")
    assert fragment.isascii()
    parts = fragment.removeprefix("#:~:text=").split(",")
    prefix = unquote(parts.pop(0)[:-1]) if parts[0].endswith("-") else ""
    suffix = unquote(parts.pop()[1:]) if parts[-1].startswith("-") else ""
    assert len(parts) in {1, 2}
    assert all("-" not in part and re.fullmatch(r"[\w.~%]+", part, re.ASCII) for part in parts)
    terms = [unquote(part, errors="strict") for part in parts]
    return prefix, terms[0], terms[1] if len(terms) > 1 else "", suffix
