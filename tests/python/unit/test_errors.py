"""Errors: one table, and the message that says what would work."""

import builtins
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullquote
from pullquote import Highlighter, _native, errors
from pullquote.models import embedded_model


def test_error_table_has_class_for_each_row() -> None:
    table = _native.error_table()
    names = {row["python_class"] for row in table}
    assert names | {"PullquoteError"} == set(errors.__all__)
    for row in table:
        error = getattr(errors, row["python_class"])
        base = getattr(builtins, row["python_base"])
        assert issubclass(error, errors.PullquoteError)
        assert issubclass(error, base)
        assert (error.http_status, error.exit_code, error.retryable) == (
            row["http_status"],
            row["exit_code"],
            row["retryable"],
        )
        assert str(error("what failed")) == "what failed"


def test_option_defaults_match_http() -> None:
    signature = inspect.signature(Highlighter.highlights).parameters.values()
    of_python = {option.name: option.default for option in signature if option.default is not option.empty}
    assert of_python.pop("titles") is None  # over HTTP each document has its own
    assert json.loads(_native.default_options()) == of_python


BAD_CALLS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"query": ""}, errors.InvalidArgumentError, "query 0 is empty"),
    ({"query": " \n"}, errors.InvalidArgumentError, "query 0 is empty"),
    ({"query": 3}, errors.InvalidTypeError, "query must be a list of strings, not int"),
    ({"query": []}, errors.InvalidArgumentError, "empty list"),
    ({"query": ["a", None]}, errors.InvalidTypeError, r"query\[1\] must be a string, not NoneType"),
    ({"texts": []}, errors.InvalidArgumentError, "texts is empty"),
    ({"texts": "page"}, errors.InvalidTypeError, r"not one str; pass \[texts\]"),
    ({"texts": b"page"}, errors.InvalidTypeError, "not one bytes"),
    ({"texts": None}, errors.InvalidTypeError, "not NoneType"),
    ({"texts": ["page", b"page"]}, errors.InvalidTypeError, r"texts\[1\] must be a string, not bytes; decode it first"),
    ({"texts": ["page", 3.5]}, errors.InvalidTypeError, r"texts\[1\] must be a string, not float"),
    ({"texts": ["ok \ud800 not"]}, errors.InvalidTextError, r"texts\[0\] has a lone surrogate at character 3"),
    ({"query": "\udfff"}, errors.InvalidTextError, "lone surrogate at character 0"),
    ({"highlight_length": 0}, errors.InvalidArgumentError, "highlight_length must be at least 1, not 0"),
    ({"highlight_length": -4}, errors.InvalidArgumentError, "not -4"),
    ({"step_size": 0}, errors.InvalidArgumentError, "step_size must be at least 1, not 0"),
    ({"step_size": 4}, errors.InvalidArgumentError, "step_size 4 is larger than highlight_length 3"),
    ({"unit": "line"}, errors.InvalidArgumentError, '"line"'),
    ({"top_k": 0}, errors.InvalidArgumentError, "top_k must be at least 1, not 0"),
    ({"max_chars": 0}, errors.InvalidArgumentError, "max_chars must be at least 1, not 0"),
    ({"min_score": float("nan")}, errors.InvalidArgumentError, "NaN"),
    ({"lexical_weight": 1.5}, errors.InvalidArgumentError, "lexical_weight must be.*not 1.5"),
    ({"lexical_weight": "some"}, errors.InvalidArgumentError, "not 'some'"),
    ({"lexical_weight": float("nan")}, errors.InvalidArgumentError, "not NaN"),
    ({"order": "random"}, errors.InvalidArgumentError, '"random"'),
    ({"top_k": "3"}, errors.InvalidTypeError, "top_k: .*str"),
    ({"timeout": 0}, errors.InvalidArgumentError, "timeout must be more than 0"),
    ({"timeout": 1e-9}, errors.DeadlineExceededError, "timeout passed"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"), BAD_CALLS, ids=[str(change)[:40] for change, _, _ in BAD_CALLS]
)
def test_invalid_call_raises_and_next_call_works(
    highlighter: Highlighter, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"query": "Where?", "texts": ["Here it is. There it was."]} | change
    with pytest.raises(error, match=message):
        highlighter.highlights(**arguments)
    assert highlighter.highlights("Where?", ["Here it is."])[0][0].text == "Here it is."


