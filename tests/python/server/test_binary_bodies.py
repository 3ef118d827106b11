"""Vectors as bytes: every dtype against JSON, headers, streaming, and failures."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from support.messages import names_all
from support.numbers_server import embed_body, numbers_server
from support.server_process import ServerProcess, metric, wait_for, wait_for_running

RAW = "application/octet-stream"
TEXTS = ["Bread is baked from flour.", "The moon is white.", "漢字とかな 🎉", "a"]
ROUTES = [("/embed", "inputs"), ("/v1/embeddings", "input")]
DTYPES = ["float32", "float16", "bfloat16", "int8", "binary"]


@pytest.fixture(scope="module")
def vectors(server: ServerProcess) -> NDArray[np.float32]:
    return np.array(server.client.post("/embed", json={"inputs": TEXTS}).json(), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoder")


@pytest.fixture(scope="module")
def numbers(folder: Path) -> Iterator[ServerProcess]:
    with numbers_server(folder) as server:
        yield server


@pytest.fixture
def gate(folder: Path) -> Iterator[Path]:
    """The gate of `numbers`, closed at first: `touch()` opens it."""
    yield folder / "gate"
    (folder / "gate").unlink()


def expected(vectors: NDArray[np.float32], dtype: str) -> bytes:
    if dtype == "float16":
        return vectors.astype("<f2").tobytes()
    if dtype == "bfloat16":
        bits = vectors.view(np.uint32)
        # Round to nearest, ties to even.
        return bytes(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes())
    if dtype == "int8":
        return bytes(np.clip(np.rint(vectors * np.float32(127)), -127, 127).astype(np.int8).tobytes())
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1).tobytes()
    return vectors.astype("<f4").tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("route", "field"), ROUTES)
def test_octet_stream_matches_json(
    server: ServerProcess, vectors: NDArray[np.float32], route: str, field: str, dtype: str
) -> None:
    answer = server.client.post(route, json={field: TEXTS, "embedding_dtype": dtype}, headers={"accept": RAW})
    assert answer.status_code == 200
    said = {name: answer.headers[name] for name in answer.headers if name.startswith("x-embedding-")}
    assert said == {
        "x-embedding-shape": "4,384",
        "x-embedding-dtype": dtype,
        "x-embedding-byte-order": "little",
    }
    assert answer.headers["content-type"] == RAW
    assert answer.headers["x-model"] == "all-MiniLM-L6-v2"
    tokens = server.client.post("/v1/embeddings", json={"input": TEXTS}).json()["usage"]["prompt_tokens"]
    assert int(answer.headers["x-prompt-tokens"]) == tokens
    assert int(answer.headers["content-length"]) == len(answer.content)
    # JSON's shortest digits identify each float32, so rounding is equal.
    assert answer.content == expected(vectors, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_base64_and_vllm_bytes_match_octet_stream(
    server: ServerProcess, vectors: NDArray[np.float32], dtype: str
) -> None:
    def ask(encoding: str, **more: str) -> httpx.Response:
        return server.client.post("/v1/embeddings", json={"input": TEXTS, "encoding_format": encoding, **more})

    wanted = expected(vectors, dtype)
    rows = ask("base64", embedding_dtype=dtype).json()["data"]
    assert b"".join(base64.b64decode(row["embedding"]) for row in rows) == wanted
    only = ask("bytes_only", embed_dtype=dtype, endianness="native")
    assert (only.content, only.headers["content-type"]) == (wanted, RAW)
    assert "metadata" not in only.headers
    answer = ask("bytes", embed_dtype=dtype, endianness="little")
    assert answer.content == wanted
    # As vLLM's own client reads it.
    metadata = json.loads(answer.headers["metadata"])
    assert metadata["usage"]["prompt_tokens"] == int(answer.headers["x-prompt-tokens"])
    assert metadata["model"] == "all-MiniLM-L6-v2"
    row = len(wanted) // len(TEXTS)
    for index, item in enumerate(metadata["data"]):
        assert item == {
            "index": index,
            "embed_dtype": dtype,
            "endianness": "little",
            "start": index * row,
            "end": (index + 1) * row,
            "shape": [384],
        }
    assert len(metadata["data"]) == len(TEXTS)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_endianness_big_reverses_each_number(server: ServerProcess, dtype: str) -> None:
    def ask(encoding: str, endianness: str) -> httpx.Response:
        body = {"input": TEXTS, "encoding_format": encoding, "embed_dtype": dtype, "endianness": endianness}
        return server.client.post("/v1/embeddings", json=body)

    width = 4 if dtype == "float32" else 2
    swapped = np.frombuffer(ask("bytes_only", "little").content, f"<u{width}").astype(f">u{width}").tobytes()
    big = ask("bytes", "big")
    assert big.content == swapped == ask("bytes_only", "big").content
    assert {item["endianness"] for item in json.loads(big.headers["metadata"])["data"]} == {"big"}
    assert big.headers["x-embedding-byte-order"] == "big"
    rows = ask("base64", "big").json()["data"]
    assert b"".join(base64.b64decode(row["embedding"]) for row in rows) == swapped


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
        ("text/html", "application/json"),
        ("application/json, application/octet-stream;q=0.9", "application/json"),
        ("application/octet-stream;q=0.4, application/json;q=0.3", RAW),
        ("application/octet-stream, */*", RAW),
        ("application/octet-stream;q=0, */*", "application/json"),
    ],
)
@pytest.mark.parametrize(("route", "field"), ROUTES)
def test_accept_header_selects_media_type(
    server: ServerProcess, route: str, field: str, accept: str, kind: str
) -> None:
    answer = server.client.post(route, json={field: "a"}, headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


@pytest.mark.parametrize(
    ("route", "body", "status", "names"),
    [
        ("/embed", {"inputs": []}, 400, ["inputs"]),
        ("/embed", {"inputs": "a", "embedding_dtype": "fp8_e4m3"}, 422, ["fp8_e4m3", *DTYPES]),
        ("/embed", {"inputs": ["long " * 600], "truncate": False}, 413, ["1 of 1", 256]),
        ("/v1/embeddings", {"input": []}, 400, ["input"]),
        ("/v1/embeddings", {"input": "a", "endianness": "middle"}, 400, ["big", "native", "little"]),
        (
            "/v1/embeddings",
            {"input": "a", "embedding_dtype": "int8", "embed_dtype": "binary"},
            400,
            ["embedding_dtype", "embed_dtype"],
        ),
        ("/v1/embeddings", {"input": ["a"] * 2000, "encoding_format": "bytes"}, 400, ["encoding_format"]),
    ],
    ids=str,
)
def test_errors_are_json_for_octet_stream_requests(
    server: ServerProcess, route: str, body: dict[str, Any], status: int, names: list[object]
) -> None:
    answer = server.client.post(route, json=body, headers={"accept": RAW})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert names_all(answer.text, *names)
    assert not [name for name in answer.headers if name.startswith("x-embedding")]


@pytest.mark.parametrize(("route", "field"), ROUTES)
def test_embedding_dtype_needs_binary_format(server: ServerProcess, route: str, field: str) -> None:
    answer = server.client.post(route, json={field: "a", "embedding_dtype": "int8"})
    assert answer.status_code == (400 if route == "/v1/embeddings" else 422)
    assert names_all(answer.text, "int8", "float32")


def test_accept_encoding_gzip_only_when_preferred(server: ServerProcess, vectors: NDArray[np.float32]) -> None:
    for accept in (RAW, "application/json"):
        headers = {"accept": accept, "accept-encoding": "gzip, deflate, br, zstd"}
        assert "content-encoding" not in server.client.post("/embed", json={"inputs": TEXTS}, headers=headers).headers
        headers["accept-encoding"] = "gzip, identity;q=0.5"
        with server.client.stream("POST", "/embed", json={"inputs": TEXTS}, headers=headers) as answer:
            packed = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert "content-length" not in answer.headers
        content = gzip.decompress(packed)
        if accept == RAW:
            assert content == vectors.tobytes()
        else:
            assert np.array_equal(np.array(json.loads(content), np.float32), vectors)


# ---- streamed rows


def floats(content: bytes) -> NDArray[np.float32]:
    return np.frombuffer(content, "<f4").reshape(-1, 12)


@pytest.mark.parametrize("http2", [False, True])
def test_streamed_rows_start_before_encoding_ends(numbers: ServerProcess, gate: Path, http2: bool) -> None:
    texts = [f"{'x' if number < 6 else 'gated'} {number}" for number in range(12)]
    content = b""
    with (
        httpx.Client(base_url=numbers.url, http1=not http2, http2=http2, timeout=60) as client,
        client.stream("POST", "/embed", json=embed_body(texts), headers={"accept": RAW}) as answer,
    ):
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.headers["x-embedding-shape"] == "12,12"
        assert answer.headers["content-length"] == str(12 * 12 * 4)
        # All texts are tokenized before the headers.
        assert int(answer.headers["x-prompt-tokens"]) == sum(len(text) + 1 for text in texts)
        for part in answer.iter_raw():
            content += part
            # The first rows are here, so that the others may be encoded.
            gate.touch()
    assert np.array_equal(floats(content)[:, 0], np.arange(12.0))


def test_streamed_rows_are_in_order(numbers: ServerProcess) -> None:
    texts = [f"x {number}" for number in range(3000)]
    answer = numbers.client.post(
        "/embed", json=embed_body(texts) | {"embedding_dtype": "float16"}, headers={"accept": RAW}
    )
    values = np.frombuffer(answer.content, "<f2").reshape(-1, 12)
    assert np.array_equal(values, np.repeat(np.arange(3000.0), 12).reshape(-1, 12).astype("<f2"))


def test_failure_before_first_row_is_json_error(numbers: ServerProcess) -> None:
    answer = numbers.client.post("/embed", json=embed_body(["fail 1", "x 2"]), headers={"accept": RAW})
    assert answer.status_code >= 500
    # The client gets the kind and the id, under which the log has the reason.
    assert "cannot encode this" not in answer.text
    assert names_all(answer.json()["error"], "encoder", answer.headers["x-request-id"])
    name = answer.headers["x-request-id"]
    wait_for(lambda: any("cannot encode this" in line and name in line for line in numbers.log.splitlines()))


@pytest.mark.parametrize("http2", [False, True])
def test_failure_after_headers_aborts_stream(numbers: ServerProcess, gate: Path, http2: bool) -> None:
    texts = [*(f"x {number}" for number in range(6)), "gated 6", "fail 7", "x 8"]
    with (
        httpx.Client(base_url=numbers.url, http1=not http2, http2=http2, timeout=60) as client,
        client.stream("POST", "/embed", json=embed_body(texts), headers={"accept": RAW}) as answer,
    ):
        assert answer.status_code == 200
        gate.touch()
        with pytest.raises(httpx.RemoteProtocolError):
            for _ in answer.iter_raw():
                pass
    # Another thread writes the log.
    wait_for(lambda: "cannot encode this" in numbers.log)
    # Other requests are not affected.
    assert numbers.client.post("/embed", json=embed_body(["x 5"])).json() == [[5.0] * 12]


def test_hang_up_while_streaming_cancels_request(numbers: ServerProcess, gate: Path) -> None:
    texts = ["x 1"] + [f"gated {number}" for number in range(500)]
    body = json.dumps(embed_body(texts)).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: localhost\r\naccept: {RAW}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    with numbers.connect() as connection:
        connection.sendall(head.encode() + body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        wait_for_running(numbers)
    # The gate is closed, so that the request cannot end otherwise.
    wait_for(lambda: metric(numbers, "pullquote_requests_running") == 0)
    gate.touch()
    assert numbers.client.post("/embed", json=embed_body(["x 5"])).json() == [[5.0] * 12]


# ---- the vectors of passages

PAGE = "Bread is baked from flour. The moon is white. Ovens are hot."
QUESTION = {
    "query": "How is bread made?",
    "documents": [PAGE, "The moon is far away."],
    "highlight_length": 1,
    "top_k": 2,
}


def unpacked(value: Any, dtype: str = "<f4") -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(value), dtype)


def test_return_vectors_match_embed(server: ServerProcess) -> None:
    answer = server.client.post("/highlights", json=QUESTION | {"return_vectors": True}).json()
    passages = [passage for page in answer["results"] for passage in page["highlights"]]
    assert len(passages) >= 2
    of_texts = server.client.post("/embed", json={"inputs": [passage["text"] for passage in passages]}).json()
    vectors = np.array([passage["vector"] for passage in passages], np.float32)
    assert np.abs(vectors - np.array(of_texts)).max() < 1e-5
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert len(answer["query_vectors"]) == 1
    of_query = server.client.post("/embed", json={"inputs": QUESTION["query"], "prompt_name": "query"}).json()
    assert np.abs(np.array(answer["query_vectors"]) - np.array(of_query)).max() < 1e-5
    bare = server.client.post("/highlights", json=QUESTION).json()
    assert "query_vectors" not in bare
    assert answer["usage"]["tokens"] > bare["usage"]["tokens"]
    packed = server.client.post(
        "/highlights", json=QUESTION | {"return_vectors": True, "encoding_format": "base64", "embedding_dtype": "int8"}
    ).json()
    small = [unpacked(passage["vector"], "i1") for page in packed["results"] for passage in page["highlights"]]
    assert np.abs(np.array(small) - vectors * 127).max() < 1


@pytest.mark.parametrize("dtype", ["float32", "binary"])
def test_return_vectors_as_multipart_form(server: ServerProcess, dtype: str) -> None:
    body = QUESTION | {
        "query": ["How is bread made?", "Where is the moon?"],
        "pairing": "all",
        "embedding_dtype": dtype,
    }
    headers = {"accept": "multipart/form-data"}
    answer = server.client.post("/highlights", json=body | {"return_vectors": True}, headers=headers)
    assert answer.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert int(answer.headers["content-length"]) == len(answer.content)
    boundary = answer.headers["content-type"].partition("boundary=")[2].encode()
    first, *parts, last = answer.content.split(b"--" + boundary)
    assert (first, last) == (b"", b"--\r\n")
    found: dict[str, tuple[dict[str, str], bytes]] = {}
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().strip().split("\r\n"))
        assert content.endswith(b"\r\n")
        assert int(fields["content-length"]) == len(content) - 2
        found[fields["content-disposition"].partition('name="')[2].strip('"')] = (fields, content[:-2])
    assert list(found) == ["highlights", "vectors", "queries"]
    passages = [passage for page in json.loads(found["highlights"][1])["results"] for passage in page["highlights"]]
    assert "vector" not in passages[0]
    texts = [passage["text"] for passage in passages]
    of_texts = np.array(server.client.post("/embed", json={"inputs": texts}).json(), np.float32)
    fields, content = found["vectors"]
    assert fields["x-embedding-shape"] == f"{len(texts)},384"
    assert (fields["x-embedding-dtype"], fields["content-type"]) == (dtype, RAW)
    if dtype == "float32":
        assert np.abs(np.frombuffer(content, "<f4").reshape(-1, 384) - of_texts).max() < 1e-5
    assert len(content) == len(expected(of_texts, dtype))
    assert found["queries"][0]["x-embedding-shape"] == "2,384"
    # Without return_vectors there is only JSON; without passages the part is empty.
    assert (
        server.client.post("/highlights", json=QUESTION, headers=headers).headers["content-type"] == "application/json"
    )
    none = body | {"return_vectors": True, "min_score": 1.0}
    assert b"x-embedding-shape: 0,384" in server.client.post("/highlights", json=none, headers=headers).content
