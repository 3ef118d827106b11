"""The `Highlighter`, the shared one of `highlights()`, and `parse_pieces`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from pullquote import _native
from pullquote._engine.call_progress import call_progress
from pullquote._engine.handle import EngineHandle
from pullquote._engine.page_files import read_files
from pullquote._engine.stream import checked_stream, stream
from pullquote._native import EngineSettings
from pullquote._native import Highlighter as NativeHighlighter
from pullquote._request.citation import CiteOptions, check_cite
from pullquote._request.options import (
    Dedupe,
    Effort,
    Format,
    Options,
    Order,
    Pages,
    Pairing,
    Unit,
    check_request,
    check_rerank,
    check_texts,
    warn_of_truncation,
)
from pullquote._request.pruning import Context, SentenceSplitter, check_process
from pullquote._request.signatures import checked, signed_as
from pullquote._results.cited import Cited
from pullquote._results.highlights import Highlights
from pullquote._results.pruned import process_result
from pullquote._results.ranked import RerankResult, rank
from pullquote.arrow import ArrowTable, HighlightTable, column_names, table_options

__all__ = ["Highlighter", "cite", "highlights", "parse_pieces", "shared_highlighter"]


@checked
def parse_pieces(
    text: str,
    highlight_length: int = 3,
    step_size: int = 1,
    unit: Literal["sentence", "word"] = "sentence",
    *,
    allow_gaps: bool = False,
) -> NDArray[np.int64]:
    """Cut a text into sliding windows. Needs no model; for ``unit="token"`` call `Highlighter.parse_pieces`.

    A window starts every `step_size` units and spans `highlight_length` units. Each section, a heading and the text below it,
    has windows of its own, the last of which ends where it ends. Together the windows cover all text except white space.

    Returns int64 ``[n, 2]``: start and end of each window in characters, so a window is ``text[start:end]``.

    Raises `InvalidArgumentError` for an unknown unit, a length or step below 1, and a step larger than the length (which skips
    text) without `allow_gaps`; `InvalidTypeError` if `text` is not a string; `InvalidTextError` if it has a lone surrogate.

    >>> parse_pieces("One. Two. Three.", 2, 1).tolist()
    [[0, 9], [5, 16]]
    """
    return _native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)


class Highlighter(EngineHandle):
    """A model on its devices, for many threads at once.

    Calls of different threads share batches, and each call gets its own answer. Calls release Python's lock while they work. Use
    it as a context manager, or call `close`, to free its memory.

    The arguments:

    - `model`: name of a model of the Hugging Face Hub, such as BAAI/bge-small-en-v1.5, or the directory of one. An existing
      directory wins, and a name without an owner is one of `sentence-transformers`. The cache that all programs share is read
      first; what it lacks is downloaded. `None` is the embedded all-MiniLM-L6-v2.
    - `devices`: devices that compute: `"cpu"`, `"cuda:0"`, ..., or a list of them. `"auto"` is every CUDA device if
      `pullquote-torch` is installed and finds one, else the CPU. `["cpu:0", "cpu:1"]` are logical devices that share the cores.
    - `dtype`: number type: `"float32"`, `"bfloat16"`, `"float16"`, `"int8"` or `"auto"`. `"auto"` is float16 on CUDA. On a CPU
      with AVX2 it is int8 for the embedded model. Else it is bfloat16 if the processor has instructions for it, or float32.
      int8 is for CPUs only, and the fastest there.
    - `threads`: maximum threads for text, and as many for a CPU device. The default counts the cores of affinity and control
      groups, and is at most `OMP_NUM_THREADS` and 32. `"caller"` is for `pullquote.engine.Engine`: it starts no threads, and
      encodes in its steps. `None` is one for each core.
    - `cache_bytes`: bytes of the cache of pages and queries; 0 disables it. It holds parsed pages and their vectors, so that
      another query on them encodes only itself, and vectors of queries. It evicts what was used least recently.
    - `cores`: numbers of the cores that these threads run on. `None` is the caller's affinity.
    - `encoder`: ``"torch"`` computes the model with libtorch, on CPUs too; or a custom encoder. Instead of a model: a function
      from a list of strings to float32 `[n, dimension]`, or an object with such a method `encode` (a sentence-transformers
      model, for example). One thread calls it, with the texts of all waiting callers. Its tokens are bytes of UTF-8. An `async`
      function runs in an event loop of its own. Or with the `model` whose tokenizer it needs: an object with a method
      `encode_ids(ids, lengths)`, int32 ids of all rows, concatenated without padding, and the length of each row; or an object
      whose `__pullquote_encoder__()` returns a `pullquote.encoder` capsule.
    - `cuda_graphs`: ``"auto"`` queues the kernels of frequent shapes of batches as CUDA graphs. Not yet run on a GPU. It is for
      CUDA devices where rows are not padded; after an error a device continues without (`device_states`).
    - `reranker`: name or directory of a reranker, such as cross-encoder/ms-marco-MiniLM-L6-v2: it scores the best passages
      again. It reads query and passage together, on the devices and in the `dtype` of the model; `rerank_top` says how many.
      The order of passages and their scores are its own then.
    - `pruner`: name or directory of a pruner, such as hotchpotch/open-provence-reranker-v1: passages are the sentences that it
      keeps. It reads the query with the best passages and the sentences around them, as a `reranker` does and instead of one.
      Passages are then runs of sentences above its threshold, or above `min_score`, and scores its probabilities.
    - `revision`: branch, tag or commit of a named model. A branch stays at the commit that the cache has: `pullquote models get
      NAME` fetches the newest. `None` is main.
    - `truncate_dim`: values of a vector to keep; vectors are cut, and scaled to unit length. `None` is all.
    - `prompt_name`: name of the query's prompt in the model's files. `None` is query.
    - `query_prompt`: text before queries; `prompts` has what is used, and its source. `None` is the model's.
    - `passage_prompt`: text before passages. `None` is the model's.
    - `max_batch_tokens`: maximum tokens of a batch. `None` is the device's.
    - `max_batch_size`: maximum texts of a batch. `None` is as many as fit; 64 for a custom encoder.
    - `batch_timeout`: seconds that texts wait for others when they do not fill a batch; with 0, batches grow only while the
      devices are busy.
    - `depth`: batches in flight on each device. The default is 2 on CUDA, and one more than its threads on a CPU. `None` is the
      device's.
    - `device_timeout`: seconds without a finished batch after which other devices take over a device's batches. It gets new
      ones after it has finished those. A single device has no timeout. `None` is 10.
    - `token`: token for private and gated models; it is sent to no other host than the hub's. `None` is `HF_TOKEN`, or that of
      `hf auth login`.
    - `cache_dir`: folder of the cache of named models. `None` is `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    - `local_files_only`: take named models from the cache only, and never use the network, as with `HF_HUB_OFFLINE=1`.
    - `profile`: make CUDA devices wait after each stage, so that `stages` separates them. Slower.

    The device that would finish first gets the next batch. A failing device is paused with increasing back-off, and others retry
    its batches; `device_states` reports that. Batches shrink when memory is short.

    Raises `NoEncoderError`, `TorchVersionError`, `ModelNotFoundError`, `InvalidModelError`, `UnsupportedModelError`, `DeviceError`;
    for downloads also `UnauthorizedError` (gated models, bad tokens), `UnavailableError` (no network) and `BadAnswerError`.
    After a fork, calls in the child raise `ForkedError`: make a new highlighter there.

    """

    _native: NativeHighlighter

    def _make_native(self, settings: EngineSettings, model: Path, encoder: object) -> NativeHighlighter:
        return NativeHighlighter(settings, model, encoder)

    @checked
    def highlights(
        self,
        query: str | Sequence[str],
        texts: Pages,
        *,
        titles: Iterable[str | None] | None = None,
        ids: Iterable[Any] | None = None,
        count_tokens: Callable[[str], int] | None = None,
        # Generated: the options in `rust/wire/src/options.rs`.
        top_k: int | None = None,
        max_total_highlights: int | None = None,
        max_chars: int | None = None,
        max_tokens: int | None = None,
        max_total_chars: int | None = None,
        max_total_tokens: int | None = None,
        min_score: Literal["auto"] | float | None = None,
        dedupe: Dedupe = "auto",
        order: Order = "score",
        context: int = 0,
        explain: bool = False,
        format: Format | Sequence[Format] = "auto",  # noqa: A002 - the field's word
        unit: Unit = "sentence",
        highlight_length: int = 3,
        step_size: int = 1,
        allow_gaps: bool = False,
        expand: bool = True,
        fuse: bool = False,
        pairing: Pairing = "auto",
        lexical_weight: Literal["auto"] | float = "auto",
        effort: Effort = "auto",
        rerank_top: int = 32,
        timeout: float | None = None,
        priority: int = 0,
    ) -> Highlights:
        """Find the passages of pages that answer a query.

        pullquote cuts each page into sentences and windows of sentences. It scores windows by meaning (cosine of vectors) and by
        words (BM25), and sentences and paragraphs by their share of the query's words. A passage is the run of highest
        relevance around a page's best sentence. Passages do not overlap. A heading stays with the text after it; list items,
        tables and code blocks stay whole. An empty page has no highlights.

        - `query`: one query for all pages, or a list of queries.
        - `texts`: the pages: texts, pairs of an id and a text, or a mapping from ids to texts. A page may also be a
          `documents.Document`, a path or an open file, which `documents.read` reads; its name is the id without others, and
          highlights of a PDF have their `page_number` and `rectangles`.
        - `ids`: an id for each page, of any type, instead. `Highlight.id` has its page's.
        - `titles`: a title or `None` for each page. When pages compete, the title's relevance is added to every passage of its
          page.
        - `count_tokens`: counts a text's tokens for `max_tokens` and `max_total_tokens`, such as
          ``lambda text: len(encoding.encode(text))``, in place of the model's tokenizer. The counts of the passages' texts are
          together within the budget. It is called for each sentence of the pages, from any thread, one call at a time.

        Options:

        - `top_k`: maximum number of highlights for each page; 3 if neither it nor another limit is set.
        - `max_total_highlights`: maximum number of highlights for all pages together; the best ones.
        - `max_chars`: maximum number of characters for each page, over all its highlights. A budget without `top_k` selects the
          best sentences that fit, and joins neighbours.
        - `max_tokens`: maximum number of the embedding model's tokens for each page, over all its highlights. A language model
          counts others: `count_tokens` takes its tokenizer, in Python. Four bytes of text count as one token or more, because
          the model may have one token for a very long word.
        - `max_total_chars`: maximum number of characters for all pages together; the most relevant passages get them. If a page
          answers, those that do not get none; with `min_score=0` all compete.
        - `max_total_tokens`: maximum number of the embedding model's tokens for all pages together, counted as for
          `max_tokens`; they go to the passages that `max_total_chars` would choose.
        - `min_score`: minimum score of a highlight, the probability that it answers the query, from 0 to 1; the result may be
          empty. ``"auto"`` is 0.2, from which `answered` is true: it leaves out what hardly answers, and keeps 95 % of the
          answers.
        - `dedupe`: drop near-duplicate passages: within each ``"page"``, across the whole ``"answer"``, or nowhere
          (``"none"``); ``"auto"`` is ``"answer"`` when pages share a limit, else ``"page"``. The passage that stays has them as
          `twins`.
        - `order`: ``"score"`` returns the best highlights first, ``"position"`` the order of the page. Of equal scores, the
          earlier passage is first.
        - `context`: number of sentences to report before and after each highlight. They are in `before` and `after`.
        - `explain`: report the words that matched, and where. They are in `matches`.
        - `format`: format of the pages; ``"auto"`` detects it for each page. `Highlights.formats` has what it took. Offsets in
          ``"markdown"`` are those of the source; those in ``"html"`` are of the text that a browser shows, and `source_start`
          and `source_end` those of the source. In Python also a list, with one for each page.
        - `unit`: unit of windows: ``"sentence"``, ``"word"``, or ``"token"`` of the model.
        - `highlight_length`: length of a window, in units. A passage spans at most `2 * highlight_length - 1` units, without
          headings, except blocks that stay whole.
        - `step_size`: distance between the starts of two windows, in units; above `highlight_length` only with `allow_gaps`.
          The windows of a page may repeat its text a thousand times, or have 16 million units together.
        - `allow_gaps`: allow a `step_size` above `highlight_length`, which skips text.
        - `expand`: rank sentences and grow passages from them; otherwise return the best windows as they were cut. Units other
          than sentences always return windows.
        - `fuse`: return one answer to all queries: each sentence has the relevance of the query that it answers best.
        - `pairing`: ``"all"`` compares each query with every page, ``"each"`` compares query i with page i; ``"auto"`` is
          ``"all"``, and refuses several queries with several pages. With ``"all"``, `result[q, p]` is query `q` on page `p`.
          Equal numbers of queries and pages may be a coincidence, so ``"auto"`` does not guess.
        - `lexical_weight`: weight of words (BM25 and coverage) against meaning (cosine), from 0 to 1; ``"auto"`` is 0.5, more
          for scripts that the model's tokenizer does not know, less if the pages have few of the query's words.
        - `effort`: share of the windows to encode: ``"full"``, all; ``"auto"``, those that could be among the best; ``"fast"``,
          at most 64 for each page beyond those that the words select; ``"instant"``, none: passages come from words and from
          vectors of single tokens. `Highlights.windows_scored` counts them. ``"auto"`` encodes a small sample too, and nearly
          all windows of a page of up to 1,024 that words do not tell apart, for example because it is in another language.
          ``"instant"`` is for text that comes faster than it can be encoded. The first such call makes the vectors of tokens,
          and keeps them in the model's folder. Its scores are estimates.
        - `rerank_top`: maximum number of passages that the reranker or the pruner reads for a query, the best of all its pages;
          0 for none. It is without effect where there is neither. Of each passage a `reranker` reads 512 tokens, the query's
          included; passages beyond these follow after them. What a `pruner` has not read is no passage.
        - `timeout`: seconds after which the call fails; no limit by default. Its work stops, and the call raises
          `DeadlineExceededError`. Over HTTP it is the header `Request-Timeout-Ms`.
        - `priority`: urgency of the call's work on the devices; lower goes first. As in vLLM. One batch in eight goes to the
          call that has waited longest. Over HTTP it is the header `Request-Priority`.

        Returns `Highlights`: ``result[i]`` is page `i`'s list of `Highlight`.

        Raises `InvalidArgumentError`, `InvalidTypeError` and `InvalidTextError` for bad arguments, `EncoderError` if the model
        fails, `OutOfMemoryError` if no device has memory for one of the windows, `DeadlineExceededError`, `ClosedError`, and
        `ForkedError`. Ctrl-C stops the work; the highlighter stays usable.
        """
        arguments = locals()
        request = read_files(check_request(query, texts, {name: arguments[name] for name in Options.__annotations__}))
        with call_progress() as report:
            return Highlights(request, self._native.highlights(request, report)).citing(self.cite)

    @checked
    def cite(
        self,
        answer: str,
        pages: Pages,
        *,
        ids: Iterable[Any] | None = None,
        titles: Iterable[str | None] | None = None,
        numbers: Sequence[int] | None = None,
        format: Format | Sequence[Format] = "auto",  # noqa: A002 - the field's word
        timeout: float | None = None,
        priority: int = 0,
    ) -> Cited:
        """Find what supports each sentence of a text that a model or a person wrote.

        - `answer`: the text, in Markdown. Headings, code, questions and lines that introduce others claim nothing.
        - `pages`: as `texts` of `highlights`; `ids`, `titles` and `format` are those of `highlights` too.
        - `numbers`: for the numbers of markers from ``[1]`` on, the index of the page that each means. Without it, ``[1]`` is the
          first page.
        - `timeout`, `priority`: as in `highlights`.

        Returns `citations.Cited`, which is true if every claim has full support. A sentence has full `support` if passages say it,
        with all of its numbers, dates, names and quoted words, which are compared by value: 1,250 and 1.250,00, 3 million and
        3,000,000, May 5, 2020 and 2020-05-05. What no passage has is `missing`. Its `markers`, such as ``[1]``, ``[1, 2]``,
        ``[id]`` and links to a page's id, are held against what supports it. The same text and pages give the same result.

        Raises `InvalidArgumentError` for a text without a letter or digit and for no pages, and the errors of `highlights`.

        >>> cited = highlighter.cite("The moon is 390,000 km away [1].", [page])  # doctest: +SKIP
        >>> cited.sentences[0].support, cited.sentences[0].missing[0].text  # doctest: +SKIP
        ('partial', '390,000')
        """
        call = check_cite(
            answer,
            pages,
            {
                "ids": ids,
                "titles": titles,
                "numbers": numbers,
                "format": format,
                "timeout": timeout,
                "priority": priority,
            },
        )
        return Cited.of_json(self._native.cite(read_files(call.request), call.ids, call.numbers))

    @checked
    def stream(self, query: str | Sequence[str], pages: Pages, **options: Unpack[Options]) -> Iterator[Highlights]:
        """Answer pages one after another, in their order: ``for found in highlighter.stream(query, pages)``.

        - `pages`: as `texts` of `highlights`, also a generator. At most 64 pages, or those of 4 million characters, are read
          ahead, and a page's answer comes at the latest when the page after it was read.
        - `query`, `options`: those of `highlights`, but limits that pages share (`max_total_chars`, `max_total_tokens`,
          `max_total_highlights`), ``dedupe="answer"``, ``pairing="each"``, and lists of `ids`, `titles` and formats. `timeout`
          is for each page.

        Yields the result of ``highlights(query, [page])`` for each page, with the page's id in `ids`: other pages do not affect
        it. Closing the iterator, or leaving the loop and dropping it, stops the pages that are in progress.

        Raises the errors of `highlights`: of options at once, and of a page in its turn, which ends the stream.
        """
        return stream(self._native.start_highlights, *checked_stream(query, pages, options))

    @checked
    def highlights_arrow(
        self,
        table: ArrowTable,
        text: str = "text",
        query: str | Sequence[str] = "query",
        id: str | None = None,  # noqa: A002 - the field's word
        title: str | None = None,
        **options: Unpack[Options],
    ) -> HighlightTable:
        """Find the passages of the rows of a table in Arrow's format, without making Python strings of pages.

        Each row is a page with its query, and has the answer of ``highlights(query, [text])``: rows do not affect each other's
        scores, and chunks do not matter. Many rows are in progress at a time.

        - `table`: an object with Arrow's PyCapsule interface: a table, batch or stream of pyarrow, polars, duckdb, daft and
          others. Its buffers are read without a copy. Of a stream, up to 8,192 rows or 16 MiB of text are in memory at a
          time, and all answers.
        - `text`: column of the pages: string, large_string, string_view, or a dictionary of these.
        - `query`: column of the queries. Or a list of queries for every row: then the answer has a row for each page and query,
          in the order of the pages, and each page is parsed once.
        - `id`: column that identifies rows, of any type. Without it, rows are numbered from 0.
        - `title`: column of titles. A row whose query is null uses its title as the query. (In `highlights`, titles distinguish
          pages that compete; rows of a table do not.)
        - `options`: those of `highlights` except `pairing`, `fuse`, `titles` and limits of all pages together (`max_total_chars`);
          `timeout` is for the whole table.

        Returns a `HighlightTable` with a row for each query and page, in their order. A row that fails (its text is null, not
        UTF-8 or too long; its query is null or empty; the model fails on it) has an error there, and other rows continue.

        Raises `InvalidTypeError` if `table` is not a table or a column has no strings, `InvalidArgumentError` for a missing
        column, a bad option, or a producer that fails; `DeadlineExceededError`, `ClosedError` and `ForkedError`.

        >>> import pyarrow  # doctest: +SKIP
        >>> table = pyarrow.table({"text": [page], "query": ["How far is the moon?"]})  # doctest: +SKIP
        >>> pyarrow.table(highlighter.highlights_arrow(table, top_k=1)).to_pylist()  # doctest: +SKIP
        """
        names = column_names(text, query, id, title)
        return HighlightTable(self._native.highlights_arrow(table, names, table_options(options)))

    @checked
    def embed(
        self,
        texts: Iterable[str],
        *,
        role: Literal["query", "passage"] = "passage",
        timeout: float | None = None,
        priority: int = 0,
    ) -> NDArray[np.float32]:
        """Turn texts into vectors, as sentence-transformers' ``encode`` does with the same model.

        `role` selects the model's prompt for the texts. `timeout`, `priority` and errors are as in `highlights`.

        Returns float32 ``[n, dimension]``, pooled and normalized as the model's files specify. Texts longer than the model allows
        are cut at its limit, with a `TruncationWarning`.
        """
        texts = check_texts(texts, role)
        embeddings = self._native.embed(texts, role == "query", timeout, priority)
        if embeddings.truncated:
            warn_of_truncation(embeddings.truncated, len(texts), self.max_tokens)
        return embeddings.vectors

    @checked
    def rerank(
        self,
        query: str,
        texts: Iterable[str],
        *,
        top_n: int | None = None,
        raw_scores: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> list[RerankResult]:
        """Sort texts by the reranker's scores for a query, best first; return at most `top_n`.

        A score is from 0 to 1, or with `raw_scores` the logit. Without a `reranker`, a late-interaction model scores by MaxSim: the
        mean over the query's tokens, or with `raw_scores` their sum; other models raise `InvalidArgumentError`. A text that is too
        long is read in windows, and has the score of the best. `timeout`, `priority` and errors are as in `highlights`.
        """
        texts = check_rerank(texts, top_n)
        return rank(self._native.score_passages(query, texts, raw_scores, timeout, priority), texts, top_n)

    @checked
    def process(
        self,
        question: str | Sequence[str],
        context: Context | Sequence[Any],
        *,
        threshold: float | None = None,
        always_select_title: bool = False,
        reorder: bool = False,
        top_k: int | None = None,
        sentence_splitter: SentenceSplitter | None = None,
        return_sentence_metrics: bool = False,
        return_sentence_texts: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> dict[str, Any]:
        """Remove the sentences that do not answer, with the `pruner`: as `process` of OpenProvence, and with offsets.

        - `question`, `context`: a question with a text or with a list of texts, or questions with a list of texts for each. A
          list in place of a text has its sentences.
        - `threshold`: the probability from which sentences are kept. `None` is the pruner's.
        - `always_select_title`: keep the first sentence of a text if any other is kept.
        - `reorder`, `top_k`: sort the texts of a question by their scores, and keep the best.
        - `sentence_splitter`: cuts a text into sentences that together are the text, in place of ours.
        - `return_sentence_metrics`, `return_sentence_texts`: add `sentence_probabilities`, and `kept_sentences` with
          `removed_sentences`.

        Contexts are read whole. `timeout`, `priority` and errors are as in `highlights`; without a `pruner` it raises
        `InvalidArgumentError`.

        Returns for one text, or in lists for several: `pruned_context`, `reranking_score` (`None` if the pruner ranks no texts, 0
        if nothing is kept), `compression_rate` in percent of characters, `title` (`None`), `kept_spans` (start and end of each run
        of kept sentences), and `timing`.
        """
        call = check_process(
            question,
            context,
            {
                "threshold": threshold,
                "always_select_title": always_select_title,
                "reorder": reorder,
                "top_k": top_k,
                "sentence_splitter": sentence_splitter,
                "return_sentence_metrics": return_sentence_metrics,
                "return_sentence_texts": return_sentence_texts,
                "timeout": timeout,
                "priority": priority,
            },
        )
        began = time.perf_counter()
        pruned = self._native.prune(call.pairs(), threshold, timeout, priority)
        return process_result(call, pruned, time.perf_counter() - began)

    @checked
    def parse_pieces(
        self,
        text: str,
        highlight_length: int = 3,
        step_size: int = 1,
        unit: Unit = "sentence",
        *,
        allow_gaps: bool = False,
    ) -> NDArray[np.int64]:
        """Cut a text into sliding windows, as `pullquote.parse_pieces` does; ``unit="token"`` counts the model's tokens."""
        return self._native.parse_pieces(text, highlight_length, step_size, unit, allow_gaps)


# By model, revision and cache.
_shared: dict[tuple[str | Path | None, ...], Highlighter] = {}
_shared_lock = threading.Lock()


def shared_highlighter(model: str | Path | None = None, **hub: Any) -> Highlighter:
    """The highlighter of a model that `highlights` uses, made on first use."""
    key = (model, hub.get("revision"), hub.get("cache_dir"))
    if (highlighter := _shared.get(key)) is None:
        with _shared_lock:
            if (highlighter := _shared.get(key)) is None:
                highlighter = _shared[key] = Highlighter(model, **hub)
    return highlighter


@checked
@signed_as(Highlighter.highlights, described_from="- `query`:")
def highlights(
    query: str | Sequence[str],
    texts: Pages,
    *,
    model: str | Path | None = None,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    **options: Unpack[Options],
) -> Highlights:
    """Find the passages of pages that answer a query, on the default devices.

    The first call with a model loads it, and keeps it for later calls. `model` to `local_files_only` are those of `Highlighter`:
    the default is the embedded model.
    """
    highlighter = shared_highlighter(
        model, revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only
    )
    return highlighter.highlights(query, texts, **options)


@checked
@signed_as(Highlighter.cite, described_from="- `answer`:")
def cite(
    answer: str,
    pages: Pages,
    *,
    model: str | Path | None = None,
    revision: str | None = None,
    token: str | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    **options: Unpack[CiteOptions],
) -> Cited:
    """Find what supports each sentence of a text, on the highlighter that `highlights` uses.

    - `model`, `revision`, `token`, `cache_dir`, `local_files_only`: as in `highlights`.
    """
    highlighter = shared_highlighter(
        model, revision=revision, token=token, cache_dir=cache_dir, local_files_only=local_files_only
    )
    return highlighter.cite(answer, pages, **options)


def _forget_shared() -> None:
    """A fork's child has none of the threads of shared highlighters, so it makes its own."""
    global _shared, _shared_lock
    _shared, _shared_lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared)
