"""Pruners give the labels that transformers computes, and passages are the runs of sentences that they keep."""

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pullquote import AsyncClient, Client, Highlighter, _native
from pullquote._models.choice import embedded_model
from pullquote.engine import Hosted, Planner
from pullquote.errors import DeadlineExceededError, InvalidArgumentError, InvalidTypeError, UnsupportedModelError
from support import tiny_pruners
from support.messages import raises
from support.server_process import running_server
from support.tiny_pruners import LAYOUTS, TinyPruner

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pullquote.errors.TruncationWarning")]

SCRIPTS = ["abcdefghijkl", "абвгдежзик", "αβγδεζηθικ", "".join(chr(letter) for letter in range(0x4E00, 0x4E40))]
NAMES = [f"{rule}-{family}" for rule, family in LAYOUTS]


def sentences(seed: int, lengths: list[int]) -> list[str]:
    """Sentences of words of one to three letters, each with the space after it."""
    chosen = random.Random(seed)

    def word() -> str:
        return "".join(chosen.choices(chosen.choice(SCRIPTS), k=chosen.randint(1, 3)))

    return [" ".join(word() for _ in range(length)) + " " for length in lengths]


# In one batch, so that the short rows are padded.
TEXTS = [
    ("".join(sentences(seed, [count])).strip(), sentences(seed + 10, lengths))
    for seed, (count, lengths) in enumerate(
        [(1, [8, 2, 7]), (3, [5, 1, 9, 17]), (9, [31, 1, 33, 4]), (20, [40, 20, 3])]
    )
]


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TinyPruner]:
    folder = tmp_path_factory.mktemp("pruners")
    return {
        f"{rule}-{family}": tiny_pruners.save_pruner(rule, family, folder / f"{rule}-{family}")
        for rule, family in LAYOUTS
    }


def sigmoid(logits: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
    return found


def logit(probabilities: Any) -> NDArray[np.float64]:
    values = np.asarray(probabilities, np.float64)
    found: NDArray[np.float64] = np.log(values / (1 - values))
    return found


def expected_probabilities(pruner: TinyPruner) -> list[list[float]]:
    of_rule: Any = {
        "open-provence": lambda logits: sigmoid(logits).mean(),
        "provence": lambda logits: sigmoid(logits).mean(),
        "tagger": lambda logits: sigmoid(np.mean(logits)),
        # With a threshold of 0 all tokens are in one span.
        "tokens": lambda logits: sigmoid(max(logits)),
    }[pruner.rule]
    return [[float(of_rule(logits)) for logits in of_text] for of_text, _ in pruner.logits(TEXTS)]


def process(highlighter: Highlighter, **options: Any) -> dict[str, Any]:
    questions = [question for question, _ in TEXTS]
    contexts = [[sentences] for _, sentences in TEXTS]
    return highlighter.process(questions, contexts, return_sentence_metrics=True, **options)


def assert_equal(found: Any, expected: Any) -> None:
    found, expected = logit(np.concatenate(found)), logit(np.concatenate(expected))
    assert np.std(expected) > 1e-3
    assert np.abs(found - expected).max() / max(1.0, np.abs(expected).max()) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_float32_matches_transformers(name: str, saved: dict[str, TinyPruner]) -> None:
    pruner = saved[name]
    with Highlighter(devices="cpu", dtype="float32", pruner=pruner.path) as highlighter:
        found = process(highlighter, threshold=0)
        assert_equal([one for (one,) in found["sentence_probabilities"]], expected_probabilities(pruner))
        ranks = [rank for _, rank in pruner.logits(TEXTS)]
        scores = [score for (score,) in found["reranking_score"]]
        if pruner.rule.endswith("provence"):
            assert_equal([scores], [sigmoid(ranks)])
        else:
            assert scores == [None] * len(TEXTS)


@pytest.mark.parametrize("name", NAMES)
def test_each_token_matches_transformers(name: str, saved: dict[str, TinyPruner]) -> None:
    """Sentences of one token have its label."""
    pruner = saved[name]
    letters = [(question, [f"{letter} " for letter in "abcdefghikabcdefghik"]) for question, _ in TEXTS]
    with Highlighter(devices="cpu", dtype="float32", pruner=pruner.path) as highlighter:
        found = highlighter.process(
            [question for question, _ in letters],
            [[parts] for _, parts in letters],
            threshold=0,
            return_sentence_metrics=True,
        )
    expected = [[logit for (logit,) in of_text] for of_text, _ in pruner.logits(letters)]
    assert_equal([one for (one,) in found["sentence_probabilities"]], [sigmoid(logits) for logits in expected])


def test_provence_reads_questions_without_case_and_punctuation(saved: dict[str, TinyPruner]) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=saved["provence-deberta"].path) as highlighter:
        plain, written = (
            highlighter.process(question, "ab cd. ef gh.", return_sentence_metrics=True)
            for question in ("ab cd", " Ab -  CD?")
        )
        assert plain["sentence_probabilities"] == written["sentence_probabilities"]


