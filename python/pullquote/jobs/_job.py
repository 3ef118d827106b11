"""A job: everything that a process needs to process one of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullquote import _native
from pullquote._engine.highlighter import Highlighter
from pullquote._models.python_encoder import named_encoder
from pullquote._request.options import Options
from pullquote.jobs._inputs import Columns
from pullquote.jobs._outputs import OutputFormat
from pullquote.jobs._store import OutputStore

__all__ = ["Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """The queries, model, input and output of a job. Can be pickled.

    Without `questions`, the query of each row is in the column ``columns.query``. `encoder` names a Python function as
    ``package.module:function``. Arguments that change no answer, such as `threads`, belong to `highlighter`.
    """

    input: str
    output: str
    questions: tuple[str, ...] = ()
    columns: Columns = field(default_factory=Columns)
    options: Options = field(default_factory=Options)
    format: OutputFormat = "same"
    model: str | None = None
    encoder: str | None = None
    reranker: str | None = None
    dtype: str = "auto"
    revision: str | None = None

    @property
    def store(self) -> OutputStore:
        """The output directory."""
        return OutputStore(self.output)

    def highlighter(self, **arguments: Any) -> Highlighter:
        """Load the job's model. A job reads each page once, so the cache is off unless `cache_bytes` is given."""
        encoder = named_encoder(self.encoder)
        arguments = {"cache_bytes": 0, "revision": self.revision} | arguments
        return Highlighter(self.model, dtype=self.dtype, encoder=encoder, reranker=self.reranker, **arguments)

    def settings(self, highlighter: Highlighter) -> dict[str, Any]:
        """All that determines the bytes of the outputs. Runs with equal settings are the same job."""
        columns = self.columns
        function = None if self.encoder == "torch" else self.encoder
        return {
            "version": _native.__version__,
            "model": function or highlighter.model_name,
            "model_id": highlighter.model_id,
            "pruner_id": None if highlighter.pruner is None else highlighter.pruner.id,
            "reranker_id": highlighter.reranker_id,
            "encoder": self.encoder,
            "dtype": highlighter.dtype,
            "questions": list(self.questions),
            "columns": {"text": columns.text, "query": columns.query, "id": columns.id, "title": columns.title},
            "options": dict(self.options),
            "format": self.format,
        }
