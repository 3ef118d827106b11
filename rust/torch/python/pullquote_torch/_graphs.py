"""Memory for CUDA graphs, which torch gives out in Python only.

Captures do not go through ``torch.cuda.graph``: after a capture that failed, that leaves torch's allocator and its generator of
random numbers in the middle of the capture, for the whole process. Here a failed capture leaves nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.cuda.memory import get_allocator_backend


class CaptureMemory:
    """A private pool of torch's allocator for the captures of one device, all on the same stream.

    While it is not released, only allocations within `capturing` get its memory, and none of it goes back to CUDA.
    """

    def __init__(self, device: int, stream: int) -> None:
        """For the stream at this address. Raises `RuntimeError` if torch's allocator has no pools."""
        if get_allocator_backend() != "native" or "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
            message = "torch does not use its own allocator (PYTORCH_CUDA_ALLOC_CONF, PYTORCH_NO_CUDA_MEMORY_CACHING)"
            raise RuntimeError(message)
        self._device = device
        self._stream = torch.cuda.ExternalStream(stream, device=device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._uses = 0

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Allocate this thread's memory from the pool, and queue on the stream."""
        torch._C._cuda_beginAllocateCurrentThreadToPool(self._device, self._pool)
        self._uses += 1
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            torch._C._cuda_endAllocateToPool(self._device, self._pool)

    def release(self) -> None:
        """Let torch's allocator free the pool. Each use holds it."""
        while self._uses:
            torch._C._cuda_releasePool(self._device, self._pool)
            self._uses -= 1


def warn(message: str) -> None:
    """Log a warning."""
    logging.getLogger("pullquote").warning(message)
