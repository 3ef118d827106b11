"""`/openapi.json` matches what a server accepts and answers.

That every route and method of the code is documented is tested in `rust/server/src/openapi/tests.rs`.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.messages import names_all
from support.server_process import ServerProcess, letter_server

# Values of fields whose schema has no simple type.
SAMPLES: dict[str, list[Any]] = {
    "documents": [["Bread is baked."], [{"id": "a", "title": None, "text": "Bread is baked."}]],
    "input": ["bread", ["bread", "moon"]],
    "inputs": ["bread", ["bread", "moon"]],
    "pre_tags": ["<em>", ["<em>"], None],
    "post_tags": ["</em>", ["</em>"], None],
    "query": ["bread"],
    "texts": [["Bread is baked."]],
    "prompt": ["bread"],
    "content": ["bread"],
    "tokens": [[7852], []],
    "queries": ["bread", ["bread"]],
    "ids": [[101, 102], [[101, 102]]],
    "embedding_types": [["float"], ["int8", "base64"], None],
    "rank_fields": [["text"], None],
    "parameters": [{}, {"truncate": True}, None],
    "input_type": ["search_query", "search_document", None],
    "timeout": [60.0, None],
}

# Values of fields with another meaning in Exa's routes.
SAMPLES_OF_EXA: dict[str, list[Any]] = {
    "context": [True, False, None, {}, {"maxCharacters": 9}],
    "contents": [{}, {"text": True, "highlights": {"query": "bread"}}],
    "documents": [[{"id": "a", "title": None, "text": "Bread is baked."}]],
    "highlights": [True, False, None, {}, {"query": "bread", "maxCharacters": 9, "dynamic": True}],
    "ids": [["https://example.com/bread"]],
    "text": [True, False, None, {}, {"maxCharacters": 5}],
    "urls": [["https://example.com/bread", "unknown"]],
}

# Values of fields with another meaning in Cohere's `/embed`. Fewer tokens leave none of the text after the special ones.
SAMPLES_OF_COHERE: dict[str, list[Any]] = {
    "inputs": [[{"content": [{"type": "text", "text": "a"}]}]],
    "max_tokens": [3, None],
}

# Values of fields with another meaning in other routes.
SAMPLES_OF_PATH: dict[str, dict[str, list[Any]]] = {
    "/cite": {"numbers": [None, [0]]},
    "/embedding": {"content": ["bread", ["bread", "moon"]]},
    "/documents": {"documents": [[{"id": "a", "title": None, "text": "Bread is baked."}]]},
    "/contents": SAMPLES_OF_EXA,
    "/search": SAMPLES_OF_EXA,
    "/score": {"documents": ["bread", ["bread"]]},
    "/v1/score": {"documents": ["bread", ["bread"]]},
    "/similarity": {"inputs": [{"source_sentence": "a", "sentences": ["b"]}]},
    "/v1/embed": SAMPLES_OF_COHERE,
    "/v2/embed": SAMPLES_OF_COHERE,
    "/v1/tokenize": {"text": ["bread"]},
    "/predictions/semantic_highlighter": {
        "inputs": [[{"question": "bread?", "context": "Bread is baked."}], "[]", None],
        "context": ["Bread is baked.", None],
        "question": ["bread?"],
    },
}

# Fields of highlights of PDFs, which `frameworks/test_uploads.py` tests.
OF_PDFS = {"page_number", "rectangles", "page", "left", "bottom", "right", "top"}

# Fields of which a request has one.
ALTERNATIVES = {
    "texts": ("documents",),
    "ids": ("urls",),
    "prompt": ("inputs",),
    "content": ("inputs",),
    "inputs": ("texts",),
}

# Routes that answer 422; all others have 400 in its place.
WITH_422 = (
    "/cite",
    "/locate",
    "/prune",
    "/highlights",
    "/predictions/semantic_highlighter",
    "/documents",
    "/documents/sample",
    "/",
    "/embed",
    "/embed_all",
    "/similarity",
    "/tokenize",
    "/decode",
)

METHODS = ("get", "put", "post", "delete")


@pytest.fixture(scope="module")
def document(server: ServerProcess) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get("/openapi.json").json()
    return found


def resolve(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    for name in value["$ref"].removeprefix("#/").split("/"):
        document = document[name]
    return document


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Method, path, schema and example of each route with a body, but for one that needs a reranker."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation and path not in {"/predict", "/prune"}:
                content = operation["requestBody"]["content"].get("application/json")
                if content is None:
                    continue
                yield method, path.replace("{id}", "sample"), resolve(document, content["schema"]), content["example"]


def samples(document: dict[str, Any], name: str, schema: dict[str, Any]) -> list[Any]:
    """Values of a field; all values of an enumeration."""
    schema = resolve(document, schema)
    if name in SAMPLES:
        return SAMPLES[name]
    if "enum" in schema:
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    if "anyOf" in schema:
        return [value for choice in schema["anyOf"] for value in samples(document, "", choice)]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    of_kind: dict[str, list[Any]] = {
        "boolean": [True, False],
        "integer": [schema.get("minimum", 1)],
        "number": [0.5],
        "string": ["bread"],
        "null": [None],
    }
    return [value for kind in kinds for value in of_kind[kind]]


def with_field(example: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The example with one field changed, without its alternatives."""
    return {key: of for key, of in example.items() if key not in ALTERNATIVES.get(name, ())} | {name: value}


