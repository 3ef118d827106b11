"""Rerankers give the scores of sentence-transformers' CrossEncoder, and passages come in their order."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from numpy.typing import NDArray

from pullquote import Highlighter, _cli, _native
from pullquote._models.choice import embedded_model
from pullquote.client import Client
from pullquote.engine import Engine, Hosted, Planner
from pullquote.errors import DeadlineExceededError, InvalidArgumentError, InvalidTypeError, UnsupportedModelError
from support import tiny_models
from support.messages import names_all, raises
from support.server_process import ServerProcess, running_server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pullquote.errors.TruncationWarning")]

SCRIPTS = ["abcdefghijkl", "абвгдежзик", "αβγδεζηθικ", "".join(chr(letter) for letter in range(0x4E00, 0x4E40))]
LANGUAGE_MODELS = ["tied", "untied", "any-role", "last-token", "qwen2"]
LAYOUTS = [*tiny_models.RERANKERS, "jina-roberta", "modular", *LANGUAGE_MODELS]


def texts(seed: int, lengths: list[int]) -> list[str]:
    chosen = random.Random(seed)

    def word() -> str:
        return "".join(chosen.choices(chosen.choice(SCRIPTS), k=chosen.randint(1, 3)))

    return [" ".join(word() for _ in range(length)) for length in lengths]


QUERIES = texts(1, [1, 3, 9, 40])
PASSAGES = texts(2, [1, 2, 5, 9, 17, 31, 33, 64, 90, 130, 200, 300])


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """The directory of each layout, and its `CrossEncoder`."""
    folder = tmp_path_factory.mktemp("rerankers")
    found = {name: (folder / name, tiny_models.save_reranker(name, folder / name)) for name in tiny_models.RERANKERS}
    save, template = tiny_models.save_language_reranker, tiny_models.PAIR_TEMPLATE
    any_role = tiny_models.ANY_ROLE_TEMPLATE
    others: dict[str, Callable[[Path], Any]] = {
        "jina-roberta": tiny_models.save_jina_roberta,
        "modular": tiny_models.save_modular_reranker,
        "tied": lambda path: save(path, tied=True, template=template, prompt="ab cd"),
        "untied": lambda path: save(path, tied=False, template=template),
        "any-role": lambda path: save(path, tied=True, template=any_role),
        "last-token": tiny_models.save_last_token_reranker,
        "qwen2": lambda path: tiny_models.save_last_token_reranker(path, "Qwen2"),
    }
    return found | {name: (folder / name, make(folder / name)) for name, make in others.items()}


def logits_of(model: Any, query: str, passages: list[str]) -> NDArray[np.float32]:
    """In one batch, so that the short pairs are padded."""
    pairs = [(query, passage) for passage in passages]
    return np.asarray(model.predict(pairs, activation_fn=torch.nn.Identity(), batch_size=64)).reshape(-1)


def ours(highlighter: Highlighter, query: str, passages: list[str]) -> NDArray[np.float32]:
    ranked = highlighter.rerank(query, passages, raw_scores=True)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    assert all(passages[one.index] == one.text for one in ranked)
    by_index = sorted(ranked, key=lambda one: one.index)
    return np.array([one.score for one in by_index], np.float32)


def assert_equal(found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert np.abs(found - expected).max() / max(1.0, np.abs(expected).max()) < 1e-5


TORCH = pytest.mark.skipif(find_spec("pullquote_torch") is None, reason="pullquote-torch is not installed")


@pytest.mark.parametrize("encoder", [None, pytest.param("torch", marks=TORCH)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_float32_matches_cross_encoder(layout: str, encoder: Literal["torch"] | None, saved: dict[str, Any]) -> None:
    path, model = saved[layout]
    if encoder is not None and layout.startswith("deberta") and layout != "deberta-absolute":
        with raises(UnsupportedModelError, "DeBERTa", 'devices="cpu"'):
            Highlighter(encoder=encoder, devices="cpu", dtype="float32", reranker=path)
        return
    with Highlighter(encoder=encoder, devices="cpu", dtype="float32", reranker=path) as highlighter:
        for query in QUERIES:
            expected = logits_of(model, query, PASSAGES)
            assert np.std(expected) > 0.01
            assert_equal(ours(highlighter, query, PASSAGES), expected)
        one = highlighter.rerank(QUERIES[0], PASSAGES)[0]
        raw = highlighter.rerank(QUERIES[0], PASSAGES, raw_scores=True, top_n=1)[0]
        assert one.score == pytest.approx(1 / (1 + np.exp(-raw.score)), abs=1e-6)


@pytest.mark.parametrize("instruction_set", _native.instruction_sets()[1:])
def test_every_instruction_set_matches(
    instruction_set: str, saved: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLQUOTE_CPU", instruction_set)
    for layout in ("bert", "modernbert-mean", "deberta", "deberta-distances"):
        path, model = saved[layout]
        with Highlighter(devices="cpu", dtype="float32", reranker=path) as highlighter:
            assert_equal(ours(highlighter, QUERIES[1], PASSAGES[:6]), logits_of(model, QUERIES[1], PASSAGES[:6]))


QUERY = "bread moon cheese"
PAGES = [
    "Many people eat bread for breakfast. The moon moves around the earth. Old stories say that the moon is made of cheese "
    "and not of bread. Nobody has been there for fifty years.",
    "Bread and butter. Cheese is made from milk. The sea is deep and cold.",
    "# Food\n\nA baker put cheese on bread.\n\n## Sky\n\nThe moon was full.",
]


@pytest.fixture(scope="module")
def coverage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reranker that counts shared words."""
    path = tmp_path_factory.mktemp("coverage") / "model"
    tiny_models.save_coverage_reranker(path, embedded_model())
    return path


def sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def test_passages_have_order_and_score_of_reranker(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        found = highlighter.highlights(QUERY, PAGES)
        plain = highlighter.highlights(QUERY, PAGES, rerank_top=0)
        assert found != plain
        # Where no heading is above a passage, the reranker reads its text alone.
        for page, passages in zip(PAGES[:2], list(found)[:2], strict=True):
            scores = [passage.score for passage in passages]
            assert scores == sorted(scores, reverse=True)
            for passage in passages:
                assert page[passage.start : passage.end] == passage.text
                logit = highlighter.rerank(QUERY, [passage.text], raw_scores=True)[0].score
                assert passage.score == pytest.approx(sigmoid(logit), abs=1e-5)
        # By cosine and words, the first passage of this page is the one about bread.
        assert next(iter(plain[2])).text.endswith("bread.")
        assert next(iter(found[2])).text.endswith("The moon was full.")
        logit = highlighter.rerank(QUERY, ["# Food\n## Sky\n\nThe moon was full."], raw_scores=True)[0].score
        assert found[2][0].score == pytest.approx(sigmoid(logit), abs=1e-5)


def test_limits_hold_for_reranked_passages(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        answered = highlighter.highlights(QUERY, PAGES, min_score="auto")
        assert [len(passages) for passages in answered] == [2, 0, 1]
        assert all(passage.score >= 0.2 for passages in answered for passage in passages)
        one = highlighter.highlights(QUERY, PAGES, max_total_highlights=1)
        assert [len(passages) for passages in one] == [1, 0, 0]
        chars = highlighter.highlights(QUERY, PAGES, max_total_chars=120)
        assert sum(len(passage.text) for passages in chars for passage in passages) <= 120
        assert [len(passages) for passages in chars] == [1, 0, 1]
        fused = highlighter.highlights(["bread butter", "moon cheese"], PAGES, fuse=True)
        assert fused[0][0].text.startswith("Old stories")
        each = highlighter.highlights([QUERY] * 3, PAGES, pairing="each")
        assert [passages[0].text for passages in each] == [
            passages[0].text for passages in highlighter.highlights(QUERY, PAGES)
        ]
        with raises(InvalidArgumentError, "rerank_top", -1):
            highlighter.highlights(QUERY, PAGES, rerank_top=-1)


def test_passages_beyond_rerank_top_follow(coverage: Path) -> None:
    page = " ".join(f"The bread number {number} is not on the moon." for number in range(40))
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        few = highlighter.highlights(QUERY, [page], rerank_top=2, top_k=10, dedupe="none")[0]
        scores = [passage.score for passage in few]
        assert len(scores) == 10
        assert scores == sorted(scores, reverse=True)
        logits = highlighter.rerank(QUERY, [passage.text for passage in few], raw_scores=True)
        exact = {one.index: sigmoid(one.score) for one in logits}
        assert [scores[index] == pytest.approx(exact[index], abs=1e-5) for index in (0, 1)] == [True, True]
        assert max(scores[2:]) <= min(scores[:2])


def test_scores_of_pairs_are_cached(coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        first = highlighter.highlights(QUERY, PAGES)
        again = highlighter.highlights(QUERY, PAGES)
        assert first.work is not None
        assert again.work is not None
        assert (first.work.tokens > 0, again.work.tokens) == (True, 0)
        assert [[passage.score for passage in passages] for passages in first] == [
            [passage.score for passage in passages] for passages in again
        ]


def marks(texts: list[str]) -> list[list[float]]:
    return [[1.0, len(text) % 7, text.count("o")] for text in texts]


def test_passages_of_other_encoders_are_reranked(coverage: Path) -> None:
    """Vectors of a function, or of a host, and scores by the CPU."""
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        expected = highlighter.rerank(QUERY, DOCUMENTS)
    with Highlighter(encoder=marks, reranker=coverage) as highlighter:
        ranked = highlighter.rerank(QUERY, DOCUMENTS)
        assert [one.index for one in ranked] == [one.index for one in expected]
        assert [one.score for one in ranked] == pytest.approx([one.score for one in expected], abs=1e-2)
        assert [state.name for state in highlighter.device_states] == [highlighter.devices[0], "reranker"]
        assert highlighter.device_states[1].tokens > 0
        passages = highlighter.highlights(QUERY, PAGES)
        assert next(iter(passages[2])).text.endswith("The moon was full.")
        assert passages != highlighter.highlights(QUERY, PAGES, rerank_top=0)
        with pytest.raises(DeadlineExceededError):
            highlighter.rerank("moon", ["moon cheese " * 100] * 3000, timeout=0.05)
    for threads in (1, "caller"):
        with Engine(encoder=marks, reranker=coverage, threads=threads) as engine:
            for number in range(3):
                engine.add_request(str(number), QUERY, PAGES)
            done = []
            while engine.has_unfinished_requests():
                done += engine.step()
            assert sorted(output.request_id for output in done) == ["0", "1", "2"]
            assert all(output.error is None for output in done)
            assert done[0].outputs is not None
            assert [one.score for one in done[0].outputs[0]] == pytest.approx(
                [one.score for one in passages[0]], abs=1e-2
            )
    with Hosted(embedded_model(), 3, reranker=coverage) as hosted:
        call = hosted.start(QUERY, PAGES)
        batches = call.advance()
        while call.result is None:
            found = [(batch.ticket, np.ones((len(batch.lengths), 3), np.float32)) for batch in batches]
            batches = call.advance(found)
        assert next(iter(call.result[2])).text.endswith("The moon was full.")
        hosted_passages = [list(of_page) for of_page in call.result]
    planner = Planner(embedded_model(), reranker=coverage)
    plan = planner.plan(QUERY, PAGES)
    assert [list(of_page) for of_page in plan.finish(np.ones((len(plan.rows), 3), np.float32))] == hosted_passages
    planner.close()


def test_long_passages_of_language_models_are_cut_before_the_end_of_the_prompt(saved: dict[str, Any]) -> None:
    path, model = saved["untied"]
    query, passages = QUERIES[1], texts(5, [900, 1500])
    messages = [[{"role": "query", "content": query}, {"role": "document", "content": text}] for text in passages]
    rows = [model.tokenizer.apply_chat_template(pair, return_dict=False) for pair in messages]
    # sentence-transformers finds the end by two texts that this vocabulary does not tell apart.
    end = rows[0][-3:]
    with torch.no_grad():
        ids = torch.tensor([row[: tiny_models.LONGEST - len(end)] + end for row in rows])
        expected = model[0].model(input_ids=ids).logits[:, -1, 40].numpy()
    with Highlighter(devices="cpu", dtype="float32", reranker=path) as highlighter:
        assert_equal(ours(highlighter, query, passages), expected)
        assert len(highlighter.rerank(" ".join(passages), ["ab", "cd"])) == 2


@pytest.mark.parametrize("name", ["Qwen3-Reranker-0.6B", "mxbai-rerank-base-v2"])
def test_known_language_models_read_the_prompt_of_their_own_code(name: str, tmp_path: Path) -> None:
    model, tokenizer = tiny_models.save_known_language_reranker(tmp_path / name)
    query, passages = "Who wrote it?", ["It was written.\nBy whom?", " 1984, (a book)", "", "no."]
    assert name.startswith(("Qwen3", "mxbai"))
    begin, end = "<|im_start|>", "<|im_end|>\n"
    if name.startswith("Qwen3"):
        asks = (
            "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
            'Note that the answer can only be "yes" or "no".'
        )
        instruct = "Given a web search query, retrieve relevant passages that answer the query"
        yes, no = "yes", "no"
        pieces = [
            [
                f"{begin}system\n{asks}{end}{begin}user\n",
                f"<Instruct>: {instruct}\n<Query>: {query}\n<Document>: {passage}",
                f"{end}{begin}assistant\n<think>\n\n</think>\n\n",
            ]
            for passage in passages
        ]
    else:
        asks = (
            "You are a search relevance expert who evaluates how well documents match search queries. For each "
            "query-document pair, carefully analyze the semantic relationship between them, then provide your binary "
            "relevance judgment (0 for not relevant, 1 for relevant).\nRelevance:"
        )
        system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
        yes, no = "1", "0"
        pieces = [
            [
                f"{begin}system\n{system}{end}{begin}user\n",
                f"query: {query}",
                "\n",
                f"document: {passage}",
                "\n",
                asks,
                f"{end}{begin}assistant\n",
            ]
            for passage in passages
        ]
    rows = [[token for piece in row for token in tokenizer(piece)["input_ids"]] for row in pieces]
    of_yes, of_no = (tokenizer.convert_tokens_to_ids(token) for token in (yes, no))
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([row])).logits[0, -1] for row in rows]
    expected = np.array([float(row[of_yes] - row[of_no]) for row in logits], np.float32)
    with Highlighter(devices="cpu", dtype="float32", reranker=tmp_path / name) as highlighter:
        assert_equal(ours(highlighter, query, passages), expected)


def test_deadline_ends_reranking(saved: dict[str, Any]) -> None:
    path, _ = saved["bert"]
    with Highlighter(devices="cpu", dtype="float32", reranker=path, threads=1) as highlighter:
        with pytest.raises(DeadlineExceededError):
            highlighter.rerank("ab", ["ab cd " * 400] * 2000, timeout=0.2)
        assert highlighter.rerank("ab", ["ab cd"])[0].index == 0


def test_long_texts_are_read_in_windows(coverage: Path) -> None:
    end = "Old stories say that the moon is made of cheese and bread."
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        ranked = highlighter.rerank(QUERY, ["The sea is deep. " * 400 + end, end, "The sea is deep. " * 400])
        assert [one.index for one in ranked][2] == 2
        assert ranked[1].score > 0.9
        assert ranked[2].score < 0.1


def test_model_of_wrong_kind_is_refused(saved: dict[str, Any], tmp_path: Path) -> None:
    reranker, _ = saved["bert"]
    with raises(UnsupportedModelError, "no reranker", "model="):
        Highlighter(devices="cpu", reranker=embedded_model())
    with raises(UnsupportedModelError, "BertForSequenceClassification", "reranker="):
        Highlighter(reranker, devices="cpu")
    with raises(UnsupportedModelError, "CrossEncoder", "reranker="):
        Highlighter(saved["modular"][0], devices="cpu")
    for architecture, model_type in (
        ("DebertaForSequenceClassification", "deberta"),
        ("JinaForRanking", "qwen3"),
    ):
        other = tmp_path / architecture
        shutil.copytree(reranker, other)
        config = json.loads((other / "config.json").read_text("utf-8"))
        config |= {"architectures": [architecture], "model_type": model_type}
        (other / "config.json").write_text(json.dumps(config), "utf-8")
        with raises(UnsupportedModelError, architecture):
            Highlighter(devices="cpu", reranker=other)
    own = json.loads((reranker / "config.json").read_text("utf-8"))
    own["auto_map"] = {"AutoModelForSequenceClassification": "modeling.XLMRobertaForSequenceClassification"}
    (other / "config.json").write_text(json.dumps(own), "utf-8")
    with raises(UnsupportedModelError, "auto_map"):
        Highlighter(devices="cpu", reranker=other)
    with raises(InvalidTypeError, "reranker", ""):
        Highlighter(devices="cpu", reranker="")
    with Highlighter(devices="cpu") as highlighter, raises(InvalidArgumentError, "no reranker", "reranker="):
        highlighter.rerank("ab", ["cd"])


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 0.05), ("int8", 0.15)])
def test_narrow_dtypes_keep_scores(dtype: str, most: float, saved: dict[str, Any]) -> None:
    for layout in ("bert", "xlm-roberta", "modernbert", "deberta"):
        path, model = saved[layout]
        with Highlighter(devices="cpu", dtype=dtype, reranker=path) as highlighter:
            expected = logits_of(model, QUERIES[2], PASSAGES)
            found = ours(highlighter, QUERIES[2], PASSAGES)
            assert np.abs(found - expected).max() < most * max(1.0, float(np.abs(expected).max()))


