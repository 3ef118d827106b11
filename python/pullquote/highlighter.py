"""The `Highlighter`, and the shared one behind `highlights()`."""

from __future__ import annotations

import atexit
import inspect
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote.closing import Closing
from pullquote.errors import InvalidTypeError
from pullquote.loading import CACHE_BYTES, Caching, Watched, load
from pullquote.options import (
    EFFORT,
    FORMAT,
    HIGHLIGHT_LENGTH,
    ORDER,
    REPEATS,
    STEP_SIZE,
    UNIT,
    Effort,
    Format,
    Options,
    Order,
    Pairing,
    Repeats,
    TruncationWarning,
    Unit,
    checked,
    checked_texts,
    warn_of_cut,
)
from pullquote.result import Highlights
from pullquote.tables import ArrowTable, HighlightTable, checked_names, checked_options
from pullquote.text_encoder import OwnEncoder

__all__ = ["Highlighter", "Options", "Order", "TruncationWarning", "Unit", "highlights", "parse_pieces"]


# How long the interpreter waits, when it ends, for functions of encoders that run, in seconds.
LEAVING = 1.5


class _Closes(Protocol):
    def close(self) -> None: ...


_open: weakref.WeakSet[_Closes] = weakref.WeakSet()


def parse_pieces(
    text: str,
    highlight_length: int = HIGHLIGHT_LENGTH,
    step_size: int = STEP_SIZE,
    unit: Literal["sentence", "word"] = "sentence",
    *,
    allow_gaps: bool = False,
) -> NDArray[np.int64]:
    """Cut a text into sliding windows.

    A window starts every `step_size` units and spans `highlight_length` of them; the last one ends at the text's end. Together
    they cover everything that is not white space. Needs no model; for ``unit="token"`` see `Highlighter.parse_pieces`.

    Returns int64 ``[n, 2]``: start and end of each window in characters, ``text[start:end]``.

    Raises `InvalidArgumentError` for a length or a step below 1, for a step larger than the length (text between windows
    would be skipped) unless `allow_gaps`, and for an unknown unit; `InvalidTypeError` for a text that is not a string;
    `InvalidTextError` for one with lone surrogates.

    >>> parse_pieces("One. Two. Three.", 2, 1).tolist()
    [[0, 9], [5, 16]]
    """
    return _native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)


