"""Every form of a result has the same fields with the same values: those of `rust/wire/src/result.rs`.

The reference is `Highlight`, whose fields are generated from there. A form that lacks a field, or has another value or type in
it, fails here. `FORMS` makes rows of each form, with lists and dictionaries as JSON has them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import TypeAdapter

from pullquote import Client, Highlight, Highlighter, Highlights, _cli
from pullquote._results.fields import DTYPES, LISTS, HighlightDict, HighlightFields
from pullquote.client import StoredDocument
from support.fake_letter_encoder import letters
from support.server_process import ServerProcess, letter_server

QUERY = "How far is the moon?"
MARKDOWN = """# Räume 🎉

## Moons

The moon is far away. It is white.

| name | distance | colour |
|---|---|---|
{rows}

Brötchen sind rund. The moon pulls the sea.
""".format(rows="\n".join(f"| moon {number} | {number}84,400 km far | white |" for number in range(20)))
HTML = "<h1>Caf&eacute; of the moon</h1><p>How far is it? The <b>moon</b> is far, 384,400 km.</p><p>Bread &amp; butter.</p>"
TWINS = "Die Katze 🐈 schläft. The moon is far away from here. {}The Moon is far away from here!".format(
    "Bread is baked. " * 9
)
PAGES = {"markdown": MARKDOWN, "html": HTML, "text": TWINS}
# Options of every form. Each field of a text has one with `context`, and the table is too long for one passage, so that some
# begin below its header.
OPTIONS: dict[str, Any] = {"format": "auto", "context": 1, "explain": True, "top_k": 6}
FIELDS = [field.name for field in fields(HighlightFields)]
# A table of `highlights_arrow` says these once for each of its rows.
OF_PAGE = ["page", "query", "id"]
TEXTS_OF = ["before", "after", "header"]

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def quick() -> Iterator[Highlighter]:
    with Highlighter(encoder=letters) as made:
        yield made


@pytest.fixture(scope="module")
def serving() -> Iterator[ServerProcess]:
    with letter_server() as server:
        yield server


@pytest.fixture(scope="module")
def found(quick: Highlighter) -> Highlights:
    return quick.highlights(QUERY, PAGES, **OPTIONS)


@pytest.fixture(scope="module")
def expected(found: Highlights) -> Rows:
    """The fields of each highlight, read one by one."""
    rows = fields_of(found)
    assert len(rows) >= 5
    for name in FIELDS:
        if name not in ("query", "page_number", "rectangles"):
            assert any(row[name] not in (None, "", [], 0) for row in rows), f"no page of this test has a {name}"
    return in_order(rows)


def fields_of(found: Highlights) -> Rows:
    return [{name: plain(getattr(one, name)) for name in FIELDS} for one in found.best()]


def each_page_alone(quick: Highlighter) -> Rows:
    """As `expected`, from a call for each page: a row of a table is one, and other pages change which passages are found."""
    rows: Rows = []
    for page, (name, text) in enumerate(PAGES.items()):
        rows += [row | {"page": page} for row in fields_of(quick.highlights(QUERY, {name: text}, **OPTIONS))]
    return in_order(rows)


def plain(value: Any) -> Any:
    """A value with lists and dictionaries for tuples and records."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    names = getattr(value, "__dataclass_fields__", None)
    return {name: plain(getattr(value, name)) for name in names} if names else value


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["page"], row["start"]))


def table_rows(table: pa.Table, number_of_page: Callable[[Any], int]) -> Rows:
    """The rows of a table with a list of structs for each page."""
    about = [(number_of_page(row), row) for row in table.to_pylist()]
    return [
        {"page": page, "query": 0, "id": list(PAGES)[page], **one} for page, row in about for one in row["highlights"]
    ]


def arrow_table(quick: Highlighter) -> pa.Table:
    table = pa.table({"id": list(PAGES), "text": list(PAGES.values())})
    return pa.table(quick.highlights_arrow(table, query=[QUERY], id="id", **OPTIONS))


def of_id(row: dict[str, Any]) -> int:
    return list(PAGES).index(row["id"])


