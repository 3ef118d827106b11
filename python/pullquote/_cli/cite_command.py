"""``pullquote cite``: what supports each sentence of a written text."""

from __future__ import annotations

import argparse
import json
import sys

from pullquote._cli.documents import read_file
from pullquote._cli.fetch import is_address, read_address
from pullquote._cli.source import EXIT_NO_INPUT, call_timeout, complain, highlighter_or_client
from pullquote._results.cited import Cited, CitedSentence, SourceMarker
from pullquote._results.terminal import Style
from pullquote.errors import PullquoteError

__all__ = ["add_options", "run"]

# As of grep.
EXIT_UNSUPPORTED = 1
MARKS = {"full": "✓", "partial": "~", "none": "✗"}
STATUS = {
    "partial": "its page supports a part of the sentence",
    "other_page": "its page does not support the sentence, another one does",
    "unsupported": "its page does not support the sentence",
    "unknown": "there is no such source",
}


def add_options(cite: argparse.ArgumentParser) -> None:
    """Add the command's own options."""
    cite.add_argument("answer", metavar="ANSWER", help="file with the text to check; - is standard input")
    cite.add_argument(
        "files",
        nargs="+",
        metavar="SOURCE",
        help="page, or the https:// address of one; [1] is the first, its name is its id",
    )
    cite.add_argument(
        "--exit-zero",
        action="store_true",
        help="exit with 0 also if a sentence is not fully supported, which is 1 otherwise",
    )


def run(options: argparse.Namespace) -> int:
    """Print each sentence with what supports it, and return the exit code."""
    texts: list[str] = []
    for name in [options.answer, *options.files]:
        try:
            texts.append(read_address(name, options).text if is_address(name) else read_file(name, options.encoding)[0])
        except PullquoteError as error:
            complain(str(error))
            return error.exit_code
        except OSError as error:
            complain(f"{name}: {error.strerror or error}")
            return EXIT_NO_INPUT
    answer, *pages = texts
    with highlighter_or_client(options) as source:
        cited = source.cite(answer, pages, ids=options.files, timeout=call_timeout(options))
    if options.json:
        print(json.dumps(cited.to_dict(), ensure_ascii=False))
    else:
        _show(cited, Style(sys.stdout))
    return 0 if cited.supported or options.exit_zero else EXIT_UNSUPPORTED


def _show(cited: Cited, style: Style) -> None:
    claims = [sentence for sentence in cited.sentences if sentence.support != "no_claim"]
    for sentence in cited.sentences:
        unknown = [marker for marker in sentence.markers if marker.status in STATUS]
        if sentence.support == "no_claim":
            if unknown:
                print(style.wrapped(" ".join(sentence.text.split())))
        else:
            _show_claim(sentence, style)
        for marker in unknown:
            print(f"    {_marker(marker)}")
        if sentence.support != "no_claim" or unknown:
            print()
    full = sum(sentence.support == "full" for sentence in claims)
    print(f"{full} of {len(claims)} sentences that claim something are fully supported")


def _show_claim(sentence: CitedSentence, style: Style) -> None:
    print(style.bold(f"{MARKS[sentence.support]} {' '.join(sentence.text.split())}"))
    if sentence.support == "none":
        print("    no passage supports it")
    if sentence.missing and sentence.support != "full":
        print(f"    in no passage: {', '.join(f'{fact.kind} {fact.text!r}' for fact in sentence.missing)}")
    for passage in sentence.passages:
        print(f"  {style.dim(f'{passage.score:.3f}  {passage.id}  characters {passage.start}-{passage.end}')}")
        print(style.wrapped(passage.text))


def _marker(marker: SourceMarker) -> str:
    label = "" if marker.label == marker.text[1:-1] else f" ({marker.label})"
    return f"{marker.text}{label}: {STATUS[marker.status]}"
