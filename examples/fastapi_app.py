"""A web application that answers from its own pages, with FastAPI.

Usage: ``uvicorn --app-dir examples fastapi_app:app``, then ``curl 'localhost:8000/passages?question=Who+proposed+Apollo'``

One highlighter serves all requests, and its cache keeps parsed pages and their vectors. An `AsyncHighlighter` has no thread for
each request: a thousand may wait, and a client that disconnects stops its work.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel

from pullquote import AsyncHighlighter

PAGES = Path(__file__).parents[1] / "demo" / "pages"


class Passage(BaseModel):
    """A passage, and a link that makes a browser scroll to it and mark it."""

    page: str
    link: str
    text: str
    start: int
    end: int
    score: float


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Load the model and the pages once."""
    app.state.pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.*.*"))}
    async with AsyncHighlighter() as app.state.highlighter:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/passages")
async def passages(
    request: Request,
    question: Annotated[str, Query(min_length=1)],
    count: Annotated[int, Query(ge=1, le=20)] = 3,
) -> list[Passage]:
    """The best passages of all pages."""
    highlighter: AsyncHighlighter = request.app.state.highlighter
    found = await highlighter.highlights(question, request.app.state.pages, max_total_highlights=count)
    return [
        Passage(
            page=one.id,
            link=f"/pages/{one.id}{found.text_fragment(one)}",
            text=one.text,
            start=one.start,
            end=one.end,
            score=one.score,
        )
        for one in found.best()
    ]
