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
    read: dict[Path, documents.Document] = {}
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".pdf", ".docx", ".epub"}):
        try:
            read[path] = documents.read(path)
        except pullquote.PullquoteError as error:
            print(error, file=sys.stderr)
    if not read:
        sys.exit(f"{folder} has no PDF, DOCX or EPUB that can be read")
    paths = list(read)
    texts = [document.text for document in read.values()]
    found = pullquote.highlights(question, texts, format="auto", top_k=2)
    best = sorted((one for page in found for one in page), key=lambda one: -one.score)[:BEST]
    for one in best:
        path = paths[one.page]
        number = read[path].page_number(one)
        link = path.resolve().as_uri() + (f"#page={number}" if number else "")
        print(f"{one.score:.2f}  {link}\n{' '.join(one.text.split())}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
