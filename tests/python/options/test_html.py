"""Passages of HTML: what belongs together by its elements stays together."""

import pytest

from pullquote import Highlighter

QUESTIONS = [
    ("How do I reset it", "Hold the key for five seconds."),
    ("Is it waterproof", "No, keep it away from rain."),
    ("Where can I buy parts", "From our shop in Leeds."),
]
SHAPES = {
    "accordion": "<div><button aria-expanded=false>{q}</button><div><p>{a}</p></div></div>",
    "accordion by class": "<button class=accordion>{q}</button><div class=panel><p>{a}</p></div>",
    "button in heading": "<h3><button type=button><span>{q}</span><svg></svg></button></h3><div>{a}</div>",
    "button in term": "<dl><dt><button>{q}</button></dt><dd>{a}</dd></dl>",
    "button in item": "<li><button aria-expanded=true>{q}?</button><p>{a}</p></li>",
    "lone button": "<button>{q}?</button><div><p>{a}</p></div>",
    "details": "<details><summary>{q}</summary><p>{a}</p></details>",
    "heading in summary": "<details><summary><h3>{q}</h3></summary>{a}</details>",
    "bold question": "<p><b>{q}?</b><br>{a}</p>",
    "bold line": "<p><b>{q}</b><br>\n{a}</p>",
    "bold paragraph": "<p><strong>{q}</strong></p><p>{a}</p>",
    "paragraph in term": "<dl><dt><p>{q}</p></dt><dd><div><p>{a}</p></div></dd></dl>",
    "group in list of terms": "<dl><div><dt>{q}</dt><dd><p>{a}</p></dd></div></dl>",
    "behind a dialog": "<main aria-hidden=true><h3>{q}</h3><p>{a}</p></main>",
}
SAYING = "We shall build the bridge before the winter."
WHO = "Who said that the bridge shall be built before the winter?"
TOWNS = "<tr><th>Town</th><th>People</th></tr>" + "".join(f"<tr><td>Town {i}<td>{i}00</tr>" for i in range(4))
OPTIONS = (
    "<p>Options of the tool.</p><dl><dt><code>--verbose</code></dt><dd><p>Prints each file.</p><pre>tool --verbose</pre></dd>"
    "<dt><code>--quiet</code></dt><dd><div>Prints nothing at all.</div></dd></dl>"
)
PRICES = "".join(f"<tr><td>Item {i}<td><ul><li>{i}5<li>{i}7</ul><td><p>{i}9</p></tr>" for i in range(60))
# The query, the page, what the best passage contains with the names of its columns, and what it does not.
PASSAGES = {
    "caption": (
        "number of people by town",
        f"<p>Intro.</p><table><caption>Number of people by town</caption>{TOWNS}</table><p>End.</p>",
        ["Number of people by town", "Town 1"],
        ["End."],
    ),
    "caption of figure below table": (
        "number of people by town",
        f"<p>Intro.</p><figure><table>{TOWNS}</table><figcaption>Number of people by town</figcaption></figure><p>End.</p>",
        ["Number of people by town", "Town 1"],
        ["End."],
    ),
    "caption of figure below code": (
        "listing of the files of a folder",
        "<p>Before.</p><figure><pre>ls -l</pre><figcaption>Files of a folder</figcaption></figure><p>After.</p>",
        ["ls -l", "Files of a folder"],
        ["After."],
    ),
    "footer of quotation": (
        WHO,
        f"<p>So.</p><blockquote><p>{SAYING}</p><footer>Ann Lee, <cite>Speeches</cite></footer></blockquote><p>It rained.</p>",
        [SAYING, "Ann Lee, Speeches"],
        ["rained"],
    ),
    "caption of quotation": (
        WHO,
        f"<p>So.</p><figure><blockquote>{SAYING}</blockquote><figcaption>Ann Lee</figcaption></figure><p>It rained.</p>",
        [SAYING, "Ann Lee"],
        ["rained"],
    ),
    "cite after line break": (
        WHO,
        f"<p>So.</p><blockquote>{SAYING}<br><cite>Ann Lee</cite></blockquote><p>It rained.</p>",
        [SAYING, "Ann Lee"],
        ["rained"],
    ),
    "cite after paragraph": (
        WHO,
        f"<p>So.</p><blockquote><p>{SAYING}</p><cite>Ann Lee</cite></blockquote><p>It rained.</p>",
        [SAYING, "Ann Lee"],
        ["rained"],
    ),
    "term and code": (
        "What does --verbose do?",
        OPTIONS,
        ["--verbose", "Prints each file.", "tool --verbose"],
        ["nothing"],
    ),
    "term and division": ("What does --quiet do?", OPTIONS, ["--quiet", "Prints nothing at all."], ["each"]),
    "cells with lists": (
        "Item 33",
        f"<table><tr><td><th>Basic<th>Pro</tr>{PRICES}</table>",
        ["\tBasic\tPro", "Item 33\t335\n337\t339"],
        [],
    ),
    "copy button before code": (
        "How do I list files?",
        "<p>To list files, run this.</p><div><button>Copy</button><pre>ls -l</pre></div><p>Done.</p>",
        ["To list files, run this.", "ls -l"],
        ["Copy"],
    ),
    "share button below heading": (
        "When did the bridge open?",
        "<h1>The bridge</h1><button>Share</button><p>It opened in 1932.</p>",
        ["The bridge", "It opened in 1932."],
        ["Share"],
    ),
}


def best(highlighter: Highlighter, query: str, body: str) -> str:
    """The best passage, after the header of its table."""
    found = highlighter.highlights(query, [f"<!doctype html><body>{body}"], format="html", top_k=1)[0]
    return f"{found[0].header or ''}\n{found[0].text}"


@pytest.mark.parametrize("shape", SHAPES)
def test_format_html_question_stays_with_answer(highlighter: Highlighter, shape: str) -> None:
    page = "".join(SHAPES[shape].format(q=question, a=answer) for question, answer in QUESTIONS)
    passage = best(highlighter, "Where can I buy parts?", page)
    assert "Where can I buy parts" in passage
    assert "From our shop in Leeds." in passage
    assert "waterproof" not in passage


@pytest.mark.parametrize("case", PASSAGES)
def test_format_html_passage_has_what_belongs_to_it(highlighter: Highlighter, case: str) -> None:
    query, page, has, lacks = PASSAGES[case]
    passage = best(highlighter, query, page)
    assert [part for part in has if part not in passage] == []
    assert [part for part in lacks if part in passage] == []


def test_format_html_ruby_word_matches(highlighter: Highlighter) -> None:
    page = "<p>その<ruby>表<rt>ひょう</rt>示<rt>じ</rt></ruby>が消えた。</p><p>他の話。</p>"
    found = highlighter.highlights("表示", [page], format="html", top_k=1, explain=True)
    text = found.texts[0]
    assert "表示" in [text[match.start : match.end] for match in found[0][0].matches or []]
