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
    paths = sorted(PAGES.glob("*.en.txt"))
    pages = [path.read_text(encoding="utf-8") for path in paths]
    found = pullquote.highlights(question, pages, max_total_tokens=MAX_TOKENS, effort="fast")
    passages = sorted((one for page in found for one in page), key=lambda one: -one.score)

    numbered = (f"[{number}] {paths[one.page].name}: {one.text}" for number, one in enumerate(passages, 1))
    print(PROMPT.format(passages="\n\n".join(numbered), question=question))
    for number, one in enumerate(passages, 1):
        # A citation that cannot be wrong: the page has these characters.
        assert pages[one.page][one.start : one.end] == one.text
        print(f"[{number}] {paths[one.page].name}, characters {one.start} to {one.end}, score {one.score:.2f}")


if __name__ == "__main__":
    main()
