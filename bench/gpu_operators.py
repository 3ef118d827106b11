"""The stage `operators` of `bench/gpu.py`: what the encoder relies on, each alone, called from Python.

If `gate` finds wrong vectors, this table tells which operator or function of CUDA is not what rust/torch takes it for. Each row is
compared with plain operators in float32 on the CPU.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import gelu, linear

from bench.gpu_trial import Findings, Trial

# MiniLM's sizes. Of the rows, one has a single token, one is empty, and one is longer than a block of the attention's kernel.
HEADS, WIDTH, HIDDEN, INTERMEDIATE = 12, 32, 384, 1536
LENGTHS = (3, 1, 150, 64, 17, 0)
TOKENS = sum(LENGTHS)
NOT_READY = 600
TIMES = 20


def operators(trial: Trial) -> Findings:
    """Call each operator, and compare."""
    kind = getattr(torch, trial.dtype)
    # Parts of the largest value: float16's rounding of products and of their sums, and less for float32.
    most = 1e-5 if trial.is_cpu else 2e-3
    checks: dict[str, tuple[Callable[[Any, Any], tuple[Callable[[], Any], Any]], float]] = {
        "rows of a table, by int32 (index_select)": (lookup, 0.0),
        "GELU in a product's epilogue (_addmm_activation)": (activated, most),
        "a product added in place (addmm_)": (residual, most),
        "means of rows, by int32 offsets (segment_reduce)": (means, 1e-4),
    }
    if not trial.is_cpu:
        checks |= {
            "pinned memory and events of our own": (pinned, 0.0),
            "an event, asked by a thread without a CUDA context": (event_of_thread, 0.0),
            "attention without padding (_flash_attention_forward)": (flash, 4 / 2048),
            "the same, within 40 tokens": (flash_window, 4 / 2048),
            "attention with a mask (_scaled_dot_product_efficient_attention)": (efficient, 4 / 2048),
            "a CUDA graph, captured by the runtime": (graph, most),
        }
    findings = Findings({"operators": {}})
    rows: list[list[str]] = []
    failed: list[str] = []
    for name, (check, bound) in checks.items():
        try:
            call, expected = check(trial.device, kind)
            largest = max(1.0, float(expected.abs().max()))
            difference = float((call().cpu().float() - expected).abs().max()) / largest
            milliseconds = timed(call)
        # Whatever it is, it is what this stage is for.
        except Exception as error:
            print(f"{name}: {error!r}")
            findings.numbers["operators"][name] = {"error": repr(error)}
            rows.append([name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", "", ""])
            failed.append(name)
            continue
        findings.numbers["operators"][name] = {"difference": difference, "milliseconds": milliseconds}
        rows.append([name, f"{difference:.1e}", f"{bound:.1e}", f"{milliseconds:.3f}"])
        failed += [] if difference <= bound else [name]
    findings.table(["operator", "difference, as a part of the largest value", "at most", "ms"], rows)
    if failed:
        findings.outcome = f"failed: {'; '.join(failed)}"
    return findings


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds of a call that waits for its result."""
    began = time.perf_counter()
    for _ in range(TIMES):
        call().cpu()
    return (time.perf_counter() - began) * 1000 / TIMES


def samples(*shape: int) -> Any:
    """Values between -1 and 1, float32, the same each time."""
    count = int(torch.tensor(shape).prod())
    return torch.arange(count, dtype=torch.float64).square().mul(0.61803398875).sin().float().view(shape)


