"""Jobs: files of pages in, files of passages out, in whatever time it takes.

A job is a list of files. Each is read, answered and written by itself, under a temporary name, and has counted as done since its
record was written (`records`). So a job may be killed at any moment and begun again, and which engine did which file does not
matter. `run.work` does files one behind the other; an engine says where and how many at a time (`engines`).

Importing this imports pyarrow and fsspec, which ``pip install "pullquote[jobs]"`` brings.
"""
