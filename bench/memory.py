"""Claim: 10,000 varied requests leave memory as a thousand left it, within 3 %.

Pages of 100 bytes to 100 kB, real text as plain text, Markdown and HTML; one to eight threads that come and go; budgets,
units and orders of all kinds, a cache that is always full; and among them requests that are cancelled, that time out and
that are invalid. The model is a tiny one of random weights, so that ten thousand requests take minutes. Resident memory is
read after every hundred requests, when none is in flight.

    .venv/bin/python bench/memory.py
"""

from __future__ import annotations

import html
import importlib.util
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

# The modules in this directory are the package `bench`, for mypy too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import record
from bench.goals import Goal
from bench.machine_noise import Meter
from bench.options import add_no_record, claim_parser
from pullquote import Highlighter
from pullquote.errors import DeadlineExceededError, PullquoteError

CLAIM = "memory"
BLOCK = 100  # requests between two readings of memory
FIRST = 1000  # the reading that the last one is compared with
GOAL = 1.03
# Threads of a block, in turn. Memory varies by 3 % with the number of threads that just ran, so the turns divide a thousand:
# the readings that are compared follow blocks with the same number of threads.
THREADS = [1, 2, 3, 4, 5, 6, 7, 8, 4, 2]
CACHE_BYTES = 8 * 1024 * 1024
SMALLEST, LARGEST, MEAN = 100, 100_000, 3_000  # approximate bytes of a page
ALLOCATOR = ["LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"]

QUERIES = ["Who died?", "Warum leuchten Rippenquallen?", "百年戦争", "Effect cleanup", "How much did health care cost?"]


class CancelledError(Exception):
    """The error that the alarm raises in a call on the main thread, as Ctrl-C would."""


def main() -> None:
    """Run all requests, compare, print the table and keep the record."""
    parser = claim_parser(__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--dtype", default="auto")
    add_no_record(parser)
    arguments = parser.parse_args()
    circumstances = record.circumstances() | {name: os.environ[name] for name in ALLOCATOR if name in os.environ}
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, Path(__file__).with_name("small_model.py"), directory], check=True)
        with Highlighter(directory, devices="cpu", dtype=arguments.dtype, cache_bytes=CACHE_BYTES) as highlighter:
            measured = measure(highlighter, arguments.requests)
            measured["dtype"] = highlighter.dtype
    raw = circumstances | measured
    table = markdown(raw)
    record.publish(CLAIM, raw, table, keeps=not arguments.no_record)
    if not arguments.no_record:
        plot(raw, record.directory() / f"{CLAIM}.png")