def test_tables_and_jobs_are_reranked(coverage: Path, tmp_path: Path) -> None:
    table = pa.table({"query": [QUERY] * 3, "text": PAGES})
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        expected = highlighter.highlights(QUERY, PAGES)
        assert highlighter.reranker_id not in {None, highlighter.model_id}
        found = pa.table(highlighter.highlights_arrow(table)).to_pydict()
    with Highlighter(devices="cpu") as plain:
        assert plain.reranker_id is None
    texts = [[passage.text for passage in passages] for passages in expected]
    assert [[row["text"] for row in rows] for rows in found["highlights"]] == texts
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"text": page}) + "\n" for page in PAGES), "utf-8")
    job = ["job", "--input", str(tmp_path / "pages.jsonl"), "--output", str(tmp_path / "out"), "--query", QUERY]
    settings = ["--dtype", "float32", "--device", "cpu"]
    assert _cli.main([*job, *settings, "--reranker", str(coverage)]) == 0
    [output] = (tmp_path / "out").glob("*.jsonl")
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [[passage["text"] for passage in row["highlights"]] for row in rows] == texts
    # Another reranker makes another job, which this output does not hold.
    assert _cli.main([*job, *settings]) != 0


@pytest.fixture(scope="module")
def server(coverage: Path) -> Iterator[ServerProcess]:
    with running_server("--dtype", "float32", "--reranker", str(coverage)) as running:
        yield running


