"""What other servers' contracts have, route by route, and the page that says what this server does with each field.

``python -m support.contracts URL`` prints the page; ``test_contracts.py`` compares it with `docs/routes.md`.
"""

import sys
from typing import Any

import httpx

# A request, and the fields of each contract with a value that is not its default.
REQUESTS: list[tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = [
    (
        "/v1/embeddings",
        {"input": ["bread", "moon"]},
        {
            "OpenAI": {
                "input": [[101, 7852, 102]],
                "model": "all-MiniLM-L6-v2",
                "encoding_format": "base64",
                "dimensions": 16,
                "user": "a",
            },
            "vLLM": {
                "truncate_prompt_tokens": 8,
                "truncation_side": "left",
                "add_special_tokens": False,
                "embed_dtype": "float32",
                "endianness": "big",
                "use_activation": True,
                "priority": -1,
                "request_id": "a",
                "padding": "max_length",
                "cache_salt": "a",
                "messages": [{"role": "user", "content": "a"}],
            },
            "llama.cpp": {"input": {"prompt_string": "bread"}, "embd_normalize": 2},
            "Jina": {"task": "retrieval.query", "truncate": True, "late_chunking": True, "normalized": True},
        },
    ),
    (
        "/embeddings",
        {"input": "bread"},
        {"infinity": {"modality": "text", "dimensions": 16, "encoding_format": "base64"}},
    ),
    ("/", {"inputs": "bread"}, {"TEI": {"normalize": False, "truncate": False, "prompt_name": "query"}}),
    (
        "/embed",
        {"inputs": "bread"},
        {
            "TEI": {
                "truncate": False,
                "truncation_direction": "Left",
                "prompt_name": "query",
                "normalize": False,
                "dimensions": 16,
            }
        },
    ),
    (
        "/embed_all",
        {"inputs": "bread"},
        {"TEI": {"truncate": False, "truncation_direction": "Left", "prompt_name": "query"}},
    ),
    (
        "/similarity",
        {"inputs": {"source_sentence": "bread", "sentences": ["moon"]}},
        {"TEI": {"parameters": {"truncate": True, "truncation_direction": "Left", "prompt_name": "query"}}},
    ),
    (
        "/rerank",
        {"query": "bread", "documents": ["moon", "flour"]},
        {
            "Cohere": {
                "model": "all-MiniLM-L6-v2",
                "top_n": 1,
                "return_documents": True,
                "rank_fields": ["text"],
                "max_chunks_per_doc": 2,
                "max_tokens_per_doc": 9,
                "priority": 1,
            },
            "vLLM": {"truncate_prompt_tokens": 9, "truncation_side": "left", "use_activation": False},
            "infinity": {"raw_scores": True, "return_documents": True},
        },
    ),
    (
        "/rerank",
        {"query": "bread", "texts": ["moon", "flour"]},
        {"TEI": {"raw_scores": True, "return_text": True, "truncate": False, "truncation_direction": "Left"}},
    ),
    (
        "/embedding",
        {"content": "bread"},
        {"llama.cpp": {"content": ["bread", [101, 7852, 102]], "embd_normalize": -1, "encoding_format": "base64"}},
    ),
    ("/reranking", {"query": "bread", "documents": ["moon", "flour"]}, {"llama.cpp": {"top_n": 1}}),
    (
        "/v2/embed",
        {"texts": ["bread"]},
        {
            "Cohere": {
                "model": "all-MiniLM-L6-v2",
                "input_type": "search_query",
                "embedding_types": ["int8"],
                "truncate": "START",
                "max_tokens": 9,
                "output_dimension": 16,
                "images": ["data:image/png;base64,AA"],
                "priority": 1,
            }
        },
    ),
    (
        "/v1/embed",
        {"texts": ["bread"]},
        {
            "Cohere": {
                "model": "all-MiniLM-L6-v2",
                "input_type": "search_query",
                "embedding_types": ["int8"],
                "truncate": "START",
                "images": ["data:image/png;base64,AA"],
            }
        },
    ),
    ("/v1/tokenize", {"text": "bread"}, {"Cohere": {"model": "all-MiniLM-L6-v2"}}),
    (
        "/score",
        {"queries": "bread", "documents": "moon"},
        {
            "vLLM": {
                "model": "all-MiniLM-L6-v2",
                "truncate_prompt_tokens": 9,
                "truncation_side": "left",
                "use_activation": False,
            }
        },
    ),
    (
        "/pooling",
        {"input": "bread"},
        {"vLLM": {"task": "token_embed", "encoding_format": "base64", "embed_dtype": "float32", "endianness": "big"}},
    ),
    ("/invocations", {"input": "bread"}, {"vLLM": {"encoding_format": "base64", "dimensions": 16}}),
    (
        "/tokenize",
        {"inputs": "bread"},
        {"TEI": {"add_special_tokens": False, "prompt_name": "query"}},
    ),
    ("/tokenize", {"prompt": "bread"}, {"vLLM": {"model": "all-MiniLM-L6-v2", "return_token_strs": True}}),
    ("/tokenize", {"content": "bread"}, {"llama.cpp": {"add_special": True, "with_pieces": True}}),
    ("/detokenize", {"tokens": [7852]}, {"vLLM": {"model": "all-MiniLM-L6-v2"}}),
    ("/v1/detokenize", {"tokens": [7852]}, {"Cohere": {"model": "all-MiniLM-L6-v2"}}),
    ("/decode", {"ids": [7852]}, {"TEI": {"skip_special_tokens": False}}),
    (
        "/contents",
        {"documents": [{"id": "a", "text": "Bread is baked."}]},
        {
            "Exa": {
                "ids": ["a"],
                "text": True,
                "highlights": {"numSentences": 1, "highlightsPerUrl": 1, "query": "bread", "maxCharacters": 9},
                "summary": True,
                "subpages": 1,
                "extras": {"links": 1},
                "context": True,
                "livecrawl": "always",
            }
        },
    ),
    (
        "/predictions/semantic_highlighter",
        {"question": "bread", "context": "Bread is baked."},
        {
            "OpenSearch": {
                "question": "moon",
                "context": "The moon is white.",
                "inputs": '[{"question": "bread", "context": "Bread is baked."}]',
            }
        },
    ),
    (
        "/search",
        {"query": "bread"},
        {
            "Exa": {
                "numResults": 2,
                "contents": {"text": True, "highlights": True},
                "type": "neural",
                "category": "news",
                "includeDomains": ["a.org"],
                "excludeDomains": ["a.org"],
                "startPublishedDate": "2026-01-01",
                "includeText": ["a"],
                "moderation": True,
                "userLocation": "US",
            }
        },
    ),
]

# Routes of contracts whose only answer is an error.
REFUSED = {"/embed_sparse": "TEI", "/predict": "TEI", "/findSimilar": "Exa", "/answer": "Exa"}

# Fields about how a service works, which need no warning.
WITHOUT_EFFECT = {"user", "livecrawl", "moderation", "type", "userLocation"}

# The contracts of the OpenAPI document's tags. The remaining tags are this server's own routes.
CONTRACTS = {
    "openai": "OpenAI",
    "tei": "TEI",
    "cohere": "Cohere",
    "rerank": "Cohere",
    "vllm": "vLLM",
    "llamacpp": "llama.cpp",
    "exa": "Exa",
    "opensearch": "OpenSearch",
}

HEAD = """# What does each API's client get?

`python -m support.contracts` in `tests/python` asks a server with the embedded model, and writes this page.
It has the answers to one request for each field, and the summaries of the OpenAPI document.

- *Honoured* fields change the answer as the contract says.
- *Ignored* fields are named in the answer's header `x-ignored-fields`, or in Exa's `warnings`.
- Fields *without effect* are about how a service works, and change no answer here.
- *Refused* fields get this status, and the reason.

| route | contract | field | this server |
|---|---|---|---|
"""


def outcome(client: httpx.Client, route: str, body: dict[str, Any], field: str, value: Any) -> str:
    """What the server does with a field of a request."""
    answer = client.post(route, json=body | {field: value})
    if answer.status_code != 200:
        return f"refused with {answer.status_code}"
    ignored = answer.headers.get("x-ignored-fields", "").split(", ")
    warned = [] if not isinstance(answer.json(), dict) else answer.json().get("warnings", [])
    ignored += [warning["path"] for warning in warned if isinstance(warning, dict)]
    return "ignored" if field in ignored else "honoured"


def page(url: str) -> str:
    """The page, from the answers of a server with the embedded model."""
    lines = []
    with httpx.Client(base_url=url, timeout=60) as client:
        documented = client.get("/openapi.json").json()["paths"]
        for route, body, contracts in REQUESTS:
            lines.append((f"POST {route}", "", "", documented[route]["post"]["summary"]))
            for contract, fields in contracts.items():
                for field, value in fields.items():
                    done = outcome(client, route, body, field, value)
                    lines.append(("", contract, f"`{field}`", "without effect" if field in WITHOUT_EFFECT else done))
        for route, contract in REFUSED.items():
            status = client.post(route, json={}).status_code
            lines.append((f"POST {route}", contract, "", f"{documented[route]['post']['summary']} ({status})"))
        covered = {route for route, *_ in lines}
        for route, methods in documented.items():
            for method, operation in methods.items():
                api, name = CONTRACTS.get(operation["tags"][0]), f"{method.upper()} {route}"
                if api is not None and name not in covered:
                    lines.append((name, api, "", operation["summary"]))
    rows = [
        f"| {f'`{route}`' if route else ''} | {contract} | {field} | {done} |" for route, contract, field, done in lines
    ]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
