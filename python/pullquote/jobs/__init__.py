"""Jobs: files of pages in, files of passages out.

A job is a list of files. Each file is read, answered and written independently, under a temporary name, and is done once its
record is written. So a job may be killed at any moment and started again, and it does not matter which process does which file.

Importing this imports pyarrow and fsspec, which ``pip install "pullquote[jobs]"`` installs.
"""

from pullquote._extras import needs_extra

with needs_extra("jobs"):
    from pullquote.jobs._inputs import Columns, InputFile, find_files
    from pullquote.jobs._job import Job
    from pullquote.jobs._records import JobStatus, job_status, unfinished_files
    from pullquote.jobs._run import FileProgress, OnProgress, run_files
    from pullquote.jobs._store import OutputStore

__all__ = [
    "Columns",
    "FileProgress",
    "InputFile",
    "Job",
    "JobStatus",
    "OnProgress",
    "OutputStore",
    "find_files",
    "job_status",
    "run_files",
    "unfinished_files",
]