def job_rows(folder: Path, output_format: str) -> Rows:
    folder.joinpath("input").mkdir()
    lines = [json.dumps({"id": name, "text": text}) for name, text in PAGES.items()]
    folder.joinpath("input", "pages.jsonl").write_text("\n".join(lines))
    arguments = [
        "job",
        "--encoder",
        "support.fake_letter_encoder:letters",
        "--input",
        str(folder / "input"),
        "-q",
        QUERY,
    ]
    options = ["--id", "id", "--format", "auto", "--context", "1", "--explain", "--top-k", "6"]
    output = folder / "output"
    assert _cli.main([*arguments, "--output", str(output), *options, "--output-format", output_format]) == 0
    if output_format == "parquet":
        return table_rows(parquet.read_table(output / "pages.jsonl.parquet"), of_id)
    read = [json.loads(line) for line in (output / "pages.jsonl").read_text().splitlines()]
    return [{"page": of_id(row), "query": 0, "id": row["id"], **one} for row in read for one in row["highlights"]]


FORMS: dict[str, Callable[[Highlights, Highlighter, Path], Rows]] = {
    "to_dict": lambda found, _, __: [one for page in found.to_dict()["results"] for one in page["highlights"]],  # type: ignore[misc]
    "pydantic": lambda found, _, __: [
        one for page in TypeAdapter(Highlights).dump_python(found, mode="json")["results"] for one in page["highlights"]
    ],
    "to_arrow": lambda found, _, __: found.to_arrow().to_pylist(),
    "to_pandas": lambda found, _, __: found.to_pandas().to_dict("records"),
    "to_polars": lambda found, _, __: found.to_polars().to_dicts(),
    "highlights_arrow": lambda _, quick, __: table_rows(arrow_table(quick), of_id),
    "job with Parquet": lambda _, __, folder: job_rows(folder, "parquet"),
    "job with JSON lines": lambda _, __, folder: job_rows(folder, "jsonl"),
}


@pytest.mark.parametrize("form", FORMS)
def test_form_has_every_field_with_its_value(
    form: str, found: Highlights, quick: Highlighter, expected: Rows, tmp_path: Path
) -> None:
    rows = in_order(FORMS[form](found, quick, tmp_path))
    expected = expected if form.startswith(("to_", "pydantic")) else each_page_alone(quick)
    assert [set(row) for row in rows] == [set(FIELDS)] * len(expected)
    for row, one in zip(rows, expected, strict=True):
        assert {name: plain(row[name]) for name in FIELDS} == one


def test_ray_data_set_has_the_table_of_highlights_arrow(quick: Highlighter, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="pullquote[ray] is not installed")
    from pullquote.ray import _pages

    monkeypatch.setattr(_pages, "assigned_resources", lambda _: {"threads": 1})
    highlighter = _pages.PageHighlighter([QUERY], id="id", encoder=letters, **OPTIONS)
    made = highlighter(pa.table({"id": list(PAGES), "text": list(PAGES.values())}))
    assert made.equals(arrow_table(quick))


@pytest.mark.parametrize("stored", [False, True])
def test_client_has_every_field_with_its_value(serving: ServerProcess, expected: Rows, stored: bool) -> None:
    with Client(serving.url) as client:
        pages: Any = PAGES
        if stored:
            client.put_documents(PAGES)
            pages = [StoredDocument(name) for name in PAGES]
        found = client.highlights(QUERY, pages, **OPTIONS)
    rows = in_order(fields_of(found))
    for row, one in zip(rows, expected, strict=True):
        # Only the server has the page, and only the text of HTML could tell.
        unknown = {"start_byte": None, "end_byte": None} if stored else {}
        assert row == {name: about(value) for name, value in one.items()} | unknown


def about(value: Any) -> Any:
    """Scores of two processes differ in their last bits."""
    return pytest.approx(value, abs=2e-5) if isinstance(value, float) else value


