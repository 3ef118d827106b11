"""The demo: several questions to the real pages in ``demo/pages``, and the time of each stage."""

import sys
import time
from pathlib import Path

import pullquote
from pullquote._results.terminal import Style

PAGES = Path(__file__).parent / "pages"
QUESTIONS = {
    "apollo_program.en.txt": "Why was the Apollo 13 landing aborted?",
    "martin_luther.en.txt": "What did Luther's translation of the Bible do for the German language?",
    "state_of_the_union.en.txt": "Which health research agency is supposed to end cancer?",
    "react_effects.en.md": "When does React run my Effect?",
    "rippenquallen.de.txt": "Wie viel Nahrung können Rippenquallen an einem Tag zu sich nehmen?",
    "jeanne_d_arc.ja.txt": "百年戦争は何年に始まりましたか?",
}


def main() -> None:
    """Print the best passages of each page for its question, then those of the English pages for two others."""
    style = Style(sys.stdout)
    began = time.perf_counter()
    with pullquote.Highlighter() as highlighter:
        loaded = time.perf_counter() - began
        print(f"{highlighter} loaded in {loaded:.2f} s\n")
        texts = [(PAGES / name).read_text(encoding="utf-8") for name in QUESTIONS]
        found = highlighter.highlights(list(QUESTIONS.values()), texts, pairing="each", top_k=1, explain=True)
        for (name, question), highlights in zip(QUESTIONS.items(), found, strict=True):
            print(f"{style.bold(question)}  {style.dim(name)}")
            for highlight in highlights:
                print(style.dim(f"  {highlight.score:.3f}  characters {highlight.start}-{highlight.end}"))
                print(style.passage(highlight), end="\n\n")

        english = {name: text for name, text in zip(QUESTIONS, texts, strict=True) if ".en." in name}
        for question in ("Who was burned at the stake?", "How do I reset my password?"):
            print(f"{style.bold(question)}  {style.dim('the English pages, the best passage of each that answers')}")
            answers = highlighter.highlights(question, list(english.values()), top_k=1, min_score="auto", explain=True)
            if not answers.answered:
                print("  nothing here answers this", end="\n\n")
            for name, highlights in zip(english, answers, strict=True):
                for highlight in highlights:
                    print(style.dim(f"  {highlight.score:.3f}  {name}  characters {highlight.start}-{highlight.end}"))
                    print(style.passage(highlight), end="\n\n")

        work = found.work
        characters = sum(len(text) for text in texts)
        total = work.cutting + work.tokenizing + work.waiting + work.ranking
        print(f"{len(texts)} pages, {characters:,} characters, {work.windows:,} windows, {work.tokens:,} tokens:")
        for stage in ("cutting", "tokenizing", "waiting", "ranking"):
            seconds = getattr(work, stage)
            print(f"  {stage:<11} {seconds * 1000:8.1f} ms  {100 * seconds / total:5.1f} %")
        print(f"  {'together':<11} {total * 1000:8.1f} ms  ({work.tokens / total:,.0f} tokens a second)")


if __name__ == "__main__":
    main()
