"""Retrieval-augmented generation with citations, without a key: the prompt that a model would get is printed.

Usage: ``python examples/rag_with_citations.py [QUESTION]``

Instead of whole pages or fixed chunks, the prompt has the passages that answer, each with a number. The model cites the numbers,
and each leads back to exact characters of a page.
"""

import sys
from pathlib import Path

import pullquote

PAGES = Path(__file__).parents[1] / "demo" / "pages"
QUESTION = "What did Luther's translation of the Bible do for the German language?"
MAX_TOKENS = 250

PROMPT = """Answer the question from the passages alone. After each statement, cite its passage as [number]. If the passages do
not answer it, say so.

{passages}

Question: {question}
"""


def main() -> None:
    """Print the prompt, and then the passage of each number."""
    question = sys.argv[1] if len(sys.argv) > 1 else QUESTION
    pages = {path.name: path for path in sorted(PAGES.glob("*.en.txt"))}
    found = pullquote.highlights(question, pages, max_total_tokens=MAX_TOKENS, min_score="auto")
    print(PROMPT.format(passages=found.prompt(), question=question))
    # Of an answer, `found.resolve_all(answer)` has the passages of its numbers.
    for number, one in enumerate(found.best(), 1):
        # A citation that cannot be wrong: the page has these characters.
        assert pages[one.id].read_text(encoding="utf-8")[one.start : one.end] == one.text
        print(f"[{number}] {one.id}, characters {one.start} to {one.end}, score {one.score:.2f}")


if __name__ == "__main__":
    main()
