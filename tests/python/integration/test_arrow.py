"""`highlights_arrow`: each row gets the answer of its own call, in every layout of Arrow; a bad row has its own error."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pullquote import Highlighter, errors
from pullquote._request.options import Options
from support.fake_letter_encoder import letters
from support.messages import names_all, raises

MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."
GERMAN = "Brötchen sind rund. Der Mond ist 384.400 km weit weg. 猫はよく眠る。 🎉 Ende."
TEXTS = [
    MOON,
    GERMAN,
    "",
    "One sentence alone.",
    MOON,
    "The sea is deep. " * 30 + "Whales sing. " + "Ships sail. " * 30,
]
QUERIES = ["How far is the moon?", "Mond", "nothing", "sentence", "bread", "Who sings?"]
STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.fixture(scope="module")
def quick() -> Iterator[Highlighter]:
    with Highlighter(encoder=letters, threads=2) as made:
        yield made


def rows(found: Any) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pa.table(found).to_pylist()
    return table


def alone(highlighter: Highlighter, query: str, text: str, **options: Any) -> list[tuple[str, int, int, Any]]:
    found = highlighter.highlights(query, [text], **options)[0]
    return [(h.text, h.start, h.end, pytest.approx(h.score, abs=1e-5)) for h in found]


def told(row: dict[str, Any]) -> list[tuple[str, int, int, float]]:
    return [(h["text"], h["start"], h["end"], h["score"]) for h in row["highlights"]]


@pytest.mark.parametrize("strings", STRINGS, ids=str)
def test_highlights_arrow_rows_match_highlights(highlighter: Highlighter, strings: Any) -> None:
    table = pa.table({"text": pa.array(TEXTS).cast(strings), "query": pa.array(QUERIES).cast(strings), "id": TEXTS})
    found = highlighter.highlights_arrow(table, id="id", top_k=2)
    assert (len(found), found.errors) == (len(TEXTS), 0)
    assert found.work.windows > 0
    for row, query, text in zip(rows(found), QUERIES, TEXTS, strict=True):
        assert (row["id"], row["query"], row["error"]) == (text, query, None)
        assert told(row) == alone(highlighter, query, text, top_k=2)
        assert row["windows"] == highlighter.highlights(query, [text]).work.windows
        for h in row["highlights"]:
            assert text[h["start"] : h["end"]] == h["text"]
            assert text.encode()[h["start_byte"] : h["end_byte"]].decode() == h["text"]


class OnlyStream:
    """A table with only the C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def from_duckdb() -> Any:
    connection = duckdb.connect()
    connection.execute("create table pages (text varchar, query varchar)")
    connection.executemany("insert into pages values (?, ?)", list(zip(TEXTS, QUERIES, strict=True)))
    return connection.table("pages")


COLUMNS = {"text": TEXTS, "query": QUERIES}
OFFERS: dict[str, Callable[[], Any]] = {
    "pyarrow table": lambda: pa.table(COLUMNS),
    "pyarrow batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "pyarrow struct": lambda: pa.table(COLUMNS).to_struct_array().chunk(0),
    "pyarrow reader": lambda: pa.table(COLUMNS).to_reader(max_chunksize=2),
    "polars": lambda: polars.DataFrame(COLUMNS),
    "polars categories": lambda: polars.DataFrame(COLUMNS).with_columns(polars.col("query").cast(polars.Categorical)),
    "duckdb": from_duckdb,
    "the interface": lambda: OnlyStream(pa.table(COLUMNS)),
}


@pytest.mark.parametrize("name", OFFERS)
def test_tables_of_pyarrow_polars_and_duckdb(quick: Highlighter, name: str) -> None:
    expected = rows(quick.highlights_arrow(pa.table(COLUMNS)))
    assert rows(quick.highlights_arrow(OFFERS[name]())) == expected
    assert [row["id"] for row in expected] == list(range(len(TEXTS)))


def test_highlight_table_in_polars_and_pyarrow(quick: Highlighter) -> None:
    found = quick.highlights_arrow(polars.DataFrame(COLUMNS))
    assert polars.DataFrame(found).equals(polars.DataFrame(pa.table(found)))
    schema = pa.schema(found)
    assert schema.names == ["id", "query", "highlights", "windows", "error"]
    assert repr(found) == "<HighlightTable of 6 rows, 0 with an error>"


cells = st.one_of(st.none(), st.sampled_from(TEXTS), st.text(max_size=60))


