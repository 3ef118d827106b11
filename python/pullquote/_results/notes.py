"""Why a call has no answer, in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullquote import _native
from pullquote._results.highlight import Highlight

__all__ = ["BUDGETS", "named_budgets", "note"]

# Options that may leave out every passage of a page that has some.
BUDGETS = ("max_chars", "max_tokens", "max_total_chars", "max_total_tokens")


def note(options: Mapping[str, Any], windows: int, found: Sequence[Highlight]) -> str:
    """Why none of these passages, of pages with this number of windows, answers the query; ``""`` if one does."""
    if any(highlight.score >= _native.ANSWERED for highlight in found):
        return ""
    if found:
        return "no passage says it in these words"
    if not windows:
        return "there is no text"
    if options.get("min_score"):
        return f"no passage reaches min_score={options['min_score']}"
    if budgets := named_budgets(options):
        return f"no passage is within {budgets}"
    return "no passage"


def named_budgets(options: Mapping[str, Any]) -> str:
    """The budgets of a call, as they were passed."""
    return ", ".join(f"{name}={options[name]}" for name in BUDGETS if options.get(name) is not None)
