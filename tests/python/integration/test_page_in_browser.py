"""The page at `/` in a browser with a real server: marks, settings, files, and failures."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from pullquote._native import ANSWERED
from support.browser_helpers import drop, focused, marks, needs_browser, paste, put, settle, visit
from support.server_process import ServerProcess, letter_server

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

BREAD = "The moon is white 🌕. Bread is baked from flour 🍞 and water. Ovens are hot.\n\nShips sail on the sea. Cats sleep all day."
HTML = "<title>B</title><style>p{}</style><h1>Bread &amp; butter</h1><p>Bread is baked from flour 🍞.</p><p>The moon is white.</p>"
EVIL = "<script>pwned = 1</script><img src=x onerror='pwned = 2'> Bread is baked. </p></article><svg onload=pwned=3>"


def slide(page: Page, setting: str, value: float) -> None:
    page.locator(f"#{setting}").fill(str(value))
    settle(page)


def is_marked(page: Page, answer: dict[str, Any]) -> bool:
    """Whether the page shows exactly the server's answer."""
    (result,) = answer["results"]
    ranked = list(enumerate(result["highlights"], start=1))
    in_page = sorted(ranked, key=lambda row: row[1]["start"])
    shown = marks(page)
    assert page.locator("#reader").text_content() == result["text"]
    assert [(rank, text) for rank, _, text in shown] == [(rank, h["text"]) for rank, h in in_page]
    assert [score for _, score, _ in shown] == pytest.approx([h["score"] for _, h in in_page], abs=0.0051)
    listed = page.locator("#passages .words").all_text_contents()
    assert [words.split() for words in listed] == [h["text"].replace("# ", "").split() for _, h in ranked]
    return True