def measure(highlighter: Highlighter, requests: int) -> dict[str, Any]:
    """Send requests in blocks, each with the next number of threads, and read memory after each block."""
    rng = random.Random(5)  # noqa: S311 - the same requests each time
    texts = sources()
    outcomes: Counter[str] = Counter()
    resident, anonymous = [], []
    signal.signal(signal.SIGALRM, cancel)
    meter, began = Meter(), time.perf_counter()
    for block in range(requests // BLOCK):
        made = [request(rng, texts) for _ in range(BLOCK - 1)]
        with ThreadPoolExecutor(THREADS[block % len(THREADS)]) as pool:
            outcomes.update(pool.map(lambda made: ask(highlighter, made), made))
        # Only calls on the main thread can be cancelled by a signal.
        outcomes.update([ask_and_cancel(highlighter, rng, texts)])
        del made
        memory = memory_bytes()
        resident.append(memory["Rss"])
        anonymous.append(memory["Anonymous"])
        if (block + 1) % 10 == 0:
            used = f"{memory['Rss'] / 1e6:.1f} MB, of it {memory['Anonymous'] / 1e6:.1f} not of files"
            print(f"{(block + 1) * BLOCK}: {used}, {time.perf_counter() - began:.0f} s", file=sys.stderr)
    seconds, use = time.perf_counter() - began, meter.stop()
    return {
        "requests": len(resident) * BLOCK,
        "seconds": seconds,
        "others": use.others,
        "outcomes": dict(outcomes),
        "resident": resident,
        "anonymous": anonymous,
    }


def sources() -> dict[str, list[str]]:
    """Read real pages as plain text and Markdown; HTML is made of them, with markup enough to be read as such."""
    pages = record.REPOSITORY / "demo" / "pages"
    plain = [path.read_text(encoding="utf-8") for path in sorted(pages.glob("*.*.*"))]
    markdown = [path.read_text(encoding="utf-8") for path in sorted(pages.glob("*.md"))]
    return {"text": plain, "markdown": markdown, "html": plain}


def request(rng: random.Random, texts: dict[str, list[str]]) -> dict[str, Any]:
    """Invent a request; a few are invalid, or have too little time."""
    unit = rng.choice(["sentence", "sentence", "sentence", "word", "token"])
    length = rng.choice([1, 2, 3] if unit == "sentence" else [20, 40])
    written_in = rng.choice(["text", "text", "markdown", "html", "auto"])
    made: dict[str, Any] = {
        "query": rng.choice(QUERIES),
        "texts": [page(rng, texts, written_in) for _ in range(rng.choice([1, 1, 1, 2, 4]))],
        "format": written_in,
        "unit": unit,
        "highlight_length": length,
        "step_size": max(1, length // 2),
        "top_k": rng.choice([None, 1, 3, 100]),
        "order": rng.choice(["score", "position"]),
        "context": rng.choice([0, 0, 2]),
        "explain": rng.random() < 0.2,
        "expand": rng.random() < 0.8,
        "lexical_weight": rng.choice(["auto", "auto", 0.0, 0.5]),
    }
    made |= rng.choice([{}, {}, {"max_chars": 300}, {"max_tokens": 60}, {"max_total_chars": 500}, {"min_score": 0.4}])
    chance = rng.random()
    if chance < 0.02:
        made |= rng.choice(
            [{"query": " "}, {"texts": ["a lone \ud800 surrogate"]}, {"titles": ["one", "two", "three"] * 9}]
        )
    elif chance < 0.04:
        made |= {"timeout": 0.002, "texts": [*made["texts"], page(rng, texts, "text", LARGEST)]}
    elif chance < 0.1:
        made = {"embed": [page(rng, texts, "text", 400) for _ in range(rng.randrange(1, 40))]}
    return made


def page(rng: random.Random, texts: dict[str, list[str]], written_in: str, size: int | None = None) -> str:
    """Cut a random part out of a real page, so that hardly two are the same; most are short, few are long."""
    size = size or min(LARGEST, SMALLEST + int(rng.expovariate(1 / MEAN) * rng.choice([0.3, 0.5, 1, 2])))
    source = rng.choice(texts.get(written_in, texts["text"]))
    start = rng.randrange(len(source))
    text = source[start : start + size]
    while len(text) < size:
        text += source[: size - len(text)]
    if written_in == "html":
        return "<html><body>" + "".join(f"<p>{html.escape(part)}</p>" for part in text.split("\n\n")) + "</body></html>"
    return text


def ask(highlighter: Highlighter, made: dict[str, Any]) -> str:
    """Send a request, check the answer, and return the outcome."""
    try:
        if "embed" in made:
            assert len(highlighter.embed(made["embed"])) == len(made["embed"])
            return "vectors"
        result = highlighter.highlights(**made)
        assert sum(len(found.text) for answer in result for found in answer) >= 0
    except DeadlineExceededError:
        return "timed out"
    except (PullquoteError, ValueError):
        return "refused"
    return "highlights"


def cancel(_: int, __: FrameType | None) -> None:
    """Handle the alarm as Ctrl-C is handled."""
    raise CancelledError


def ask_and_cancel(highlighter: Highlighter, rng: random.Random, texts: dict[str, list[str]]) -> str:
    """Request several large pages on the main thread, and cancel the call."""
    pages = [page(rng, texts, "text", LARGEST) for _ in range(4)]
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.06)
        highlighter.highlights("Who?", pages, highlight_length=10)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except CancelledError:
        return "cancelled"
    return "highlights, too fast to be cancelled"


def memory_bytes() -> dict[str, int]:
    """Read this process' memory from Linux."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {name: int(value.split()[0]) * 1024 for name, value in (line.split(":") for line in lines)}


def ratio(values: list[int]) -> float:
    """The last reading over the one after the first thousand requests."""
    return values[-1] / values[FIRST // BLOCK - 1]


def markdown(raw: dict[str, Any]) -> str:
    """Write the record as Markdown."""
    lines = [
        *record.long_heading(CLAIM, raw),
        f"- allocator: {', '.join(f'{name}={raw[name]}' for name in ALLOCATOR if name in raw) or 'as installed'}",
        f"- {raw['requests']:,} requests in {raw['seconds']:.0f} s, dtype {raw['dtype']}, "
        f"by {min(THREADS)} to {max(THREADS)} threads: "
        + ", ".join(f"{count:,} {name}" for name, count in sorted(raw["outcomes"].items())),
        f"- a cache of {CACHE_BYTES / 1e6:.1f} MB, full nearly from the start",
        f"- other processes used {raw['others']:.2f} cores, which does not change memory",
        "",
        f"| memory, MB | after {FIRST:,} | most since | after {raw['requests']:,} | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, title in {"resident": "resident", "anonymous": "of it not of files"}.items():
        values = raw[name]
        first = values[FIRST // BLOCK - 1]
        most = max(values[FIRST // BLOCK - 1 :])
        numbers = f"{first / 1e6:.1f} | {most / 1e6:.1f} | {values[-1] / 1e6:.1f}"
        lines.append(f"| {title} | {numbers} | {ratio(values):.3f} |")
    goal = Goal(
        f"resident memory after all requests over that after {FIRST:,}", ratio(raw["resident"]), most=GOAL, form=".3f"
    )
    lines += ["", goal.line()]
    return "\n".join(lines) + "\n"


def plot(raw: dict[str, Any], path: Path) -> None:
    """Plot memory over requests, if matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    pyplot = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 4))
    requests = [(number + 1) * BLOCK for number in range(len(raw["resident"]))]
    for name, title in {"resident": "resident", "anonymous": "not of files"}.items():
        axes.plot(requests, [value / 1e6 for value in raw[name]], label=title)
    axes.axvline(FIRST, color="grey", linewidth=0.5)
    axes.set(xlabel="requests", ylabel="MB", ylim=(0, None), title="memory over requests")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
