"""Models by name: downloads from a local hub, with ``huggingface_hub`` and with our own client, and its shared cache."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest

import pullquote
from pullquote import _cli, errors
from pullquote._models import choice, hub_client
from pullquote._models.choice import find_on_hub
from pullquote._models.hub import HubOptions
from pullquote._models.hub_download import fetch
from pullquote.engine import Hosted
from support.local_hub import LocalHub, Repository, local_hub, tiny_model
from support.messages import names_all, raises
from support.server_process import running_server

NAME = "org/tiny"
TOKEN = "hf_secret"  # noqa: S105 - it is none
OTHERS = {
    "README.md": b"# Tiny",
    "pytorch_model.bin": b"x",
    "onnx/model.onnx": b"x",
    "tf_model.h5": b"x",
    "vocab.txt": b"a",
}
TEXTS = ["The moon is 384,400 km away.", "Cats sleep."]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: Path) -> Iterator[LocalHub]:
    """A hub with one model, and an empty cache."""
    for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub_client, "PAUSE", 0.01)
    with local_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        running.add(NAME, tiny, **OTHERS)
        yield running


@pytest.fixture(params=[pytest.param("library", marks=pytest.mark.slow), "own"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which client downloads."""
    kind = str(request.param)
    if kind == "own":
        without_library(monkeypatch)
    return kind


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    without_library(monkeypatch)


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "huggingface_hub" else find_spec(name)
    )


def highlighter(model: str | Path = NAME, **arguments: Any) -> pullquote.Highlighter:
    return pullquote.Highlighter(model, devices="cpu", dtype="float32", threads=1, **arguments)


def vectors(model: str | Path = NAME, **arguments: Any) -> Any:
    with highlighter(model, **arguments) as made:
        return made.embed(TEXTS)


def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "hub" / "models--org--tiny"


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("client")
def test_named_model_is_downloaded_once(hub: LocalHub, tiny: Path, tmp_path: Path) -> None:
    expected = vectors(tiny)
    with highlighter() as made:
        assert np.array_equal(made.embed(TEXTS), expected)
        assert made.model_name == NAME
        assert NAME in repr(made)
    commit = hub.repositories[NAME].commit
    snapshot = folder(tmp_path) / "snapshots" / commit
    assert made.model == snapshot
    needed = {"config.json", "config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"}
    needed |= {"1_Pooling/config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert files_below(snapshot) == needed & files_below(tiny)
    assert all(path.is_symlink() for path in snapshot.rglob("*") if path.is_file())
    assert (folder(tmp_path) / "refs" / "main").read_text() == commit
    hub.requests.clear()
    assert np.array_equal(vectors(), expected)
    assert np.array_equal(vectors(revision=commit), expected)
    assert hub.requests == []


@pytest.mark.usefixtures("client")
def test_revision_and_cache_dir_choose_commit_and_folder(hub: LocalHub, tmp_path: Path) -> None:
    repository = hub.repositories[NAME]
    repository.refs["refs/pr/1"] = repository.commit
    cache = tmp_path / "elsewhere"
    assert vectors(revision="refs/pr/1", cache_dir=cache).shape == (2, 32)
    assert (cache / "models--org--tiny" / "refs" / "refs" / "pr" / "1").read_text() == repository.commit
    assert not folder(tmp_path).exists()
    vectors(revision=repository.commit)
    assert not any("/revision/" in path for path in hub.paths()[-5:])
    hub.requests.clear()
    vectors(revision="refs/pr/1", cache_dir=cache, local_files_only=True)
    assert hub.requests == []


@pytest.mark.usefixtures("client")
def test_new_commit_is_fetched_by_get_only(hub: LocalHub, tiny: Path) -> None:
    old = find_on_hub(NAME, HubOptions())
    hub.add(NAME, tiny, **{"README.md": b"new"})
    assert find_on_hub(NAME, HubOptions()) == old
    new = fetch(NAME, HubOptions())
    assert new != old
    assert find_on_hub(NAME, HubOptions()) == new
    # The blobs are shared.
    assert (new / "model.safetensors").resolve() == (old / "model.safetensors").resolve()
    assert len([path for path in hub.paths("storage") if path.endswith("model.safetensors")]) <= 2  # HEAD and GET


@pytest.mark.parametrize("source", ["argument", "HF_TOKEN", "file"])
@pytest.mark.usefixtures("client")
def test_token_goes_to_hub_only(hub: LocalHub, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[NAME].tokens = frozenset({TOKEN})
    argument = None
    if source == "argument":
        argument = TOKEN
    elif source == "HF_TOKEN":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    else:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "token").write_text(f"{TOKEN}\n")
        # The library reads this variable when it is imported.
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "home" / "token"))
    with highlighter(token=argument) as made:
        assert made.embed(TEXTS).shape == (2, 32)
    assert hub.paths("storage")
    for request in hub.requests:
        assert request.headers.get("authorization") == (f"Bearer {TOKEN}" if request.host == "hub" else None)
    cached = [path for path in (tmp_path / "home" / "hub").rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in path.read_bytes() for path in cached)


