"""`marked_html`: the caller's HTML with marks in it, and otherwise the same page."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullquote import Client, Highlighter, Highlights, errors
from support.html_pages import HARD_PAGE, HTML_PAGES, Nodes, without_space
from support.messages import raises
from support.server_process import ServerProcess

PRE = '<mark class="found">'
QUERY = "How far is the moon?"


def check_marks(found: Highlights, source: str, *, words: bool | None = None) -> str:
    """The marked page, after comparing it with its source."""
    marked = found.marked_html(0, PRE, words=words)
    nodes = Nodes(marked, PRE)
    assert nodes.parts == Nodes(source, PRE).parts
    assert marked.replace(f"{PRE}", "").count("</mark>") - source.count("</mark>") == len(nodes.marked)
    assert all(text.strip() for text in nodes.marked)
    # A select's options are read and not marked: browsers show no elements in them.
    if not words and "<option" not in source:
        in_order = sorted(found.best(), key=lambda one: one.start)
        assert without_space("".join(nodes.marked)) == without_space("".join(one.text for one in in_order))
    return marked


@pytest.mark.parametrize("path", HTML_PAGES, ids=lambda path: path.name)
def test_marked_html_keeps_pages_of_the_web(highlighter: Highlighter, path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for query in ("How do I install it?", "opening hours and prices", "What does the option do?"):
        found = highlighter.highlights(query, [source], format="html", top_k=8)
        assert found[0]
        assert "<mark" in check_marks(found, source)
    found = highlighter.highlights("install option hours page", [source], format="html", top_k=8, explain=True)
    check_marks(found, source, words=True)


def test_marked_html_is_around_shown_text_only(highlighter: Highlighter) -> None:
    found = highlighter.highlights(QUERY, [HARD_PAGE], format="html", highlight_length=1, top_k=50, dedupe="none")
    marked = found.marked_html(0)
    assert marked.replace("<mark>", "").replace("</mark>", "") == HARD_PAGE.replace("<mark>", "").replace("</mark>", "")
    for part in (
        "<p><mark>The </mark><b><mark>moon</mark></b><mark> is </mark><i><mark>384,400&nbsp;km</mark></i><mark> away</mark>"
        "<!-- The moon is near --><mark> &amp far</mark><br><mark>from\n   here </mark><a href=/m?moon&amp;x=1>"
        '<mark>1 < 2</mark></a> <img alt="moon"> <mark>&lt;mark&gt;</mark><p hidden>The moon is hidden.',
        "<tr> <td><mark>The moon</mark> <td><mark>384,400 km</mark> <tr>",
        "</table>\n<pre>\n <mark>The moon = 384400\n\n km</mark></pre><textarea>The moon is <b>far</b>.</textarea>",
        "<select><option>The moon<option>Tides</select><svg><text>The moon is far.</text></svg><xmp>The <b>moon</b> is far.</xmp>",
        "<math><mi>far</mi></math>",
    ):
        assert part in marked


MARKUP = [
    "<b>",
    "</b>",
    "<p>",
    "</p>",
    "<br>",
    "<li>",
    "<td>",
    "<table>",
    "</table>",
    "<pre>",
    "</pre>",
    "<i title='moon'>",
]
TEXTS = ["The moon. ", "&amp;", "&lt", "< ", "\n\n", "漢字。", "é 🌕 ", "<!-- moon -->", "<script>moon</script>"]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*MARKUP, *TEXTS]), max_size=16), st.integers(1, 3))
def test_marked_html_of_any_markup_changes_no_node(highlighter: Highlighter, parts: list[str], length: int) -> None:
    source = "".join(parts)
    found = highlighter.highlights(["moon", "漢字 far"], [source], format="html", highlight_length=length, fuse=True)
    check_marks(found, source)


def test_marked_html_takes_ids_and_words(highlighter: Highlighter) -> None:
    source = "<h1>Caf&eacute;</h1><p>The <b>moon</b> is far.</p>"
    found = highlighter.highlights(
        QUERY, {"a": source, "b": "Bread is baked."}, highlight_length=1, explain=True, top_k=1
    )
    expected = "<h1>Caf&eacute;</h1><p>The <b><mark>moon</mark></b> is <mark>far</mark>.</p>"
    assert found.marked_html("a") == found.marked_html(0, words=True) == expected
    assert pickle.loads(pickle.dumps(found)).marked_html("a") == expected  # noqa: S301 - our own
    whole = "<p><mark>The </mark><b><mark>moon</mark></b><mark> is far.</mark></p>"
    assert whole in found.marked_html(0, words=False)
    with raises(errors.InvalidArgumentError, "page 1", "text", "marked(1)"):
        found.marked_html("b")
    for wrong in ("<b>", "mark", "<marks>"):
        with raises(errors.InvalidArgumentError, "pre", repr(wrong)):
            found.marked_html(0, wrong)
    with raises(errors.InvalidArgumentError, "words=True"):
        highlighter.highlights(QUERY, [source]).marked_html(0, words=True)


def test_marked_html_of_a_client_is_of_what_it_sent(server: ServerProcess, highlighter: Highlighter) -> None:
    with Client(server.url) as client:
        options: dict[str, Any] = {"format": "html", "top_k": 2}
        here = highlighter.highlights(QUERY, [HARD_PAGE], **options)
        assert client.highlights(QUERY, [HARD_PAGE], **options).marked_html(0) == here.marked_html(0)
        files = {"moon.html": HARD_PAGE.encode()}
        there = client.highlights(QUERY, files=files, return_texts=True)
        with raises(errors.InvalidArgumentError, "on the server"):
            there.marked_html(0)
