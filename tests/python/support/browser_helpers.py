"""Actions on the server's page in a browser, and what it shows."""

import shutil

import pytest
from playwright.sync_api import Page, expect

from support.server_process import ServerProcess

CHROMIUM = shutil.which("chromium")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium on PATH; `make browser-test` installs it"
)


def visit(page: Page, server: ServerProcess) -> None:
    page.goto(server.url)
    settle(page)


def settle(page: Page) -> None:
    """Wait for the answer to the latest change."""
    expect(page.locator("#reader")).to_have_attribute("aria-busy", "false")


def put(page: Page, text: str, question: str | None = None, written: str = "auto") -> None:
    """Type a page, and optionally a question."""
    page.locator("#edit").click()
    page.locator("#source").fill(text)
    page.locator("#edit").click()
    page.locator("#format").select_option(written)
    if question is not None:
        page.locator("#question").fill(question)
    settle(page)


def marks(page: Page) -> list[tuple[int, float, str]]:
    """Rank, score and text of each mark, in page order."""
    found = page.locator("#reader mark").evaluate_all("all => all.map(m => [m.dataset.score ?? '', m.textContent])")
    joined: list[tuple[int, float, str]] = []
    for label, text in found:
        if label:
            rank, _, score = label.partition(" · ")
            joined.append((int(rank), float(score), text))
        else:  # a passage goes on in its next block
            joined[-1] = (*joined[-1][:2], joined[-1][2] + text)
    return joined


def paste(page: Page, selector: str, text: str) -> None:
    """Paste a text, as the browser does on a key."""
    page.locator(selector).evaluate(
        """(element, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def drop(page: Page, name: str, text: str) -> None:
    data = page.evaluate_handle(
        "([name, text]) => { const d = new DataTransfer(); d.items.add(new File([text], name)); return d; }",
        [name, text],
    )
    for event in ("dragover", "drop"):
        page.locator("body").dispatch_event(event, {"dataTransfer": data})


def focused(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.id || document.activeElement.localName")
    return found