class Highlighter(Watched, Caching, Closing):
    """A model on its devices, for many callers at once.

    Thread-safe: calls from different threads share batches, and each gets its own answer. Python's lock is free while it
    works. Use it as a context manager, or `close` it, to give the memory back at once.

    - `model`: the directory of a model as Hugging Face and sentence-transformers lay it out (BERT, RoBERTa, XLM-RoBERTa, or a
      TorchScript module); `None` is the embedded all-MiniLM-L6-v2.
    - `devices`: ``"auto"`` (all CUDA devices where ``pullquote-torch`` is installed and finds any, or the CPU), ``"cpu"``,
      ``["cuda:0", "cuda:1"]``; ``["cpu:0", "cpu:1"]`` are logical devices that share the cores.
    - `dtype`: ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"int8"`` or ``"auto"`` (float16 on CUDA; on a CPU bfloat16
      where it has instructions for that, else int8 for the embedded model and float32 for others). int8 is the fastest on a
      CPU, and only there: over 3,027 real pieces the cosine of its vectors to float32's is at least 0.995; bfloat16's 0.9998.
    - `threads`: how many threads the text work and a CPU device may each use; `None` is one for each core this process
      may run on (by its affinity and its control groups), at most ``OMP_NUM_THREADS`` and 32. ``"caller"`` starts none:
      those who wait for vectors compute them, each on its own thread, so that as many cores are used as the host has threads
      in calls. A Python function for an encoder is called by one of them at a time.
    - `cores`: the cores that these threads run on, by number; `None` is wherever the caller's may.
    - `cache_bytes`: what was read of pages, with their vectors, is kept in at most so much memory, so that another query on
      the same pages costs only itself; what was used longest ago goes first. 0 keeps nothing.
    - `encoder`: ``"torch"`` computes the model with libtorch, on CPUs too. Or, instead of a model, a function that takes a list
      of strings and returns float32 ``[n, dimension]``, or an object with such a method ``encode`` (a sentence-transformers
      model, say). It is called by one thread, with the texts of all callers that wait; needs no torch. Tokens are bytes of
      UTF-8 then: budgets in tokens count them. It may be awaited: an ``async`` function runs in an event loop of its own. Or,
      beside the `model` whose tokenizer is used, an object with a method ``encode_ids(ids, lengths)``: int32 ids of rows one
      behind the other, without padding, and how many each has; or what offers a ``pullquote.encoder`` capsule by
      ``__pullquote_encoder__()``.
    - `max_batch_tokens`, `max_batch_size`: tokens and texts of a batch, at most; `None` is what the devices want, and 64 texts
      for an encoder of your own. `batch_timeout`: seconds that texts wait for others where they do not fill a batch; 0,
      the default, lets batches grow only while the devices are busy.
    - `depth`: batches that a device has at once, so that the next is there when one ends; `None` is what it wants: 2 on CUDA,
      and one more than its threads on a CPU; with ``threads="caller"`` as many as callers wait and cores are there.
    - `device_timeout`: seconds that a device may finish nothing while it has something to do; then the others compute what it
      had, and it gets nothing until it has finished that. `None` is 10. A device that is the only one is waited for.
    - `profile`: CUDA devices wait for the end of each stage, so that `stages` tells them apart; they are slower then. `trace`: a
      file that has, when this is closed, every stage of every call and batch in the format of Chrome's tracing, which
      https://ui.perfetto.dev opens.

    Of several devices the one that would be done first gets the next batch. One that fails gets none for a while, and what it
    had is done by the others; `device_states` says so. Batches become smaller where memory is short.

    Raises `NoEncoderError`, `TorchVersionError`, `ModelNotFoundError`, `InvalidModelError`, `UnsupportedModelError`, `DeviceError`.
    After a fork, calls in the child raise `ForkedError`: make a new one there.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        devices: str | Sequence[str] = "auto",
        dtype: str = "auto",
        threads: int | Literal["caller"] | None = None,
        cache_bytes: int = CACHE_BYTES,
        *,
        cores: Iterable[int] | None = None,
        encoder: OwnEncoder | Literal["torch"] | None = None,
        max_batch_tokens: int | None = None,
        max_batch_size: int | None = None,
        batch_timeout: float = 0.0,
        depth: int | None = None,
        device_timeout: float | None = None,
        profile: bool = False,
        trace: str | Path | None = None,
    ) -> None:
        """Load the model; about a second for a small one."""
        loaded = load(
            model,
            devices,
            dtype,
            threads,
            cache_bytes,
            cores=cores,
            encoder=encoder,
            max_batch_tokens=max_batch_tokens,
            max_batch_size=max_batch_size,
            batch_timeout=batch_timeout,
            depth=depth,
            device_timeout=device_timeout,
            profile=profile,
            trace=trace,
        )
        self._native: _native.Highlighter = _native.Highlighter(loaded)
        self.model, self.model_name, self._trace = Path(loaded.model), loaded.name, loaded.trace
        closed_at_exit(self)

    def highlights(
        self,
        query: str | Sequence[str],
        texts: Iterable[str],
        *,
        highlight_length: int = HIGHLIGHT_LENGTH,
        step_size: int = STEP_SIZE,
        unit: Unit = UNIT,
        format: Format = FORMAT,  # noqa: A002 - what everybody calls it
        titles: Iterable[str | None] | None = None,
        pairing: Pairing = "auto",
        fuse: bool = False,
        top_k: int | None = None,
        max_chars: int | None = None,
        max_tokens: int | None = None,
        max_total_chars: int | None = None,
        max_total_tokens: int | None = None,
        min_score: float | None = None,
        order: Order = ORDER,
        repeats: Repeats = REPEATS,
        context: int = 0,
        explain: bool = False,
        allow_gaps: bool = False,
        grow: bool = True,
        lexical: float | Literal["auto"] = "auto",
        effort: Effort = EFFORT,
        timeout: float | None = None,
        priority: int = 0,
    ) -> Highlights:
        """Find the passages of pages that answer a query.

        Each page is cut into sentences and windows of them (see `parse_pieces`). Windows are compared with the query by meaning
        (the cosine of vectors) and by words (BM25), sentences and paragraphs by how much of the query they hold. A passage is
        the run of most relevance around its best sentence, and no two overlap. What means little alone stays whole: a
        heading with what follows it, a list item, a table with its header, a piece of code.
        An empty page has none.

        What is asked:

        - `query`: one for all pages; or a list: one for each page, or many for one page.
        - `texts`: the pages. `titles`: one for each, or `None`; where pages are compared, a title speaks for all of its
          page.
        - `pairing`: ``"all"`` asks each query of every page, which are encoded once, and ``result[q, p]`` is what query `q`
          found on page `p`; ``"each"`` asks query `i` of page `i`; ``"auto"`` is ``"each"`` where there are lists of both,
          else ``"all"``.
        - `fuse`: one answer to all queries: a sentence is worth what it is to the query that it answers best.
        - `lexical`: how much words count, from 0.0 (the cosine alone) to 1.0 (words alone); ``"auto"`` is a half, more where
          the model's tokenizer does not know the page's script, and less where hardly a word of the query is on any page.
        - `effort`: how much of the pages is encoded. ``"full"``: every window. ``"auto"``: the windows that words point at, a
          small sample, and whatever could be better than what these hold by all that is known; where that is more than half
          of a page (its words are in another language, say), all of it. ``"fast"``: the same, but at most 64 windows a page
          more, and for a page among many only what could be among the best of all. `Highlights.compared` says what was.

        What comes back:

        - `top_k`: at most so many highlights a page; 3 where neither it nor a budget is given.
        - `max_chars`, `max_tokens`: at most so many characters, or tokens of the model, a page, over all its highlights. Under a
          budget without `top_k`, the best sentences that fit are taken and neighbours join.
        - `max_total_chars`, `max_total_tokens`: the same over all pages: the budget goes where the relevance is.
        - `min_score`: only highlights with at least this score, from 0 to 1; there may be none.
        - `repeats`: where a passage that says what a better one said is left out: of the same ``"page"``, of the whole
          ``"answer"``, or ``"keep"`` for nowhere; ``"auto"`` is the page, and the answer where its pages share a budget.
        - `order`: ``"score"``, the best first, or ``"position"``, as they stand in the page. Ties go to the one that stands first.
        - `context`: so many sentences on each side are reported beside a highlight, as `before` and `after`.
        - `explain`: report the words that matched, as `matches`.

        How pages are cut:

        - `format`: what the texts are written in: ``"text"``, ``"markdown"`` (laid out as its markup says; offsets are those of the
          source), ``"html"`` (what a browser shows is read; offsets are those of that text, ``result.texts[i]``, and
          `source_start` and `source_end` those of the source), or ``"auto"``, which looks.
        - `highlight_length`, `step_size`: windows, in units; `unit`: ``"sentence"``, ``"word"`` or ``"token"``. A passage
          reaches no further than the windows around its best sentence, ``2 * highlight_length - 1``; what stays whole may.
        - `grow`: `False` returns the best windows as they were cut, without ranking sentences; so do words and tokens.
        - `allow_gaps`: allow a step larger than the length, which skips text.
        - `timeout`: in seconds; after it the work is dropped and `DeadlineExceededError` raised.
        - `priority`: lower ones go first, as in vLLM; one batch in eight is for who has waited longest, whatever the priority.

        Returns `Highlights`: ``result[i]`` is page `i`'s list of `Highlight`.

        Raises `InvalidArgumentError`, `InvalidTypeError`, `InvalidTextError` for what it cannot work with, `EncoderError`
        where the model fails on it, `OutOfMemoryError` where no device has memory for one of its pieces, `ClosedError`,
        `ForkedError`. Ctrl-C stops the work and leaves the highlighter usable.
        """
        options: Options = {
            "pairing": pairing,
            "fuse": fuse,
            "format": format,
            "titles": titles,
            "unit": unit,
            "highlight_length": highlight_length,
            "step_size": step_size,
            "allow_gaps": allow_gaps,
            "grow": grow,
            "lexical": lexical,
            "effort": effort,
            "context": context,
            "explain": explain,
            "top_k": top_k,
            "max_chars": max_chars,
            "max_tokens": max_tokens,
            "max_total_chars": max_total_chars,
            "max_total_tokens": max_total_tokens,
            "min_score": min_score,
            "order": order,
            "repeats": repeats,
            "timeout": timeout,
            "priority": priority,
        }
        asked = checked(query, texts, options)
        return Highlights(asked[1], self._native.highlights(*asked))

    def highlights_arrow(
        self,
        table: ArrowTable,
        text: str = "text",
        query: str | Sequence[str] = "query",
        id: str | None = None,  # noqa: A002 - what everybody calls it
        title: str | None = None,
        **options: Unpack[Options],
    ) -> HighlightTable:
        """Find the passages of the rows of a table, in Arrow's format; no Python string is made of a page.

        Each row is a page with a query of its own, and is answered as ``highlights(query, [text])`` would answer it: no other
        row has a part in its scores, so it does not matter how a table is chunked. Many rows are in progress at once.

        - `table`: what offers Arrow's PyCapsule interface: a table, batch or stream of pyarrow, polars, duckdb, daft and others.
          Its buffers are read where they lie. Of a stream 8,192 rows or 16 MiB of text are asked for at a time, or the batch
          that goes beyond; the answers are kept.
        - `text`: the column of the pages: string, large_string, string_view, or a dictionary of these.
        - `query`: the column of the queries; or a list of questions, each of which is asked of every row: then the answer
          has a row for each of them, the first row's first. A page is read once for all of them.
        - `id`: the column that tells rows apart, of any type; without one rows are numbered from 0.
        - `title`: the column of the pages' titles: what a row is asked whose query is null. (Titles also tell pages apart that
          are asked together, which rows are not.)
        - `options`: those of `highlights` but `pairing`, `fuse` and `titles`; `timeout` is for the whole table.

        Returns a `HighlightTable` with a row for each query and page, in their order. A row that cannot be answered (its text
        is null, not UTF-8 or too long, its query is null or empty, the model fails on it) has an error there, and the others
        go on.

        Raises `InvalidTypeError` for what is no table or no column of strings, `InvalidArgumentError` for a column that is not
        there, an option that it cannot work with, and a table whose producer fails; and what ends the call as a whole:
        `DeadlineExceededError`, `ClosedError`, `ForkedError`.

        >>> import pyarrow  # doctest: +SKIP
        >>> table = pyarrow.table({"text": [page], "query": ["How far is the moon?"]})  # doctest: +SKIP
        >>> pyarrow.table(highlighter.highlights_arrow(table, top_k=1)).to_pylist()  # doctest: +SKIP
        """
        names = checked_names(text, query, id, title)
        return HighlightTable(self._native.highlights_arrow(table, names, checked_options(completed(options))))

    def embed(
        self,
        texts: Iterable[str],
        *,
        role: Literal["query", "passage"] = "passage",
        timeout: float | None = None,
        priority: int = 0,
    ) -> NDArray[np.float32]:
        """Turn texts into vectors, as sentence-transformers' ``encode`` does with the same model.

        `role` decides which of the model's prompts goes before the texts. Returns float32 ``[n, dimension]``, pooled and
        normalized as the model's files say; the array owns the memory the devices' results were collected into.
        Texts longer than the model allows are cut at its limit, with a `TruncationWarning`. All else is as in `highlights`.
        """
        given = checked_texts(texts, role)
        vectors, truncated, _ = self._native.embed(given, role == "query", timeout, priority)
        if truncated:
            warn_of_cut(truncated, len(given), self.max_tokens)
        return vectors

    def parse_pieces(
        self,
        text: str,
        highlight_length: int = HIGHLIGHT_LENGTH,
        step_size: int = STEP_SIZE,
        unit: Unit = UNIT,
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows, as `pullquote.parse_pieces` does; ``unit="token"`` counts the model's tokens."""
        return self._native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)

    def close(self) -> None:
        """Stop the devices; calls in flight, and later ones, raise `ClosedError`. May be called twice."""
        self._native.close()
        self._write_trace()

    def __repr__(self) -> str:
        return f"<Highlighter {self.model_name!r} on {self._placed()}>"


