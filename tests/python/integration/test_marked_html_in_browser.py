"""`marked_html` in a browser: the page has the same tree, but for the marks."""

import pytest
from playwright.sync_api import Page

from pullquote import Highlighter
from support.browser_helpers import needs_browser
from support.html_pages import HARD_PAGE, HTML_PAGES, without_space

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

# Parses the page and the marked page, unwraps the marks, and returns both trees and the text in marks.
COMPARED = """([source, marked]) => {
    const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
    const [before, after] = [parsed(source), parsed(marked)];
    const found = [...after.querySelectorAll("mark.found")];
    const text = found.map((mark) => mark.textContent);
    const whole = found.every((mark) => [...mark.childNodes].every((node) => node.nodeType === Node.TEXT_NODE));
    for (const mark of found) mark.replaceWith(...mark.childNodes);
    for (const tree of [before, after]) tree.normalize();
    return [before.documentElement.outerHTML, after.documentElement.outerHTML, text, whole];
}"""


@pytest.mark.parametrize("source", [HARD_PAGE, *(path.read_text(encoding="utf-8") for path in HTML_PAGES)])
def test_marked_html_has_the_tree_of_its_source(page: Page, highlighter: Highlighter, source: str) -> None:
    found = highlighter.highlights("How far is the moon, and how is it installed?", [source], format="html", top_k=12)
    marked = found.marked_html(0, '<mark class="found">')
    before, after, texts, is_whole = page.evaluate(COMPARED, [source, marked])
    assert before == after
    assert is_whole
    assert texts
    shown = without_space(found.texts[0])
    assert all(without_space(text) in shown for text in texts)
