"""Where a quote stands in a page, although the writing of both differs."""

from pullquote import _native
from pullquote._native import Difference, Located, Place
from pullquote._request.signatures import checked

__all__ = ["Difference", "Located", "Place", "locate"]


@checked
def locate(page: str, quote: str, *, timeout: float | None = None) -> Located:
    """Find where a quote stands in a page: plain text, Markdown or HTML. Needs no model.

    The result's `status` is:

    - ``"exact"``: word for word. White space, case, quotation marks, dashes, other punctuation, line wraps, markup of Markdown
      and HTML, references such as ``&amp;``, ligatures, Unicode forms, zero-width characters, and numbers of footnotes may
      differ, and numbers are compared by value. ``…``, ``...`` or ``[...]`` in the quote stands for up to 2,000 bytes. The
      first and the last word of a long quote may be cut.
    - ``"near"``: with a misspelt word, and another one for each 4 words; or with a word more or less, and another one for each 12.
    - ``"none"``: not there. If a passage is like the quote but has another number, word or negation, or more words differ, it is
      `nearest`, and its `differences` say what differs.

    A result is true if the quote stands in the page. Time is linear in the page.

    Raises `InvalidArgumentError` for a quote without a letter or digit, or with more than 20,000 of these, `InvalidTypeError`
    and `InvalidTextError` for what is no text, and `DeadlineExceededError` after `timeout` seconds.

    >>> page = "The Moon is **384,400 km** away.[1] It is white."
    >>> located = locate(page, "the moon is 384400\u00a0km away")
    >>> located.status, page[located.places[0].start : located.places[0].end]
    ('exact', 'The Moon is **384,400 km** away')
    >>> other = locate(page, "The Moon is 400,400 km away.")
    >>> bool(other), [(one.kind, one.quote, one.page) for one in other.nearest.differences]
    (False, [('number', '400,400', '384,400')])
    """
    return _native.locate(page, quote, timeout)
