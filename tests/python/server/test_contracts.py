"""`docs/routes.md` says what the server does with the fields of other servers' contracts."""

from pathlib import Path

from support.contracts import page
from support.server_process import ServerProcess

ROUTES = Path(__file__).parents[3] / "docs" / "routes.md"


def test_routes_page_is_what_the_server_does(server: ServerProcess) -> None:
    assert ROUTES.read_text(encoding="utf-8") == page(server.url), (
        "run python -m support.contracts URL > docs/routes.md"
    )
