"""With little memory, the worst requests are answered or refused, and small ones at the same time are all answered."""

import sys

import pytest

from support.server_process import letter_server
from support.worst_requests import REFUSED, flood

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a limit of the address space that is enforced")

LIMIT = ("bash", "-c", f'ulimit -v {3 * 2**20}; exec "$@"', "serve")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [["tokens", "context"], ["blocks", "lines"], ["embedded tags", "many texts", "ranks"]], ids=str
)
def test_worst_requests_do_not_end_the_process(kinds: list[str]) -> None:
    with letter_server("--max-queue-bytes", str(64 * 2**20), prefix=LIMIT) as server:
        outcome = flood(server.url, 4, kinds)
        assert not outcome.failed
        statuses = {status for kind in outcome.worst.values() for status in kind}
        assert statuses <= REFUSED | {200}
        assert all(sum(kind.values()) == 4 for kind in outcome.worst.values())
        assert len(outcome.small) > 1
        assert server.process.poll() is None
        assert "memory allocation" not in server.log


def test_request_over_max_memory_bytes_is_413() -> None:
    with letter_server("--max-memory-bytes", str(64 * 2**20)) as server:
        small = {"query": "moon", "documents": ["The moon is white. " * 3_000]}
        assert server.client.post("/highlights", json=small).status_code == 200
        large = {"query": "moon", "documents": ["The moon is white. " * 10_000]}
        refused = server.client.post("/highlights", json=large)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (413, "limit_exceeded")
        assert "max-memory-bytes" in refused.json()["error"]["message"]
        # It is only stored.
        assert server.client.put("/documents/large", json={"text": large["documents"][0]}).status_code == 201
        named = {"query": "moon", "documents": {"ids": ["large"]}}
        assert server.client.post("/highlights", json=named).status_code == 413
        assert server.client.post("/highlights", json=small).status_code == 200
