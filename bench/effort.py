"""How much of a page is encoded where a measurement's claim is about all of it."""

from typing import Any

# Options of `highlights()` with which it encodes every window of a page.
ALL_WINDOWS: dict[str, Any] = {"effort": "full"}
