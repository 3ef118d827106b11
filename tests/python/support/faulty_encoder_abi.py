"""A real encoder wrapped in a C table of the tests, which injects faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from pullquote.models import embedded_model, find_torch_encoder

# As `rust/core/src/abi.rs` lays them out. Failures are strings that whoever made them frees, so they are addresses here.
SET_WAKER = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
SUBMIT = CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(c_uint32), c_size_t, POINTER(c_uint64))
IS_FINISHED = CFUNCTYPE(c_bool, c_void_p, c_uint64)
COLLECT = CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_void_p, c_void_p)
RELEASE_FAILURE = CFUNCTYPE(None, c_void_p)
RELEASE = CFUNCTYPE(None, c_void_p)
PROFILE = CFUNCTYPE(None, c_void_p, c_bool)
TIMES = CFUNCTYPE(c_bool, c_void_p, c_void_p)
HELP = CFUNCTYPE(c_bool, c_void_p)


class Table1(ctypes.Structure):
    _fields_ = [
        ("state", c_void_p),
        ("spec", c_char_p),
        ("set_waker", SET_WAKER),
        ("submit", SUBMIT),
        ("is_finished", IS_FINISHED),
        ("collect", COLLECT),
        ("release_failure", RELEASE_FAILURE),
        ("release", RELEASE),
    ]


class Table2(ctypes.Structure):
    _fields_ = [("first", Table1), ("profile", PROFILE), ("times", TIMES)]


class Table3(ctypes.Structure):
    _fields_ = [("second", Table2), ("help", HELP)]


class Table4(ctypes.Structure):
    _fields_ = [("third", Table3), ("submit_asking", c_void_p)]


Fault = Callable[[int, int, int], str | None]

# Whoever has a table calls what is in it, and does not know to whom it belongs.
_kept: list[object] = []


class FaultyEncoder:
    """The embedded model on devices, of which `fault` says (of a device, and the rows and tokens of its batch) how it fails.

    What it returns is a class of `pullquote.errors` and a message, with a colon between. `version` is that of the capsule.
    Without `has_threads` it is computed by those who wait, each of whom `enters` first.
    """

    def __init__(
        self,
        devices: list[str],
        fault: Fault,
        version: int = 4,
        dtype: str = "float32",
        has_threads: bool = True,
        enters: Callable[[], object] = lambda: None,
    ) -> None:
        self.fault = fault
        self.version = version
        self.enters = enters
        # How often somebody helped.
        self.helped = 0
        self.inner = find_torch_encoder().load(
            str(embedded_model()), devices, dtype, len(devices) if has_threads else 0
        )
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
        theirs = Table4.from_address(get(self.inner, b"pullquote.encoder.v4"))
        # Taken over, as whoever opens a capsule does.
        table = Table4.from_buffer_copy(theirs)
        theirs.third.second.first.state = None
        self.failures: dict[int, Any] = {}
        # Tickets whose batch fails when it is collected, and with what.
        self.doomed: dict[int, str] = {}
        # Devices whose batches are not finished, for now, and whose each batch is.
        self.hanging: set[int] = set()
        self.device_of: dict[int, int] = {}
        # Batches in flight, and the most there were.
        self.in_flight = self.deepest = 0
        self.inject(table)

    def inject(self, table: Table4) -> None:
        first = table.third.second.first

        def fail(message: str) -> int:
            text = ctypes.create_string_buffer(message.encode())
            self.failures[ctypes.addressof(text)] = text
            return ctypes.addressof(text)

        def passed(failure: int | None) -> int | None:
            if not failure:
                return None
            message = ctypes.string_at(failure).decode()
            first.release_failure(failure)
            return fail(message)

        def submit(
            state: int, device: int, ids: int, id_count: int, lengths: Any, rows: int, ticket: Any
        ) -> int | None:
            said = self.fault(device, rows, id_count)
            if said is not None and not said.startswith("later:"):
                return fail(said)
            failed = passed(first.submit(state, device, ids, id_count, lengths, rows, ticket))
            self.in_flight += failed is None
            self.deepest = max(self.deepest, self.in_flight)
            self.device_of[ticket[0]] = device
            if failed is None and said is not None:
                self.doomed[ticket[0]] = said.removeprefix("later:")
            return failed

        def is_finished(state: int, ticket: int) -> bool:
            return self.device_of[ticket] not in self.hanging and bool(first.is_finished(state, ticket))

        def collect(state: int, ticket: int, row: int, context: int) -> int | None:
            del self.device_of[ticket]
            said = self.doomed.pop(ticket, None)
            self.in_flight -= 1
            if said is None:
                return passed(first.collect(state, ticket, row, context))
            # The batch is let go of, and its rows go nowhere.
            nowhere = CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)(lambda *_: None)
            passed(first.collect(state, ticket, ctypes.cast(nowhere, c_void_p).value, context))
            return fail(said)

        def release_failure(failure: int | None) -> None:
            self.failures.pop(failure or 0, None)

        def help_out(state: int) -> bool:
            self.enters()
            self.helped += 1
            return bool(table.third.help(state))

        ours = Table4.from_buffer_copy(table)
        changed = ours.third.second.first
        changed.submit = SUBMIT(submit)
        changed.is_finished = IS_FINISHED(is_finished)
        changed.collect = COLLECT(collect)
        changed.release_failure = RELEASE_FAILURE(release_failure)
        if table.third.help:
            ours.third.help = HELP(help_out)
        # Kept as long as this is: what is called must not go before whoever calls it.
        self.table, self.original = ours, table
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        self.name = f"pullquote.encoder.v{self.version}".encode()
        _kept.append(self)
        self.capsule = new(ctypes.addressof(ours), self.name, None)

    def __pullquote_encoder__(self) -> object:
        return self.capsule
