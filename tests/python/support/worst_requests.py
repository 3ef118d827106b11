"""The dearest requests that are known, many at once, with small requests at the same time."""

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

MOON = "".join(f"The moon is {number}. " for number in range(20_000))
PAGE = "a\n\n" * 60_000
SMALL = {"query": "bread", "documents": ["Bread is baked. The moon is white."], "highlight_length": 1, "top_k": 1}

# Each is inside the limits of bodies, documents and queries.
WORST: dict[str, tuple[str, dict[str, Any]]] = {
    "tokens": ("/tokenize", {"inputs": "[" * 4_000_000}),
    "four texts of tokens": ("/tokenize", {"inputs": ["[" * 8_000_000] * 4}),
    "context": ("/highlights", {"query": "moon", "documents": [MOON], "context": 20_000, "top_k": 20_000}),
    "blocks": (
        "/highlights",
        {
            "query": [f"moon {number}" for number in range(64)],
            "documents": [PAGE],
            "format": "markdown",
            "pairing": "all",
            "return_blocks": True,
            "top_k": 1,
        },
    ),
    "lines": ("/highlights", {"query": "moon", "documents": ["a\n" * 2_000_000], "effort": "full"}),
    "embedded tags": ("/embed", {"inputs": ["<p>a" * 2_000_000]}),
    "many texts": ("/embed", {"inputs": ["moon"] * 2048}),
    "ranks": ("/rerank", {"query": "moon", "documents": ["moon is " * 1_000_000]}),
}

REFUSED = {400, 408, 413, 422, 429, 504}


@dataclass
class Outcome:
    """How many requests of each kind had which status, and the small ones' times in seconds."""

    worst: dict[str, Counter[int]] = field(default_factory=dict)
    small: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def flood(url: str, each: int, kinds: list[str], timeout_ms: int = 20_000) -> Outcome:
    """Send `each` of every kind at once, and small requests one after the other until all are answered."""
    outcome = Outcome({kind: Counter() for kind in kinds})
    bodies = {kind: json.dumps(WORST[kind][1]).encode() for kind in kinds}
    headers = {"content-type": "application/json", "request-timeout-ms": str(timeout_ms)}
    begin = threading.Barrier(each * len(kinds) + 1)

    def send(kind: str) -> None:
        begin.wait()
        try:
            with httpx.stream(
                "POST", url + WORST[kind][0], content=bodies[kind], headers=headers, timeout=300
            ) as answer:
                for _ in answer.iter_raw():
                    pass
                outcome.worst[kind][answer.status_code] += 1
        except httpx.HTTPError as error:
            outcome.failed.append(f"{kind}: {error!r}")

    threads = [threading.Thread(target=send, args=(kind,)) for kind in kinds for _ in range(each)]
    for thread in threads:
        thread.start()
    begin.wait()
    with httpx.Client(timeout=300) as client:
        while True:
            is_last = not any(thread.is_alive() for thread in threads)
            began = time.monotonic()
            answer = client.post(url + "/highlights", json=SMALL)
            outcome.small.append(time.monotonic() - began)
            if answer.status_code != 200 or answer.json()["results"][0]["highlights"][0]["text"] != "Bread is baked.":
                outcome.failed.append(f"small: {answer.status_code} {answer.text[:200]}")
            if is_last:
                return outcome