@pytest.mark.usefixtures("own")
def test_token_stays_on_hub_that_redirects_to_itself(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[NAME].tokens = frozenset({TOKEN})
    answer = hub._answer

    def moved(request: Any, query: str) -> Any:
        if request.path.startswith("/api/models/org/old"):
            return 307, {"Location": request.path.replace("old", "tiny") + (f"?{query}" if query else "")}, b""
        return answer(request, query)

    monkeypatch.setattr(hub, "_answer", moved)
    client = hub_client.HubClient(hub.url, TOKEN, Path())
    commit, files = client.files("org/old", "main")
    assert commit == hub.repositories[NAME].commit
    assert "model.safetensors" in {file.path for file in files}
    assert {request.headers.get("authorization") for request in hub.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.usefixtures("own")
def test_broken_download_is_resumed(hub: LocalHub) -> None:
    hub.breaks = 2
    assert vectors().shape == (2, 32)
    ranges = [request.headers.get("range") for request in hub.requests if request.host == "storage"]
    assert ranges == [None, "bytes=1000000-", "bytes=2000000-"]


@pytest.mark.usefixtures("own")
def test_later_process_resumes_broken_download(hub: LocalHub, tmp_path: Path) -> None:
    # Without progress, five attempts in a row end it.
    hub.breaks, hub.break_after = 5, 0
    with raises(errors.UnavailableError, NAME, hub.url):
        vectors()
    [part] = (folder(tmp_path) / "blobs").glob("*.incomplete")
    # What it may have had before the break.
    part.write_bytes(hub.repositories[NAME].files["model.safetensors"][:1_234_567])
    hub.requests.clear()
    assert vectors().shape == (2, 32)
    assert [request.headers.get("range") for request in hub.requests if request.host == "storage"] == ["bytes=1234567-"]
    assert not list((folder(tmp_path) / "blobs").glob("*.incomplete"))


@pytest.mark.usefixtures("own")
def test_damaged_part_is_downloaded_anew(hub: LocalHub, tmp_path: Path) -> None:
    hub.breaks, hub.break_after = 5, 0
    with raises(errors.UnavailableError, NAME):
        vectors()
    [part] = (folder(tmp_path) / "blobs").glob("*.incomplete")
    part.write_bytes(b"damaged")
    hub.breaks = 0
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("own")
def test_busy_hub_is_asked_again(hub: LocalHub) -> None:
    hub.statuses = [503, 429, 500]
    assert vectors().shape == (2, 32)
    hub.statuses = [503] * 5
    with raises(errors.UnavailableError, hub.url, 503):
        fetch(NAME, HubOptions())


@pytest.mark.usefixtures("own")
def test_silent_storage_times_out(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "ATTEMPTS", 1)
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1")
    hub.storage_gate.clear()
    with raises(errors.UnavailableError, NAME, "timed out"):
        vectors()
    hub.storage_gate.set()


@pytest.mark.usefixtures("client")
def test_host_with_own_model_needs_no_weights(hub: LocalHub) -> None:
    with Hosted(NAME, dimension=4) as hosted:
        assert hosted.model_name == NAME
    assert hub.paths("storage") == []
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("client")
def test_file_with_wrong_bytes_is_refused(hub: LocalHub) -> None:
    hub.corrupts = True
    with raises(errors.BadAnswerError, "model.safetensors"):
        vectors()
    hub.corrupts = False
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("own")
def test_file_that_is_too_short_is_refused(hub: LocalHub) -> None:
    """Resuming it is answered with status 416."""
    hub.shortens = 10
    with raises(errors.BadAnswerError, "model.safetensors"):
        vectors()
    hub.shortens = 0
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("client")
def test_refusal_of_storage_names_its_host(hub: LocalHub) -> None:
    """As of a firewall that lets only the hub through."""
    hub.storage_status = 403
    with raises(errors.UnavailableError, hub.storage.removeprefix("http://"), 403):
        vectors()
    hub.storage_status = 0
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("hub", "client")
def test_damaged_blob_is_named_and_replaced(tmp_path: Path) -> None:
    expected = vectors()
    snapshot = find_on_hub(NAME, HubOptions())
    for name, content in {"model.safetensors": b"\0" * 8, "modules.json": b"[{"}.items():
        (snapshot / name).resolve().write_bytes(content)
        # Without the list of files, whose sizes would say it earlier.
        for tree in (folder(tmp_path) / "trees").glob("*"):
            tree.unlink()
        with raises(errors.InvalidModelError, "pullquote models get org/tiny"):
            vectors(local_files_only=True)
        assert _cli.main(["models", "get", NAME]) == 0
        assert np.array_equal(vectors(local_files_only=True), expected)


@pytest.mark.usefixtures("client")
def test_refusals_of_hub_say_what_to_do(hub: LocalHub, tiny: Path) -> None:
    with raises(errors.ModelNotFoundError, "org/missing", hub.url, "HF_TOKEN"):
        vectors("org/missing")
    with raises(errors.ModelNotFoundError, NAME, "v9"):
        vectors(revision="v9")
    with raises(errors.ModelNotFoundError, NAME, "0" * 40):
        vectors(revision="0" * 40)
    hub.add("org/gated", tiny).tokens = frozenset({TOKEN})
    with raises(errors.UnauthorizedError, "org/gated", f"{hub.url}/org/gated", "HF_TOKEN"):
        vectors("org/gated")
    with raises(errors.UnauthorizedError, "org/gated", "token"):
        vectors("org/gated", token="hf_of_another")  # noqa: S106 - as above
    hub.add("org/private", tiny)
    hub.repositories["org/private"] = Repository(hub.repositories["org/private"].files, frozenset({TOKEN}), True)
    with raises(errors.ModelNotFoundError, "org/private", "HF_TOKEN"):
        vectors("org/private")
    assert vectors("org/private", token=TOKEN).shape == (2, 32)


@pytest.mark.usefixtures("client")
def test_unreachable_hub_and_offline_errors(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(variable, "1")
        with raises(errors.ModelNotFoundError, NAME, f"{variable}=1", "pullquote models get"):
            vectors()
        with raises(errors.ModelNotFoundError, NAME, f"{variable}=1"):
            fetch(NAME, HubOptions())
        monkeypatch.delenv(variable)
    with raises(errors.ModelNotFoundError, NAME, "local_files_only"):
        vectors(local_files_only=True)
    assert hub.requests == []
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with raises(errors.UnavailableError, NAME, "http://127.0.0.1:9", "HF_ENDPOINT"):
        vectors()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    vectors()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert vectors().shape == (2, 32)


@pytest.mark.usefixtures("client")
def test_full_disk_is_named(hub: LocalHub, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as full:
        full.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
        with raises(errors.ModelNotFoundError, tmp_path / "home" / "hub", "HF_HOME", "cache_dir"):
            vectors()
    assert not [path for path in hub.paths() if path.endswith("model.safetensors")]
    old = find_on_hub(NAME, HubOptions())
    # A new commit with the same files needs no space.
    hub.add(NAME, tiny, **{"README.md": b"new"})
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    assert fetch(NAME, HubOptions()) != old


@pytest.mark.usefixtures("hub", "own")
def test_unwritable_cache_dir_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises(errors.ModelNotFoundError, tmp_path / "file", "cache_dir"):
        vectors(cache_dir=tmp_path / "file")


@pytest.mark.usefixtures("own")
def test_hostile_hub_writes_nothing_outside_cache(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = hub.repositories[NAME]
    modules = [{"path": "../../../../evil", "type": "sentence_transformers.models.Pooling"}]
    for path in ("../../../../../evil/config.json", "/evil/config.json", "..\\evil"):
        repository.files[path] = b"{}"
    assert vectors().shape == (2, 32)
    repository.files["modules.json"] = json.dumps(modules).encode()
    with raises(errors.InvalidModelError, "modules.json"):
        fetch(NAME, HubOptions())
    monkeypatch.setattr("support.local_hub.etag", lambda *_: "../../../../evil")
    with raises(errors.UnsupportedModelError, "config.json"):
        fetch(NAME, HubOptions())
    monkeypatch.setattr(Repository, "commit", "../../../evil")
    with raises(errors.BadAnswerError, hub.url):
        fetch(NAME, HubOptions())
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.usefixtures("client")
def test_model_without_tokenizer_is_refused_before_its_weights(hub: LocalHub) -> None:
    del hub.repositories[NAME].files["tokenizer.json"]
    with raises(errors.UnsupportedModelError, NAME, "tokenizer.json"):
        vectors()
    assert hub.paths("storage") == []


@pytest.mark.usefixtures("client")
def test_unsupported_model_is_refused_before_its_weights(hub: LocalHub) -> None:
    hub.repositories[NAME].files["config.json"] = b'{"model_type": "t5"}'
    for call in (vectors, lambda: fetch(NAME, HubOptions())):
        with raises(errors.UnsupportedModelError, "config.json", "t5"):
            call()
    assert hub.paths("storage") == []


def test_processes_download_a_file_once(hub: LocalHub) -> None:
    program = (
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name: None if name == 'huggingface_hub' else find(name)\n"
        "import pullquote\n"
        f"print(pullquote.Highlighter({NAME!r}, devices='cpu', threads=1).embed(['one text']).shape)"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].strip() for process in started] == ["(1, 32)"] * 3
    assert len(hub.paths("storage")) == 1


@pytest.mark.parametrize("has_tree", [True, False])
def test_cache_of_huggingface_hub_is_read_offline(
    hub: LocalHub, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_tree: bool
) -> None:
    hub.repositories[NAME].files[".gitattributes"] = b"*.bin filter=lfs"
    cache = tmp_path / "home" / "hub"
    huggingface_hub.snapshot_download(NAME, endpoint=hub.url, cache_dir=cache)
    assert (folder(tmp_path) / "trees").exists()
    if not has_tree:
        for tree in (folder(tmp_path) / "trees").glob("*"):
            tree.unlink()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert np.array_equal(vectors(), vectors(tiny))


def test_cache_of_single_files_is_read_offline(
    hub: LocalHub, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sentence-transformers fills it."""
    cache = tmp_path / "home" / "hub"
    for path in sorted(files_below(tiny)):
        huggingface_hub.hf_hub_download(NAME, path, endpoint=hub.url, cache_dir=cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert np.array_equal(vectors(), vectors(tiny))


@pytest.mark.usefixtures("client")
def test_cache_without_modules_is_not_pooled_by_guess(hub: LocalHub, tiny: Path, tmp_path: Path) -> None:
    """As transformers fills it: whether the hub has a modules.json stays unknown."""
    cache = tmp_path / "home" / "hub"
    for path in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        huggingface_hub.hf_hub_download(NAME, path, endpoint=hub.url, cache_dir=cache)
    with raises(errors.ModelNotFoundError, NAME, "modules.json", "local_files_only"):
        vectors(local_files_only=True)
    hub.requests.clear()
    assert np.array_equal(vectors(), vectors(tiny))
    assert hub.paths("storage") == []
    # A model that has none: then that is remembered.
    del hub.repositories[NAME].files["modules.json"]
    fetch(NAME, HubOptions())
    assert vectors(local_files_only=True).shape == (2, 32)


@pytest.mark.usefixtures("own")
def test_huggingface_hub_reads_our_cache(hub: LocalHub, tiny: Path, tmp_path: Path) -> None:
    find_on_hub(NAME, HubOptions())
    cache = tmp_path / "home" / "hub"
    found = huggingface_hub.snapshot_download(NAME, cache_dir=cache, local_files_only=True)
    assert (Path(found) / "config.json").read_bytes() == (tiny / "config.json").read_bytes()
    weights = huggingface_hub.hf_hub_download(NAME, "model.safetensors", cache_dir=cache, local_files_only=True)
    assert Path(weights).read_bytes() == (tiny / "model.safetensors").read_bytes()
    hub.requests.clear()
    huggingface_hub.snapshot_download(NAME, endpoint=hub.url, cache_dir=cache, allow_patterns="*.safetensors")
    assert hub.paths("storage") == []


def test_path_that_exists_wins(hub: LocalHub, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny.parents[1])
    name = f"{tiny.parent.name}/{tiny.name}"
    hub.add(name, tiny)
    assert vectors(name).shape == (2, 32)
    assert hub.requests == []
    with raises(errors.InvalidArgumentError, "revision", "v1", name):
        vectors(name, revision="v1")
    for path in ("/no/such/model", "~/none/such/model", "./none/such", Path("org/tiny")):
        with raises(errors.ModelNotFoundError):
            vectors(path)
    assert hub.requests == []


def test_bare_name_is_of_sentence_transformers(hub: LocalHub, tiny: Path) -> None:
    hub.add("sentence-transformers/some-model", tiny)
    with highlighter("some-model") as made:
        assert made.model_name == "sentence-transformers/some-model"


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_embedded_model_has_a_name_without_network(hub: LocalHub, name: str) -> None:
    with highlighter(name) as made:
        assert made.model == choice.embedded_model()
        assert made.model_name == choice.EMBEDDED_NAME
    assert hub.requests == []
    with raises(errors.ModelNotFoundError, "sentence-transformers/all-MiniLM-L6-v2", hub.url):
        highlighter(name, revision="v9")


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ({"revision": "../main"}, errors.InvalidArgumentError, ["revision", "../main"]),
        ({"revision": 7}, errors.InvalidTypeError, ["revision", "string", "7"]),
        ({"token": 7}, errors.InvalidTypeError, ["token", "string", "secret"]),
    ],
)
def test_invalid_hub_arguments_are_errors(
    hub: LocalHub, arguments: dict[str, Any], error: type[Exception], names: list[str]
) -> None:
    with raises(error, *names):
        vectors(**arguments)
    assert hub.requests == []


def test_highlights_takes_a_name(hub: LocalHub) -> None:
    page = "Cats sleep. The moon is 384,400 km away."
    first = pullquote.highlights("How far is the moon?", [page], model=NAME, top_k=1)
    hub.requests.clear()
    again = pullquote.highlights("How far is the moon?", [page], model=NAME, top_k=1)
    assert first[0][0].text == again[0][0].text
    assert hub.requests == []


def test_models_lists_cache(hub: LocalHub, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["models"]) == 0
    assert names_all(capsys.readouterr().out, tmp_path / "home" / "hub")
    assert _cli.main(["models", "get", NAME]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "config.json").exists()
    hub.add("org/t5", tiny, **{"config.json": b'{"model_type": "t5"}'})
    assert _cli.main(["models", "get", "org/t5"]) == errors.UnsupportedModelError.exit_code
    capsys.readouterr()
    assert _cli.main(["models", "--json"]) == 0
    rows = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows[NAME]["problem"] is None
    assert (rows[NAME]["refs"], rows[NAME]["revision"]) == (["main"], hub.repositories[NAME].commit)
    assert "t5" in rows["org/t5"]["problem"]
    assert _cli.main(["models"]) == 0
    assert names_all(capsys.readouterr().out, NAME, "main", "loads", "org/t5")
    assert _cli.main(["models", "get", str(tiny)]) == errors.InvalidArgumentError.exit_code


def test_commands_take_names_and_revisions(hub: LocalHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.txt"
    page.write_text("Cats sleep. The moon is 384,400 km away.")
    model = ["--model", NAME, "--revision", hub.repositories[NAME].commit, "--device", "cpu"]
    assert _cli.main(["highlight", "--json", "-q", "How far is the moon?", str(page), *model]) == 0
    assert json.loads(capsys.readouterr().out)["highlights"]
    assert _cli.main(["embed", str(page), "-o", str(tmp_path / "rows.npy"), *model]) == 0
    assert np.load(tmp_path / "rows.npy").shape == (1, 32)
    job = ["job", "--input", str(tmp_path / "pages.jsonl"), "--output", str(tmp_path / "out"), "-q", "moon?"]
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": page.read_text()}))
    assert _cli.main([*job, *model]) == 0
    assert _cli.main(["highlight", "-q", "q", str(page), "--model", "org/none"]) == errors.ModelNotFoundError.exit_code
    assert names_all(capsys.readouterr().err, "org/none")


@pytest.mark.usefixtures("hub")
def test_server_serves_a_named_model() -> None:
    with running_server("--model", NAME, "--dtype", "float32") as server:
        assert httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"] == NAME


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_sentence_transformers_reads_our_cache(tmp_path: Path) -> None:
    expected = vectors()
    program = (
        "import numpy, sentence_transformers, sys\n"
        f"model = sentence_transformers.SentenceTransformer({NAME!r}, device='cpu')\n"
        f"numpy.save(sys.argv[1], model.encode({TEXTS!r}))"
    )
    rows = tmp_path / "rows.npy"
    done = subprocess.run(
        [sys.executable, "-c", program, str(rows)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.abs(np.load(rows) - expected).max() < 1e-5
