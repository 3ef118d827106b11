"""The Rust core of pullquote. Private: call `pullquote` instead."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Highlighter", "__version__", "error_table", "parse_pieces"]

__version__: str

def parse_pieces(
    text: str, highlight_length: int, step_size: int, unit: str, allow_gaps: bool
) -> NDArray[np.int64]: ...
def error_table() -> list[dict[str, Any]]: ...

@final
class Highlighter:
    def __new__(cls, model: str, encoder: object, threads: int | None) -> Highlighter: ...
    def highlights(
        self,
        queries: object,
        texts: object,
        pairing: str,
        unit: str,
        highlight_length: int,
        step_size: int,
        allow_gaps: bool,
        grow: bool,
        lexical: float | None,
        top_k: int | None,
        max_chars: int | None,
        min_score: float | None,
        order: str,
        timeout: float | None,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        dict[str, Any],
    ]: ...
    def embed(self, texts: object, is_query: bool, timeout: float | None) -> tuple[NDArray[np.float32], int, int]: ...
    def parse_pieces(
        self, text: str, highlight_length: int, step_size: int, unit: str, allow_gaps: bool
    ) -> NDArray[np.int64]: ...
    def close(self) -> None: ...
    @property
    def dimension(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def devices(self) -> list[str]: ...