@given(
    chunks=st.lists(st.lists(st.tuples(cells, cells), max_size=5), min_size=1, max_size=4),
    strings=st.sampled_from(STRINGS),
    cut=st.tuples(st.integers(0, 3), st.integers(0, 8)),
)
@settings(max_examples=60, deadline=None)
def test_chunks_and_slices_match_whole_table(
    quick: Highlighter, chunks: list[list[tuple[str | None, str | None]]], strings: Any, cut: tuple[int, int]
) -> None:
    def column(place: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array([row[place] for row in chunk], strings) for chunk in chunks], strings)

    table = pa.table({"text": column(0), "query": column(1)}).slice(*cut)
    whole = pa.table({name: table[name].combine_chunks().cast(pa.large_string()) for name in ("text", "query")})
    found = rows(quick.highlights_arrow(table))
    assert found == rows(quick.highlights_arrow(whole))
    for row, (text, query) in zip(found, [row for chunk in chunks for row in chunk][cut[0] : sum(cut)], strict=True):
        if text is None or query is None or not query.strip():
            assert (row["highlights"], row["windows"]) == (None, None)
            assert row["error"].startswith(("InvalidTextError: ", "InvalidArgumentError: query "))
        else:
            assert row["error"] is None
            assert told(row) == alone(quick, query, text)


def test_query_list_gives_row_for_each_query(quick: Highlighter) -> None:
    table = pa.table({"text": [MOON, GERMAN, None], "name": ["a", "b", "c"]})
    asked = ["How far is the moon?", "Wer schläft?"]
    found = rows(quick.highlights_arrow(table, query=asked, id="name"))
    assert [(row["id"], row["query"]) for row in found] == [(name, query) for name in "abc" for query in asked]
    for row, text in zip(found[:4], [MOON, MOON, GERMAN, GERMAN], strict=True):
        assert told(row) == alone(quick, row["query"], text)
    assert all(names_all(row["error"], "InvalidTextError", "text", "null") for row in found[4:])


def test_title_column_replaces_missing_query(quick: Highlighter) -> None:
    table = pa.table({"text": [MOON, MOON, MOON], "query": ["Bread", None, None], "title": ["Cats", "Moon", None]})
    found = rows(quick.highlights_arrow(table, title="title"))
    assert [row["query"] for row in found] == ["Bread", "Moon", None]
    assert told(found[1]) == alone(quick, "Moon", MOON)
    assert names_all(found[2]["error"], "InvalidTextError", "title", "null")


def test_invalid_row_has_its_own_error() -> None:
    def fails(texts: list[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            message = "on purpose"
            raise RuntimeError(message)
        return letters(texts)

    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"ab\xff")])
    texts = pa.chunked_array([[MOON, None, "A poison here."], broken, [MOON, GERMAN]])
    table = pa.table({"text": texts, "query": ["moon", "moon", "moon", "moon", " ", "Mond"]})
    with Highlighter(encoder=fails) as highlighter:
        found = highlighter.highlights_arrow(table)
        assert found.errors == 4
        messages = [row["error"] for row in rows(found)]
        assert names_all(messages[1], "InvalidTextError", "text", "null")
        assert names_all(messages[2], "EncoderError", "RuntimeError: on purpose")
        assert names_all(messages[3], "InvalidTextError", "text", "UTF-8", 2)
        assert names_all(messages[4], "InvalidArgumentError", "query")
        assert told(rows(found)[0]) == alone(highlighter, "moon", MOON)
        assert told(rows(found)[5]) == alone(highlighter, "Mond", GERMAN)


