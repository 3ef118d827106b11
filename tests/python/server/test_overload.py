"""Twenty times as many clients as a server admits: each gets its right answer, or 429 at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from support.server_process import ServerProcess, metric, resident_bytes, running_server

TAKEN = 10  # requests at work and waiting
CLIENTS = 20 * TAKEN
FILLER = "Nothing is said here of it. " * 40
# What the allocator and connections may keep.
SLACK_BYTES = 40_000_000


@pytest.fixture(scope="module")
def small() -> Iterator[ServerProcess]:
    with running_server(
        "--dtype", "float32", "--max-concurrent", "2", "--max-queue", "8", "--cache-bytes", "0"
    ) as server:
        yield server


def ask(client: httpx.Client, number: int) -> httpx.Response:
    """A question that only this client's page answers."""
    page = f"{FILLER}Ship number {number} carries bread. {FILLER}"
    body = {"query": f"What does ship number {number} carry?", "documents": [page], "highlight_length": 1, "top_k": 1}
    return client.post("/highlights", json=body)


def wave(server: ServerProcess) -> tuple[int, int]:
    """Run all clients until they are answered; returns the numbers of answers and refusals."""

    def client(number: int) -> int:
        refused = 0
        while (answer := ask(shared, number)).status_code != 200:
            assert answer.status_code == 429, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["error"]["kind"] == "overloaded"
            refused += 1
        (best,) = answer.json()["results"][0]["highlights"]
        assert best["text"] == f"Ship number {number} carries bread."
        return refused

    limits = httpx.Limits(max_connections=CLIENTS)
    with (
        ThreadPoolExecutor(CLIENTS) as clients,
        httpx.Client(base_url=server.url, timeout=120, limits=limits) as shared,
    ):
        refusals = list(clients.map(client, range(CLIENTS)))
    return len(refusals), sum(refusals)


@pytest.mark.slow
def test_overload_gets_429_and_all_clients_succeed_on_retry(small: ServerProcess) -> None:
    answered, refused = wave(small)
    assert answered == CLIENTS
    assert refused > CLIENTS - TAKEN
    before = resident_bytes(small.process.pid)
    assert wave(small)[0] == CLIENTS
    assert resident_bytes(small.process.pid) - before < SLACK_BYTES
    assert metric(small, "pullquote_requests_running") == 0
    assert metric(small, "pullquote_requests_waiting") == 0
    assert ask(small.client, 7).status_code == 200