DOCUMENTS = ["The sea is deep.", "Bread and the moon and cheese.", "The moon is far away from the cheese."]


def test_server_ranks_with_reranker(server: ServerProcess, coverage: Path) -> None:
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        expected = highlighter.rerank(QUERY, DOCUMENTS)
        logits = highlighter.rerank(QUERY, DOCUMENTS, raw_scores=True)
        passages = highlighter.highlights(QUERY, PAGES)
    body = {"query": QUERY, "texts": DOCUMENTS}
    ranks = server.client.post("/rerank", json=body | {"return_text": True}).json()
    assert [(one["index"], one["text"]) for one in ranks] == [(one.index, one.text) for one in expected]
    assert [one["score"] for one in ranks] == pytest.approx([one.score for one in expected], abs=1e-5)
    raw = server.client.post("/rerank", json=body | {"raw_scores": True}).json()
    assert [one["score"] for one in raw] == pytest.approx([one.score for one in logits], abs=1e-3)
    for path in ("/rerank", "/v1/rerank", "/v2/rerank", "/v1/reranking"):
        asked = {"query": QUERY, "documents": DOCUMENTS, "top_n": 2}
        found = server.client.post(path, json=asked).json()["results"]
        assert [one["index"] for one in found] == [one.index for one in expected[:2]]
        assert found[0]["relevance_score"] == pytest.approx(expected[0].score, abs=1e-5)
    by_index = sorted(expected, key=lambda one: one.index)
    for queries in (QUERY, [QUERY] * 3):
        scores = server.client.post("/score", json={"queries": queries, "documents": DOCUMENTS}).json()["data"]
        assert [one["score"] for one in scores] == pytest.approx([one.score for one in by_index], abs=1e-5)
    pairs = [[QUERY, text] for text in DOCUMENTS]
    alone = server.client.post("/predict", json={"inputs": pairs[1]}).json()
    all_of_them = server.client.post("/predict", json={"inputs": pairs}).json()
    assert [score["score"] for [score] in all_of_them] == pytest.approx([one.score for one in by_index], abs=1e-5)
    assert alone == all_of_them[1]
    assert alone[0]["label"] == "LABEL_0"
    predicted = server.client.post("/predict", json={"inputs": pairs, "raw_scores": True}).json()
    assert predicted[1][0]["score"] == pytest.approx(logits[0].score, abs=1e-3)
    raw = server.client.post("/score", json={"text_1": QUERY, "text_2": DOCUMENTS[1], "use_activation": False}).json()
    assert raw["data"][0]["score"] == pytest.approx(logits[0].score, abs=1e-3)
    found = server.client.post("/highlights", json={"query": QUERY, "documents": PAGES}).json()
    assert [one["score"] for one in found["results"][0]["highlights"]] == pytest.approx(
        [one.score for one in passages[0]], abs=1e-5
    )
    with Client(server.url) as client:
        assert [one.index for one in client.rerank(QUERY, DOCUMENTS, top_n=2)] == [one.index for one in expected[:2]]
        ranks = client.rerank(QUERY, DOCUMENTS, raw_scores=True)
        assert [one.score for one in ranks] == pytest.approx([one.score for one in logits], abs=1e-3)