def test_options_match_highlights(quick: Highlighter) -> None:
    html = "<h1>Space</h1><p>The <b>moon</b> is 384,400 km away. It shines.</p><p>Bread &amp; butter.</p>"
    options: Options = {"format": "html", "context": 1, "explain": True, "max_chars": 40, "order": "position"}
    [row] = rows(quick.highlights_arrow(pa.table({"text": [html]}), query=["How far is the moon?"], **options))
    for told_of, h in zip(
        row["highlights"], quick.highlights("How far is the moon?", [html], **options)[0], strict=True
    ):
        assert (told_of["before"], told_of["after"]) == (h.before, h.after)
        assert (told_of["source_start"], told_of["source_end"]) == (h.source_start, h.source_end)
        assert [(m["word"], m["start"], m["end"]) for m in told_of["matches"]] == [
            (m.word, m.start, m.end) for m in h.matches
        ]
    assert row["highlights"]


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ({"text": "body"}, errors.InvalidArgumentError, ["body", "text", "n"]),
        ({}, errors.InvalidArgumentError, ["query", "text", "n"]),
        ({"text": "n", "query": ["?"]}, errors.InvalidTypeError, ["n", "text", "Int64"]),
        ({"query": []}, errors.InvalidArgumentError, ["query"]),
        ({"query": ["a", " "]}, errors.InvalidArgumentError, ["query[1]"]),
        ({"query": ["a", 5]}, errors.InvalidTypeError, ["query[1]", "int"]),
        ({"query": ["\ud800"]}, errors.InvalidTextError, ["query[0]"]),
        ({"query": ["a"], "title": "n"}, errors.InvalidArgumentError, ["title", "query"]),
        ({"query": ["a"], "fuse": True}, errors.InvalidArgumentError, ["fuse"]),
        ({"query": ["a"], "titles": ["b"]}, errors.InvalidArgumentError, ["titles"]),
        ({"query": ["a"], "max_total_chars": 9}, errors.InvalidArgumentError, ["max_total_chars", "max_chars"]),
        ({"query": ["a"], "max_total_tokens": 9}, errors.InvalidArgumentError, ["max_total_tokens", "max_tokens"]),
        ({"query": ["a"], "max_total_highlights": 9}, errors.InvalidArgumentError, ["max_total_highlights", "top_k"]),
        ({"query": ["a"], "dedupe": "answer"}, errors.InvalidArgumentError, ["dedupe"]),
        ({"query": ["a"], "top_k": 0}, errors.InvalidArgumentError, ["top_k", 0]),
        ({"query": ["a"], "topk": 1}, errors.InvalidTypeError, ["topk"]),
        ({"query": ["a"], "timeout": 1e-9}, errors.DeadlineExceededError, ["timeout"]),
    ],
)
def test_invalid_highlights_arrow_argument_is_error(
    quick: Highlighter, arguments: Any, error: type[Exception], names: list[object]
) -> None:
    table = pa.table({"text": [MOON], "n": [1]})
    with raises(error, *names):
        quick.highlights_arrow(table, **arguments)


@pytest.mark.parametrize("no_table", [[MOON], {"text": [MOON]}, pa.array([MOON])], ids=["list", "dict", "array"])
def test_non_table_is_invalid_type(quick: Highlighter, no_table: Any) -> None:
    with raises(errors.InvalidTypeError, "table"):
        quick.highlights_arrow(no_table, query=["a"])


def test_failing_table_reader_is_error(quick: Highlighter) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"text": [MOON]})
        message = "the disk is gone"
        raise OSError(message)

    reader = pa.RecordBatchReader.from_batches(pa.schema({"text": pa.string()}), batches())
    with raises(errors.InvalidArgumentError, "table", "the disk is gone"):
        quick.highlights_arrow(reader, query=["a"])


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_option_matches_highlights(threads: Any) -> None:
    table = pa.table(COLUMNS)
    with Highlighter(encoder=letters, threads=threads) as highlighter:
        found = rows(highlighter.highlights_arrow(table))
        assert [told(row) for row in found] == [
            alone(highlighter, query, text) for query, text in zip(QUERIES, TEXTS, strict=True)
        ]


def test_import_loads_no_extras() -> None:
    code = "import sys, pullquote, pullquote._cli; print([n for n in ('pyarrow', 'fsspec', 'ray', 'torch') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"[]"


MEMORY = """
import resource
import pyarrow as pa
from pullquote import Highlighter
from support.fake_letter_encoder import letters
MOON = "Cats sleep a lot. The moon is 384,400 km away. Bread is baked."

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

page = MOON * 16_000
texts = pa.array([MOON] + [page] * 400, pa.large_string())
table = pa.table({"text": texts, "query": pa.array(["moon"] + [None] * 400)})
with Highlighter(encoder=letters) as highlighter:
    highlighter.highlights_arrow(table.slice(0, 2))
    before = peak()
    found = highlighter.highlights_arrow(table)
    print(found.errors, table["text"].nbytes, peak() - before)
"""


@pytest.mark.slow
def test_arrow_texts_are_not_copied() -> None:
    """400 pages of one megabyte, all read, none encoded; `bench/arrow.py` measures pages that are encoded."""
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=True, timeout=120)
    failed, size, grown = map(int, done.stdout.split())
    assert (failed, size > 380_000_000) == (400, True)
    assert grown < 20_000_000