def lookup(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """Rows of the embeddings."""
    table, ids = samples(1_000, HIDDEN).to(kind), torch.arange(0, 1_000, 7, dtype=torch.int32)
    on_card, ids_there = table.to(device), ids.to(device)
    return lambda: on_card.index_select(0, ids_there), table[ids.long()].float()


def activated(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """The first half of a layer's MLP; on a card GELU is tanh's approximation."""
    rows, bias = samples(TOKENS, HIDDEN).to(kind), samples(INTERMEDIATE).to(kind)
    weight = (samples(INTERMEDIATE, HIDDEN) / 10).to(kind)
    expected = gelu(linear(rows.float(), weight.float(), bias.float()))
    there = [each.to(device) for each in (bias, rows, weight)]
    return lambda: torch.ops.aten._addmm_activation(there[0], there[1], there[2].t(), use_gelu=True), expected


def residual(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """The second half, added to what came before."""
    rows, before = samples(TOKENS, INTERMEDIATE).to(kind), samples(TOKENS, HIDDEN).to(kind)
    weight = (samples(HIDDEN, INTERMEDIATE) / 20).to(kind)
    expected = before.float() + linear(rows.float(), weight.float())
    there = [each.to(device) for each in (before, rows, weight)]
    return lambda: there[0].clone().addmm_(there[1], there[2].t()), expected


def means(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """Pooling; an empty row is zero."""
    del kind
    values, of_rows = samples(TOKENS, HIDDEN), ends()
    parts = values.split(LENGTHS)
    expected = torch.stack([part.mean(0) if len(part) else torch.zeros(HIDDEN) for part in parts])
    there, ends_there = values.to(device), of_rows.to(device)
    return lambda: torch.segment_reduce(there, "mean", offsets=ends_there, axis=0, unsafe=True, initial=0), expected


def ends() -> Any:
    """Where rows begin, and where the last one ends: int32."""
    return torch.tensor([0, *LENGTHS]).cumsum(0).int()


def flash(device: Any, kind: Any, window: int | None = None) -> tuple[Callable[[], Any], Any]:
    """Attention of each row to itself, `[tokens, heads, width]`; queries are as large as a model's."""
    queries, keys, values = (part.to(kind) for part in (samples(TOKENS, 3, HEADS, WIDTH) * 1.0).unbind(1))
    rows = zip(queries.split(LENGTHS), keys.split(LENGTHS), values.split(LENGTHS), strict=True)
    expected = torch.cat([plain(*row, window) for row in rows])
    there = [each.to(device) for each in (queries, keys, values, ends(), ends())]
    reach: dict[str, int] = {} if window is None else {"window_size_left": window, "window_size_right": window}
    longest = max(LENGTHS)

    def call() -> Any:
        return torch.ops.aten._flash_attention_forward(*there, longest, longest, 0.0, False, False, scale=1.0, **reach)[
            0
        ]

    return call, expected


def flash_window(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """Local attention."""
    return flash(device, kind, 40)


def plain(queries: Any, keys: Any, values: Any, window: int | None) -> Any:
    """Attention of one row, in float32."""
    queries, keys, values = (part.float().transpose(0, 1) for part in (queries, keys, values))
    scores = queries @ keys.transpose(1, 2)
    if window is not None:
        near = torch.ones(scores.shape[1:], dtype=torch.bool).triu(-window).tril(window)
        scores = scores.masked_fill(~near, -torch.inf)
    return (scores.softmax(-1) @ values).transpose(0, 1)


def efficient(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """Attention of four padded rows of 64 tokens; the mask is expanded, not copied."""
    queries, keys, values = (part.to(kind) for part in samples(4, 3, HEADS, 64, WIDTH).unbind(1))
    mask = torch.zeros(4, 1, 1, 64).masked_fill(
        torch.arange(64) >= torch.tensor([64, 5, 33, 1]).view(4, 1, 1, 1), -torch.inf
    )
    scores = queries.float() @ keys.float().transpose(2, 3) + mask
    expected = scores.softmax(-1) @ values.float()
    there = [each.to(device) for each in (queries, keys, values, mask.to(kind))]
    there[3] = there[3].expand(4, HEADS, 64, 64)
    return lambda: torch.ops.aten._scaled_dot_product_efficient_attention(*there, False, 0.0, False, scale=1.0)[
        0
    ], expected


class Runtime:
    """CUDA's runtime, found as `rust/torch/src/torch_cuda.rs` does, and its errors as exceptions."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libtorch_cuda.so")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function."""
        code = getattr(self._library, name)(*arguments)
        if code:
            message = f"{name} returned {code}"
            raise RuntimeError(message)

    def is_done(self, event: Any) -> bool:
        """Ask an event."""
        code = self._library.cudaEventQuery(event)
        if code not in {0, NOT_READY}:
            message = f"cudaEventQuery returned {code}"
            raise RuntimeError(message)
        return bool(code == 0)

    def memory(self, count: int) -> Any:
        """Pinned int32 values; they are never freed."""
        address = ctypes.c_void_p()
        self.call("cudaHostAlloc", ctypes.byref(address), ctypes.c_size_t(4 * count), 1)
        return torch.frombuffer((ctypes.c_int32 * count).from_address(address.value or 0), dtype=torch.int32)

    def event(self) -> ctypes.c_void_p:
        """An event without a time."""
        event = ctypes.c_void_p()
        self.call("cudaEventCreateWithFlags", ctypes.byref(event), 2)
        return event


def pinned(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """A batch's way: copied in, doubled, copied out, and an event."""
    del kind
    runtime, count = Runtime(), 65_536
    there, back, event = runtime.memory(count), runtime.memory(count), runtime.event()
    there.copy_(torch.arange(count))

    def call() -> Any:
        back.fill_(-1)
        back.copy_(there.to(device, non_blocking=True, copy=True) * 2, non_blocking=True)
        runtime.call("cudaEventRecord", event, None)
        while not runtime.is_done(event):
            time.sleep(5e-5)
        return back

    return call, torch.arange(count).float() * 2


def event_of_thread(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """The scheduler's way: it asks for the events of GPUs that are not its thread's; the driver's function wants no context."""
    del kind
    runtime, driver = Runtime(), ctypes.CDLL("libcuda.so.1")
    event = runtime.event()
    codes: list[int] = []

    def ask() -> None:
        while not codes or codes[-1] == NOT_READY:
            codes.append(driver.cuEventQuery(event))

    def call() -> Any:
        codes.clear()
        torch.zeros(1, device=device).add_(1)
        runtime.call("cudaEventRecord", event, None)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return torch.tensor(codes[-1])

    return call, torch.tensor(0.0)


def graph(device: Any, kind: Any) -> tuple[Callable[[], Any], Any]:
    """A layer's MLP, captured on a stream of our own with memory of torch's pool, and launched on the default stream."""
    from pullquote_torch._graphs import CaptureMemory  # noqa: PLC0415 - needs no part of it elsewhere

    runtime = Runtime()
    stream, captured, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    runtime.call("cudaStreamCreateWithFlags", ctypes.byref(stream), 1)
    memory = CaptureMemory(torch.device(device).index or 0, stream.value or 0)
    work, expected = activated(device, kind)
    output = torch.empty(expected.shape, dtype=kind, device=device)
    output.copy_(work())
    with memory.capturing():
        runtime.call("cudaStreamBeginCapture", stream, 1)
        output.copy_(work())
        runtime.call("cudaStreamEndCapture", stream, ctypes.byref(captured))
    runtime.call("cudaGraphInstantiate", ctypes.byref(executable), captured, ctypes.c_ulonglong(0))

    def call() -> Any:
        output.fill_(float("nan"))
        runtime.call("cudaGraphLaunch", executable, None)
        return output

    return call, expected
