"""Writes `tests/data/quotes.jsonl`: quotes of the demo's pages, damaged in named ways, and quotes that are not there.

Run it as ``python -m tests.python.support.damaged_quotes`` after changing a damage. The lines with a ``text`` instead of a page
are written by hand, in `quotes_by_hand.jsonl`.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "demo/pages"
DATA = ROOT / "tests/data"
LIGATURES = {"ffi": "ﬃ", "fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀ"}
SENTENCES = re.compile(r"[A-ZÄÖÜ][^.!?\n|`]{60,180}[.!?](?=\s)")


def _every(text: str, step: int, change: Callable[[str], str]) -> str:
    """Changes one word in each `step`."""
    words = text.split(" ")
    return " ".join(change(word) if number % step == step - 1 else word for number, word in enumerate(words))


def _ligatures(text: str) -> str:
    for letters, ligature in LIGATURES.items():
        text = text.replace(letters, ligature)
    return text


def _swap(word: str) -> str:
    return word[:2] + word[3] + word[2] + word[4:] if len(word) > 5 and word.isalpha() else word


def _wrap(text: str, end: str) -> str:
    return re.sub(r"(.{30,45}?)\s", rf"\1{end}", text)


def _hyphenate(text: str) -> str:
    return re.sub(r"\b([a-zäöü]{4})([a-zäöü]{4,})\b", r"\1-\n\2", text, count=3)


def _elide(dots: str) -> Callable[[str], str]:
    def elide(text: str) -> str:
        words = text.split(" ")
        third = len(words) // 3
        return " ".join([*words[:third], dots, *words[2 * third :]])

    return elide


def _without_word(text: str) -> str:
    words = text.split(" ")
    at = next(at for at in range(3, len(words)) if words[at].islower() and words[at].isalpha() and len(words[at]) > 2)
    return " ".join(words[:at] + words[at + 1 :])


EXACT: dict[str, Callable[[str], str]] = {
    "white space": lambda text: text.replace(" ", " \u00a0 ", 4).replace(" ", "\t", 1),
    "quotation marks": lambda text: "„" + text.replace('"', "“").replace("'", "’") + "“",
    "dashes": lambda text: text.replace(", ", " — ").replace("-", "\u2011"),
    "case": str.upper,
    "line wraps": lambda text: _wrap(text, "\n"),
    "line wraps in a quote": lambda text: "> " + _wrap(text, "\n> "),
    "hyphenation": _hyphenate,
    "bold and italics": lambda text: _every(text, 4, lambda word: f"**{word}**").replace(" the ", " _the_ "),
    "links": lambda text: _every(text, 5, lambda word: f'[{word}](https://a.example/x_(y)?z=1 "title")'),
    "heading": lambda text: f"## {text}",
    "list mark": lambda text: f"- {text}",
    "tags": lambda text: "<p class='a'>" + _every(text, 4, lambda word: f"<b>{word}</b>") + "</p>",
    "entities": lambda text: html.escape(text).replace(" ", "&nbsp;", 3).replace("e", "&#101;", 2),
    "ligatures": _ligatures,
    "decomposed characters": lambda text: unicodedata.normalize("NFD", text),
    "full width": lambda text: _every(
        text, 6, lambda word: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in word)
    ),
    "zero-width characters": lambda text: _every(text, 2, lambda word: "\u200b" + word[:1] + "\u00ad" + word[1:]),
    "ellipsis": _elide("…"),
    "ellipsis in brackets": _elide("[...]"),
    "footnote numbers": lambda text: _every(text, 7, lambda word: word + "[12]").removesuffix(".") + ".¹",
    "punctuation": lambda text: text.replace(",", "").removesuffix("."),
    "cut within words": lambda text: text[2:-3],
}
NEAR: dict[str, Callable[[str], str]] = {
    "misspelling": lambda text: _every(text, 9, _swap),
    "word less": _without_word,
    "word more": lambda text: _every(text, len(text.split(" ")) - 2, lambda word: f"{word} quite"),
}


def _sentences() -> dict[str, list[str]]:
    """Sentences of each page that stand in it once."""
    pages = {path.name: path.read_text() for path in sorted(PAGES.iterdir()) if path.name != "README.md"}
    return {
        name: [found for found in SENTENCES.findall(text) if text.count(found) == 1 and "](" not in found]
        for name, text in pages.items()
    }


def damaged() -> Iterator[dict[str, Any]]:
    """Damaged quotes, each with the damage's name, its status, and the sentence that it comes from."""
    every = [(page, text) for page, all_of_it in _sentences().items() for text in all_of_it]
    kinds = [(name, "exact", change) for name, change in EXACT.items()] * 2
    kinds += [(name, "near", change) for name, change in NEAR.items()] * 6
    for number, (damage, status, change) in enumerate(kinds):
        start = number * 37 % len(every)
        for page, text in every[start:] + every[:start]:
            if (quote := change(text)) != text:
                yield {"page": page, "quote": quote, "damage": damage, "status": status, "sentence": text}
                break


def absent() -> Iterator[dict[str, Any]]:
    """Sentences of other pages, and sentences with another number, negation, word or name."""
    sentences = _sentences()
    every = [(page, text) for page, all_of_it in sentences.items() for text in all_of_it]
    changes: dict[str, tuple[str, Callable[[re.Match[str]], str]]] = {
        "number": (r"\b\d{2,4}\b", lambda found: str(int(found[0]) + 10)),
        "negation": (r"\b(was|is|were|are|ist|sind|can|had)\b", lambda found: f"{found[0]} not"),
        "another word": (r"(?<=the )[a-z]{6,}\b", lambda _: "umbrella"),
        "another name": (r"(?<=\w )(Luther|Apollo|NASA|Saturn|Ukraine|America)\b", lambda _: "Petrarca"),
    }
    for damage, (pattern, change) in changes.items():
        fitting = [(page, text) for page, text in every if re.search(pattern, text)]
        for page, text in fitting[:: max(len(fitting) // 7, 1)][:7]:
            quote = re.sub(pattern, change, text, count=1)
            yield {"page": page, "quote": quote, "damage": damage, "status": "none", "sentence": text}
    names = [name for name in sentences if sentences[name]]
    for number in range(12):
        page, other = names[number % len(names)], names[(number + 1) % len(names)]
        quote = sentences[other][number % len(sentences[other])]
        yield {"page": page, "quote": quote, "damage": "sentence of another page", "status": "none", "sentence": ""}


def main() -> None:
    """Write the file."""
    lines = [json.dumps(case, ensure_ascii=False) for case in (*damaged(), *absent())]
    (DATA / "quotes.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
