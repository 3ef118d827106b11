"""Other servers' clients, unchanged and at their defaults; each is skipped where it is not installed (`make client-test`)."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from pullquote import Highlighter
from support.messages import raises
from support.server_process import ServerProcess, running_server

TEXTS = ["The moon is white.", "Bread is baked from flour."]
QUERY = "How is bread made?"
# The models that the clients name by default.
DEFAULTS = [
    "text-embedding-ada-002",
    "text-embedding-3-small",
    "embed-v4.0",
    "rerank-v3.5",
]
NODE_MODULES = Path(__file__).parents[3] / ".make" / "clients-js" / "node_modules"


@pytest.fixture(scope="module")
def aliased() -> Iterator[ServerProcess]:
    """A server that answers to the models that clients name by default."""
    names = [part for name in DEFAULTS for part in ("--served-model-name", name)]
    with running_server("--dtype", "float32", *names) as server:
        yield server


@pytest.fixture(scope="module")
def expected(highlighter: Highlighter) -> Any:
    return highlighter.embed(TEXTS)


def test_cohere_v1_and_v2(aliased: ServerProcess, expected: Any) -> None:
    cohere = pytest.importorskip("cohere")
    # Its own HTTP client is never closed, which pytest reports.
    with httpx.Client() as http:
        check_cohere(cohere, aliased.url, http, expected)


def check_cohere(cohere: Any, url: str, http: httpx.Client, expected: Any) -> None:
    v1 = cohere.Client("any-key", base_url=url, httpx_client=http)
    plain = v1.embed(texts=TEXTS, model="embed-v4.0", input_type="search_document")
    assert np.abs(np.array(plain.embeddings) - expected).max() < 1e-5
    ranked = v1.rerank(
        query=QUERY, documents=[{"text": text} for text in TEXTS], model="rerank-v3.5", return_documents=True
    )
    assert (ranked.results[0].index, ranked.results[0].document.text) == (1, TEXTS[1])
    tokens = v1.tokenize(text=TEXTS[0], model="embed-v4.0", offline=False)
    assert tokens.token_strings[:2] == ["the", "moon"]

    v2 = cohere.ClientV2("any-key", base_url=url, httpx_client=http)
    types = ["float", "int8", "ubinary"]
    typed = v2.embed(texts=TEXTS, model="embed-v4.0", input_type="search_document", embedding_types=types)
    assert np.abs(np.array(typed.embeddings.float_) - expected).max() < 1e-5
    assert len(typed.embeddings.ubinary[0]) == 48
    assert v2.rerank(query=QUERY, documents=TEXTS, model="rerank-v3.5", top_n=1).results[0].index == 1
    with raises(cohere.errors.BadRequestError, "texts"):
        v2.embed(texts=[], model="embed-v4.0", input_type="search_document", embedding_types=["float"])
    with raises(cohere.errors.NotFoundError, "other"):
        v2.embed(texts=TEXTS, model="other", input_type="search_document", embedding_types=["float"])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_huggingface_inference_client(aliased: ServerProcess, expected: Any) -> None:
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(aliased.url)
    assert np.abs(client.feature_extraction(TEXTS) - expected).max() < 1e-5
    similarities = client.sentence_similarity(QUERY, TEXTS)
    assert similarities[1] > similarities[0]
    hub.close_session()


def test_langchain_openai(aliased: ServerProcess, expected: Any) -> None:
    module = pytest.importorskip("langchain_openai")
    embeddings = module.OpenAIEmbeddings(
        base_url=f"{aliased.url}/v1", api_key="any", check_embedding_ctx_length=False, max_retries=0
    )
    assert np.abs(np.array(embeddings.embed_documents(TEXTS)) - expected).max() < 1e-5


def test_langchain_openai_default_token_ids_are_refused(
    aliased: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default it sends the ids of OpenAI's tokenizer, here without the network that its vocabulary comes from."""
    module = pytest.importorskip("langchain_openai")
    openai, tiktoken = pytest.importorskip("openai"), pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "words", pat_str=r"\w+", mergeable_ranks={bytes([byte]): byte for byte in range(256)}, special_tokens={}
    )
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda _: encoding)
    embeddings = module.OpenAIEmbeddings(base_url=f"{aliased.url}/v1", api_key="any", max_retries=0)
    with raises(openai.BadRequestError, "check_embedding_ctx_length"):
        embeddings.embed_documents(TEXTS)


def test_llama_index_text_embeddings_inference(aliased: ServerProcess, expected: Any) -> None:
    module = pytest.importorskip("llama_index.embeddings.text_embeddings_inference")
    embedding = module.TextEmbeddingsInference(model_name="any", base_url=aliased.url)
    assert np.abs(np.array(embedding.get_text_embedding_batch(TEXTS)) - expected).max() < 1e-5