def test_clients_of_other_servers_name_the_reranker(server: ServerProcess, coverage: Path) -> None:
    """As clients do that know no other model than their reranker."""
    with Highlighter(devices="cpu", dtype="float32", reranker=coverage) as highlighter:
        expected = highlighter.rerank(QUERY, DOCUMENTS)
        info = server.client.get("/info").json()
        assert info["reranker"] == {"name": coverage.name, "sha": highlighter.reranker_id}
    name = info["reranker"]["name"]
    models = server.client.get("/v1/models").json()["data"]
    assert models[0]["id"] != name
    assert [(one["id"], one["model_sha"], one["max_model_len"], one["capabilities"]) for one in models[1:]] == [
        (name, info["reranker"]["sha"], 512, ["rerank", "classify"])
    ]
    assert server.client.get(f"/v1/models/{name}").json() == models[1]
    cohere = pytest.importorskip("cohere")
    with httpx.Client() as http:
        ranked = cohere.ClientV2("any", base_url=server.url, httpx_client=http).rerank(
            query=QUERY, documents=DOCUMENTS, model=name, top_n=2, max_tokens_per_doc=100
        )
        v1 = cohere.Client("any", base_url=server.url, httpx_client=http).rerank(
            query=QUERY, documents=[{"text": text, "page": 3} for text in DOCUMENTS], model=name, return_documents=True
        )
    assert ranked.model == name
    assert [(one.index, one.relevance_score) for one in ranked.results] == [
        (one.index, pytest.approx(one.score, abs=1e-5)) for one in expected[:2]
    ]
    assert [one.document.text for one in v1.results] == [one.text for one in expected]
    scored = server.client.post("/score", json={"model": name, "queries": QUERY, "documents": DOCUMENTS}).json()
    assert (scored["model"], len(scored["data"])) == (name, 3)
    other = server.client.post("/score", json={"model": "other", "queries": QUERY, "documents": DOCUMENTS})
    assert other.status_code == 404
    assert server.client.post("/embeddings", json={"model": name, "input": "a"}).status_code == 404