def test_openapi_document_structure(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert all(set(methods) <= set(METHODS) for methods in document["paths"].values())
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for operation in operations:
        assert operation["summary"]
        is_refused = operation["summary"].startswith("Refused")
        assert any(status.startswith("2") for status in operation["responses"]) != is_refused


def test_documented_request_fields_are_read(server: ServerProcess, document: dict[str, Any]) -> None:
    asked = 0
    for method, path, schema, example in bodies(document):
        assert server.client.request(method, path, json=example).status_code in (200, 201), path
        for name, of_field in schema.get("properties", {}).items():
            is_of_exa = path in {"/contents", "/search"}
            values = SAMPLES_OF_PATH.get(path, {}).get(name)
            values = values or samples(document, name, of_field)
            assert values, name
            for value in values:
                # JSON has float32 only.
                headers = (
                    {"accept": "application/octet-stream, multipart/form-data"}
                    if name in ("embedding_dtype", "embed_dtype")
                    else {}
                )
                answer = server.client.request(method, path, json=with_field(example, name, value), headers=headers)
                assert answer.status_code in (200, 201), (path, name, value, answer.text)
            # A field that is not read is never wrong. An object is no nonsense for `parameters`.
            nonsense = "made up" if is_of_exa or name == "parameters" else {"made": "up"}
            wrong = nonsense if name != "query" else 3
            refused = server.client.request(method, path, json=with_field(example, name, wrong))
            # Requests with texts are those of Text Embeddings Inference.
            has_422 = path in WITH_422 or (path.endswith(("/rerank", "/reranking")) and name == "texts")
            assert refused.status_code == (422 if has_422 else 400), (path, name, refused.text)
            asked += len(values)
    assert asked > 90


def test_additional_properties_are_refused_as_documented(server: ServerProcess, document: dict[str, Any]) -> None:
    for method, path, schema, example in bodies(document):
        answer = server.client.request(method, path, json=example | {"made_up": 1})
        if schema.get("additionalProperties") is False:
            assert answer.status_code == 422
            assert names_all(answer.text, "made_up")
        else:
            assert answer.status_code == 200


def test_enum_values_are_documented(server: ServerProcess, document: dict[str, Any]) -> None:
    """An error message lists the values of an enumeration."""
    compared = 0
    for method, path, schema, example in bodies(document):
        for name, of_field in schema.get("properties", {}).items():
            if name in ("model", "modality") or not isinstance(of_field.get("enum", [0])[0], str):
                continue
            answer = server.client.request(method, path, json=with_field(example, name, "made-up")).json()
            message = answer["error"]["message"] if isinstance(answer["error"], dict) else answer["error"]
            listed = {word for word in re.findall(r'["`]([\w-]+)["`]', message) if word not in (name, "made-up")}
            # Those are accepted by the parser, and refused by most routes.
            assert listed - {"Left", "left", "token_embed"} <= {word for word in of_field["enum"] if word}, (
                path,
                name,
                message,
            )
            assert len(listed) >= 2, message
            compared += 1
    assert compared >= 9


def test_documented_answer_fields_are_returned(server: ServerProcess, document: dict[str, Any]) -> None:
    server.client.put("/documents/answered", json={"title": "t", "text": "Bread is baked."})
    page = "<p>Bread is baked.</p><p>The moon is white.</p>"
    table = "name,price,stock\n" + "\n".join(f"bun {number},3,4" for number in range(60))
    everything = {"context": 1, "explain": True, "return_texts": True, "format": "html", "highlight_length": 1}
    everything |= {"return_vectors": True, "return_blocks": True, "pre_tags": "<em>"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/highlights", {"query": ["bread"], "documents": [{"id": "x", "text": page}], **everything}),
        ("/highlights", {"query": ["bread"], "documents": [page], "fuse": True}),
        ("/highlights", {"query": ["bread"], "documents": [page], "max_chars": 1}),
        ("/highlights", {"query": "bun 44", "documents": [table], "top_k": 1}),
        ("/highlights", {"query": "bread", "documents": ["Bread is baked.", "Bread is baked!"], "dedupe": "answer"}),
        ("/v1/embeddings", {"input": "a"}),
        ("/rerank", {"query": "a", "documents": ["b"], "return_documents": True}),
        ("/rerank", {"query": "a", "texts": ["b"], "return_text": True}),
        ("/tokenize", {"inputs": "a"}),
    ]
    answers = [server.client.post(path, json=body).json() for path, body in asked]
    answers += [server.client.get(path).json() for path in ("/documents/answered", "/v1/models", "/info")]
    failing = [("/highlights", {"query": 3}), ("/v1/embeddings", {}), ("/rerank", {}), ("/embed", {})]
    answers += [server.client.post(path, json=body).json() for path, body in failing]
    found = {name for answer in answers for name in names(answer)}
    schemas = document["components"]["schemas"]
    for name in (
        "Highlights",
        "PageHighlights",
        "Highlight",
        "Ranking",
        "TeiRank",
        "Token",
        "StoredDocument",
        "ServedModel",
    ):
        assert documented(schemas[name]) - OF_PDFS <= found, name
    for name in ("Info", "NativeFailure", "OpenAiFailure", "TeiFailure", "RerankFailure"):
        assert documented(schemas[name]) <= found, name


def names(value: Any) -> Iterator[str]:
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from names(part)
    if isinstance(value, dict):
        yield from value


def documented(schema: Any) -> set[str]:
    """The names of all fields that a schema describes itself."""
    if isinstance(schema, list):
        return {name for part in schema for name in documented(part)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own | {name for part in schema.values() for name in documented(part)}


def test_openapi_limits_are_server_settings() -> None:
    with letter_server(
        "--max-documents", "7", "--max-queries", "3", "--max-inputs", "5", "--max-document-bytes", "99"
    ) as server:
        schemas = server.client.get("/openapi.json").json()["components"]["schemas"]
        assert schemas["Documents"]["anyOf"][0]["maxItems"] == 7
        assert schemas["HighlightsRequest"]["properties"]["query"]["anyOf"][1]["maxItems"] == 3
        assert schemas["EmbeddingsRequest"]["properties"]["input"]["anyOf"][1]["maxItems"] == 5
        assert schemas["DocumentRequest"]["properties"]["text"]["maxLength"] == 99


@pytest.mark.parametrize("protect_all", [False, True])
def test_protect_all_covers_openapi_and_docs(protect_all: bool) -> None:
    with letter_server("--api-key", "k", *(["--protect-all"] if protect_all else [])) as server:
        for path in ("/openapi.json", "/docs"):
            assert server.client.get(path).status_code == (401 if protect_all else 200)
            assert server.client.get(path, headers={"x-api-key": "k"}).status_code == 200
        headers = {"x-api-key": "k"}
        document = server.client.get("/openapi.json", headers=headers).json()
        assert document["security"] == [{"bearer": []}, {"key": []}]
        for path in ("/live", "/docs", "/openapi.json"):
            assert ("401" in document["paths"][path]["get"]["responses"]) == protect_all


def test_non_utf8_path_is_invalid_body(server: ServerProcess) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = server.client.request(method, "/documents/%ff", json={"text": "a"})
        assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "invalid_body")
    assert server.client.get("/v1/models/%ff").json()["error"]["code"] == "invalid_body"