def test_first_visit_marks_sample_page(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    assert len(marks(page)) == 3
    assert re.fullmatch(r"3 passages in [\d.]+ m?s", page.locator("#status").text_content() or "")
    assert page.locator("#reader").text_content() == page.locator("#source").input_value()
    expect(page.locator("#reader mark[data-score^='1 ']")).to_be_in_viewport()


@pytest.mark.parametrize(("text", "written"), [(BREAD, "text"), (f"# Bread\n\n{BREAD}", "markdown"), (HTML, "html")])
def test_marks_match_server_answer(page: Page, server: ServerProcess, text: str, written: str) -> None:
    visit(page, server)
    put(page, text, "How is bread made?", written)
    slide(page, "count", 2)
    slide(page, "length", 1)
    body = {"query": "How is bread made?", "documents": [text], "format": written, "top_k": 2, "highlight_length": 1}
    assert is_marked(page, server.client.post("/highlights", json=body | {"return_texts": True}).json())


def test_sliders_change_marks(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    slide(page, "count", 6)
    many = marks(page)
    assert len(many) == 6
    slide(page, "length", 1)
    assert sum(len(text) for *_, text in marks(page)) < sum(len(text) for *_, text in many)
    slide(page, "budget", 300)
    assert 0 < sum(len(text) for *_, text in marks(page)) <= 300
    assert page.locator("#budget-says").text_content() == "300 characters"
    slide(page, "count", 1)
    assert len(marks(page)) == 1
    assert page.locator("#place").text_content() == "1 passage"


def efforts(page: Page) -> list[tuple[str, str]]:
    """The query and the effort of each request from now on."""
    asked: list[tuple[str, str]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/highlights") and request.post_data:
            body = json.loads(request.post_data)
            asked.append((body["query"], body.get("effort", "auto")))

    page.on("request", note)
    return asked


def stop_clock(page: Page, server: ServerProcess) -> None:
    """Visit the page, where from then on only `page.clock.run_for` lets timers run."""
    page.clock.install(time=0)
    visit(page, server)
    page.clock.pause_at(3_600_000)


def record_announcements(page: Page) -> None:
    """Keep what the live regions of the page say from now on in `window.announced`."""
    page.evaluate(
        """() => {
            window.announced = [];
            for (const live of document.querySelectorAll("[aria-live], [role=status], [role=alert]"))
                new MutationObserver(() => live.textContent && window.announced.push(live.textContent))
                    .observe(live, { childList: true, characterData: true, subtree: true });
        }"""
    )


def test_changes_are_debounced(page: Page, server: ServerProcess) -> None:
    stop_clock(page, server)
    asked = efforts(page)
    page.locator("#question").fill("")
    for character in "bread":
        page.locator("#question").press_sequentially(character)
        page.clock.run_for(140)
    assert asked == []
    page.clock.run_for(1000)
    settle(page)
    assert asked == [("bread", "instant"), ("bread", "auto")]


def test_typing_shows_instant_passages_then_final_ones(page: Page, server: ServerProcess) -> None:
    stop_clock(page, server)
    held: list[Route] = []

    def hold_auto(route: Route) -> None:
        if "instant" in (route.request.post_data or ""):
            route.continue_()
        else:
            held.append(route)

    page.route("**/highlights", hold_auto)
    asked = efforts(page)
    record_announcements(page)
    question = "How many guns did she carry?"
    page.locator("#question").fill(question)
    before = marks(page)

    def place() -> int:
        top: int = page.locator("#passages").evaluate("list => list.offsetTop")
        return top

    places = [place()]
    with page.expect_response("**/highlights") as instant:
        page.clock.run_for(150)
    (result,) = instant.value.json()["results"]
    expect(page.locator("#passages .words").first).to_have_text(result["highlights"][0]["text"].strip())
    shown = marks(page)
    places.append(place())
    assert shown != before
    assert {text for *_, text in shown} == {highlight["text"] for highlight in result["highlights"]}
    assert instant.value.json()["usage"]["windows_scored"] == 0
    expect(page.locator("body")).not_to_have_class("waiting")
    expect(page.locator("#reader")).to_have_attribute("aria-busy", "true")
    assert focused(page) == "question"
    assert page.evaluate("window.announced") == []
    # A passage that gets the focus now has it after the final answer.
    page.locator("#passages .passage").first.focus()
    page.clock.run_for(450)
    expect(page.locator("body")).to_have_class("waiting")
    (route,) = held
    route.continue_()
    settle(page)
    assert asked == [(question, "instant"), (question, "auto")]
    assert page.evaluate("window.announced") == [page.locator("#status").text_content()]
    expect(page.locator("#passages .passage").first).to_be_focused()
    assert places == [place()] * 2
    final = server.client.post(
        "/highlights",
        json={"query": question, "documents": [page.locator("#source").input_value()], "return_texts": True},
    )
    assert is_marked(page, final.json())


def test_enter_asks_at_once_without_instant(page: Page, server: ServerProcess) -> None:
    stop_clock(page, server)
    asked = efforts(page)
    page.locator("#question").fill("How many guns did she carry?")
    page.locator("#question").press("Enter")
    settle(page)
    page.clock.run_for(1000)
    assert asked == [("How many guns did she carry?", "auto")]
    expect(page.locator("#reader mark[data-score^='1 ']")).to_be_focused()
    page.get_by_role("button", name="Who was punished?").click()
    page.clock.run_for(1)
    settle(page)
    assert asked[1:] == [("Who was punished?", "auto")]


def test_failure_of_instant_is_silent(page: Page, server: ServerProcess) -> None:
    stop_clock(page, server)
    asked = efforts(page)
    page.route(
        "**/highlights",
        lambda route: route.abort() if "instant" in (route.request.post_data or "") else route.continue_(),
    )
    before = marks(page)
    page.locator("#question").fill("How many guns did she carry?")
    with page.expect_event("requestfailed"):
        page.clock.run_for(150)
    assert marks(page) == before
    expect(page.locator("#failure")).to_be_hidden()
    page.clock.run_for(450)
    settle(page)
    assert [effort for _, effort in asked] == ["instant", "auto"]
    assert any("sixty-four" in text for *_, text in marks(page))
    page.locator("#question").fill(" ")
    page.clock.run_for(1000)
    expect(page.locator("#status")).to_have_text("Ask a question.")
    assert len(asked) == 2


def test_server_without_instant_answers_all_the_same(page: Page) -> None:
    with letter_server() as server:
        stop_clock(page, server)
        before = marks(page)
        page.locator("#question").fill("How many guns did she carry?")
        with page.expect_response("**/highlights") as instant:
            page.clock.run_for(150)
        assert instant.value.status == 400
        expect(page.locator("#failure")).to_be_hidden()
        assert marks(page) == before
        page.clock.run_for(450)
        settle(page)
        expect(page.locator("#failure")).to_be_hidden()
        assert marks(page) != before


def test_outdated_answer_is_aborted(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    held: list[Route] = []
    failed: list[tuple[str | None, str]] = []
    page.on("requestfailed", lambda request: failed.append((request.failure, request.post_data or "")))

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        held.append(route)

    page.route("**/highlights", hold_the_first)
    with page.expect_request("**/highlights"):
        page.locator("#question").fill("How deep did she sink?")
    expect(page.locator("body")).to_have_class("waiting")
    page.locator("#question").fill("How many guns did she carry?")
    settle(page)
    ((why, asked),) = failed
    assert why == "net::ERR_ABORTED"
    assert "sink" in asked
    assert any("guns" in text for rank, _, text in marks(page) if rank == 1)


@pytest.mark.parametrize(
    ("name", "written"), [("a.html", "html"), ("a.md", "markdown"), ("a.txt", "text"), ("a", "auto")]
)
def test_dropped_file_replaces_page(page: Page, server: ServerProcess, name: str, written: str) -> None:
    visit(page, server)
    drop(page, name, HTML)
    expect(page.locator("#name")).to_have_text(name)
    settle(page)
    assert page.locator("#format").input_value() == written
    is_read = written in {"html", "auto"}
    assert (page.locator("#reader").text_content() == HTML) == (not is_read)
    assert ("Bread & butter" in (page.locator("#reader").text_content() or "")) == is_read


def test_opened_file_and_undo(page: Page, server: ServerProcess, tmp_path: Path) -> None:
    visit(page, server)
    sample = page.locator("#source").input_value()
    path = tmp_path / "bread.txt"
    path.write_text(BREAD, encoding="utf-8")
    page.locator("#file").set_input_files(path)
    expect(page.locator("#reader")).to_have_text(BREAD)
    page.locator("#undo").click()
    expect(page.locator("#reader")).to_have_text(sample)
    assert page.locator("#name").text_content() == "Sample page"


def test_pasted_text_replaces_page(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    paste(page, "body", BREAD)
    expect(page.locator("#reader")).to_have_text(BREAD)
    page.locator("#edit").click()
    assert focused(page) == "source"
    paste(page, "#source", "Bread is baked.")
    expect(page.locator("#reader")).to_be_visible()
    expect(page.locator("#reader")).to_have_text("Bread is baked.")
    paste(page, "#question", "no page")
    settle(page)
    assert page.locator("#reader").text_content() == "Bread is baked."


@pytest.mark.parametrize("written", ["text", "html", "markdown"])
def test_scripts_of_page_do_not_run(page: Page, server: ServerProcess, written: str) -> None:
    visit(page, server)
    drop(page, "<img src=x onerror=pwned=4>.txt", EVIL)
    expect(page.locator("#name")).to_have_text("<img src=x onerror=pwned=4>.txt")
    page.locator("#format").select_option(written)
    page.locator("#question").fill(f"{EVIL} bread")
    settle(page)
    assert page.locator("#reader, #passages, #name").locator("script, img, svg").count() == 0
    if written != "html":
        assert page.locator("#reader").text_content() == EVIL
    assert marks(page)
    assert page.evaluate("typeof pwned") == "undefined"


def test_content_security_policy_blocks_injection(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page()
    page.goto(server.url)
    for attempt in (
        "document.body.innerHTML = '<b>'",
        "document.body.setAttribute('onclick', '1')",
        "document.createElement('script').text = '1'",
    ):
        said = page.evaluate(f"() => {{ try {{ {attempt}; return 'ran'; }} catch (error) {{ return error.name; }} }}")
        assert said in {"TypeError", "EvalError"}, attempt
    blocked = page.evaluate(
        """() => new Promise(done => {
            document.addEventListener("securitypolicyviolation", event => done(event.violatedDirective), { once: true });
            fetch("http://127.0.0.1:1/").catch(() => {});
        })"""
    )
    assert blocked == "connect-src"
    page.close()


def test_api_key_form(page: Page) -> None:
    with letter_server("--api-key", "sesame") as server:
        visit(page, server)
        expect(page.locator("#failure-words")).to_have_text("This server requires a key.")
        expect(page.get_by_label("API key")).to_be_focused()
        expect(page.locator("#failure-detail")).to_be_empty()
        for wrong in ("wrong", "ключ"):
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.insert_text(wrong)
            page.keyboard.press("Enter")
            settle(page)
            expect(page.locator("#failure-detail")).to_have_text("The server rejects the key below.")
        page.get_by_label("API key").fill("sesame")
        page.get_by_role("button", name="Use key").click()
        expect(page.locator("#reader mark")).to_have_count(3)
        assert not page.locator("#failure, #key-form").locator("visible=true").count()
        page.reload()
        settle(page)
        expect(page.locator("#reader mark")).to_have_count(3)
        # Another tab does not have it.
        with page.context.new_page() as other:
            visit(other, server)
            expect(other.locator("#failure-words")).to_have_text("This server requires a key.")


def test_rejected_key_is_not_kept(page: Page) -> None:
    with letter_server("--api-key", "sesame", "--protect-all") as server:
        visit(page, server)
        page.get_by_label("API key").fill("sesame")
        page.get_by_role("button", name="Use key").click()
        expect(page.locator("#reader mark")).to_have_count(3)
        refusal = {"error": {"message": "this needs a valid key"}}
        page.route("**/highlights", lambda route: route.fulfill(status=401, json=refusal))
        page.reload()
        settle(page)
        expect(page.locator("#failure-detail")).to_have_text("The server rejects the key below.")
        page.reload()
        settle(page)
        expect(page.get_by_label("API key")).to_have_value("")
        assert "sesame" not in (page.locator("#request").text_content() or "")


def test_server_restart_keeps_input(page: Page) -> None:
    with letter_server() as server:
        visit(page, server)
        put(page, BREAD, "How is bread made?")
        port = server.url.rsplit(":", 1)[1]
    page.locator("#question").fill("Is the moon white?")
    expect(page.locator("#failure-words")).to_have_text("The server does not answer.")
    assert page.locator("#question").input_value() == "Is the moon white?"
    assert page.locator("#source").input_value() == BREAD
    assert page.locator("#reader").text_content() == BREAD
    assert marks(page) == []
    with letter_server("--port", port):
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#reader mark").first).to_be_visible()
        expect(page.locator("#failure")).to_be_hidden()


@pytest.fixture(scope="module")
def narrow() -> Iterator[ServerProcess]:
    sizes = ("--max-body-bytes", "30000", "--max-queue-bytes", "30000", "--max-document-bytes", "10000")
    with letter_server(*sizes, "--max-concurrent", "1", "--max-queue", "0") as server:
        yield server


@pytest.mark.parametrize(
    ("size", "words", "detail"),
    [
        (40_000, "This page is larger than the server's limit.", "the body is larger than 30000 bytes"),
        (20_000, "The server rejects this request.", "documents[0]: a text has 20000 bytes; the maximum is 10000"),
    ],
)
def test_too_large_page_shows_failure(page: Page, narrow: ServerProcess, size: int, words: str, detail: str) -> None:
    visit(page, narrow)
    drop(page, "long.txt", "b" * size)
    expect(page.locator("#failure-words")).to_have_text(words)
    expect(page.locator("#failure-detail")).to_contain_text(detail)
    expect(page.locator("#again")).to_be_hidden()
    assert page.locator("#reader").text_content() == "b" * size
    page.locator("#undo").click()
    expect(page.locator("#reader mark")).to_have_count(3)


def test_overloaded_server_offers_retry(page: Page, narrow: ServerProcess) -> None:
    visit(page, narrow)
    refusal = {"error": {"message": "too many requests are waiting", "retryable": True}}
    page.route("**/highlights", lambda route: route.fulfill(status=429, json=refusal))
    page.locator("#question").fill("How many guns?")
    expect(page.locator("#failure-words")).to_have_text("The server is overloaded.")
    page.unroute("**/highlights")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#reader mark")).to_have_count(3)


def test_server_timeout_shows_failure(page: Page) -> None:
    with letter_server("--timeout", "0.0001") as server:
        visit(page, server)
        expect(page.locator("#failure-words")).to_have_text("The answer took longer than the server allows.")
        assert page.locator("#reader").text_content() == page.locator("#source").input_value()


def test_page_shows_before_first_answer(page: Page, server: ServerProcess) -> None:
    page.route("**/highlights", lambda _: None)  # no answer ever comes
    page.goto(server.url)
    expect(page.locator("#reader")).to_contain_text("the warship Vasa")
    assert marks(page) == []


def test_format_follows_pasted_page(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    page.locator("#format").select_option("html")
    page.locator("#edit").click()
    paste(page, "#source", f"# Bread\n\nIt is **baked** from [flour](https://flour.example).\n\n- {BREAD}\n")
    settle(page)
    assert page.locator("#format").input_value() == "auto"
    expect(page.locator("#format option:checked")).to_have_text("Auto: markdown")
    expect(page.locator("#name")).to_have_text("Pasted page")
    assert page.title() == "Pasted page · pullquote"


MARKDOWN = (
    "# The *Moon*\n\nIt is [far](https://moon.example) **away**, `384400` km\nfrom us.\n\n- cats\n- [bad](javascript:alert(1))\n\n"
    "| a | b |\n|---|---|\n| c | d |\n"
)


def test_markdown_is_rendered_and_text_is_kept(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    put(page, MARKDOWN, "How far is the moon?", "markdown")
    reader = page.locator("#reader")
    assert reader.text_content() == MARKDOWN
    shown = reader.inner_text()
    assert "The Moon" in shown
    assert "It is far away, 384400 km" in shown
    assert not re.search(r"[#*`\[\]]|---|https", shown.replace("javascript:alert(1)", ""))
    expect(reader.locator("h3")).to_have_text("# The *Moon*")
    assert reader.locator("a").evaluate_all("all => all.map(a => a.href)") == ["https://moon.example/"]
    assert reader.locator(".strong").all_text_contents() == ["away"]


def test_html_is_rendered_with_headings(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    put(page, HTML, "How is bread made?", "html")
    expect(page.locator("#reader h3")).to_have_text("Bread & butter")
    assert "<" not in page.locator("#reader").inner_text()


def test_address_keeps_question_and_options(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    assert page.url == f"{server.url}/"
    page.locator("#question").fill("Who was punished?")
    slide(page, "count", 1)
    shown, address = marks(page), page.url
    page.goto(server.url)
    page.goto(address)
    settle(page)
    assert marks(page) == shown
    assert page.locator("#question").input_value() == "Who was punished?"


def test_question_without_answer_is_said_plainly(page: Page, server: ServerProcess) -> None:
    def background() -> str:
        first = page.locator("#reader mark[data-score^='1 ']")
        colour: str = first.evaluate("mark => getComputedStyle(mark).backgroundColor")
        return colour

    visit(page, server)
    assert background() != "rgba(0, 0, 0, 0)"
    page.locator("#question").fill("How do I reset my password?")
    expect(page.locator("#status")).to_have_text("No passage says it in these words.")
    assert all(score < ANSWERED for _, score, _ in marks(page))
    expect(page.locator("#passages .passage")).to_have_count(3)
    # Folded away: neither listed, nor marked, nor gone to.
    for hidden in ("#passages", "#steps"):
        expect(page.locator(hidden)).not_to_be_visible()
    first = page.locator("#reader mark[data-score^='1 ']")
    look = "mark => [getComputedStyle(mark).textDecorationLine, getComputedStyle(mark, '::before').display]"
    assert first.evaluate(look) == ["none", "none"]
    page.get_by_text("The nearest passages").click()
    expect(page.locator("#passages")).to_be_visible()
    expect(page.locator("#steps")).to_be_visible()
    assert first.evaluate(look) == ["underline", "inline"]
    assert background() == "rgba(0, 0, 0, 0)"
    page.locator("#passages .passage").first.click()
    assert first.get_attribute("aria-current") == "true"
    assert background() == page.locator(".ask").evaluate("side => getComputedStyle(side).backgroundColor")
    slide(page, "budget", 300)
    expect(page.locator("#status")).to_have_text("No passage within 300 characters says it in these words.")
    slide(page, "budget", 2100)
    slide(page, "least", 0.9)
    expect(page.locator("#status")).to_have_text("No passage has a score from 0.90.")
    slide(page, "least", 0)
    page.locator("#question").fill("How many guns did she carry?")
    expect(page.locator("#status")).to_contain_text("3 passages in ")
    assert background() != "rgba(0, 0, 0, 0)"


def test_card_counts_the_twins_of_its_passage(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    moon, others = "The moon is far away from the earth.", "Cats sleep a lot every day. Bread is baked of flour."
    slide(page, "length", 1)
    put(page, f"{moon} {others}\n\nSalt is mined here.\n\n{moon} Rain falls on the hills.\n", "How far is the moon?")
    expect(page.locator("#passages .twins")).to_have_text(["1 passage like it left out"])


def test_another_address_sets_what_it_leaves_out(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    slide(page, "count", 7)
    page.locator("#question").fill("Who was punished?")
    settle(page)
    page.evaluate("location.hash = 'length=2'")
    expect(page.locator("#question")).to_have_value("Why was the wood preserved so well?")
    settle(page)
    assert (page.locator("#count").input_value(), page.locator("#length").input_value()) == ("3", "2")


def test_phone_shows_the_best_passage_before_the_page(page: Page, server: ServerProcess) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    visit(page, server)
    settle(page)
    status, reader, passages = (page.locator(name).bounding_box() for name in ("#status", "#reader", "#passages"))
    assert status is not None
    assert reader is not None
    assert passages is not None
    assert status["height"] > 0
    assert status["y"] < passages["y"] < reader["y"]
    expect(page.locator("#passages .passage").first).to_be_in_viewport(ratio=1)


def test_copy_button_has_its_words_again_after_two_clicks(page: Page, server: ServerProcess) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, server)
    settle(page)
    button = page.locator(".copy").first
    button.dblclick()
    expect(button).to_have_text("Copied")
    expect(button).to_have_text("Copy")


def test_copies(page: Page, server: ServerProcess) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, server)
    put(page, BREAD + " It's so.", "How is bread made?")

    def copied(button: Any) -> str:
        button.click()
        expect(button).to_have_text("Copied")
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text

    assert copied(page.locator(".copy").first) == marks(page)[0][2] or copied(page.locator(".copy").first) in BREAD
    page.locator(".request summary").click()
    command = shlex.split(copied(page.locator("#copy-curl")))
    body = json.loads(command[command.index("-d") + 1])
    assert (command[0], command[2]) == ("curl", f"{server.url}/highlights")
    assert server.client.post("/highlights", json=body).json()["results"][0]["text"] == BREAD + " It's so."
    done = subprocess.run(
        [sys.executable, "-c", copied(page.locator("#copy-python"))], capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) >= len(marks(page))


def test_examples_and_least_score(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    for example in page.locator(".example").all():
        example.click()
        expect(page.locator("#status")).to_contain_text("passages in")
        settle(page)
        expect(page.locator("#status")).to_contain_text("passages in")
    page.get_by_role("button", name="How many people drowned?").click()
    settle(page)
    assert "thirty people" in marks(page)[0][2] + marks(page)[1][2] + marks(page)[2][2]
    slide(page, "least", 0.95)
    assert all(score >= 0.945 for _, score, _ in marks(page))
    assert page.locator("#least-says").text_content() == "from 0.95"
    put(page, BREAD)
    expect(page.locator("#examples")).to_be_hidden()
