"""Errors: one table, and messages that name the argument, its value and what would work."""

import asyncio
import builtins
import copy
import importlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullquote
from pullquote import Client, Highlighter, _native, documents, errors
from pullquote._extras import needs_extra
from pullquote._models.choice import embedded_model
from pullquote.engine import Hosted, Planner
from support.bad_calls import BAD_CALL_IDS, BAD_CALLS
from support.messages import raises


def test_error_table_has_class_for_each_row() -> None:
    table = _native.error_table()
    names = {row["python_class"] for row in table}
    assert names | {"PullquoteError", "TruncationWarning", "UsageWarning"} == set(errors.__all__)
    for row in table:
        error = getattr(errors, row["python_class"])
        base = getattr(builtins, row["python_base"])
        assert issubclass(error, errors.PullquoteError)
        assert issubclass(error, base)
        for name in ("code", "exit_code", "http_status", "retryable"):
            assert getattr(error, name) == row[name]
        assert str(error("what failed")) == "what failed"


@pytest.mark.parametrize(("change", "error", "names"), BAD_CALLS, ids=BAD_CALL_IDS)
def test_invalid_call_raises_and_next_call_works(
    highlighter: Highlighter, change: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    arguments: dict[str, Any] = {"query": "Where?", "texts": ["Here it is. There it was."]} | change
    with raises(error, *names):
        highlighter.highlights(**arguments)
    assert highlighter.highlights("Where?", ["Here it is."])[0][0].text == "Here it is."


def test_table_as_texts_names_highlights_arrow(highlighter: Highlighter) -> None:
    import polars

    with raises(errors.InvalidTypeError, "texts", "DataFrame", "highlights_arrow"):
        highlighter.highlights("Where?", polars.DataFrame({"text": ["Here it is."]}))  # type: ignore[arg-type]


def test_allow_gaps_permits_step_size_over_highlight_length(highlighter: Highlighter) -> None:
    text = "One is. Two is. Three is. Four is."
    assert pullquote.parse_pieces(text, 1, 2, allow_gaps=True).tolist() == [[0, 7], [16, 25]]
    assert len(highlighter.highlights("Two", [text], highlight_length=1, step_size=2, allow_gaps=True)[0]) == 2


def test_empty_page_has_no_highlights(highlighter: Highlighter) -> None:
    assert list(highlighter.highlights("Who?", ["", "  \n"])) == [[], []]


def test_parse_pieces_in_tokens_without_model_is_error() -> None:
    with raises(errors.InvalidArgumentError, "token", "Highlighter"):
        pullquote.parse_pieces("text", 1, 1, "token")  # type: ignore[arg-type]  # wrong on purpose


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the embedded model that a test may change; the weights are a link."""
    copy = tmp_path / "model"
    shutil.copytree(embedded_model(), copy, ignore=shutil.ignore_patterns("*.safetensors"))
    (copy / "model.safetensors").symlink_to(embedded_model() / "model.safetensors")
    return copy


def edit(name: str, **changes: Any) -> Callable[[Path], None]:
    def spoil(model: Path) -> None:
        path = model / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return spoil


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(model: Path) -> None:
        (model / name).unlink()
        (model / name).write_bytes(content)

    return spoil


def remove(name: str) -> Callable[[Path], None]:
    return lambda model: (model / name).unlink()


def truncate_weights(model: Path) -> None:
    whole = (model / "model.safetensors").read_bytes()
    write("model.safetensors", whole[: len(whole) // 2])(model)


def smaller_tokenizer(model: Path) -> None:
    """Add one token more than the embedding table has rows."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["onetokentoomany"] = len(vocabulary)
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


BAD_MODELS: list[tuple[Callable[[Path], None], type[Exception], list[object]]] = [
    (remove("config.json"), errors.ModelNotFoundError, ["config.json"]),
    (remove("tokenizer.json"), errors.ModelNotFoundError, ["tokenizer.json"]),
    (remove("model.safetensors"), errors.ModelNotFoundError, ["model.safetensors"]),
    (write("config.json", b"{"), errors.InvalidModelError, ["config.json"]),
    (write("tokenizer.json", b"{}"), errors.InvalidModelError, ["tokenizer.json"]),
    (write("model.safetensors", b"not weights"), errors.InvalidModelError, ["model.safetensors"]),
    (truncate_weights, errors.InvalidModelError, ["model.safetensors"]),
    (smaller_tokenizer, errors.InvalidModelError, [30523, 30522]),
    (edit("config.json", hidden_size=768), errors.InvalidModelError, [768]),
    (edit("config.json", model_type="mamba"), errors.UnsupportedModelError, ["mamba", "bert", "xlm-roberta"]),
    (edit("config.json", hidden_act="mish"), errors.UnsupportedModelError, ["mish"]),
    (edit("1_Pooling/config.json", pooling_mode="middle"), errors.UnsupportedModelError, ["pooling_mode", "middle"]),
]


@pytest.mark.parametrize(("spoil", "error", "names"), BAD_MODELS)
def test_invalid_model_is_error(
    model: Path, spoil: Callable[[Path], None], error: type[Exception], names: list[object]
) -> None:
    spoil(model)
    with raises(error, *names):
        Highlighter(model, devices="cpu")


BAD_DEVICES: list[tuple[dict[str, Any], type[Exception], list[object]]] = [
    ({"devices": "tpu"}, errors.DeviceError, ["tpu"]),
    ({"devices": 0}, errors.InvalidTypeError, ["devices", 0, "cuda:0"]),
    ({"devices": [None]}, errors.InvalidTypeError, ["devices", "[None]", "cpu"]),
    ({"device": "cpu"}, errors.InvalidTypeError, ["device", "devices"]),
    ({"dtype": 16}, errors.InvalidTypeError, ["dtype", 16, "float16"]),
    ({"cores": [4000, 4001]}, errors.InvalidArgumentError, ["cores", "[4000, 4001]", *sorted(os.sched_getaffinity(0))]),
    ({"encoder": "name"}, errors.InvalidArgumentError, ["encoder", "name", "torch"]),
    ({"devices": ["cpu", "cpu"]}, errors.InvalidArgumentError, ["cpu"]),
    ({"devices": "cpu:x"}, errors.DeviceError, ["cpu:x"]),
    ({"devices": []}, errors.InvalidArgumentError, ["devices"]),
    ({"dtype": "float8"}, errors.InvalidArgumentError, ["dtype", "float8", "bfloat16"]),
    ({"threads": 0}, errors.InvalidArgumentError, ["threads", 0]),
    ({"model": "/nowhere/at/all"}, errors.ModelNotFoundError, ["/nowhere/at/all"]),
    ({"model": 3}, errors.InvalidTypeError, ["model", "int"]),
    ({"model": ""}, errors.InvalidArgumentError, ["model", "empty"]),
    ({"query_prompt": 3}, errors.InvalidTypeError, ["query_prompt", 3]),
    ({"profile": "yes"}, errors.InvalidTypeError, ["profile", "yes"]),
    ({"local_files_only": 1}, errors.InvalidTypeError, ["local_files_only", 1]),
]


@pytest.mark.parametrize(("arguments", "error", "names"), BAD_DEVICES)
def test_invalid_device_dtype_or_threads_is_error(
    arguments: dict[str, Any], error: type[Exception], names: list[object]
) -> None:
    with raises(error, *names):
        Highlighter(**arguments)


@pytest.mark.slow
def test_devices_and_dtypes_of_torch_and_numpy() -> None:
    torch = pytest.importorskip("torch")
    for given, dtype in (
        ({"devices": torch.device("cpu"), "dtype": torch.float32}, "float32"),
        ({"dtype": np.float32}, "float32"),
    ):
        with Highlighter(**given) as made:
            assert (made.devices, made.dtype) == (["cpu"], dtype)
    with raises(errors.InvalidArgumentError, "dtype", "float64"):
        Highlighter(devices=[torch.device("cpu")], dtype=torch.float64)


def test_missing_package_names_the_extra() -> None:
    names = ("pullquote.jobs", "no_such_package", 'pip install "pullquote[jobs]"')
    with raises(ModuleNotFoundError, *names) as caught, needs_extra("jobs"):
        importlib.import_module("no_such_package")
    assert caught.value.name == "no_such_package"
    assert isinstance(caught.value, errors.PullquoteError)
    assert caught.value.exit_code == errors.NoEncoderError.exit_code


def test_wrong_index_or_address_is_our_error(highlighter: Highlighter) -> None:
    found = highlighter.highlights("Where?", {"moon.txt": "Here it is.", "sea.txt": "There it was."})
    with raises(errors.InvalidTypeError, "(0, 0, 0)"):
        found[0, 0, 0]
    with raises(IndexError, "query 3", "1 queries", "2 pages") as outside:
        found[3, 0]
    assert isinstance(outside.value, errors.PullquoteError)
    with raises(errors.PullquoteError, "index 99") as beyond:
        found.at(99)
    assert isinstance(beyond.value, IndexError)
    assert found.query_and_page(-1) == (0, 1)
    with raises(errors.PullquoteError, "index 2"):
        found.query_and_page(2)
    for wrong in (slice("a", 2), slice(0, 2, 0)):
        with raises(errors.InvalidTypeError, "slice"):
            found[wrong]
    with raises(errors.InvalidArgumentError, "'moon.tx'", "did you mean 'moon.txt'"):
        found["moon.tx"]
    with raises(errors.InvalidTypeError, "url", "None"):
        Client(None)  # type: ignore[arg-type]


def test_missing_and_excess_arguments_are_our_errors(highlighter: Highlighter) -> None:
    with raises(errors.InvalidTypeError, "texts", "highlights(query, texts, ...)"):
        highlighter.highlights("Where?")  # type: ignore[call-arg]
    with raises(errors.InvalidTypeError, "highlights"):
        highlighter.highlights("Where?", ["Here."], 3)  # type: ignore[call-arg, arg-type]
    with raises(errors.InvalidTypeError, "roles", "role"):
        highlighter.embed(["Here."], roles="query")  # type: ignore[call-arg]


def test_budget_below_every_sentence_warns(highlighter: Highlighter) -> None:
    with pytest.warns(errors.UsageWarning, match=r"max_chars=5") as warned:
        assert not highlighter.highlights("Where?", ["Here it is, at last."], max_chars=5)
    assert warned[0].filename == __file__


def test_page_as_query_warns(highlighter: Highlighter) -> None:
    with pytest.warns(errors.UsageWarning, match=r"highlights\(query, texts\)") as warned:
        highlighter.highlights("Here it is. " * 200, ["Where is it?"])
    assert warned[0].filename == __file__


@pytest.mark.parametrize("page", ["report.PDF", "notes/a.txt", "https://example.org/a"])
def test_name_in_place_of_a_page_warns(highlighter: Highlighter, page: str) -> None:
    with pytest.warns(errors.UsageWarning, match=rf"texts\[1\].*{page}") as warned:
        highlighter.highlights("Where?", ["See report.pdf", page, page])
    assert (len(warned), warned[0].filename) == (1, __file__)


def test_name_with_spaces_warns_if_the_file_is_there(highlighter: Highlighter, tmp_path: Path) -> None:
    path = tmp_path / "my notes.txt"
    highlighter.highlights("Where?", [str(path)])
    path.write_text("Here.")
    with pytest.warns(errors.UsageWarning, match="my notes.txt"):
        highlighter.highlights("Where?", [str(path)])


def test_text_that_ends_like_a_name_and_is_longer_than_any_is_a_page(highlighter: Highlighter) -> None:
    page = "The moon is far. " * 40 + "See moon.html"
    assert highlighter.highlights("Where is the moon?", [page])[0]


def test_model_whose_name_is_longer_than_any_is_refused() -> None:
    with raises(errors.PullquoteError, "a" * 300):
        Highlighter("a" * 300, local_files_only=True)


@pytest.mark.slow
def test_missing_cuda_device_is_device_error() -> None:
    with raises(errors.DeviceError, "cuda:63"):
        Highlighter(devices="cuda:63")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment or None
    )


HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
"""


ASKED_FOR_TORCH = (
    "import sys, pullquote\n"
    "assert pullquote.highlights('moon', ['The moon rises.'])[0]\n"
    "assert 'torch' not in sys.modules\n"
    "for asked in {'encoder': 'torch'}, {'devices': 'cuda'}, {'devices': ['cpu', 'cuda:1']}:\n"
    "    try:\n        pullquote.Highlighter(**asked)\n"
    "    except pullquote.PullquoteError as error:\n        print(type(error).__name__, error)\n"
)


@pytest.mark.parametrize("missing", ["pullquote_torch", "torch"])
def test_missing_torch_is_no_encoder_error(missing: str) -> None:
    done = python(HIDE.format(names={missing}) + ASKED_FOR_TORCH)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line in lines:
        assert line.startswith("NoEncoderError"), line
        assert missing in line, line
        assert "pullquote[torch]" in line, line


@pytest.mark.slow  # It needs pullquote-torch, with another torch.
def test_wrong_torch_is_torch_version_error() -> None:
    code = "import types, sys; t = types.ModuleType('torch'); t.__version__ = '2.13.0+cpu'; wrong = t\n" + (
        ASKED_FOR_TORCH.replace("for asked in", "sys.modules['torch'] = wrong\nfor asked in")
    )
    done = python(code)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    for line in lines:
        assert line.startswith("TorchVersionError"), line
        assert "2.13.0+cpu" in line, line
        assert "2.11" in line, line


def test_unknown_encoder_name_is_error() -> None:
    with raises(errors.InvalidArgumentError, "encoder", "touch", "torch"):
        Highlighter(encoder="touch")  # type: ignore[arg-type]


def test_closed_highlighter_raises_closed_error() -> None:
    with Highlighter(devices="cpu") as closed:
        assert closed.highlights("cat", ["The cat."])[0]
    closed.close()
    with pytest.raises(errors.ClosedError):
        closed.highlights("cat", ["The cat."])


def test_errors_of_users_have_at_most_three_of_our_frames(highlighter: Highlighter, tmp_path: Path) -> None:
    async def awaited(call: Callable[[], Any]) -> None:
        await call()

    client, other = Client("http://127.0.0.1:1", retries=0), pullquote.AsyncClient("http://127.0.0.1:1", retries=0)
    shared = pullquote.AsyncHighlighter.sharing(highlighter)
    page = ["Here it is."]
    wrong: list[Callable[[], Any]] = [
        lambda: pullquote.highlights("Where?", "page"),
        lambda: pullquote.highlights("Where?", page, topk=3),  # type: ignore[call-arg]
        lambda: highlighter.highlights("Where?", page, top_k=0),
        lambda: highlighter.highlights("Where?", [Path("nowhere.txt")]),
        lambda: highlighter.highlights_arrow(3),  # type: ignore[arg-type]
        lambda: highlighter.embed("one"),
        lambda: pullquote.Highlighter("/nowhere"),
        lambda: pullquote.Highlighter(devices=3),  # type: ignore[arg-type]
        lambda: Hosted("/nowhere", 384),
        lambda: Planner("/nowhere"),
        lambda: Hosted(embedded_model(), 384).start("Where?", "page"),
        lambda: highlighter.stream("Where?", "page"),
        lambda: next(highlighter.stream("Where?", [3])),  # type: ignore[list-item]
        lambda: client.highlights("Where?", "page"),
        lambda: client.highlights("Where?", files=["nowhere.pdf"]),
        lambda: client.embed([]),
        lambda: client.get_document("moon"),
        lambda: documents.read(tmp_path / "nowhere"),
        lambda: documents.read(b"\x89PNG\r\n\x1a\n\0"),
        lambda: asyncio.run(awaited(lambda: shared.highlights("Where?", "page"))),
        lambda: asyncio.run(awaited(lambda: other.highlights("Where?", "page"))),
        lambda: asyncio.run(awaited(lambda: other.get_document("moon"))),
        lambda: highlighter.highlights("Where?", page).marked(0, encoder="xml"),  # type: ignore[call-overload]
        lambda: highlighter.highlights("Where?", page).resolve(7),
    ]
    ours = str(Path(pullquote.__file__).parent)
    for call in wrong:
        with pytest.raises(errors.PullquoteError) as caught:
            call()
        frames = [str(entry.path) for entry in caught.traceback if str(entry.path).startswith(ours)]
        assert 1 <= len(frames) <= 3, (caught.value, frames)


def test_errors_of_an_encoder_keep_their_traceback() -> None:
    def failing(_: list[str]) -> Any:
        message = "no more vectors"
        raise KeyError(message)

    with pytest.raises(errors.EncoderError) as caught:
        Highlighter(encoder=failing)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_say_what_to_do(highlighter: Highlighter, copied: Callable[[object], object]) -> None:
    for one in (highlighter, pullquote.AsyncHighlighter.sharing(highlighter), Client("http://127.0.0.1:1")):
        with raises(errors.InvalidTypeError, type(one).__name__, "copied", "threads", "process"):
            copied(one)


@pytest.mark.parametrize("kind", [Client, pullquote.AsyncClient])
def test_client_without_address_is_our_error(kind: type[Any]) -> None:
    with raises(errors.InvalidTypeError, kind.__name__, "url"):
        kind()


def test_address_of_a_model_names_its_name() -> None:
    with raises(errors.InvalidArgumentError, "https://huggingface.co/org/name/tree/main", "'org/name'"):
        Highlighter("https://huggingface.co/org/name/tree/main")