# What a call has where it says nothing.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Highlighter.highlights).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}

_shared: Highlighter | None = None
_shared_lock = threading.Lock()


def _shared_highlighter() -> Highlighter:
    global _shared  # noqa: PLW0603 - the one object this module is about
    if _shared is None:
        with _shared_lock:
            if _shared is None:
                _shared = Highlighter()
    return _shared


def completed(options: Options) -> Options:
    """Options with the defaults of those that are not there."""
    if unknown := options.keys() - DEFAULTS.keys():
        message = f"there is no option {min(unknown)!r}"
        raise InvalidTypeError(message)
    return {**DEFAULTS, **options}  # type: ignore[typeddict-item]


def highlights(query: str | Sequence[str], texts: Iterable[str], **options: Unpack[Options]) -> Highlights:
    """Find the passages of pages that answer a query, with the embedded model on the devices that are there.

    The first call loads the model, which all later calls share. Options and errors: see `Highlighter.highlights`.
    """
    return _shared_highlighter().highlights(query, texts, **options)


def _forget_in_child() -> None:
    """A fork has no threads of the shared highlighter; the child makes its own."""
    global _shared, _shared_lock  # noqa: PLW0603 - as above
    _native.forget_threads()
    _shared = None
    _shared_lock = threading.Lock()


def closed_at_exit(made: _Closes) -> None:
    """Its devices are stopped when the interpreter ends, if they were not before."""
    _open.add(made)


@atexit.register
def _close_all() -> None:
    """Stop the devices while the interpreter still stands."""
    for made in list(_open):
        made.close()
    # Before Python 3.14 a thread that asks for the lock later would take the process with it.
    _native.wait_for_threads(LEAVING)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
