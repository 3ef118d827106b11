"""The reading order of a PDF's pages, by their geometry: lines, columns, paragraphs, and what runs over all pages.

pdfium returns characters with boxes, in lines. A line that was only wrapped is joined with the next one here, where the column's
width is known. Running heads, feet and page numbers are left out: they stand between the parts of a sentence, and are none.

Imports nothing of pullquote, as `_document_parser`, which loads it.
"""

from __future__ import annotations

import array
import itertools
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field

__all__ = ["Page", "lay_out"]

# A line that is this much farther from the one above than the page's lines usually are begins a paragraph.
PARAGRAPH_DISTANCE = 1.3
# In heights of a character: a gap that is wider than between words, lines that begin at the same edge of a column, and the largest
# usual distance of lines.
WIDE_GAP, SAME_EDGE, MOST_DISTANCE = 1.2, 3.0, 2.2
# Fonts whose heights differ by less are one.
SAME_FONT = 1.15
# Lines that show where a column ends; rows that show that there are columns; characters in a row of one, and how full it is.
LINES_OF_COLUMN, ROWS_OF_COLUMNS, CHARACTERS_OF_COLUMN, FILLED = 3, 3, 20, 0.7
# Lines at an edge of a page that may be a running head or foot, and points by which its height may differ.
EDGE_LINES, SAME_HEIGHT = 2, 4.0

END = re.compile(r"[.!?…:;。！？।؟][\"'”’»)\]」』]*\d*$")
LEADER = re.compile(r"(?:[.…·_] ?){4,}\d+$")
ITEM = re.compile(r"[•‣◦▪▫●○■·*–—-]\s|\(?\d{1,3}[.)]\s|\(?[a-z][.)]\s|[A-Z]\)\s|§")
NUMBER = re.compile(r"\D{0,12}\d{1,4}\W*|[ivxlcdm]{1,7}")
RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff]")
# Scripts without spaces between words.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")


@dataclass
class Page:
    """A page as pdfium returns it: characters, each one code point, in lines; four numbers of each: left, bottom, right, top."""

    text: str
    boxes: array.array[float]


@dataclass
class Line:
    """A line of a page, or its part in a column: characters from `start` to `end`, and the box around them."""

    start: int
    end: int
    text: str
    left: float
    right: float
    middle: float
    height: float
    # Gaps that are wider than between words: the place after each, its left and its right.
    gaps: list[tuple[int, float, float]] = field(default_factory=list)

    def is_joinable(self) -> bool:
        """Whether this may be a line of prose: no row of a table, nor an entry of a table of contents."""
        return not self.gaps and not LEADER.search(self.text)


def lay_out(pages: list[Page]) -> list[list[tuple[int, int, str]]]:
    """For each page its characters in reading order: spans, and what separates each from the next, also from the next page."""
    lines = [_by_column(page, _lines(page)) for page in pages]
    running = _running(lines)
    bodies = [[line for line in page if id(line) not in running] for page in lines]
    laid: list[list[tuple[int, int, str]]] = []
    for page, body in zip(pages, bodies, strict=True):
        separators = _separators(page, body)
        laid.append([(line.start, line.end, end) for line, end in zip(body, [*separators, "\n\n"], strict=False)])
    filled = [number for number, body in enumerate(bodies) if body]
    if filled:
        start, end, _ = laid[filled[-1]][-1]
        laid[filled[-1]][-1] = (start, end, "")
    for number, after in itertools.pairwise(filled):
        start, end, _ = laid[number][-1]
        laid[number][-1] = (start, end, _break(pages[after], bodies[number], bodies[after][0]))
    return laid


def _lines(page: Page) -> list[Line]:
    """The lines of a page that have visible characters."""
    made = []
    for found in re.finditer(r"[^\n]+", page.text):
        line = _line(page, found.start(), found.end())
        if line is not None:
            made.append(line)
    return made


def _line(page: Page, start: int, end: int) -> Line | None:
    text, boxes = page.text, page.boxes
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    visible = [
        place for place in range(start, end) if boxes[4 * place + 2] > boxes[4 * place] and not text[place].isspace()
    ]
    if start == end:
        return None
    if not visible:
        return Line(start, end, text[start:end], 0.0, 0.0, 0.0, 0.0)
    height = statistics.median(boxes[4 * place + 3] - boxes[4 * place + 1] for place in visible)
    middle = statistics.median((boxes[4 * place + 3] + boxes[4 * place + 1]) / 2 for place in visible)
    left, right = min(boxes[4 * place] for place in visible), max(boxes[4 * place + 2] for place in visible)
    made = Line(start, end, text[start:end], left, right, middle, height)
    for place, after in itertools.pairwise(visible):
        if boxes[4 * after] - boxes[4 * place + 2] > WIDE_GAP * height:
            made.gaps.append((after, boxes[4 * place + 2], boxes[4 * after]))
    return made


