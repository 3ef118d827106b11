"""API keys of the command line and of a file, open routes, and CORS."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from pullquote import errors
from support.messages import raises
from support.server_process import ServerProcess, StartError, letter_server, wait_for

ASKED = {"query": "bread", "documents": ["Bread is baked."]}


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("# ours\nfile-key-1\n\n  file-key-2  \n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def guarded(keys_file: Path) -> Iterator[ServerProcess]:
    options = ["--api-key", "first-key", "--api-key", "second-key", "--api-keys-file", str(keys_file)]
    with letter_server(*options, "--cors-origin", "https://example.com") as server:
        yield server


def ask(server: ServerProcess, **headers: str) -> int:
    return server.client.post("/highlights", json=ASKED, headers=headers).status_code


@pytest.mark.parametrize("key", ["first-key", "second-key", "file-key-1", "file-key-2"])
def test_api_keys_as_bearer_and_x_api_key(guarded: ServerProcess, key: str) -> None:
    assert ask(guarded, authorization=f"Bearer {key}") == 200
    assert ask(guarded, authorization=f"bearer  {key}") == 200
    assert ask(guarded, **{"x-api-key": key}) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer first"},
        {"authorization": "first-key"},
        {"authorization": "Basic first-key"},
        {"authorization": "Bearer"},
        {"x-api-key": ""},
        {"x-api-key": "first-key2"},
        {"x-api-key": "# ours"},
    ],
    ids=str,
)
def test_other_keys_are_401(guarded: ServerProcess, headers: dict[str, str]) -> None:
    answer = guarded.client.post("/highlights", json=ASKED, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["kind"] == "unauthorized"
    assert guarded.client.get("/nowhere", headers=headers).status_code == 401


def test_protect_all_covers_health_and_metrics(guarded: ServerProcess) -> None:
    for path in ("/live", "/health", "/metrics"):
        assert guarded.client.get(path).status_code == 200
    with letter_server("--api-key", "k", "--protect-all") as server:
        for path in ("/live", "/health", "/metrics", "/docs"):
            assert server.client.get(path).status_code == 401
            assert server.client.get(path, headers={"x-api-key": "k"}).status_code != 401


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize("name", ["PULLQUOTE_API_KEY", "PULLQUOTE_UPSTREAM_KEY"])
def test_empty_secret_of_environment_stops_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with raises(StartError, name, "empty") as caught, letter_server():
        pass
    assert caught.value.exit_code == errors.InvalidArgumentError.exit_code


@pytest.mark.parametrize("options", [["--api-key", ""], ["--api-key", "k", "--api-key", " "], ["--upstream-key", ""]])
def test_empty_secret_stops_start(options: list[str]) -> None:
    with raises(StartError, "key", "empty") as caught, letter_server(*options):
        pass
    assert caught.value.exit_code == errors.InvalidArgumentError.exit_code


def has_logged(server: ServerProcess, text: str) -> bool:
    return text in server.log


def test_log_warns_of_access_without_key() -> None:
    public = ["--host", "0.0.0.0"]  # noqa: S104 - what is tested
    for options, is_warned in ((public, True), ([*public, "--api-key", "k"], False), ([], False)):
        with letter_server(*options) as server:
            wait_for(partial(has_logged, server, "serving"))
            server.client.get(
                f"http://127.0.0.1:{server.url.rsplit(':', 1)[1]}/live", headers={"x-request-id": "later"}
            )
            wait_for(partial(has_logged, server, "later"))
            assert ("without a key" in server.log) == is_warned


def test_api_keys_file_is_reloaded(guarded: ServerProcess, keys_file: Path) -> None:
    keys_file.write_text("file-key-3\n", encoding="utf-8")
    wait_for(lambda: ask(guarded, **{"x-api-key": "file-key-3"}) == 200)
    assert ask(guarded, **{"x-api-key": "file-key-1"}) == 401
    keys_file.unlink()
    wait_for(lambda: "cannot be read" in guarded.log)
    assert ask(guarded, **{"x-api-key": "file-key-3"}) == 200
    keys_file.write_text("file-key-1\nfile-key-2\n", encoding="utf-8")
    wait_for(lambda: ask(guarded, **{"x-api-key": "file-key-1"}) == 200)


def test_log_has_no_api_keys(guarded: ServerProcess) -> None:
    ask(guarded, authorization="Bearer wrong-secret")
    guarded.client.get("/live", headers={"x-request-id": "after-the-secret"})
    wait_for(lambda: "after-the-secret" in guarded.log)
    assert not any(word in guarded.log for word in ("first-key", "file-key", "wrong-secret"))


def preflight(server: ServerProcess, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    return server.client.options("/highlights", headers=headers)


def test_cors_origin(guarded: ServerProcess, server: ServerProcess) -> None:
    allowed = preflight(guarded, "https://example.com")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://example.com"
    assert "authorization" in allowed.headers["access-control-allow-headers"]
    headers = {"origin": "https://example.com", "x-api-key": "first-key"}
    answer = guarded.client.post("/highlights", json=ASKED, headers=headers)
    assert answer.headers["access-control-allow-origin"] == "https://example.com"
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in preflight(guarded, "https://evil.example").headers
    assert "access-control-allow-origin" not in preflight(server, "https://example.com").headers