def test_llama_index_tei_rerank(aliased: ServerProcess) -> None:
    module = pytest.importorskip("llama_index.postprocessor.tei_rerank")
    schema = pytest.importorskip("llama_index.core.schema")
    nodes = [schema.NodeWithScore(node=schema.TextNode(text=text)) for text in TEXTS]
    ranked = module.TextEmbeddingInference(base_url=aliased.url, top_n=2).postprocess_nodes(nodes, query_str=QUERY)
    assert ranked[0].node.text == TEXTS[1]


def test_haystack_openai_embedder(aliased: ServerProcess, expected: Any) -> None:
    embedders = pytest.importorskip("haystack.components.embedders")
    utils = pytest.importorskip("haystack.utils")
    text = embedders.OpenAITextEmbedder(api_key=utils.Secret.from_token("any"), api_base_url=f"{aliased.url}/v1")
    assert np.abs(np.array(text.run(TEXTS[0])["embedding"]) - expected[0]).max() < 1e-5


def test_haystack_tei_embedder(aliased: ServerProcess, expected: Any) -> None:
    embedders = pytest.importorskip("haystack_integrations.components.embedders.huggingface_api")
    haystack = pytest.importorskip("haystack")
    params = {"api_type": "text_embeddings_inference", "api_params": {"url": aliased.url}, "token": None}
    embedded = np.array(embedders.HuggingFaceAPITextEmbedder(**params).run(TEXTS[0])["embedding"])
    # By default it sends `normalize: false`.
    assert np.linalg.norm(embedded) > 2
    assert np.abs(embedded / np.linalg.norm(embedded) - expected[0]).max() < 1e-5
    documents = [haystack.Document(content=text) for text in TEXTS]
    embedder = embedders.HuggingFaceAPIDocumentEmbedder(**params, normalize=True, progress_bar=False)
    rows = [document.embedding for document in embedder.run(documents)["documents"]]
    assert np.abs(np.array(rows) - expected).max() < 1e-5


def test_haystack_tei_ranker(aliased: ServerProcess) -> None:
    rankers = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    haystack, utils = pytest.importorskip("haystack"), pytest.importorskip("haystack.utils")
    ranker = rankers.HuggingFaceTEIRanker(url=aliased.url, token=utils.Secret.from_token("any"))
    documents = [haystack.Document(content=text) for text in TEXTS]
    assert ranker.run(query=QUERY, documents=documents)["documents"][0].content == TEXTS[1]


def test_baseten_performance_client(aliased: ServerProcess, expected: Any) -> None:
    module = pytest.importorskip("baseten_performance_client")
    client = module.PerformanceClient(base_url=aliased.url, api_key="any")
    embedded = client.embed(input=TEXTS, model="text-embedding-3-small")
    assert np.abs(embedded.numpy() - expected).max() < 1e-5
    ranked = client.rerank(query=QUERY, texts=TEXTS)
    best = max(ranked.data, key=lambda row: row.score)
    assert best.index == 1


SCRIPT = """
const [url, texts, query] = JSON.parse(process.argv[1]);
const OpenAI = require("openai");
const { InferenceClient } = require("@huggingface/inference");
const { CohereClientV2 } = require("cohere-ai");
const failed = (error) => ({ status: error.status ?? error.statusCode ?? 0, message: String(error.message) });
(async () => {
  const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "any", maxRetries: 0 });
  const embedded = await openai.embeddings.create({ model: "text-embedding-3-small", input: texts });
  const refused = await openai.embeddings.create({ model: "text-embedding-3-small", input: [[15339]] }).catch(failed);
  const hf = new InferenceClient("hf_any").endpoint(url);
  const features = await hf.featureExtraction({ inputs: texts });
  const similar = await hf.sentenceSimilarity({ inputs: { source_sentence: query, sentences: texts } });
  const cohere = new CohereClientV2({ token: "any", environment: url });
  const ranked = await cohere.rerank({ model: "rerank-v3.5", query, documents: texts });
  console.log(JSON.stringify({ openai: embedded.data.map((row) => row.embedding), refused, features, similar, ranked }));
})();
"""


def test_javascript_clients(aliased: ServerProcess, expected: Any) -> None:
    node = shutil.which("node")
    if node is None or not NODE_MODULES.is_dir():
        pytest.skip("node or its packages are not installed; make client-test installs them where npm is on PATH")
    command = [node, "-e", SCRIPT, json.dumps([aliased.url, TEXTS, QUERY])]
    ran = subprocess.run(command, cwd=NODE_MODULES.parent, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for name in ("openai", "features"):
        assert np.abs(np.array(found[name]) - expected).max() < 1e-5, name
    assert found["refused"]["status"] == 400
    assert found["similar"][1] > found["similar"][0]
    assert found["ranked"]["results"][0]["index"] == 1