def _by_column(page: Page, lines: list[Line]) -> list[Line]:
    """The lines, where those that go over columns of prose are cut at the space between them, and one column follows the other."""
    made: list[Line] = []
    first = 0
    while first < len(lines):
        end, gutter = _rows(lines, first)
        if gutter is None:
            end = first + 1
        parts = _columns(page, lines[first:end], gutter) if gutter else None
        made += [*parts[0], *_by_column(page, parts[1])] if parts else lines[first:end]
        first = end
    return made


def _rows(lines: list[Line], first: int) -> tuple[int, tuple[float, float] | None]:
    """The end of the lines from `first` on that leave the same space free, and that space; none if too few are on both sides."""
    left, right, both = float("-inf"), float("inf"), 0
    end = first
    for line in lines[first:]:
        gap = next(
            ((low, high) for _, low, high in line.gaps if min(high, right) - max(low, left) > line.height / 2), None
        )
        if gap is not None:
            left, right, both = max(left, gap[0]), min(right, gap[1]), both + 1
        elif not both or (line.left < right and line.right > left):
            break
        end += 1
    return (end, (left, right)) if both >= ROWS_OF_COLUMNS else (end, None)


def _columns(page: Page, rows: list[Line], gutter: tuple[float, float]) -> tuple[list[Line], list[Line]] | None:
    """The lines left and right of a gutter; `None` for a table, whose cells are short or do not fill their column."""
    left: list[Line] = []
    right: list[Line] = []
    for row in rows:
        places = [place for place, low, high in row.gaps if low <= gutter[0] + 0.1 and high >= gutter[1] - 0.1]
        if not places:
            (left if row.left < gutter[0] else right).append(row)
            continue
        for column, part in ((left, (row.start, places[0])), (right, (places[0], row.end))):
            cut = _line(page, *part)
            if cut is not None:
                column.append(cut)
    for column in (left, right):
        width = max(line.right for line in column) - min(line.left for line in column)
        if (
            statistics.median(len(line.text) for line in column) < CHARACTERS_OF_COLUMN
            or statistics.median(line.right - line.left for line in column) < FILLED * width
        ):
            return None
    return left, right


def _running(pages: list[list[Line]]) -> set[int]:
    """The ids of lines that run over the pages: heads and feet, which several pages have at the same height, and page numbers."""
    edges = [(page, line, is_apart) for page, lines in enumerate(pages) for line, is_apart in _edges(lines)]
    heights: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for page, line, _ in edges:
        for height in _rounded(line.middle):
            heights[_constant(line.text), height].add(page)
    least = 3 if len(pages) > 3 else 2
    return {
        id(line)
        for _, line, is_apart in edges
        if is_apart and max(len(heights[_constant(line.text), height]) for height in _rounded(line.middle)) >= least
    } | {id(line) for _, line, is_apart in edges if is_apart and len(pages) > 1 and NUMBER.fullmatch(line.text)}


def _edges(lines: list[Line]) -> list[tuple[Line, bool]]:
    """The highest and the lowest lines of a page, and whether each is apart from its text, in no larger letters."""
    seen = sorted((line for line in lines if line.height), key=lambda line: -line.middle)
    if len(seen) < 2:
        # It is the page's text, unless it is a number.
        return [(line, NUMBER.fullmatch(line.text) is not None) for line in seen]
    usual = _usual_distance(seen)
    letters = statistics.median(line.height for line in seen for _ in range(len(line.text)))
    rows = [list(row) for _, row in itertools.groupby(seen, lambda line: round(line.middle / 2))]
    made: list[tuple[Line, bool]] = []
    for edge in (rows, rows[::-1]):
        distances = [abs(row[0].middle - after[0].middle) for row, after in itertools.pairwise(edge)][:EDGE_LINES]
        # The text begins below the last of these rows that is apart.
        apart = max(
            (place + 1 for place, distance in enumerate(distances) if distance > PARAGRAPH_DISTANCE * usual), default=0
        )
        for place, row in enumerate(edge[:EDGE_LINES]):
            made += [(line, place < apart and line.height < SAME_FONT * letters) for line in row]
    return made


def _constant(text: str) -> str:
    """A running line without its page number."""
    return " ".join(re.sub(r"\d+|(?<!\w)[ivxlc]+(?!\w)", "", text).split())


