"""Pages of HTML that their authors wrote, and what tests read of one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[3]
HTML_PAGES = [*sorted((ROOT / "tests/data/short_questions/pages").glob("*.html")), ROOT / "rust/server/page/index.html"]
# Text between elements, references, white space of all kinds, unclosed, void and hidden elements, and text that only looks like
# markup.
HARD_PAGE = """<!doctype html><title>The moon & <b></title><style>p { color: red } /* moon */</style>
<body data-moon="The moon > far"><p>The <b>moon</b> is <i>384,400&nbsp;km</i> away<!-- The moon is near --> &amp far<br>from
   here <a href=/m?moon&amp;x=1>1 < 2</a> <img alt="moon"> &lt;mark&gt;<p hidden>The moon is hidden.
<ul><li>The moon <mark>pulls</mark> the sea<li>twice a <wbr>day.</ul>
<table><tr> <td>The moon <td>384,400 km <tr><th>Tides<td>twice a day</table>
<pre>
 The moon = 384400

 km</pre><textarea>The moon is <b>far</b>.</textarea><script>if (moon < far) { "The <b>moon</b> is far" }</script>
<select><option>The moon<option>Tides</select><svg><text>The moon is far.</text></svg><xmp>The <b>moon</b> is far.</xmp>
<p>The &eacute;clipse of the moon 🌕 is <math><mi>far</mi></math> <ruby>月<rt>moon</ruby>"""


class Nodes(HTMLParser):
    """The parts of a page but for marks that the page did not have: tags and comments as they are written, and text between.

    `marked` is the text within each of those marks. Fails on such a mark that is not closed, or that contains a tag.
    """

    def __init__(self, source: str, pre: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.marked: list[str] = []
        self._pre, self._in_mark, self._joins = pre, False, False
        self.feed(source)
        self.close()
        assert not self._in_mark

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the base's
        assert not self._in_mark
        if self.get_starttag_text() == self._pre:
            self._in_mark = True
            self.marked.append("")
        else:
            self._add(f"<{self.get_starttag_text()}>")

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        if self._in_mark:
            assert tag == "mark"
            self._in_mark = False
        else:
            self._add(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._in_mark:
            self.marked[-1] += data
        if self._joins:
            self.parts[-1] += data
        else:
            self.parts.append(data)
        self._joins = True

    def handle_comment(self, data: str) -> None:
        self._add(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._add(f"<!{decl}>")

    def _add(self, part: str) -> None:
        assert not self._in_mark
        self.parts.append(part)
        self._joins = False


def without_space(text: str) -> str:
    return re.sub(r"\s+", "", text)
