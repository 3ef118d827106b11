"""What pullquote reads of HTML pages, next to what a browser shows: Chromium's `innerText`.

Both get the same source without style sheets and scripts, with all `details` open. Prints where the words or the breaks
between them differ, and a summary. bench/notes/inner_text.md says which kinds of differences are meant.

    python -m bench.inner_text PAGE.html ...    # without pages: those of the tests
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from pullquote import Highlighter

PAGES = sorted(Path("tests/data/short_questions/pages").glob("*.html"))
SHOWN = """() => {
    for (const style of document.querySelectorAll("style, link")) style.remove();
    for (const details of document.querySelectorAll("details")) details.open = true;
    return document.body.innerText;
}"""
BREAKS = {"\n": "line", "\t": "cell", " ": "space"}


def words(text: str) -> list[tuple[str, str]]:
    """Each word with the break before it: `line`, `cell` or `space`."""
    found = []
    for gap, word in re.findall(r"(\s*)(\S+)", text):
        found.append((next((name for mark, name in BREAKS.items() if mark in gap), "space"), word))
    return found


def differences(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Kind of each difference, and both texts."""
    matcher = difflib.SequenceMatcher(None, [word for _, word in ours], [word for _, word in theirs], autojunk=False)
    found = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            texts = [" ".join(word for _, word in side) for side in (ours[a:b], theirs[c:d])]
            fused = texts[0].replace(" ", "") == texts[1].replace(" ", "")
            found.append(("spaces" if fused else "words", texts[0], texts[1]))
            continue
        for (own, word), (other, _) in zip(ours[a + 1 : b], theirs[c + 1 : d], strict=True):
            if own != other:
                found.append((f"{own} for {other}", word, word))
    return found


def shown(page: Page, source: str) -> str:
    """The text that Chromium shows."""
    page.set_content(source, wait_until="commit")
    text: str = page.evaluate(SHOWN)
    return text


def main() -> None:
    """Compares pages, and prints the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--show", type=int, default=5, help="differences of each kind and page to print")
    options = parser.parse_args()
    highlighter = Highlighter(devices="cpu", threads=1)
    total: dict[str, int] = {}
    count = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_context(java_script_enabled=False, offline=True).new_page()
        for path in options.pages:
            source = path.read_text(encoding="utf-8", errors="replace")
            ours = words(highlighter.highlights("x", [source], format="html").texts[0])
            count += len(ours)
            kinds: dict[str, int] = {}
            for kind, own, other in differences(ours, words(shown(page, source))):
                kinds[kind] = kinds.get(kind, 0) + 1
                total[kind] = total.get(kind, 0) + 1
                if kinds[kind] <= options.show:
                    print(f"{path.name}: {kind}: {own[:100]!r}, Chromium {other[:100]!r}")
    print(f"{len(options.pages)} pages, {count:,} words: {total}")


if __name__ == "__main__":
    main()
