"""all-MiniLM-L6-v2 in float16, as data."""

from pathlib import Path

__all__ = ["__version__", "directory"]

__version__ = "0.1.0"


def directory() -> Path:
    """Return the model's directory, laid out as Hugging Face and sentence-transformers do."""
    return Path(__file__).parent / "model"
