"""A job as it was asked for: what is needed to do any of its files, in this process or another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pullquote
from pullquote._highlighter import Highlighter
from pullquote._options import Options
from pullquote._python_encoder import named_encoder
from pullquote.jobs._inputs import Columns
from pullquote.jobs._outputs import OutputFormat
from pullquote.jobs._store import Place

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """What a job asks of which rows, with which model, and where the answers go. Can be pickled.

    Without `questions` each row is asked that of its column ``columns.query``. `encoder` is the name of a Python function, as
    ``package.module:function``. `cores` and the like, which change no answer, are an engine's to know: `highlighter` takes
    what `Highlighter` does.
    """

    input: str
    output: str
    questions: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    options: Options = field(default_factory=Options)
    form: OutputFormat = "same"
    model: str | None = None
    encoder: str | None = None
    dtype: str = "auto"

    @property
    def place(self) -> Place:
        """Where the outputs go."""
        return Place(self.output)

    def highlighter(self, **arguments: Any) -> Highlighter:
        """The job's model. Pages of a job come once, so nothing is kept of them unless `cache_bytes` says so."""
        encoder = named_encoder(self.encoder)
        return Highlighter(self.model, dtype=self.dtype, encoder=encoder, **({"cache_bytes": 0} | arguments))

    def settings(self, highlighter: Highlighter) -> dict[str, Any]:
        """What decides the bytes of the outputs: two runs of which all of this is equal are the same job."""
        columns = self.columns
        function = None if self.encoder == "torch" else self.encoder
        return {
            "version": pullquote.__version__,
            "model": function or highlighter.model_name,
            "model_sha256": None if function else _fingerprint(highlighter.model),
            "encoder": self.encoder,
            "dtype": highlighter.dtype,
            "questions": list(self.questions),
            "columns": {"text": columns.text, "query": columns.query, "id": columns.id, "title": columns.title},
            "options": dict(self.options),
            "format": self.form,
        }


def _fingerprint(model: Path) -> str:
    """A hash of all of a model's files and their names."""
    whole = hashlib.sha256()
    for path in sorted(path for path in model.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        with path.open("rb") as file:
            whole.update(f"{path.relative_to(model)}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()
