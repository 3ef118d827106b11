from typing_extensions import CapsuleType

__all__ = ["__version__", "cuda_device_count", "driver_problem", "load"]

__version__: str

def cuda_device_count() -> int:
    """How many CUDA devices torch finds."""

def driver_problem() -> str | None:
    """Why torch finds no CUDA device although NVIDIA's driver is there: it is older than torch's CUDA. `None` otherwise."""

def load(
    model: str,
    devices: list[str],
    dtype: str,
    threads: int | None,
    truncate_dim: int | None = None,
    normalizes: bool = True,
    cuda_graphs: bool = False,
    synchronizes: bool = False,
    reranker: str | None = None,
) -> CapsuleType:
    """Loads a model onto devices and hands out its encoder.

    ``model`` is a directory as Hugging Face and sentence-transformers lay it out. ``devices`` names ``"auto"``, or any of
    ``"cpu"``, ``"cpu:N"``, ``"cuda"``, ``"cuda:N"``. ``dtype`` is ``"auto"``, ``"float32"``, ``"bfloat16"``
    or ``"float16"``. ``threads`` is how many CPU workers there are; `None` is one
    for each core, at most 32, and with 0 the thread that collects computes them; a CUDA device has a
    thread of its own all the same. Vectors are cut to their first ``truncate_dim`` values. Without
    ``normalizes``, the vectors are those before the normalization at the model's end. With ``cuda_graphs``,
    CUDA devices that do not pad rows queue the kernels of frequent shapes as CUDA graphs. With
    ``synchronizes``, CUDA devices wait at the end of each stage, so that each has its own time. ``reranker`` is the
    directory of a model that scores pairs on the same devices.

    Returns a capsule named ``pullquote.encoder``. Raises the classes of ``pullquote.errors``, or ``RuntimeError``
    where that module is not there.
    """
