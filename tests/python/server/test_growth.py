"""Answers grow with what was sent, and not faster, on every route that takes text. Their time is measured by `bench/growth.py`."""

from collections.abc import Iterator

import pytest

from support.growth_shapes import SHAPES, shape, text_requests, with_text
from support.server_process import ServerProcess, letter_server

SIZE = 4 * 1024
CONSTANT = 16 * 1024
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def letters() -> Iterator[ServerProcess]:
    with letter_server("--model-name", "letters") as server:
        yield server


def test_answers_of_every_route_grow_with_texts_of_every_shape(letters: ServerProcess) -> None:
    openapi = letters.client.get("/openapi.json").json()
    requests = list(text_requests(openapi))
    assert {"/highlights", "/embed", "/rerank", "/tokenize", "/mcp", "/documents", "/contents"} <= {
        path for _, path, _ in requests
    }
    grown, answered = [], set()
    for method, path, example in requests:
        for name, part in SHAPES.items():
            answers = [
                letters.client.request(method, path, json=with_text(example, shape(part, size)))
                for size in (SIZE, 4 * SIZE)
            ]
            short, long = (len(answer.content) for answer in answers)
            if long > 5 * short + CONSTANT or any(answer.is_server_error for answer in answers):
                grown.append((path, name, short, long, [answer.status_code for answer in answers]))
            answered |= {path for answer in answers if answer.is_success}
    assert not grown
    # It has no model whose tokens have vectors, no reranker and no pruner.
    assert answered == {path for _, path, _ in requests} - {"/embed_all", "/predict", "/prune"}
