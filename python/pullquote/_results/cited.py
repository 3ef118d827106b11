"""The result of `cite`: what supports each sentence of a text. The fields are those of `rust/wire/src/citations.rs`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pullquote._results.fields import Breadcrumb

__all__ = ["Cited", "CitedPassage", "CitedSentence", "MissingFact", "SourceMarker"]


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A passage of a page, word for word: ``page[start:end] == text``."""

    text: str
    start: int
    end: int
    page: int
    """Index of the page."""
    id: str | None
    """The page's id as text, if it has one."""
    score: float
    """Probability that the passage alone says the sentence, from 0 to 1."""
    breadcrumbs: tuple[Breadcrumb, ...]
    """What names the passage's subject, outermost first."""
    source_start: int
    """Start in the page's source, which differs for HTML."""
    source_end: int


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A part of a sentence that its passages do not have: ``answer[start:end] == text``."""

    kind: Literal["number", "date", "name", "quote", "negation"]
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceMarker:
    """A marker of a source, such as ``[1]``: ``answer[start:end] == text``. Of ``[1, 2]`` each label is one."""

    text: str
    start: int
    end: int
    label: str
    page: int | None
    """Index of the page that it means, or `None`."""
    status: Literal["supported", "partial", "other_page", "unsupported", "unknown", "no_claim"]
    """Whether its page supports the sentence or a part, only another page does, or none; or there is no such source."""


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence, list item or row of a table: ``answer[start:end] == text``."""

    text: str
    start: int
    end: int
    support: Literal["full", "partial", "none", "no_claim"]
    """``"partial"`` if passages say a part of it, or lack what is `missing`; ``"no_claim"`` if it claims nothing."""
    score: float
    """Probability that the passages together say it, from 0 to 1."""
    passages: tuple[CitedPassage, ...]
    """What supports it, the best first."""
    missing: tuple[MissingFact, ...]
    """What the sentence has and none of its passages."""
    markers: tuple[SourceMarker, ...]


@dataclass(frozen=True, slots=True)
class Cited:
    """A text held against pages. True if every claim in it has full support."""

    sentences: tuple[CitedSentence, ...]

    @property
    def supported(self) -> bool:
        """Whether every claim has full support."""
        return not self.unsupported

    @property
    def unsupported(self) -> tuple[CitedSentence, ...]:
        """The sentences that have none, or only a part."""
        return tuple(each for each in self.sentences if each.support in {"none", "partial"})

    def __bool__(self) -> bool:
        return self.supported

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary, as `POST /cite` returns it."""
        sentences = [_lists(asdict(each)) for each in self.sentences]
        return {"supported": self.supported, "sentences": sentences, "offsets": "codepoint"}

    @classmethod
    def of_json(cls, answer: str) -> Cited:
        """Made of what `_native` returns."""
        return cls(tuple(_sentence(each) for each in json.loads(answer)["sentences"]))


def _sentence(fields: dict[str, Any]) -> CitedSentence:
    passages = tuple(
        CitedPassage(**each | {"breadcrumbs": tuple(Breadcrumb(**one) for one in each["breadcrumbs"])})
        for each in fields["passages"]
    )
    missing = tuple(MissingFact(**each) for each in fields["missing"])
    markers = tuple(SourceMarker(**each) for each in fields["markers"])
    return CitedSentence(**fields | {"passages": passages, "missing": missing, "markers": markers})


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(each) for name, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, (list, tuple)) else value