def test_http_has_every_field_with_its_value(serving: ServerProcess, expected: Rows) -> None:
    documents = [{"id": name, "text": text} for name, text in PAGES.items()]
    body = {"query": QUERY, "documents": documents, **OPTIONS}
    answers = {
        unit: serving.client.post("/highlights", json=body | {"offsets": unit}).json() for unit in ("codepoint", "byte")
    }
    lists = [[answers[unit]["results"][page]["highlights"] for unit in answers] for page in range(len(PAGES))]
    rows = []
    for page, (in_characters, in_bytes) in enumerate(lists):
        for one, bytes_of in zip(in_characters, in_bytes, strict=True):
            # HTTP says these for the whole page, or in the other unit, or leaves them out where they say nothing new.
            origin = {"page": page, "query": 0, "id": documents[page]["id"]}
            places = {"start_byte": bytes_of["start"], "end_byte": bytes_of["end"]}
            source = {"source_start": one["start"], "source_end": one["end"]}
            empty = dict.fromkeys(FIELDS) | dict.fromkeys(TEXTS_OF, "") | {name: [] for name in LISTS}
            rows.append(empty | origin | places | source | one)
    for row, one in zip(in_order(rows), expected, strict=True):
        assert row == {name: about(value) for name, value in one.items()}


def test_mcp_and_exa_have_the_values_of_fields_that_they_name(serving: ServerProcess, quick: Highlighter) -> None:
    mine = quick.highlights(QUERY, [MARKDOWN], format="auto", max_total_highlights=10, max_total_tokens=2000).best()
    assert any(one.breadcrumbs for one in mine)
    arguments = {"query": QUERY, "texts": [MARKDOWN]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "highlights", "arguments": arguments}}
    passages = serving.client.post("/mcp", json=call).json()["result"]["structuredContent"]["passages"]
    for passage, one in zip(passages, mine, strict=True):
        values = {name: plain(getattr(one, name)) for name in passage if name in FIELDS and name != "page"}
        values |= {"breadcrumbs": [each.text for each in one.breadcrumbs], "score": pytest.approx(one.score, abs=1e-3)}
        assert {name: passage[name] for name in values} == values
        assert set(passage) - set(FIELDS) == {"source"}
    with Client(serving.url) as client:
        client.put_document("moons", MARKDOWN)
    body = {"ids": ["moons"], "highlights": {"query": QUERY}}
    [result] = serving.client.post("/contents", json=body).json()["results"]
    [first] = quick.highlights(QUERY, [MARKDOWN], format="auto", top_k=1)[0]
    spans = result["extras"]["highlightSpans"] if "extras" in result else result["highlightSpans"]
    place = next(index for index, span in enumerate(spans) if span["start"] == first.start)
    assert (result["highlights"][place], spans[place]["end"]) == (first.text, first.end)
    assert set(spans[place]) <= set(FIELDS)


def test_types_of_tables(found: Highlights, quick: Highlighter) -> None:
    """The tables of a result and of `highlights_arrow` have the types of the generated list."""
    table, structs = found.to_arrow(), arrow_table(quick).schema.field("highlights").type.value_type
    assert [field.name for field in structs] == [name for name in table.column_names if name not in OF_PAGE]
    for field in structs:
        assert table.schema.field(field.name).type == field.type, field.name
        assert table.schema.field(field.name).nullable == field.nullable, field.name
    frames = found.to_pandas(), found.to_polars()
    for name, dtype in DTYPES.items():
        kind = "int64" if dtype == "object" else "float" if dtype == "float32" else dtype
        assert str(table.schema.field(name).type) == kind, name
        assert frames[0][name].dtype == dtype, name
        assert str(frames[1].schema[name]).lower() == ("int64" if dtype == "object" else dtype), name
    assert (set(frames[0].columns), set(frames[1].columns)) == (set(FIELDS), set(FIELDS))
    assert (len(frames[0]), len(frames[1])) == (len(table), len(table))
    assert isinstance(frames[0], pandas.DataFrame)
    assert isinstance(frames[1], polars.DataFrame)


def test_fields_of_classes_are_the_generated_ones() -> None:
    assert [field.name for field in fields(Highlight)] == FIELDS == list(HighlightDict.__annotations__)


def test_empty_result_has_every_column(quick: Highlighter) -> None:
    nothing = quick.highlights(QUERY, [""])
    for table in (nothing.to_arrow(), nothing.to_pandas(), nothing.to_polars()):
        columns = table.column_names if isinstance(table, pa.Table) else table.columns
        assert (len(table), set(columns)) == (0, set(FIELDS))
