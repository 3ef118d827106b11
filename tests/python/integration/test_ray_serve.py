"""The server on Ray Serve: all routes, and right answers even when servers, replicas and nodes die."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from pullquote import Client, Highlighter, errors
from support import crashing_encoder
from support.fake_letter_encoder import letters
from support.messages import names_all, raises
from support.ray_cluster import RAY_MARKS, Nodes
from support.server_process import wait_for

pytestmark = RAY_MARKS

PORT = 28_123
URL = f"http://127.0.0.1:{PORT}"
PAGES = [f"The moon of {name} is far. Bread is baked at {name}. The sea is wet." for name in "abcdefghij"]
DOOM = "The doom of the moon. Bread is far."
QUERY = "How far is the moon?"
PATIENCE = 300


class Served:
    """The running application."""

    def __init__(self, nodes: Nodes, handle: Any) -> None:
        self.nodes, self._handle = nodes, handle

    def replicas(self) -> dict[str, dict[str, Any]]:
        """The processes of the replicas that answer now, by node."""
        found = [self._handle.processes.remote() for _ in range(8)]
        return {said["node"]: said for said in (one.result(timeout_s=PATIENCE) for one in found)}


@pytest.fixture(scope="module")
def served(cluster: Nodes) -> Iterator[Served]:
    cluster.replace()
    with pytest.MonkeyPatch.context() as patch:
        # Workers import modules from the driver's working directory.
        patch.chdir(Path(__file__).parents[1])
        with cluster.joined():
            from ray import serve

            from pullquote.ray import build

            serve.start(http_options={"host": "127.0.0.1", "port": PORT, "location": "HeadOnly"})
            options = {
                "encoder": "support.crashing_encoder:letters",
                "min_replicas": 2,
                "max_replicas": 2,
                "log_level": "off",
            }
            yield Served(cluster, serve.run(build(options), name="pullquote"))
            serve.shutdown()


def test_ray_serve_has_server_routes(served: Served) -> None:
    assert len(served.replicas()) == 2
    with httpx.Client(base_url=URL, timeout=PATIENCE) as client:
        listed = client.get("/openapi.json").json()["paths"]
        assert {"/highlights", "/embed", "/v1/embeddings", "/rerank", "/contents"} <= listed.keys()
        assert client.get("/health").json()["healthy"] is True
        page = client.get("/", headers={"accept-encoding": "gzip"})
        assert page.headers["content-type"].startswith("text/html")
        assert page.headers.get_list("date") == [page.headers["date"]]
        refused = client.post("/highlights", json={"query": "x"})
        assert (refused.status_code, refused.headers["x-error-kind"]) == (422, "invalid_body")
        assert client.get("/nothing?at=all").status_code == 404
        raw = client.post("/embed", json={"inputs": ["a b"]}, headers={"accept": "application/octet-stream"})
        assert raw.headers["content-type"] == "application/octet-stream"
        assert len(raw.content) % 4 == 0
        stored = client.put("/documents/a", json={"text": "x"})
        assert (stored.status_code, stored.headers["x-error-kind"]) == (404, "not_found")
        assert names_all(stored.json()["error"]["message"], "max_replicas=1")
        metrics = client.get("/metrics").text
        assert "pullquote_requests_running" in metrics


@pytest.mark.usefixtures("served")
def test_client_of_ray_serve_matches_highlighter() -> None:
    with Highlighter(encoder=letters) as highlighter, Client(URL) as client:
        found, expected = (asked.highlights(QUERY, PAGES * 20) for asked in (client, highlighter))
    assert [[h.text for h in page] for page in found] == [[h.text for h in page] for page in expected]
    assert [[h.score for h in page] for page in found] == [
        [pytest.approx(h.score, abs=1e-5) for h in page] for page in expected
    ]


class Traffic:
    """Clients that send requests until `enough` is set, each until it has the right answer.

    They retry when the connection broke, which Ray Serve reports as a 500 without our headers, and when no server is there.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._highlighter = Highlighter(encoder=letters, cache_bytes=0)
        self.enough = threading.Event()
        self.answered = self.asked_again = 0
        self._failure: BaseException | None = None

    def work(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error
            raise

    def _work(self) -> None:
        with httpx.Client(base_url=URL, timeout=PATIENCE) as client:
            while not self.enough.is_set():
                # A new page each time, because cached pages are not encoded again.
                number = next(self._numbers)
                page = f"Number {number}. {DOOM if number % 5 == 0 else PAGES[number % len(PAGES)]}"
                expected = [highlight.text for highlight in self._highlighter.highlights(QUERY, [page])[0]]
                assert self._ask(client, page) == expected
                self.answered += 1

    def _ask(self, client: httpx.Client, page: str) -> list[str]:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                answer = client.post("/highlights", json={"query": QUERY, "documents": [{"text": page}]})
            except httpx.TransportError:
                self.asked_again += 1
                continue
            if answer.status_code == 200:
                return [highlight["text"] for highlight in answer.json()["results"][0]["highlights"]]
            broke = answer.status_code == 500 and "x-error-kind" not in answer.headers
            assert broke or answer.status_code == 503, (answer.status_code, answer.text)
            self.asked_again += 1
            time.sleep(0.05)
        pytest.fail("no answer")

    def wait_for_more(self) -> None:
        wanted = self.answered + 30
        self.wait_for(lambda: self.answered >= wanted)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Poll a condition; fails at once if an answer was wrong."""
        wait_for(lambda: condition() or self._failure is not None, PATIENCE)
        if self._failure is not None:
            raise self._failure


def test_ray_serve_loses_no_request_when_server_replica_and_node_die(served: Served) -> None:
    traffic = Traffic()
    with ThreadPoolExecutor(6) as threads:
        working = [threads.submit(traffic.work) for _ in range(6)]
        try:
            traffic.wait_for_more()
            crashing_encoder.schedule_crash("process")
            traffic.wait_for(lambda: not crashing_encoder.is_crash_pending("process"))
            traffic.wait_for_more()
            again = traffic.asked_again
            assert again > 0
            killed = next(iter(served.replicas().values()))
            os.kill(killed["replica"], signal.SIGKILL)
            # The replica's server ends with it.
            traffic.wait_for(lambda: not Path(f"/proc/{killed['server']}").exists())
            traffic.wait_for_more()
            crashing_encoder.schedule_crash("node")
            traffic.wait_for(lambda: crashing_encoder.node_to_kill() is not None)
            served.nodes.kill(crashing_encoder.node_to_kill() or 0)
            traffic.wait_for_more()
            assert traffic.asked_again > again
        finally:
            traffic.enough.set()
        for one in working:
            one.result(PATIENCE)


def test_invalid_build_options_are_errors() -> None:
    from pullquote.ray import build

    for options, names in (
        ({"port": 80}, ["port"]),
        ({"colour": "red"}, ["--colour"]),
        ({"max_body_bytes": "many"}, ["many"]),
        ({"min_replicas": 9}, ["min_replicas", "max_replicas"]),
    ):
        with raises(errors.InvalidArgumentError, *names):
            build(options)
