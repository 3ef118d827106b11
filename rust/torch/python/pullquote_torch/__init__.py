"""The libtorch encoder of pullquote.

Importing loads torch, starts no thread and touches no CUDA. ``load`` hands out an encoder as a ``PyCapsule`` that
holds a table of C functions; ``pullquote`` takes it from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

_BUILT_FOR = "2.11."


def _check_torch(found: str) -> None:
    """Raises where torch is not the one whose C++ interface this wheel was built against."""
    if found.startswith(_BUILT_FOR):
        return
    message = (
        f"pullquote-torch was built for torch {_BUILT_FOR}*, but torch {found} is installed; "
        f'pip install "torch=={_BUILT_FOR}*", or give pullquote your own encoder'
    )
    try:
        from pullquote.errors import TorchVersionError
    except ImportError:
        raise ImportError(message) from None
    raise TorchVersionError(message)


_check_torch(torch.__version__)

# After torch: its libraries must be in the process before ours is loaded, and they must be the right ones.
from pullquote_torch import _native  # noqa: E402
from pullquote_torch._native import __version__, cuda_device_count, driver_problem  # noqa: E402

__all__ = ["__version__", "cuda_device_count", "driver_problem", "load"]


def load(
    model: str,
    devices: list[str],
    dtype: str,
    threads: int | None,
    *,
    truncate_dim: int | None = None,
    normalizes: bool = True,
    cuda_graphs: bool = False,
    synchronizes: bool = False,
    reranker: str | None = None,
) -> CapsuleType:
    """Loads a model onto devices and hands out its encoder; ``_native.pyi`` says what the arguments may be.

    A batch on a CUDA device may take a quarter of the memory that is free there when the model is loaded. Loading runs two
    batches on each CUDA device.
    """
    return _native.load(model, devices, dtype, threads, truncate_dim, normalizes, cuda_graphs, synchronizes, reranker)
