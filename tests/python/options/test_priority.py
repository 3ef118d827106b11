"""`priority` in calls, and the header `request-priority` in a server's queue."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

import pullquote
from pullquote.errors import InvalidArgumentError, InvalidTypeError, PullquoteError
from support.gated_server import encoded_texts, gated_server, open_gate
from support.messages import names_all, raises
from support.server_process import metric, wait_for

PAGE = "Bread is baked. The moon is far."


def ones(texts: list[str]) -> NDArray[np.float32]:
    return np.ones((len(texts), 2), dtype=np.float32)


def test_priority_is_32_bit_integer() -> None:
    with pullquote.Highlighter(encoder=ones) as highlighter:
        found = highlighter.highlights("bread", [PAGE], priority=-1)
        assert found[0] == highlighter.highlights("bread", [PAGE], priority=2**31 - 1)[0]
        assert highlighter.embed([PAGE], priority=-(2**31)).shape == (1, 2)
        refused: tuple[type[PullquoteError], ...] = (InvalidTypeError, InvalidArgumentError)
        for wrong in ["high", 1.5, 2**31]:
            with raises(refused, "priority"):
                highlighter.embed([PAGE], priority=wrong)  # type: ignore[arg-type]  # that is what is tried
            with raises(refused, "priority"):
                highlighter.highlights("bread", [PAGE], priority=wrong)  # type: ignore[arg-type]  # as above


def test_request_priority_orders_queued_requests(tmp_path: Path) -> None:
    with (
        gated_server(tmp_path, "--max-concurrent", "1") as server,
        ThreadPoolExecutor(9) as threads,
    ):

        def ask(text: str, priority: str | None) -> httpx.Response:
            headers = {} if priority is None else {"request-priority": priority}
            return httpx.post(f"{server.url}/embed", json={"inputs": text}, headers=headers, timeout=60)

        answers = [threads.submit(ask, "blocker", None)]
        wait_for(lambda: metric(server, "pullquote_requests_running") == 1)

        def waiting(count: int) -> Callable[[], bool]:
            return lambda: metric(server, "pullquote_requests_waiting") == count

        for count, (text, priority) in enumerate([("late", "7"), ("usual", None), ("zero", "0"), ("urgent", "-7")], 1):
            answers.append(threads.submit(ask, text, priority))
            wait_for(waiting(count))
        open_gate(tmp_path)
        assert [answer.result(60).status_code for answer in answers] == [200] * 5
        assert [text for text in encoded_texts(tmp_path) if text in {"late", "usual", "zero", "urgent"}] == [
            "urgent",
            "usual",
            "zero",
            "late",
        ]
        for wrong in ["high", "1.5", "99999999999", ""]:
            refused = ask("late", wrong)
            assert refused.status_code == 400
            assert names_all(refused.json()["error"], "request-priority")