def _rounded(height: float) -> tuple[int, int]:
    """Two steps, one of which all heights that are near have too."""
    return int(height // SAME_HEIGHT), int((height + SAME_HEIGHT / 2) // SAME_HEIGHT) + 1_000_000


def _usual_distance(lines: list[Line]) -> float:
    """The median of the distances between two lines, of which neither is in the row of the other; of few lines, what may be."""
    pairs = itertools.pairwise(lines)
    distances = [(above.middle - below.middle, min(above.height, below.height) / 3) for above, below in pairs]
    most = MOST_DISTANCE * statistics.median([line.height for line in lines] or [0.0])
    return min(most, statistics.median([distance for distance, least in distances if distance > least] or [0.0]))


def _separators(page: Page, lines: list[Line]) -> list[str]:
    """What is between each line and the next: nothing or a space if it was wrapped, a line feed, or two for a paragraph."""
    usual = _usual_distance(lines)
    edges = _column_ends(lines)
    made, joined = [], []
    for above, below in itertools.pairwise(lines):
        distance = above.middle - below.middle
        is_far = distance > PARAGRAPH_DISTANCE * usual
        is_next_column = distance < -usual < 0
        is_wrapped = not is_far and _is_wrapped(page, above, below, edges) and not (is_next_column and _ends(above))
        made.append(_joined(above, below) if is_wrapped else "\n\n" if is_far or is_next_column else "\n")
        joined.append(is_wrapped or (made[-1] == "\n" and _goes_on(above, below)))
    # Prose is a paragraph of its own where lines of a table or a heading are next to it.
    for place, separator in enumerate(made):
        is_near = any(joined[max(0, place - 1) : place + 2])
        if separator == "\n" and is_near and not joined[place] and not ITEM.match(lines[place + 1].text):
            made[place] = "\n\n"
    return made


def _column_ends(lines: list[Line]) -> dict[int, float]:
    """Where the column of a line ends, by the line's id: the farthest end of several lines that begin at the same edge."""
    step = SAME_EDGE / 2 * statistics.median([line.height for line in lines] or [0.0]) or 1.0
    starts = [min(_sign(line) * line.left, _sign(line) * line.right) // step for line in lines]
    columns: dict[float, tuple[int, float]] = {}
    for line, start in zip(lines, starts, strict=True):
        end = max(_sign(line) * line.left, _sign(line) * line.right)
        counted, farthest = columns.get(start, (0, end))
        columns[start] = (counted + 1, max(farthest, end))
    ends = {}
    for line, start in zip(lines, starts, strict=True):
        alike = [columns[near] for near in (start - 1, start, start + 1) if near in columns]
        is_known = sum(count for count, _ in alike) >= LINES_OF_COLUMN
        ends[id(line)] = max(end for _, end in alike) if is_known else float("inf")
    return ends


def _sign(line: Line) -> int:
    return -1 if RIGHT_TO_LEFT.search(line.text) else 1


def _is_wrapped(page: Page, above: Line, below: Line, ends: dict[int, float]) -> bool:
    """Whether a line goes on in the next one, whose first word had no room in it."""
    if (
        not above.height
        or not below.height
        or ITEM.match(below.text)
        or not above.is_joinable()
        or not below.is_joinable()
    ):
        return False
    if max(above.height, below.height) > SAME_FONT * min(above.height, below.height):
        return False
    sign = _sign(above)
    indentation = below.left - above.left if sign > 0 else above.right - below.right
    if _ends(above) and indentation > above.height:
        return False
    first = 1 if UNSPACED.match(below.text) else len(below.text.split(maxsplit=1)[0])
    boxes = page.boxes
    places = range(below.start, below.start + first)
    word = max(boxes[4 * place + 2] for place in places) - min(boxes[4 * place] for place in places)
    room = ends.get(id(above), float("inf")) - (above.right if sign > 0 else -above.left)
    return room < word + 0.2 * above.height


def _goes_on(above: Line, below: Line) -> bool:
    """Whether a sentence goes on in the next line, which may be one of code all the same."""
    return not _ends(above) and below.text[0].islower()


def _ends(line: Line) -> bool:
    return END.search(line.text) is not None


def _joined(above: Line, below: Line) -> str:
    """The separator of lines that were wrapped; a hyphen keeps its line feed, by which the core joins the word."""
    if above.text.endswith(("-", "\u2010", "\u00ad")) and below.text[:1].isalpha():
        return "\n"
    return "" if UNSPACED.match(above.text[-1]) and UNSPACED.match(below.text) else " "


def _break(after: Page, lines: list[Line], first: Line) -> str:
    """Between two pages: as between two lines if a sentence continues there, else a paragraph's end."""
    last = lines[-1]
    is_wrapped = not _ends(last) and _is_wrapped(after, last, first, _column_ends(lines))
    return _joined(last, first) if is_wrapped else "\n" if _goes_on(last, first) else "\n\n"