def test_allow_gaps_permits_step_size_over_highlight_length(highlighter: Highlighter) -> None:
    text = "One is. Two is. Three is. Four is."
    assert pullquote.parse_pieces(text, 1, 2, allow_gaps=True).tolist() == [[0, 7], [16, 25]]
    assert len(highlighter.highlights("Two", [text], highlight_length=1, step_size=2, allow_gaps=True)[0]) == 2


def test_empty_page_has_no_highlights(highlighter: Highlighter) -> None:
    assert list(highlighter.highlights("Who?", ["", "  \n"])) == [[], []]


def test_parse_pieces_in_tokens_without_model_is_error() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"Highlighter\(...\).parse_pieces"):
        pullquote.parse_pieces("text", 1, 1, "token")  # type: ignore[arg-type]  # wrong on purpose


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the embedded model whose files a test may spoil; the weights are a link."""
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
    """One token more than the embedding table has rows."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["onetokentoomany"] = len(vocabulary)
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))


BAD_MODELS: list[tuple[Callable[[Path], None], type[Exception], str]] = [
    (remove("config.json"), errors.ModelNotFoundError, "config.json"),
    (remove("tokenizer.json"), errors.ModelNotFoundError, "tokenizer.json"),
    (remove("model.safetensors"), errors.ModelNotFoundError, "model.safetensors"),
    (write("config.json", b"{"), errors.InvalidModelError, "config.json is damaged"),
    (write("tokenizer.json", b"{}"), errors.InvalidModelError, "tokenizer.json is damaged"),
    (write("model.safetensors", b"not weights"), errors.InvalidModelError, "model.safetensors"),
    (truncate_weights, errors.InvalidModelError, "model.safetensors"),
    (smaller_tokenizer, errors.InvalidModelError, "30523 tokens.*30522 rows"),
    (edit("config.json", hidden_size=768), errors.InvalidModelError, "768"),
    (edit("config.json", model_type="mamba"), errors.UnsupportedModelError, "mamba.*bert.*xlm-roberta"),
    (edit("config.json", hidden_act="swish"), errors.UnsupportedModelError, "swish"),
    (edit("1_Pooling/config.json", pooling_mode_cls_token=True), errors.UnsupportedModelError, "pooling"),
]


@pytest.mark.parametrize(("spoil", "error", "message"), BAD_MODELS)
def test_invalid_model_is_error(
    model: Path, spoil: Callable[[Path], None], error: type[Exception], message: str
) -> None:
    spoil(model)
    with pytest.raises(error, match=message):
        Highlighter(model, devices="cpu")


BAD_DEVICES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"devices": "tpu"}, errors.DeviceError, "tpu"),
    ({"devices": ["cpu", "cpu"]}, errors.InvalidArgumentError, "cpu.*twice"),
    ({"devices": "cpu:x"}, errors.DeviceError, "cpu:x"),
    ({"devices": []}, errors.InvalidArgumentError, "device"),
    ({"dtype": "float8"}, errors.InvalidArgumentError, "float8.*bfloat16"),
    ({"threads": 0}, errors.InvalidArgumentError, "threads must be at least 1"),
    ({"model": "/nowhere/at/all"}, errors.ModelNotFoundError, "/nowhere/at/all"),
    ({"model": 3}, errors.InvalidTypeError, "not int"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_DEVICES)
def test_invalid_device_dtype_or_threads_is_error(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Highlighter(**arguments)


def test_missing_cuda_device_is_device_error() -> None:
    with pytest.raises(errors.DeviceError, match="cuda:63"):
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
        assert 'pip install "pullquote[torch]"' in line, line


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
    with pytest.raises(errors.InvalidArgumentError) as raised:
        Highlighter(encoder="touch")  # type: ignore[arg-type]
    assert "'touch'" in str(raised.value)
    assert '"torch"' in str(raised.value)


def test_closed_highlighter_raises_closed_error() -> None:
    with Highlighter(devices="cpu") as closed:
        assert closed.highlights("cat", ["The cat."])[0]
    closed.close()
    with pytest.raises(errors.ClosedError, match="make a new one"):
        closed.highlights("cat", ["The cat."])