def test_predict_scores_texts_alone(saved: dict[str, Any], tmp_path: Path) -> None:
    """As Text Embeddings Inference: a text is a sequence of its own, and not the second one of a pair."""
    path = tmp_path / "model"
    shutil.copytree(saved["bert"][0], path)
    config = json.loads((path / "config.json").read_text("utf-8")) | {"id2label": {"0": "relevant"}}
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(path)
    query, text = QUERIES[1], PASSAGES[3]

    def expected(*texts: str) -> list[dict[str, Any]]:
        with torch.no_grad():
            logit = float(model(**tokenizer(*texts, return_tensors="pt")).logits[0, 0])
        return [{"label": "relevant", "score": pytest.approx(logit, abs=1e-4)}]

    assert abs(expected(text)[0]["score"].expected - expected(query, text)[0]["score"].expected) > 0.1
    with running_server("--dtype", "float32", "--reranker", str(path)) as other:

        def predict(inputs: Any) -> httpx.Response:
            return other.client.post("/predict", json={"inputs": inputs, "raw_scores": True})

        assert predict(text).json() == expected(text) == predict([text]).json()
        assert predict([query, text]).json() == expected(query, text)
        assert predict([[text], [query, text]]).json() == [expected(text), expected(query, text)]
        # A text that is longer than a row has the score of its best window.
        assert predict(" ".join(PASSAGES * 3)).status_code == 200
        invalid: list[Any] = [["a", "b", "c"], [["a", "b", "c"]], [[]], 3]
        for wrong in invalid:
            refused = predict(wrong)
            assert (refused.status_code, refused.json()["error_type"]) == (422, "Validation")
            assert names_all(refused.json()["error"], "inputs", "a text, a pair of texts")
    with running_server("--dtype", "float32", "--reranker", str(saved["tied"][0])) as other:
        refused = predict(text)
        assert refused.status_code == 400
        assert "pairs of a query and a text" in refused.json()["error"]
        assert predict([query, text]).status_code == 200


