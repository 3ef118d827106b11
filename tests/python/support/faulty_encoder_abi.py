"""A real encoder wrapped in a C table of the tests, which injects faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from pullquote._models.choice import embedded_model, find_torch_encoder

CAPSULE_NAME = b"pullquote.encoder"

# As `rust/core/src/encoder/abi.rs` lays them out.
SET_WAKER = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
SUBMIT = CFUNCTYPE(
    c_int32,
    c_void_p,
    c_size_t,
    c_void_p,
    c_size_t,
    POINTER(c_uint32),
    c_size_t,
    c_void_p,
    c_size_t,
    POINTER(c_uint64),
)
IS_FINISHED = CFUNCTYPE(c_bool, c_void_p, c_uint64)
COLLECT = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_void_p)
LAST_ERROR = CFUNCTYPE(c_void_p, c_void_p)
RELEASE = CFUNCTYPE(None, c_void_p)
PROFILE = CFUNCTYPE(None, c_void_p, c_bool)
TIMES = CFUNCTYPE(c_bool, c_void_p, c_void_p)
RUN_BATCH = CFUNCTYPE(c_bool, c_void_p)
GRAPHS = CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)


class Table(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("state", c_void_p),
        ("spec", c_char_p),
        ("set_waker", SET_WAKER),
        ("submit", SUBMIT),
        ("is_finished", IS_FINISHED),
        ("collect", COLLECT),
        ("last_error", LAST_ERROR),
        ("release", RELEASE),
        ("profile", PROFILE),
        ("times", TIMES),
        ("run_batch", RUN_BATCH),
        ("graphs", GRAPHS),
    ]


class Fault(NamedTuple):
    """How a batch fails: the code of a class in `pullquote.errors`, or any other, and a message, or none."""

    code: int
    message: str | None
    # Fails when it is collected, instead of when it is submitted.
    at_collect: bool = False


# Engines call the functions of a table, and keep none of its Python objects alive.
_kept: list[object] = []


class FaultyEncoder:
    """The embedded model on devices; `fault` is called with the device, and the rows and tokens of each batch.

    Without `has_threads` callers compute the batches, each after a call of `enters`. Without `has_optional` the functions that
    may be null are.
    """

    def __init__(
        self,
        devices: list[str],
        fault: Callable[[int, int, int], Fault | None] = lambda *_: None,
        *,
        dtype: str = "float32",
        has_threads: bool = True,
        has_optional: bool = True,
        enters: Callable[[], object] = lambda: None,
    ) -> None:
        self.fault = fault
        self.enters = enters
        self.runs = 0
        self.inner = find_torch_encoder().load(
            str(embedded_model()), devices, dtype, len(devices) if has_threads else 0
        )
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
        theirs = Table.from_address(get(self.inner, CAPSULE_NAME))
        self.original = Table.from_buffer_copy(theirs)
        # Taken, as every taker does.
        theirs.state = None
        # The fault of each batch in flight that fails when it is collected, by ticket.
        self.doomed: dict[int, Fault] = {}
        # Devices whose batches are not finished, for now, and the device of each batch.
        self.hanging: set[int] = set()
        self.device_of: dict[int, int] = {}
        # Batches in flight, and the most there were.
        self.in_flight = self.deepest = 0
        self.table = self.inject(has_optional)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        _kept.append(self)
        self.capsule = new(ctypes.addressof(self.table), CAPSULE_NAME, None)

    def inject(self, has_optional: bool) -> Table:
        original = self.original
        # The message of the last fault; it stays alive until the next one.
        last: list[Any] = [None]

        def fail(fault: Fault) -> int:
            last[0] = None if fault.message is None else ctypes.create_string_buffer(fault.message.encode())
            return fault.code

        def passed(code: int) -> int:
            if code:
                last[0] = ctypes.create_string_buffer(ctypes.string_at(original.last_error(original.state)))
            return code

        def submit(
            state: int,
            device: int,
            ids: int,
            id_count: int,
            lengths: Any,
            rows: int,
            queries: int,
            query_count: int,
            ticket: Any,
        ) -> int:
            fault = self.fault(device, rows, id_count)
            if fault is not None and not fault.at_collect:
                return fail(fault)
            code = passed(original.submit(state, device, ids, id_count, lengths, rows, queries, query_count, ticket))
            if code == 0:
                self.in_flight += 1
                self.deepest = max(self.deepest, self.in_flight)
                self.device_of[ticket[0]] = device
                if fault is not None:
                    self.doomed[ticket[0]] = fault
            return code

        def is_finished(state: int, ticket: int) -> bool:
            return self.device_of[ticket] not in self.hanging and bool(original.is_finished(state, ticket))

        def collect(state: int, ticket: int, row: int, context: int) -> int:
            del self.device_of[ticket]
            self.in_flight -= 1
            fault = self.doomed.pop(ticket, None)
            if fault is None:
                return passed(original.collect(state, ticket, row, context))
            # The batch ends, and its rows go nowhere.
            nowhere = CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)(lambda *_: None)
            original.collect(state, ticket, ctypes.cast(nowhere, c_void_p).value, context)
            return fail(fault)

        def last_error(_: int) -> int | None:
            return None if last[0] is None else ctypes.addressof(last[0])

        def run_batch(state: int) -> bool:
            self.enters()
            self.runs += 1
            return bool(original.run_batch(state))

        table = Table.from_buffer_copy(original)
        table.submit = SUBMIT(submit)
        table.is_finished = IS_FINISHED(is_finished)
        table.collect = COLLECT(collect)
        table.last_error = LAST_ERROR(last_error)
        if original.run_batch:
            table.run_batch = RUN_BATCH(run_batch)
        if not has_optional:
            table.profile, table.times, table.run_batch, table.graphs = PROFILE(), TIMES(), RUN_BATCH(), GRAPHS()
        return table

    def __pullquote_encoder__(self) -> object:
        return self.capsule