@pytest.mark.parametrize("instruction_set", _native.instruction_sets()[1:])
def test_every_instruction_set_matches(
    instruction_set: str, saved: dict[str, TinyPruner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLQUOTE_CPU", instruction_set)
    for name in ("open-provence-modernbert", "tagger-bert", "provence-deberta"):
        with Highlighter(devices="cpu", dtype="float32", pruner=saved[name].path) as highlighter:
            found = [one for (one,) in process(highlighter)["sentence_probabilities"]]
            assert_equal(found, expected_probabilities(saved[name]))


QUESTION = "bread moon cheese"
PAGE = (
    "Many people eat rice for breakfast. The moon is made of cheese and bread. Old stories say that of the moon. "
    "The sea is deep and cold. Fish live there. Nobody has been at its ground for fifty years. Cheese, bread, moon."
)
OTHER = "The sea is deep and cold. Fish live there. Nobody has been at its ground for fifty years."


@pytest.fixture(scope="module")
def coverage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pruner that keeps sentences of which a tenth of the tokens is in the question."""
    path = tmp_path_factory.mktemp("coverage") / "model"
    tiny_pruners.save_coverage_pruner(path, embedded_model())
    return path


def test_passages_are_runs_of_kept_sentences(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        found = highlighter.highlights(QUESTION, [PAGE, OTHER], order="position")
        assert [[passage.text for passage in passages] for passages in found] == [
            ["The moon is made of cheese and bread. Old stories say that of the moon.", "Cheese, bread, moon."],
            [],
        ]
        assert all(PAGE[passage.start : passage.end] == passage.text for passage in found[0])
        alone = highlighter.process(QUESTION, PAGE, return_sentence_metrics=True, return_sentence_texts=True)
        kept = [0.0, *alone["sentence_probabilities"]]
        # A run has the score of its best sentence.
        assert [passage.score for passage in found[0]] == pytest.approx([max(kept[2:4]), kept[-1]], abs=1e-4)
        assert alone["pruned_context"] == "".join(alone["kept_sentences"])
        assert "".join(alone["removed_sentences"]).startswith("Many people")
        spans = [PAGE[start:end].strip() for start, end in alone["kept_spans"]]
        assert spans == [passage.text for passage in found[0]]
        plain = highlighter.highlights(QUESTION, [PAGE, OTHER], rerank_top=0)
        assert len(plain[1]) > 0


def test_threshold_is_the_pruners_or_min_score(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        automatic = highlighter.highlights(QUESTION, [PAGE, OTHER], min_score="auto")
        assert [len(passages) for passages in automatic] == [2, 0]
        assert not highlighter.highlights(QUESTION, [OTHER], min_score="auto").answered
        strict = highlighter.highlights(QUESTION, [PAGE, OTHER], min_score=0.3)
        assert [[passage.text for passage in passages] for passages in strict] == [
            ["Cheese, bread, moon.", "The moon is made of cheese and bread."],
            [],
        ]
        everything = highlighter.highlights(QUESTION, [OTHER], min_score=0)
        assert [passage.text for passage in everything[0]] == [OTHER]
        assert highlighter.process(QUESTION, PAGE, threshold=0.3)["kept_spans"] == [(36, 74), (198, 218)]


def test_limits_hold_for_kept_sentences(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        one = highlighter.highlights(QUESTION, [PAGE], top_k=1)[0]
        assert [passage.text for passage in one] == ["Cheese, bread, moon."]
        short = highlighter.highlights(QUESTION, [PAGE], max_chars=70)[0]
        assert sum(len(passage.text) for passage in short) <= 70
        windows = highlighter.highlights(QUESTION, [PAGE], expand=False, highlight_length=1)[0]
        assert {passage.text for passage in windows} == {
            "Cheese, bread, moon.",
            "The moon is made of cheese and bread.",
            "Old stories say that of the moon.",
        }
        fused = highlighter.highlights(["cheese", "fish"], [PAGE], fuse=True, order="position")[0]
        assert "Fish live there." in [passage.text for passage in fused]
        each = highlighter.highlights([QUESTION] * 2, [PAGE, OTHER], pairing="each")
        assert [len(passages) for passages in each] == [2, 0]


def test_a_long_page_costs_what_its_candidates_cost(coverage: Path) -> None:
    filler = "The sea is deep and cold number {}. Fish live there in the dark water."
    lines = [filler.format(number) for number in range(2000)]
    lines[1000] = "The moon is made of bread and cheese."
    page = " ".join(lines)
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage, cache_bytes=0) as highlighter:
        (passage,) = highlighter.highlights(QUESTION, [page], effort="instant")[0]
        assert passage.text == lines[1000]
        costs = []
        for text in (page, " ".join(lines[900:1100])):
            with_pruner = highlighter.highlights(QUESTION, [text], effort="instant", rerank_top=4).work
            without = highlighter.highlights(QUESTION, [text], effort="instant", rerank_top=0).work
            assert with_pruner is not None
            assert without is not None
            costs.append(with_pruner.tokens - without.tokens)
        assert 0 < costs[0] < 1500
        assert costs[0] < 2 * costs[1]


def test_labels_are_cached(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        first, again = (highlighter.highlights(QUESTION, [PAGE, OTHER]) for _ in range(2))
        assert first.work is not None
        assert again.work is not None
        assert (first.work.tokens > 0, again.work.tokens) == (True, 0)
        assert [list(passages) for passages in first] == [list(passages) for passages in again]


def test_deadline_ends_pruning(saved: dict[str, TinyPruner]) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=saved["tokens-bert"].path, threads=1) as highlighter:
        with pytest.raises(DeadlineExceededError):
            highlighter.process("ab", ["ab cd " * 400 + str(number) for number in range(2000)], timeout=0.3)
        assert highlighter.process("ab", "ab cd")["pruned_context"] in {"", "ab cd"}


def test_result_has_the_shape_of_the_context(coverage: Path) -> None:
    keys = {"pruned_context", "reranking_score", "compression_rate", "title", "kept_spans", "timing"}
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        one = highlighter.process(QUESTION, PAGE)
        assert set(one) == keys
        assert one["compression_rate"] == pytest.approx(100 * (1 - len(one["pruned_context"]) / len(PAGE)))
        several = highlighter.process(QUESTION, [OTHER, PAGE, ""], reorder=True)
        assert several["pruned_context"] == [one["pruned_context"], "", ""]
        assert several["reranking_score"][1] == 0.0
        nested = highlighter.process(
            [QUESTION, "fish"], [[PAGE], [OTHER, ["Fish ", "swim."]]], return_sentence_texts=True
        )
        assert nested["kept_sentences"][1] == [["Fish live there. "], ["Fish "]]
        titled = highlighter.process(QUESTION, PAGE, always_select_title=True)
        assert titled["pruned_context"].startswith("Many people")
        lines = highlighter.process("bread", "a bread\nno rice\n", sentence_splitter=lambda text: text.splitlines(True))
        assert lines["pruned_context"] == "a bread\n"
        with raises(InvalidArgumentError, "threshold", 2):
            highlighter.process(QUESTION, PAGE, threshold=2)
        with raises(InvalidArgumentError, "context", 2):
            highlighter.process([QUESTION] * 2, [[PAGE]])


def test_tagger_keeps_its_best_sentence_if_none_reaches_its_threshold(tmp_path: Path) -> None:
    pruner = tiny_pruners.save_pruner("tagger", "bert", tmp_path / "tagger")
    probabilities = expected_probabilities(pruner)
    with Highlighter(devices="cpu", dtype="float32", pruner=pruner.path) as highlighter:
        for (question, parts), expected in zip(TEXTS, probabilities, strict=True):
            kept = highlighter.process(question, [parts], return_sentence_texts=True)["kept_sentences"][0]
            likely = [part for part, probability in zip(parts, expected, strict=True) if probability >= 0.5]
            assert kept == (likely or [parts[int(np.argmax(expected))]])


def test_model_of_wrong_kind_is_refused(coverage: Path, tmp_path: Path) -> None:
    with raises(UnsupportedModelError, "no pruner", "OpenProvence"):
        Highlighter(devices="cpu", pruner=embedded_model())
    provence = tiny_pruners.save_pruner("provence", "deberta", tmp_path / "provence", id2label={"0": "a", "1": "b"})
    with raises(UnsupportedModelError, "2 labels", "Provence"):
        Highlighter(devices="cpu", pruner=provence.path)
    labels = tiny_pruners.save_pruner("tokens", "bert", tmp_path / "labels", id2label={"0": "a", "1": "b", "2": "c"})
    with raises(UnsupportedModelError, "3 labels", "pruner="):
        Highlighter(devices="cpu", pruner=labels.path)
    with raises(InvalidArgumentError, "reranker", "pruner"):
        Highlighter(devices="cpu", reranker=coverage, pruner=coverage)
    with raises(InvalidTypeError, "pruner", ""):
        Highlighter(devices="cpu", pruner="")
    with Highlighter(devices="cpu") as highlighter, raises(InvalidArgumentError, "no pruner", "pruner="):
        highlighter.process("ab", "cd")


def test_function_computes_vectors_and_cpu_prunes(coverage: Path) -> None:
    with Highlighter(encoder=lambda texts: np.ones((len(texts), 3), np.float32), pruner=coverage) as highlighter:
        found = highlighter.highlights(QUESTION, [PAGE, OTHER], order="position")
        assert [[passage.text for passage in passages] for passages in found] == [
            ["The moon is made of cheese and bread. Old stories say that of the moon.", "Cheese, bread, moon."],
            [],
        ]


def test_host_computes_vectors_and_cpu_prunes(coverage: Path) -> None:
    planner = Planner(embedded_model(), pruner=coverage)
    plan = planner.plan(QUESTION, [PAGE, OTHER], order="position")
    planned = plan.finish(np.ones((len(plan.rows), 3), np.float32))
    planner.close()
    with Hosted(embedded_model(), 3, pruner=coverage) as hosted:
        call = hosted.start(QUESTION, [PAGE, OTHER], order="position")
        batches = call.advance()
        while call.result is None:
            batches = call.advance([(batch.ticket, np.ones((len(batch.lengths), 3), np.float32)) for batch in batches])
    for found in (planned, call.result):
        assert [[passage.text for passage in passages] for passages in found] == [
            ["The moon is made of cheese and bread. Old stories say that of the moon.", "Cheese, bread, moon."],
            [],
        ]


def test_pruner_is_named(tmp_path: Path) -> None:
    path = tmp_path / "own"
    tiny_pruners.save_pruner("open-provence", "modernbert", path, default_threadshold=0.3)
    (path / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-nc-4.0\n---\n# Own\n", "utf-8")
    with Highlighter(devices="cpu", pruner=path) as highlighter:
        assert highlighter.pruner is not None
        assert highlighter.pruner.name == "own"
        assert highlighter.pruner.threshold == pytest.approx(0.3)
        assert len(highlighter.pruner.id) == 32
        assert "pruner 'own'" in repr(highlighter)
        assert "cc-by-nc-4.0" in repr(highlighter)


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 0.05), ("int8", 0.15)])
def test_narrow_dtypes_keep_probabilities(dtype: str, most: float, saved: dict[str, TinyPruner]) -> None:
    for name in ("open-provence-modernbert", "tokens-xlm-roberta", "tagger-bert", "provence-deberta"):
        with Highlighter(devices="cpu", dtype=dtype, pruner=saved[name].path) as highlighter:
            found = [one for (one,) in process(highlighter, threshold=0)["sentence_probabilities"]]
            expected = expected_probabilities(saved[name])
            assert np.abs(np.concatenate(found) - np.concatenate(expected)).max() < most


def without_time(result: dict[str, Any]) -> dict[str, Any]:
    assert result["timing"]["total_seconds"] > 0
    return {name: value for name, value in result.items() if name != "timing"}


def test_client_processes_as_the_highlighter(coverage: Path) -> None:
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (QUESTION, PAGE, {"return_sentence_metrics": True, "return_sentence_texts": True}),
        (QUESTION, [OTHER, PAGE, ""], {"reorder": True, "top_k": 2, "threshold": 0.3}),
        ([QUESTION, "fish"], [[PAGE], [OTHER, ["Fish ", "", "schwimmen süß 😀."]]], {"always_select_title": True}),
        ("bread", "a bread\nno rice\n", {"sentence_splitter": lambda text: text.splitlines(True), "timeout": 60.0}),
    ]

    async def awaited(url: str, question: Any, context: Any, options: dict[str, Any]) -> dict[str, Any]:
        async with AsyncClient(url) as client:
            return await client.process(question, context, **options)

    with (
        Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter,
        running_server("--dtype", "float32", "--pruner", str(coverage)) as server,
        Client(server.url) as client,
    ):
        for question, context, options in cases:
            expected = without_time(highlighter.process(question, context, **options))
            assert without_time(client.process(question, context, **options)) == expected
            assert without_time(asyncio.run(awaited(server.url, question, context, options))) == expected
        for owner in (highlighter, client):
            with raises(InvalidArgumentError, "threshold", 2):
                owner.process(QUESTION, PAGE, threshold=2)
            with pytest.raises(DeadlineExceededError):
                owner.process(QUESTION, [f"{PAGE} {number}" for number in range(1000)], timeout=1e-3)
        body = {"pairs": [{"question": "süß", "context": " Süß 😀. Salzig."}], "offsets": "utf16"}
        (found,) = server.client.post("/prune", json=body).json()["results"]
        assert [(one["start"], one["end"]) for one in found["sentences"]] == [(0, 9), (9, 16)]
        for wrong, field in (
            ({"pairs": []}, "pairs"),
            ({**body, "threshold": 1.5}, "threshold"),
            ({"pairs": [{"question": "a " * 99_999, "context": "b"}]}, "pairs[0].question"),
            ({"pairs": [{"question": "a", "context": 3}]}, "pairs[0].context"),
        ):
            refused = server.client.post("/prune", json=wrong)
            assert (refused.status_code, refused.json()["error"]["field"]) == (422, field)


def test_server_without_pruner_says_so() -> None:
    with (
        running_server() as server,
        Client(server.url) as client,
        raises(InvalidArgumentError, "no pruner", "--pruner"),
    ):
        client.process(QUESTION, PAGE)


def test_server_prunes(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", pruner=coverage) as highlighter:
        expected = highlighter.highlights(QUESTION, [PAGE, OTHER])
        identity = highlighter.pruner
    assert identity is not None
    with running_server("--dtype", "float32", "--pruner", str(coverage)) as server:
        body = {"query": QUESTION, "documents": [PAGE, OTHER]}
        found = server.client.post("/highlights", json=body).json()["results"]
        assert [[one["text"] for one in page["highlights"]] for page in found] == [
            [passage.text for passage in passages] for passages in expected
        ]
        info = server.client.get("/info").json()["pruner"]
        assert (info["name"], info["sha"], info["licence"]) == (coverage.name, identity.id, None)
        assert info["threshold"] == pytest.approx(0.1)
        listed = server.client.get("/v1/models").json()["data"][1:]
        assert [(one["id"], one["model_sha"], one["capabilities"]) for one in listed] == [
            (coverage.name, identity.id, ["prune"])
        ]
        auto = server.client.post("/highlights", json=body | {"documents": [OTHER], "min_score": "auto"}).json()
        assert auto["results"][0]["highlights"] == []
