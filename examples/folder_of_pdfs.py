"""Ask a folder of PDFs and Word documents. Needs ``pip install "pullquote[documents]"``.

Usage: ``python examples/folder_of_pdfs.py FOLDER QUESTION``

Prints the best passages of all documents with their pages, and links that open a viewer at that page. Documents that cannot be
read are named on standard error, and the others are answered.
"""

import sys
from pathlib import Path

import pullquote
from pullquote import documents

BEST = 5


def main(folder: Path, question: str) -> None:
    """Print the best passages."""
    read: list[documents.Document] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".pdf", ".docx", ".epub"}):
        try:
            read.append(documents.read(path))
        except pullquote.PullquoteError as error:
            print(error, file=sys.stderr)
    if not read:
        sys.exit(f"{folder} has no PDF, DOCX or EPUB that can be read")
    found = pullquote.highlights(question, read, top_k=2)
    if not found.answered:
        print(f"{found.note}; the nearest:\n")
    for one in found.best(BEST):
        link = Path(one.id).resolve().as_uri() + (f"#page={one.page_number}" if one.page_number else "")
        print(f"{one.score:.2f}  {link}\n{' '.join(one.text.split())}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} FOLDER QUESTION")
    main(Path(sys.argv[1]), sys.argv[2])
