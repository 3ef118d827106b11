"""Claim: in ten minutes of all kinds of requests at once, no answer is wrong or lost, and memory does not grow.

Thirty-two users send requests of all kinds, each again after its answer: highlights of real pages inline and stored, with
many options, as lines too; vectors in two formats; ranks; token ids; Exa's contents; health. Some requests are invalid,
disconnect early, time out, or read slowly. Every answer with status 200 is compared with the library's own, computed in
this process first; every refusal must be the expected one. The model is a tiny one of random weights, in float32, so that
ten minutes are many thousands of requests.

    .venv/bin/python bench/soak.py
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.memory import QUERIES, page, sources
from bench.options import add_no_record, claim_parser
from bench.overload import quarters, resident_bytes
from bench.serving import Server, ours
from pullquote import Highlighter
from pullquote.errors import TruncationWarning

CLAIM = "soak"
USERS = 32
QUESTIONS = 400  # different ones, each sent many times
TOLERANCE = 1e-4  # of a score in float32
BEGINNING = 100  # characters of a text that is ranked whole: longer ones are read in windows
GROUP_BYTES = 32 * 1024  # of the first pages that are answered together, in lines
GOAL_MEMORY = 1.05

OPTIONS: list[dict[str, Any]] = [
    {},
    {"top_k": 1},
    {"top_k": 5, "order": "position"},
    {"max_chars": 300},
    {"max_total_chars": 500, "dedupe": "answer"},
    {"highlight_length": 1, "expand": False, "top_k": 4},
    {"unit": "word", "highlight_length": 30, "step_size": 15, "top_k": 2},
    {"effort": "full"},
    {"min_score": 0.4, "context": 1, "explain": True},
    {"lexical_weight": 0.0},
]


@dataclass(frozen=True, slots=True)
class Question:
    """A request whose answer is known: passages of documents, or vectors of texts."""

    query: str
    texts: list[str]
    options: dict[str, Any]
    # For each text its passages: start, end, text, score.
    passages: list[list[tuple[int, int, str, float]]]
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    # Of the query with the beginning of each text.
    cosines: np.ndarray[Any, np.dtype[np.float32]]


@dataclass(slots=True)
class Tally:
    """The outcomes of all requests, which the users share."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, outcome: str) -> None:
        """Count a request that ended as expected."""
        with self.lock:
            self.outcomes[outcome] += 1

    def check(self, is_right: bool, what: str, detail: object) -> None:
        """Count an answer, and keep its faults."""
        with self.lock:
            self.outcomes[what] += 1
            if not is_right:
                self.wrong.append(f"{what}: {detail}")


