"""`--allowed-host`: a site that resolves its name to this machine gets no answer."""

import pytest

from support.messages import raises
from support.server_process import ServerProcess, StartError, letter_server, read_until_closed

ASKED = {"query": "bread", "documents": ["Bread is baked."]}


def ask(server: ServerProcess, host: str) -> int:
    answer = server.client.post("/highlights", json=ASKED, headers={"host": host})
    if answer.status_code == 421:
        assert answer.json()["error"]["kind"] == "wrong_host"
    return answer.status_code


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]:8080", "localhost", "LOCALHOST:1", "10.1.2.3"])
def test_addresses_and_localhost_are_allowed_hosts(server: ServerProcess, host: str) -> None:
    assert ask(server, host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"]
)
def test_other_host_is_421_on_every_route(server: ServerProcess, host: str) -> None:
    assert ask(server, host) == 421
    for path in ("/live", "/metrics", "/docs", "/documents/a", "/nowhere"):
        assert server.client.get(path, headers={"host": host}).status_code == 421
    failure = server.client.post("/v1/embeddings", json={"input": "a"}, headers={"host": host}).json()
    assert failure["error"]["code"] == "wrong_host"
    assert ask(server, "localhost") == 200


def test_missing_and_second_host_header_is_400(server: ServerProcess) -> None:
    """RFC 9112, 3.2. HTTP/1.0 has no host."""
    for version, hosts, status in (
        ("1.0", [], 200),
        ("1.1", [], 400),
        ("1.1", ["localhost", "localhost"], 400),
        ("1.1", ["local host"], 400),
        ("1.1", ["localhost"], 200),
    ):
        lines = [f"GET /live HTTP/{version}", *(f"host: {host}" for host in hosts), "connection: close"]
        with server.connect() as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = read_until_closed(connection)
        assert answer.startswith(f"HTTP/{version} {status}".encode()), (hosts, answer)
        assert (b'"kind":"malformed_head"' in answer) == (status == 400)


def test_host_of_absolute_address_is_checked(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET http://evil.example/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert read_until_closed(connection).startswith(b"HTTP/1.1 421")


def test_allowed_host() -> None:
    with letter_server("--allowed-host", "pages.example", "--allowed-host", "Other.Example") as server:
        assert [ask(server, host) for host in ("pages.example", "other.example:80", "localhost")] == [200] * 3
        assert ask(server, "evil.example") == 421


EVERYWHERE = ["--host", "0.0.0.0"]  # noqa: S104 - what is tested


@pytest.mark.parametrize("options", [["--api-key", "k"], ["--allowed-host", "*"], EVERYWHERE], ids=str)
def test_any_host_is_allowed_with_keys_or_public_address(options: list[str]) -> None:
    with letter_server(*options) as server:
        port = server.url.rsplit(":", 1)[1]
        server.client.base_url = f"http://127.0.0.1:{port}"
        server.client.headers["x-api-key"] = "k"
        assert ask(server, "evil.example") == 200


def test_invalid_allowed_host_stops_start() -> None:
    with (
        raises(StartError, "--allowed-host", "https://example.com"),
        letter_server("--allowed-host", "https://example.com"),
    ):
        pass