def test_truncation_of_long_queries_is_as_in_text_embeddings_inference(server: ServerProcess) -> None:
    long = "moon " * 600
    body: dict[str, Any] = {"query": long, "texts": DOCUMENTS}
    pairs = {"inputs": [[long, text] for text in DOCUMENTS]}
    for path, asked in (("/rerank", body), ("/predict", pairs)):
        assert server.client.post(path, json=asked).status_code == 200
        assert server.client.post(path, json=asked | {"truncate": True}).status_code == 200
        for refused, status in (({"truncate": False}, 413), ({"truncation_direction": "Left"}, 422)):
            assert server.client.post(path, json=asked | refused).status_code == status
    short = server.client.post("/rerank", json=body | {"top_n": 1, "return_text": True}).json()
    assert [set(one) for one in short] == [{"index", "score", "text"}]
    assert short[0]["text"] == DOCUMENTS[short[0]["index"]]


def test_server_refuses_query_longer_than_reranker(server: ServerProcess) -> None:
    long = "moon " * 600
    refused = server.client.post("/rerank", json={"query": long, "documents": DOCUMENTS})
    assert refused.status_code in {400, 413, 422}
    assert "512" in refused.text
    cut = server.client.post("/rerank", json={"query": long, "documents": DOCUMENTS, "truncate": True})
    assert cut.status_code == 200
    assert cut.json()["usage"]["truncated"] == 1


def test_openapi_says_what_scores_are(server: ServerProcess) -> None:
    document = server.client.get("/openapi.json").json()
    assert "probability that a reranker gives" in document["paths"]["/rerank"]["post"]["description"]
    raw = document["components"]["schemas"]["RerankRequest"]["properties"]["raw_scores"]
    assert True in raw["enum"]
