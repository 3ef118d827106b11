"""The page at `/`: keyboard, accessible names, contrast, motion, and phones."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser_helpers import focused, needs_browser, put, settle, visit
from support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs_browser]

BREAD = "The moon is white 🌕. Bread is baked from flour 🍞 and water. Ovens are hot."


def test_keyboard_navigation(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    page.keyboard.press("/")
    assert focused(page) == "question"
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("How long was she sprayed?")
    page.keyboard.press("Enter")
    best = page.locator("#reader mark[data-score^='1 ']")
    expect(best).to_be_focused()
    expect(best).to_be_in_viewport()
    expect(best).to_contain_text("seventeen years")
    expect(page.locator("#place")).to_have_text("1 of 3")
    places = []
    for key in ("n", "n", "n", "p"):
        page.keyboard.press(key)
        places.append(page.locator("#place").text_content())
        label = page.locator("#reader mark:focus").get_attribute("data-score") or ""
        assert label.split(" ")[0] == (places[-1] or "").split(" ")[0]
        assert page.locator("#passages [aria-current] .rank").text_content() == label.split(" ")[0]
    assert places == ["2 of 3", "3 of 3", "1 of 3", "3 of 3"]
    page.keyboard.press("/")
    page.keyboard.type("np/")
    assert page.locator("#question").input_value() == "np/"
    settle(page)
    page.locator("#fold > summary").press("Enter")  # nothing answers "np/"
    page.locator("#passages .passage").nth(1).press("Enter")
    expect(page.locator("#reader mark[data-score^='2 ']")).to_be_focused()
    page.locator("#next").click()
    expect(page.locator("#reader mark[data-score^='3 ']")).to_be_focused()
    page.locator("#edit").press("Enter")
    assert focused(page) == "source"
    page.keyboard.press("Escape")
    assert focused(page) == "edit"


def test_tab_order_and_visible_focus(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    reached: list[str] = []
    while True:
        page.keyboard.press("Tab")
        at = focused(page)
        if at == "body" or (reached and at == reached[0]):
            break
        # The file input is hidden; its label has the focus ring.
        ring = page.evaluate(
            """() => {
                const at = document.activeElement;
                const style = getComputedStyle(at.type === "file" ? at.nextElementSibling : at);
                return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
            }"""
        )
        assert ring, at
        reached.append(at)
    fields = ["question", *["button"] * 3, "length", "count", "budget", "least", *["button"] * 6, "summary"]
    assert reached == [*fields, "format", "file", "edit", "previous", "next"]


NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, summary, nav, article")].filter(element => {
    const labels = [...(element.labels ?? [])].map(label => label.textContent).join("");
    const name = element.getAttribute("aria-label") || labels || (element.matches("button, summary") && element.textContent);
    return !name || !name.trim();
}).map(element => element.outerHTML)"""


def test_controls_have_accessible_names(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    assert page.evaluate(NAMELESS) == []
    ids = page.locator("[id]").evaluate_all("all => all.map(element => element.id)")
    assert len(ids) == len(set(ids))
    named = page.locator("[aria-labelledby], [aria-describedby]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-labelledby') ?? e.getAttribute('aria-describedby'))"
    )
    assert set(named) <= set(ids)
    assert (page.locator("html").get_attribute("lang"), page.locator("h1").count(), page.locator("main").count()) == (
        "en",
        1,
        1,
    )
    assert page.locator("[tabindex]:not([tabindex='-1'])").count() == 0
    expect(page.get_by_role("status")).to_have_text(re.compile("passages in"))
    assert page.get_by_role("slider", name="Budget").get_attribute("aria-valuetext") == "no limit"


CONTRASTS = """() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const luminance = (...layers) => {
        for (const layer of layers) { pen.fillStyle = layer; pen.fillRect(0, 0, 1, 1); }
        const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(v => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = element => element ? [...ground(element.parentElement), getComputedStyle(element).backgroundColor] : ["Canvas"];
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const poor = [];
    const judge = (what, colour, layers, least) => {
        const found = ratio(luminance(...layers, colour), luminance(...layers));
        if (found < least) poor.push(`${what}: ${found.toFixed(2)}`);
    };
    for (const element of document.querySelectorAll("body *")) {
        if (!element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const name = `${element.localName}#${element.id}.${element.className}`;
        const part = which => getComputedStyle(element, which).color;
        const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        const isField = element.matches("textarea, select, input:not([type=range], [type=file])");
        if (hasText) judge(name, style.color, ground(element), 4.5);
        if (element.matches("mark")) judge("score", part("::before"), ground(element), 4.5);
        if (element.matches("textarea")) judge("placeholder", part("::placeholder"), ground(element), 4.5);
        if (isField) judge(name, style.borderTopColor, ground(element.parentElement), 3);
    }
    return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_light_and_dark(page: Page, server: ServerProcess, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.route("**/highlights", lambda route: route.abort())
    visit(page, server)
    page.locator("#key-form, #undo, #sample").evaluate_all("all => all.forEach(element => { element.hidden = false; })")
    assert page.locator("#failure").is_visible()
    assert page.evaluate(CONTRASTS) == []
    page.unroute("**/highlights")
    page.locator("#again").click()
    settle(page)
    page.keyboard.press("n")
    page.locator(".request summary").click()
    assert page.evaluate(CONTRASTS) == []
    page.locator("#edit").click()
    assert page.evaluate(CONTRASTS) == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
    assert (int(paper) < 64) == (scheme == "dark")


def test_reduced_motion(page: Page, server: ServerProcess) -> None:
    visit(page, server)
    motion = "getComputedStyle(document.documentElement).scrollBehavior"
    assert page.evaluate(motion) == "smooth"
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(motion) == "auto"


def test_phone_viewport(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    visit(page, server)
    for text in (None, "bread" * 200 + " " + BREAD):
        if text is not None:
            put(page, text, "bread" * 30)
        assert page.evaluate("document.scrollingElement.scrollWidth") == 360
        assert page.evaluate("innerWidth") == 360
        tops = "['#question', '#passages', '#reader', '#length'].map(id => document.querySelector(id).getBoundingClientRect().top)"
        assert page.evaluate(tops) == sorted(page.evaluate(tops)), (
            "passages come before the page, and that before the controls"
        )
    page.locator("#sample").tap()
    settle(page)
    page.locator("#question").fill("How many guns did she carry?")
    settle(page)
    page.locator("#passages button").first.tap()
    expect(page.locator("#reader mark[data-score^='1 ']")).to_be_in_viewport()
    expect(page.locator("#steps")).to_be_in_viewport()
    small = page.locator("button:visible, select:visible, summary:visible, input:visible:not(.unseen)").evaluate_all(
        "all => all.filter(e => Math.min(e.offsetHeight, e.offsetWidth) < 24).map(e => e.outerHTML)"
    )
    assert small == []
    page.close()
