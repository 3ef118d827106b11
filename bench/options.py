"""Options that the command lines of the measurements share."""

from __future__ import annotations

import argparse
from pathlib import Path


def claim_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Create a parser whose description is the first line of the module, the claim."""
    return argparse.ArgumentParser(description=(documentation or "").split("\n", maxsplit=1)[0])


def add_pages(parser: argparse.ArgumentParser, default: list[Path], meaning: str) -> None:
    """Add `--pages`: directories and files to read. `meaning` says of what kind."""
    parser.add_argument("--pages", type=Path, nargs="+", default=default, help=meaning)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--model`, as `pullquote._models.choice.model_directory` takes it."""
    parser.add_argument("--model", type=Path, help="a model's directory (default: the embedded one)")


def add_no_record(parser: argparse.ArgumentParser) -> None:
    """Add `--no-record`, which keeps nothing."""
    parser.add_argument("--no-record", action="store_true", help="print only")
