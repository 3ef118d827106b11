"""The page at `/` with a PDF: its pages as images, with the passages marked. The server needs `pullquote[documents]`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser_helpers import needs_browser, settle, visit
from support.server_process import ServerProcess, running_server

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".make/frameworks/bin/python"
REPORT = ROOT / "demo/apollo_program.pdf"
QUESTION = "What did Johnson's memo conclude?"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    needs_browser,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test` makes the environment with pypdfium2"),
]


@pytest.fixture(scope="module")
def reader() -> Iterator[ServerProcess]:
    """A server that reads PDFs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(PYTHON))
        with running_server("--dtype", "float32") as server:
            yield server


def choose(page: Page, *files: Any) -> None:
    page.locator("#file").set_input_files(*files)
    expect(page.locator("#name")).to_have_text("apollo_program.pdf")
    # The first question waits for a process that reads the file.
    expect(page.locator("#reader")).to_have_attribute("aria-busy", "false", timeout=30_000)


def test_passage_is_marked_on_its_page(page: Page, reader: ServerProcess) -> None:
    visit(page, reader)
    page.locator("#question").fill(QUESTION)
    page.locator("#count").fill("1")
    choose(page, REPORT)
    with REPORT.open("rb") as file:
        body = {"request": f'{{"query": "{QUESTION}", "top_k": 1, "highlight_length": 3}}'}
        answer = reader.client.post("/highlights", data=body, files={"file": file}).json()
    ((best,),) = [result["highlights"] for result in answer["results"]]
    assert "Johnson responded" in best["text"]
    image = page.locator("#reader img")
    expect(image).to_have_js_property("naturalWidth", 1200, timeout=30_000)
    expect(image).to_have_attribute("alt", f"Page {best['page_number']}")
    expect(page.locator("#passages .score")).to_have_text(f"page {best['page_number']} · {best['score']:.2f}")
    marks = page.locator("#reader mark")
    expect(marks).to_have_count(len(best["rectangles"]))
    # The boxes lie where the PDF has the lines: A4 in points.
    sheet = image.bounding_box()
    assert sheet is not None
    for mark, rectangle in zip(marks.all(), best["rectangles"], strict=True):
        box = mark.bounding_box()
        assert box is not None
        scale = sheet["width"] / 595.28
        assert box["x"] - sheet["x"] == pytest.approx(rectangle["left"] * scale, abs=1)
        assert box["width"] == pytest.approx((rectangle["right"] - rectangle["left"]) * scale, abs=1)
        assert box["y"] - sheet["y"] == pytest.approx((841.89 - rectangle["top"]) * scale, abs=1.5)
    page.locator("#passages .passage").click()
    expect(marks.first).to_be_in_viewport()
    expect(marks.first).to_be_focused()
    assert "Johnson responded" in (marks.first.text_content() or "")


def test_undo_and_text_take_the_place_of_a_pdf(page: Page, reader: ServerProcess) -> None:
    visit(page, reader)
    choose(page, REPORT)
    expect(page.locator("#format")).to_be_hidden()
    expect(page.locator("#request")).to_contain_text("file: apollo_program.pdf")
    page.locator("#undo").click()
    settle(page)
    expect(page.locator("#name")).to_have_text("Sample page")
    expect(page.locator("#reader img")).to_have_count(0)
    page.locator("#undo").click()
    settle(page)
    expect(page.locator("#reader img").first).to_be_visible()
    page.locator("#edit").click()
    page.locator("#source").fill("Bread is baked from flour.")
    page.locator("#edit").click()
    settle(page)
    expect(page.locator("#reader")).to_have_text("Bread is baked from flour.")


def encrypted() -> bytes:
    """A page that the password "moon" opens."""
    made = """from fpdf import FPDF
import sys
made = FPDF(format="A4")
made.set_font("Helvetica", size=12)
made.set_encryption(owner_password="owner", user_password="moon")
made.add_page()
made.write(6, "Johnson's memo concluded that the effort was small.")
sys.stdout.buffer.write(made.output())
"""
    return subprocess.run([PYTHON, "-c", made], capture_output=True, check=True).stdout


def test_password_of_a_pdf(page: Page, reader: ServerProcess) -> None:
    visit(page, reader)
    page.locator("#question").fill(QUESTION)
    file = {"name": "secret.pdf", "mimeType": "application/pdf", "buffer": encrypted()}
    page.locator("#file").set_input_files(file)  # type: ignore[arg-type]  # a dictionary of these fields
    expect(page.get_by_role("alert")).to_contain_text("protected by a password")
    field = page.get_by_label("Password of the file")
    field.fill("sun")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not open it")
    field.fill("moon")
    page.get_by_role("button", name="Open", exact=True).click()
    settle(page)
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(field).to_be_hidden()
    expect(page.locator("#reader img")).to_have_js_property("naturalWidth", 1200, timeout=30_000)
    expect(page.locator("#reader mark").first).to_contain_text("Johnson")
    # Another page has no password; the one before still has its own.
    page.locator("#undo").click()
    settle(page)
    expect(page.locator("#name")).to_have_text("Sample page")
    expect(field).to_have_value("")
    page.locator("#undo").click()
    settle(page)
    expect(page.locator("#reader mark").first).to_contain_text("Johnson")


def test_damaged_pdf_says_so(page: Page, reader: ServerProcess) -> None:
    visit(page, reader)
    page.locator("#file").set_input_files(
        {"name": "a.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 nothing"}
    )
    expect(page.locator("#failure-detail")).to_contain_text("damaged PDF")
    expect(page.locator("#reader")).to_have_text("Page 1This page cannot be shown.")