class User:
    """A user that sends random requests until the end."""

    def __init__(self, server: Server, questions: list[Question], tally: Tally, seed: int) -> None:
        self.address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        self.client = httpx.Client(base_url=server.url, timeout=120)
        self.model = self.client.get("/v1/models").raise_for_status().json()["data"][0]["id"]
        self.questions, self.tally = questions, tally
        self.rng = random.Random(seed)  # noqa: S311 - the same requests each time
        self.kinds: list[tuple[int, Callable[[Question], None]]] = [
            (20, self.highlights),
            (6, self.lines),
            (6, self.stored),
            (14, self.embed),
            (14, self.openai),
            (8, self.rerank),
            (4, self.tokens),
            (6, self.contents),
            (4, self.nonsense),
            (4, self.hang_up),
            (4, self.out_of_time),
            (2, self.read_slowly),
            (2, self.health),
        ]

    def run(self, until: float) -> None:
        """Send requests until this time."""
        weights, kinds = zip(*self.kinds, strict=True)
        while time.monotonic() < until:
            (kind,) = self.rng.choices(kinds, weights)
            try:
                kind(self.rng.choice(self.questions))
            except Exception as error:  # after any error, this request has no answer
                with self.tally.lock:
                    self.tally.lost.append(f"{kind.__name__}: {error!r}")
        self.client.close()

    def request_body(self, question: Question, **more: Any) -> dict[str, Any]:
        """The body of a question for the native route."""
        return {"query": question.query, "documents": question.texts} | question.options | more

    def found(self, question: Question, results: list[dict[str, Any]], what: str) -> None:
        """Compare passages with the known ones."""
        same = [
            len(result["highlights"]) == len(known)
            and all(
                (one["start"], one["end"], one["text"]) == (start, end, text) and abs(one["score"] - score) <= TOLERANCE
                for one, (start, end, text, score) in zip(result["highlights"], known, strict=True)
            )
            for result, known in zip(results, question.passages, strict=True)
        ]
        self.tally.check(all(same), what, (question.query, question.options, same))

    def highlights(self, question: Question) -> None:
        """Request passages."""
        answer = self.client.post("/highlights", json=self.request_body(question)).raise_for_status().json()
        self.found(question, answer["results"], "highlights")

    def lines(self, question: Question) -> None:
        """Request passages as lines, one for each page.

        The windows of pages in different groups do not compete (docs/server.md): such answers differ from the known ones.
        """
        if sum(len(text.encode()) for text in question.texts) > GROUP_BYTES:
            return
        accept = {"accept": "application/x-ndjson"}
        answer = self.client.post("/highlights", json=self.request_body(question), headers=accept).raise_for_status()
        lines = [json.loads(line) for line in answer.text.splitlines()]
        self.found(question, [line for line in lines if "highlights" in line], "highlights as lines")

    def stored(self, question: Question) -> None:
        """Store a document, get it, and request its passages."""
        name = f"{id(self)}-{self.rng.randrange(4)}"
        self.client.put(f"/documents/{name}", json={"text": question.texts[0]}).raise_for_status()
        kept = self.client.get(f"/documents/{name}").raise_for_status().json()
        self.tally.check(kept["text"] == question.texts[0], "documents put and got", name)
        body = self.request_body(question, documents=[{"id": name}, *question.texts[1:]])
        self.found(
            question,
            self.client.post("/highlights", json=body).raise_for_status().json()["results"],
            "highlights of stored documents",
        )
        if self.rng.random() < 0.5:
            self.client.delete(f"/documents/{name}").raise_for_status()

    def near(self, vectors: Any, known: np.ndarray[Any, Any], what: str) -> None:
        """Compare vectors with the known ones."""
        got = np.asarray(vectors, np.float32)
        is_right = got.shape == known.shape and float(np.abs(got - known).max()) <= TOLERANCE
        self.tally.check(is_right, what, got.shape)

    def embed(self, question: Question) -> None:
        """Request vectors as Text Embeddings Inference's clients do."""
        answer = self.client.post("/embed", json={"inputs": question.texts}).raise_for_status()
        self.near(answer.json(), question.vectors, "vectors")

    def openai(self, question: Question) -> None:
        """Request vectors as OpenAI's clients do."""
        body = {"input": question.texts, "model": self.model, "encoding_format": "float", "truncate": True}
        data = self.client.post("/v1/embeddings", json=body).raise_for_status().json()["data"]
        self.near([row["embedding"] for row in data], question.vectors, "vectors for OpenAI's clients")

    def rerank(self, question: Question) -> None:
        """Request a ranking of short texts."""
        body = {"query": question.query, "texts": [text[:BEGINNING] for text in question.texts]}
        ranks = self.client.post("/rerank", json=body).raise_for_status().json()
        scores = {rank["index"]: rank["score"] for rank in ranks}
        is_right = all(abs(scores[index] - score) <= TOLERANCE for index, score in enumerate(question.cosines))
        self.tally.check(is_right, "ranks", scores)

    def tokens(self, question: Question) -> None:
        """Request tokens."""
        answer = self.client.post("/tokenize", json={"inputs": question.query}).raise_for_status().json()
        spans = [question.query.encode()[t["start"] : t["stop"]].decode() for t in answer[0] if not t["special"]]
        self.tally.check(spans == [t["text"] for t in answer[0] if not t["special"]], "tokens", spans)

    def contents(self, question: Question) -> None:
        """Request passages as Exa's clients do."""
        documents = [{"id": f"d{number}", "text": text} for number, text in enumerate(question.texts)]
        body = {
            "ids": [document["id"] for document in documents],
            "documents": documents,
            "highlights": {"query": question.query, "highlightsPerUrl": 2},
        }
        answer = self.client.post("/contents", json=body).raise_for_status().json()
        parts = zip(answer["results"], question.texts, strict=True)
        is_right = all(passage in text for result, text in parts for passage in result["highlights"])
        self.tally.check(is_right and len(answer["statuses"]) == len(documents), "contents for Exa's clients", "")

    def nonsense(self, question: Question) -> None:
        """Send an invalid request."""
        body, status = self.rng.choice(
            [
                (b"{", 400),
                (b"\xff\xfe", 400),
                (b'{"query": "a", "documents": "\xc3\x28"}', 400),
                (json.dumps({"query": " ", "documents": ["a"]}).encode(), 400),
                (json.dumps({"query": "a", "documents": ["a"], "top_k": 0}).encode(), 400),
                (json.dumps({"query": "a", "documents": ["a"], "colour": 1}).encode(), 422),
                (b"[" * 5000, 400),
            ]
        )
        answer = self.client.post("/highlights", content=body, headers={"content-type": "application/json"})
        kind = answer.json()["error"]["kind"]
        self.tally.check(answer.status_code in {status, 422, 400} and bool(kind), "nonsense refused", answer.text)
        del question

    def send(self, question: Question) -> socket.socket:
        """Send a request over a bare socket."""
        body = json.dumps(self.request_body(question)).encode()
        head = "POST /highlights HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        connection = socket.create_connection(self.address, timeout=120)
        connection.sendall(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        return connection

    def hang_up(self, question: Question) -> None:
        """Send a request, and disconnect."""
        with self.send(question):
            time.sleep(self.rng.random() * 0.05)  # while the server works on it
        self.tally.count("hung up")

    def read_slowly(self, question: Question) -> None:
        """Send a request, and read the answer slowly."""
        with self.send(question) as connection:
            got = b""
            while chunk := connection.recv(self.rng.randrange(1, 4000)):
                got += chunk
                time.sleep(0.001)
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        self.found(question, json.loads(body)["results"], "highlights read slowly")

    def out_of_time(self, question: Question) -> None:
        """Send a request with a timeout of next to nothing."""
        headers = {"request-timeout-ms": str(self.rng.choice([1, 2, 5, 20]))}
        answer = self.client.post("/highlights", json=self.request_body(question), headers=headers)
        if answer.status_code == httpx.codes.OK:
            self.found(question, answer.json()["results"], "highlights just in time")
        else:
            right = (answer.status_code, answer.json()["error"]["kind"]) == (504, "deadline_exceeded")
            self.tally.check(right, "out of time", answer.text)

    def health(self, _: Question) -> None:
        """Request the server's health."""
        answer = self.client.get("/health")
        self.tally.check(answer.status_code == httpx.codes.OK, "health", answer.text)


def questions(highlighter: Highlighter) -> list[Question]:
    """Invent requests, and compute their answers with the library, one at a time."""
    rng, texts = random.Random(7), sources()  # noqa: S311 - the same requests each time
    made = []
    for number in range(QUESTIONS):
        pages = [page(rng, texts, "text", rng.randrange(200, 8000)) for _ in range(rng.choice([1, 1, 2, 5]))]
        query, options = rng.choice(QUERIES), OPTIONS[number % len(OPTIONS)]
        found = highlighter.highlights(query, pages, **options)
        passages = [[(one.start, one.end, one.text, one.score) for one in answer] for answer in found]
        beginnings = highlighter.embed([text[:BEGINNING] for text in pages])
        cosines = beginnings @ highlighter.embed([query], role="query")[0]
        made.append(Question(query, pages, options, passages, highlighter.embed(pages), cosines))
    return made


def main() -> None:
    """Soak, compare, print, keep."""
    parser = claim_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="(default: %(default)s)")
    add_no_record(parser)
    arguments = parser.parse_args()
    around = record.circumstances() | {"dtype": "float32"}
    warnings.simplefilter("ignore", TruncationWarning)  # the texts are pages
    tally, resident = Tally(), []
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        subprocess.run([sys.executable, Path(__file__).with_name("small_model.py"), directory], check=True)
        with Highlighter(directory, devices="cpu", dtype="float32", cache_bytes=0) as highlighter:
            made = questions(highlighter)
        options = ["--model", directory, "--device", "cpu", "--dtype", "float32"]
        server = stack.enter_context(ours(*options, "--store", f"{directory}/documents.sqlite"))
        threads = stack.enter_context(ThreadPoolExecutor(USERS))
        until = time.monotonic() + 60 * arguments.minutes
        users = [threads.submit(User(server, made, tally, seed).run, until) for seed in range(USERS)]
        while time.monotonic() < until:
            time.sleep(0.6 * arguments.minutes)  # a hundred readings of memory
            resident.append(resident_bytes(server.process.pid))
        for user in users:
            user.result()
        metrics = httpx.get(f"{server.url}/metrics").text
    left = {name: value for name, value in read(metrics).items() if name.endswith(("_running", "_waiting"))}
    goals = [
        Goal("wrong answers", len(tally.wrong), most=0, form=".0f"),
        Goal("requests without an answer", len(tally.lost), most=0, form=".0f"),
        Goal("requests left in the server when all are answered", sum(left.values()), most=0, form=".0f"),
        Goal("memory in the last quarter over that in the first", quarters(resident), most=GOAL_MEMORY, form=".3f"),
    ]
    outcomes = dict(sorted(tally.outcomes.items(), key=lambda outcome: -outcome[1]))
    raw = around | {
        "minutes": arguments.minutes,
        "outcomes": outcomes,
        "wrong": tally.wrong[:20],
        "lost": tally.lost[:20],
        "resident": resident,
        "goals": [asdict(goal) for goal in goals],
    }
    lines = [
        *record.heading(CLAIM, around),
        f"{sum(outcomes.values()):,} requests by {USERS} users in {arguments.minutes:.0f} minutes; resident memory "
        f"{min(resident) / 1e6:.0f} to {max(resident) / 1e6:.0f} MB.",
        "",
        "| what | requests |",
        "|---|---:|",
        *(f"| {what} | {count:,} |" for what, count in outcomes.items()),
        "",
        *(goal.line() for goal in goals),
        *(f"- {what}" for what in [*tally.wrong[:5], *tally.lost[:5]]),
    ]
    record.publish(CLAIM, raw, "\n".join(lines) + "\n", keeps=not arguments.no_record)


def read(metrics: str) -> dict[str, float]:
    """Read metrics without labels."""
    lines = [line.rsplit(" ", 1) for line in metrics.splitlines() if line and line[0] != "#" and "{" not in line]
    return {name: float(value) for name, value in lines}


if __name__ == "__main__":
    main()
