"""The page at `/docs`, in a browser: it shows the whole document, and needs nothing but this server."""

import pytest
from playwright.sync_api import Page, expect

from support.browser_helpers import needs_browser
from support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]


def test_docs_show_every_operation_within_csp(page: Page, server: ServerProcess) -> None:
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/docs")
    paths = server.client.get("/openapi.json").json()["paths"]
    expect(page.locator(".opblock")).to_have_count(sum(map(len, paths.values())))
    page.locator("#operations-highlights-highlights .opblock-summary").first.click()
    expect(page.locator("#operations-highlights-highlights")).to_contain_text("highlight_length")
    assert said == []
    assert all(url.startswith((server.url, "data:")) for url in asked), asked


def test_docs_send_a_request(page: Page, server: ServerProcess) -> None:
    page.goto(f"{server.url}/docs")
    operation = page.locator("#operations-highlights-highlights")
    operation.locator(".opblock-summary").first.click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table")).to_contain_text("Bread is baked from flour.")
