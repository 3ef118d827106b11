"""`GET /` and `GET /docs`: their files and headers. `integration/test_*_in_browser.py` run them."""

import json
import re

import pytest

from pullquote._document_formats import PARSED, READABLE
from support.server_process import ServerProcess, letter_server

FILES = {
    "/": "text/html; charset=utf-8",
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
    "/kinds.js": "text/javascript; charset=utf-8",
    "/layout.js": "text/javascript; charset=utf-8",
    "/session.js": "text/javascript; charset=utf-8",
    "/sheets.js": "text/javascript; charset=utf-8",
    "/page.svg": "image/svg+xml",
}
DOCS = {
    "/docs": "text/html; charset=utf-8",
    "/docs/start.js": "text/javascript; charset=utf-8",
    "/docs/swagger-ui.css": "text/css; charset=utf-8",
    "/docs/swagger-ui.js": "text/javascript; charset=utf-8",
}


@pytest.mark.parametrize(("path", "kind"), (FILES | DOCS).items())
def test_page_files_have_csp_and_etag(server: ServerProcess, path: str, kind: str) -> None:
    answer = server.client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src")} == {"'self'"}
    assert policy["frame-ancestors"] == "'none'"
    if path in FILES:
        assert (policy["img-src"], policy["trusted-types"]) == ("'self' blob:", "'none'")
    assert answer.headers["cache-control"] == "no-cache"
    tag = answer.headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again = server.client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert server.client.get(path, headers={"if-none-match": '"other"'}).content == answer.content


def test_page_references_only_its_own_files(server: ServerProcess) -> None:
    whole = {path: server.client.get(path).text for path in FILES}
    named = re.findall(r'(?:src|href)="([^"]*)"', whole["/"])
    assert sorted(set(named)) == ["page.css", "page.js", "page.svg"]
    assert not re.search(r"\bon\w+=|<style|style=|<script[^>]*>[^<]", whole["/"])
    assert not re.search(r"url\(|@import", whole["/page.css"])
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|https?://",
        "".join(content for path, content in whole.items() if path.endswith(".js")),
    )


def test_page_opens_every_file_that_can_be_read(server: ServerProcess) -> None:
    kinds = server.client.get("/kinds.js").text
    constants = dict(re.findall(r"export const (\w+) = (.*);", kinds))
    assert json.loads(constants["READABLE"]) == READABLE
    accepted = json.loads(constants["ACCEPT"]).split(",")
    formats = json.loads(constants["FORMATS"])
    assert {"md": "markdown", "htm": "html"}.items() <= formats.items()
    assert {f".{ending}" for ending in (*formats, *PARSED)} <= set(accepted)
    assert {"text/*", "application/pdf", "application/epub+zip"} <= set(accepted)
    assert "ACCEPT" in server.client.get("/page.js").text


def test_page_needs_no_key_and_docs_do_with_protect_all() -> None:
    with letter_server("--api-key", "k") as server:
        assert {server.client.get(path).status_code for path in FILES | DOCS} == {200}
    with letter_server("--api-key", "k", "--protect-all") as server:
        assert {server.client.get(path).status_code for path in FILES} == {200}
        assert {server.client.get(path).status_code for path in DOCS} == {401}
