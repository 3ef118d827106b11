"""A real encoder wrapped in a C table of the tests, which injects faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

from pullquote._models.choice import embedded_model, find_torch_encoder

CAPSULE_NAME = b"pullquote.encoder"

# As `rust/core/src/encoder/abi.rs` lays them out.


class BatchArrays(ctypes.Structure):
    _fields_ = [
        ("output", c_uint32),
        ("ids", c_void_p),
        ("id_count", c_size_t),
        ("lengths", c_void_p),
        ("row_count", c_size_t),
        ("queries", c_void_p),
        ("query_values", c_size_t),
    ]


SET_WAKER = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
SUBMIT = CFUNCTYPE(c_int32, c_void_p, c_size_t, POINTER(BatchArrays), POINTER(c_uint64))
IS_FINISHED = CFUNCTYPE(c_bool, c_void_p, c_size_t, c_uint64)
COLLECT = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_uint64, c_void_p, c_void_p, c_void_p)
RECEIVE = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
LAST_ERROR = CFUNCTYPE(c_void_p, c_void_p)
RELEASE = CFUNCTYPE(None, c_void_p)


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
    """The embedded model on devices; `fault` is called with the device, and the rows and tokens of each batch."""

    def __init__(
        self,
        devices: list[str],
        fault: Callable[[int, int, int], Fault | None] = lambda *_: None,
        *,
        dtype: str = "float32",
    ) -> None:
        self.fault = fault
        self.inner = find_torch_encoder().load(str(embedded_model()), devices, dtype, len(devices))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
        theirs = Table.from_address(get(self.inner, CAPSULE_NAME))
        self.original = Table.from_buffer_copy(theirs)
        # Taken, as every taker does.
        theirs.state = None
        # The fault of each batch in flight that fails when it is collected, by ticket.
        self.doomed: dict[tuple[int, int], Fault] = {}
        # Devices whose batches are not finished, for now.
        self.hanging: set[int] = set()
        # Batches in flight, and the most there were.
        self.in_flight = self.deepest = 0
        self.table = self.inject()
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        _kept.append(self)
        self.capsule = new(ctypes.addressof(self.table), CAPSULE_NAME, None)

    def inject(self) -> Table:
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

        def submit(state: int, device: int, batch: Any, number: Any) -> int:
            fault = self.fault(device, batch[0].row_count, batch[0].id_count)
            if fault is not None and not fault.at_collect:
                return fail(fault)
            code = passed(original.submit(state, device, batch, number))
            if code == 0:
                self.in_flight += 1
                self.deepest = max(self.deepest, self.in_flight)
                if fault is not None:
                    self.doomed[device, number[0]] = fault
            return code

        def is_finished(state: int, device: int, number: int) -> bool:
            return device not in self.hanging and bool(original.is_finished(state, device, number))

        def collect(state: int, device: int, number: int, receive: int, context: int, report: int) -> int:
            self.in_flight -= 1
            fault = self.doomed.pop((device, number), None)
            if fault is None:
                return passed(original.collect(state, device, number, receive, context, report))
            # The batch ends, and its values go nowhere.
            nowhere = RECEIVE(lambda *_: None)
            original.collect(state, device, number, ctypes.cast(nowhere, c_void_p).value, context, report)
            return fail(fault)

        def last_error(_: int) -> int | None:
            return None if last[0] is None else ctypes.addressof(last[0])

        table = Table.from_buffer_copy(original)
        table.submit = SUBMIT(submit)
        table.is_finished = IS_FINISHED(is_finished)
        table.collect = COLLECT(collect)
        table.last_error = LAST_ERROR(last_error)
        return table

    def __pullquote_encoder__(self) -> object:
        return self.capsule
