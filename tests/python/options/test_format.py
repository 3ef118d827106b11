"""`format`: Markdown and HTML by structure, with offsets into the source."""

import html.parser
from typing import Any

from pullquote import Highlighter, errors
from support.messages import raises

HTML = """<!doctype html>
<html><head><title>The bakery &amp; its prices</title><style>p { color: red }</style></head>
<body><nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<h1>The bakery</h1>
<p>Bread is baked from <b>flour</b>, water &amp; salt.
   The dough rests for an&nbsp;hour.</p>
<script>var bread = "nobody reads this";</script>
<ul><li>Open from seven.<li>Closed on Sundays &ndash; and in August.</ul>
<table><tr><th>what<th>price<tr><td>bread<td>3&euro;<tr><td>cake<td>5&euro;</table>
<p hidden>Secret bread.</p>
</body></html>
"""
MARKDOWN = """---
title: Bread
---

# Baking

Bread is baked from flour. See [the whole recipe. It is long](https://example.org/a.b) for more.

| what | price |
|------|-------|
| cake | 5     |

```python
bake(bread)
```
"""


def test_format_html_reads_visible_text_with_source_offsets(highlighter: Highlighter) -> None:
    result = highlighter.highlights("What is bread baked from?", [HTML], format="html", top_k=9)
    text = result.texts[0]
    assert result.formats == ["html"]
    assert "Bread is baked from flour, water & salt. The dough rests for an\xa0hour." in text
    for hidden in ("nobody reads this", "Secret", "color", "<", "title"):
        assert hidden not in text
    for highlight in result[0]:
        assert text[highlight.start : highlight.end] == highlight.text
        assert without_tags(HTML[highlight.source_start : highlight.source_end]) == "".join(highlight.text.split())
    best = result[0][0]
    assert "flour, water & salt." in best.text
    assert HTML[best.source_start :].startswith(("<h1>The", "The bakery", "Bread is", "<p>Bread"))


def without_tags(source: str) -> str:
    """The text of a part of HTML by Python's parser, without white space."""
    read = []

    class Reader(html.parser.HTMLParser):
        def handle_data(self, data: str) -> None:
            read.append(data)

    reader = Reader(convert_charrefs=True)
    reader.feed(source)
    reader.close()
    return "".join("".join(read).split())


def test_format_html_table_keeps_header(highlighter: Highlighter) -> None:
    found = highlighter.highlights("What is the price of cake?", [HTML], format="html", top_k=1, highlight_length=1)
    assert found[0][0].text == "what\tprice\nbread\t3€\ncake\t5€"


def test_format_markdown_keeps_links_and_code_whole(highlighter: Highlighter) -> None:
    result = highlighter.highlights("Where is the recipe?", [MARKDOWN], format="markdown", top_k=9, highlight_length=1)
    assert result.texts == [MARKDOWN]
    assert result.formats == ["markdown"]
    texts = [highlight.text for highlight in result[0]]
    assert "See [the whole recipe. It is long](https://example.org/a.b) for more." in texts
    assert "```python\nbake(bread)\n```" in texts
    assert "| what | price |\n|------|-------|\n| cake | 5     |" in texts
    assert all((h.source_start, h.source_end) == (h.start, h.end) for h in result[0])


def test_format_auto_detects_each_page(highlighter: Highlighter) -> None:
    plain = "Bread is baked. See vector<int> and <foo@example.org>."
    result = highlighter.highlights("bread", [HTML, MARKDOWN, plain], format="auto", top_k=1)
    assert result.formats == ["html", "markdown", "text"]
    assert highlighter.highlights("bread", [HTML], format="text", top_k=1).formats == ["text"]


def test_format_of_each_page(highlighter: Highlighter) -> None:
    pages = {"as text": MARKDOWN, "as itself": MARKDOWN, "a page": HTML}
    found = highlighter.highlights("bread", pages, format=["text", "markdown", "auto"], top_k=1)
    assert found.formats == ["text", "markdown", "html"]
    for page, one in (("as text", "text"), ("as itself", "markdown"), ("a page", "html")):
        alone: Any = one
        assert found[page][0].text == highlighter.highlights("bread", [pages[page]], format=alone, top_k=1)[0][0].text
    for wrong, names in (
        (["text"], ["format", 1, 3]),
        (["text", "latex", "html"], ["format[1]", "latex", "markdown"]),
        (["text", "pdf", "html"], ["format[1]", "pdf", "pullquote.documents.read"]),
    ):
        with raises(errors.InvalidArgumentError, *names):
            highlighter.highlights("bread", pages, format=wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_format_html_uses_page_title(highlighter: Highlighter) -> None:
    page = "<title>{}</title><p>He was born near the river, and raised by his mother alone."
    pages = [page.format("Genghis Khan"), page.format("Napoleon")]
    found = highlighter.highlights("When was Napoleon born?", pages, format="html", top_k=1)
    assert found[1][0].score > 1.3 * found[0][0].score


def test_text_fragment_and_selectors_of_highlight(highlighter: Highlighter) -> None:
    result = highlighter.highlights("How long does the dough rest?", [HTML], format="html", top_k=1, highlight_length=1)
    best = result[0][0]
    fragment = result.text_fragment(best)
    assert fragment.startswith("#:~:text=")
    quote, position = result.selectors(best)
    assert (quote["type"], quote["exact"]) == ("TextQuoteSelector", best.text)
    assert (position["start"], position["end"]) == (best.start, best.end)
    assert result.texts[0][best.start - len(quote["prefix"]) : best.start] == quote["prefix"]


def test_unknown_format_is_error(highlighter: Highlighter) -> None:
    with raises(errors.InvalidArgumentError, "format", "latex", "text", "markdown", "html", "auto"):
        highlighter.highlights("bread", ["text"], format="latex")  # type: ignore[arg-type]  # wrong on purpose
    with raises(errors.InvalidArgumentError, "format", "pdf", "pullquote.documents.read"):
        highlighter.highlights("bread", ["text"], format="pdf")  # type: ignore[arg-type]  # wrong on purpose
