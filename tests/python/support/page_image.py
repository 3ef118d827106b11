"""Makes the picture of the page at ``/`` that the documentation shows.

``PYTHONPATH=tests/python .venv/bin/python -m support.page_image docs/page.png``; the one in the repository has 256 colours.
"""

import sys

from playwright.sync_api import sync_playwright

from support.browser_helpers import CHROMIUM, settle, visit
from support.server_process import running_server


def main(image: str) -> None:
    """Take a picture of the page at ``/`` with its best passage chosen, once its answer is cached."""
    with running_server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
        for _ in range(2):
            visit(page, server)
        page.locator("#question").press("Enter")
        settle(page)
        page.screenshot(path=image)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
