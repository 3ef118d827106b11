"""The page at `/`: what it takes for a page, of which size and in which encoding, and what a reload keeps of it."""

import json

import pytest
from playwright.sync_api import Page, Request, expect

from support.browser_helpers import drop, marks, needs_browser, paste, put, settle, visit
from support.server_process import ServerProcess, letter_server

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

BREAD = "The moon is white. Bread is baked from flour and water. Ovens are hot."
SENTENCE = "The moon is far away, and no bread is baked there.\n"


def choose(page: Page, name: str, content: bytes) -> None:
    page.locator("#file").set_input_files({"name": name, "mimeType": "", "buffer": content})


@pytest.mark.parametrize("text", [BREAD, f"# Bread\n\n{BREAD}\n" * 60])
def test_pasted_page_survives_a_reload_and_is_not_in_the_address(page: Page, server: ServerProcess, text: str) -> None:
    visit(page, server)
    paste(page, "body", text)
    page.locator("#question").fill("How is bread baked?")
    page.locator("#question").press("Enter")
    expect(page.locator("#reader mark[data-score^='1 ']")).to_be_focused()
    shown = marks(page)
    assert "flour" not in page.url
    page.reload()
    settle(page)
    expect(page.locator("#name")).to_have_text("Pasted page")
    assert page.locator("#source").input_value() == text
    assert marks(page) == shown
    page.locator("#sample").click()
    settle(page)
    page.reload()
    settle(page)
    expect(page.locator("#name")).to_have_text("Sample page")
    assert len(marks(page)) == 3


def test_emptied_field_stays_empty_after_a_reload(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    put(page, "")
    expect(page.locator("#status")).to_have_text("Paste a page, or drop a file.")
    page.reload()
    expect(page.locator("#status")).to_have_text("Paste a page, or drop a file.")


def test_reload_names_the_file_that_it_lost(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    choose(page, "caf\xe9.txt", "Le caf\xe9 est ouvert.".encode("latin-1"))
    expect(page.locator("#reader")).to_contain_text("ouvert")
    page.reload()
    expect(page.locator("#status")).to_have_text("caf\xe9.txt did not survive the reload: open or paste it again.")
    assert page.locator("#reader").text_content() == ""


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_file_in_another_encoding_is_decoded(page: Page, server: ServerProcess, encoding: str) -> None:
    visit(page, server)
    choose(page, "a.md", "# Caf\xe9\n\nLe caf\xe9 est ouvert le lundi.".encode(encoding))
    expect(page.locator("#reader")).to_contain_text("Le caf\xe9 est ouvert le lundi.")
    expect(page.locator("#reader h3")).to_have_text("# Caf\xe9")
    expect(page.locator("#failure")).to_be_hidden()


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image"), (b"PK\x03\x04" + b"\0" * 26 + b"xl/workbook.xml", "XLSX table")],
)
def test_file_that_is_not_read_is_named_for_people(
    page: Page, server: ServerProcess, content: bytes, kind: str
) -> None:
    visit(page, server)
    choose(page, "photo.txt", content)
    expect(page.locator("#failure-words")).to_have_text("photo.txt cannot be read.")
    expect(page.locator("#failure-detail")).to_contain_text(kind)
    expect(page.locator("#failure-detail")).not_to_contain_text("file[")
    page.locator("#undo").click()
    settle(page)
    expect(page.locator("#failure")).to_be_hidden()
    assert len(marks(page)) == 3


def test_page_over_the_limit_is_refused_before_it_is_sent(page: Page) -> None:
    with letter_server("--max-document-bytes", "400000") as server:
        visit(page, server)
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url.removeprefix(server.url)))
        before = page.locator("#reader").text_content()
        choose(page, "big.txt", b"Bread. " * 100_000)
        expect(page.locator("#failure-words")).to_have_text("big.txt has 0.7 MB.")
        expect(page.locator("#failure-detail")).to_contain_text("up to 0.4 MB")
        paste(page, "body", "\N{CYRILLIC SMALL LETTER YA}" * 310_000)
        expect(page.locator("#failure-words")).to_have_text("Pasted page has 0.6 MB.")
        assert sent == ["/info"]
        assert page.locator("#reader").text_content() == before


