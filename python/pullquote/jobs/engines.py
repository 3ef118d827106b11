"""Engines: where the files of a job are done, and how many at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pullquote.highlighter import Highlighter
from pullquote.jobs.inputs import InputFile
from pullquote.jobs.job import Job
from pullquote.jobs.run import Told, work

__all__ = ["ENGINES", "Engine"]

# Does the files of a job, in any order, and tells of them as `work` does. The highlighter is what the caller has loaded to know the
# job's settings; an engine of other processes makes its own there (`Job.highlighter`).
Engine: TypeAlias = Callable[[Highlighter, Job, list[InputFile], Told], None]

ENGINES: dict[str, Engine] = {"local": work}