@pytest.mark.parametrize("written", ["text", "html", "one line"])
def test_large_page_is_laid_out_in_parts_and_sent_once(page: Page, server: ServerProcess, written: str) -> None:
    filler = {
        "text": SENTENCE,
        "one line": SENTENCE.strip() + " ",
        "html": f"<h2>Moon</h2><p>{SENTENCE.strip()}</p>",
    }[written]
    answer = (
        "<h2>Keys</h2><p>The key lies under the stone.</p>" if written == "html" else "The key lies under the stone.\n"
    )
    source = filler * 6000 + answer + filler * 6000
    visit(page, server)
    page.locator("#question").fill("Where does the key lie?")
    settle(page)
    sent: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith("/highlights"):
            sent.append(json.loads(request.post_data or "{}")["query"])

    page.on("request", note)
    drop(page, "big.html" if written == "html" else "big.txt", source)
    best = page.locator("#reader mark[data-score^='1 ']")
    expect(best).to_contain_text("Keys" if written == "html" else "under the stone", timeout=60_000)
    settle(page)
    assert sent == ["Where does the key lie?"]
    page.locator("#question").fill("Where is the key?")
    expect(page.locator("body")).to_have_class("waiting")
    settle(page)
    assert sent[1:] == ["Where is the key?"]
    # Only what is near the screen, or has a passage, is laid out.
    parts = page.locator("#reader .part")
    assert parts.count() > 20
    if written == "html":
        assert page.locator("#reader .block").count() < 24_000 / 4
    else:
        assert page.locator("#reader").text_content() == source
    page.locator("#passages .passage").first.click()
    expect(best).to_be_in_viewport()
    expect(best).to_be_focused()
    # The field does not take it, and a text typed there takes its place.
    page.locator("#edit").click()
    expect(page.locator("#source")).to_have_attribute(
        "placeholder", "This page is too long to be edited here. Paste another one, or drop a file."
    )
    page.locator("#source").fill(BREAD)
    page.locator("#edit").click()
    settle(page)
    assert page.locator("#reader").text_content() == BREAD


def test_parts_are_laid_out_when_they_come_near(page: Page) -> None:
    with letter_server() as server:
        visit(page, server)
        drop(page, "big.md", "".join(f"## Section {number}\n\nBread is **baked** here.\n\n" for number in range(2000)))
        # The sample's answer stands there before: the page is there when its own first part has marks.
        expect(page.locator("#reader .part mark").first).to_be_visible(timeout=60_000)
        last = page.locator("#reader .part").last
        assert last.locator(".block").count() == 0
        page.locator("#reader").evaluate("reader => scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
        expect(last.locator("h3").last).to_have_text("## Section 1999")
        expect(last.locator(".strong").last).to_have_text("baked")


def test_ordered_list_keeps_its_numbers(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    steps = "# Steps\n\n1. Get **flour**.\n2. Bake bread of flour.\n\n- Eat bread.\n"
    put(page, steps, "Get flour, bake bread, eat", "markdown")
    items = page.locator("#reader .item")
    bullets = items.evaluate_all("all => all.map(item => getComputedStyle(item, '::before').content)")
    assert bullets == ["none", "none", '"\N{BULLET}"']
    assert items.nth(1).inner_text() == "2. Bake bread of flour."
    # The card shows what the page shows, a line for each block.
    words = page.locator("#passages .words").first.inner_text()
    assert words.splitlines() == ["Steps", "1. Get flour.", "2. Bake bread of flour.", "\N{BULLET} Eat bread."]


def test_toolbar_is_one_line_after_another_page(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    height = page.locator(".tools").evaluate("tools => tools.offsetHeight")
    page.locator("#question").fill("How is bread baked?")
    paste(page, "body", f"# Bread\n\nIt is **baked** from [flour](https://flour.example).\n\n- {BREAD}\n")
    expect(page.locator("#format option:checked")).to_have_text("Auto: markdown")
    for button in ("#undo", "#sample", "#steps"):
        expect(page.locator(button)).to_be_visible()
    assert page.locator(".tools").evaluate("tools => tools.offsetHeight") == height
