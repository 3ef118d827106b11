"""The record of a measurement: its machine, commit and versions, and the files that keep it.

`bench/record/<machine>/<claim>.json` holds every raw number; the Markdown next to it is for people and for `bench/tables.py`.
If ``PULLQUOTE_CPU`` forces an instruction set, the machine's name ends with it: rivals are not forced.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from bench.machine_noise import cores
from pullquote import _native

REPOSITORY = Path(__file__).resolve().parents[1]

_STARTED = time.monotonic()
_PACKAGES = [
    "pullquote",
    "pullquote-torch",
    "torch",
    "sentence-transformers",
    "transformers",
    "tokenizers",
    "numpy",
    "pullquote-minilm",
    "onnxruntime",
    "openvino",
    "fastembed",
]


def circumstances() -> dict[str, object]:
    """The time, machine, commit and versions of a measurement."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "instruction_set": _native.instruction_set(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES},
    }


def machine() -> str:
    """A short name of this machine, for a directory: ``amd-epyc-zen5-2-cores``."""
    plain = re.sub(r"\(.*?\)|@.*|\b(cpu|processor|\d+-core)\b", " ", _cpu().lower().replace("zen ", "zen"))
    forced = f"-{_native.instruction_set()}" if os.environ.get("PULLQUOTE_CPU") else ""
    return f"{'-'.join(re.findall(r'[a-z0-9]+', plain))}-{cores()}-cores{forced}"


def heading(claim: str, around: dict[str, object]) -> list[str]:
    """The first lines of a record: the claim, the time, the machine, and the encoder's dtype if known."""
    where = [
        f"{around['cpu']}",
        f"{around['instruction_set']}",
        f"{around['cores']} cores",
        *([f"{around['dtype']}"] if "dtype" in around else []),
    ]
    return [f"# {claim}", "", f"{around['date']}, commit {around['commit']}, {', '.join(where)}", ""]


def long_heading(claim: str, around: dict[str, object]) -> list[str]:
    """As `heading`, with the system and all versions: for a record that depends on other software too."""
    versions = around["versions"]
    assert isinstance(versions, dict)
    where = f"{around['cpu']}, {around['instruction_set']}, {around['cores']} cores, {around['system']}"
    device = f"; device {around['device']}" if "device" in around else ""
    return [
        f"# {claim}",
        "",
        f"{around['date']}, commit {around['commit']}",
        "",
        f"- machine: {where}{device}",
        f"- versions: {', '.join(f'{name} {number}' for name, number in versions.items())}",
    ]


def spread(values: list[float], form: str = ".2f") -> str:
    """Write a median with the minimum and the maximum."""
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def publish(claim: str, raw: dict[str, object], table: str, *, keeps: bool = True) -> None:
    """Print the table. If `keeps`, also write both files of the record, and print where they are.

    The record also has the seconds since this module was imported, so that `bench/all.py` can say how long a run takes.
    """
    print(table)
    if keeps:
        raw = raw | {"duration": round(time.monotonic() - _STARTED, 1)}
        print(f"kept in {_keep(claim, raw, table)}", file=sys.stderr)


def directory() -> Path:
    """The directory of this machine's records; creates it if it is missing."""
    made = REPOSITORY / "bench" / "record" / machine()
    made.mkdir(parents=True, exist_ok=True)
    return made


def _keep(claim: str, raw: dict[str, object], table: str) -> Path:
    kept = directory()
    numbers = json.dumps(raw, ensure_ascii=False, separators=(",", ":")) + "\n"
    # The numbers come last, and whole: `bench/all.py` takes them as a sign that both files are there.
    for name, text in ((f"{claim}.md", table), (f"{claim}.json", numbers)):
        unfinished = kept / f"{name}.unfinished"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(kept / name)
    return kept


def _cpu() -> str:
    """The processor's name from Linux, otherwise from Python's `platform`."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", information.read_text(), re.MULTILINE)
        if found:
            return f"{found[1].strip()} {_microarchitecture()}".strip()
    return platform.processor() or platform.machine()


def _microarchitecture() -> str:
    """The generation of an AMD processor, which its name does not tell on virtual machines; empty for others."""
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    found = re.search(r"^cpu family\s*:\s*(\d+)\s*\nmodel\s*:\s*(\d+)", text, re.MULTILINE)
    if "AuthenticAMD" not in text or not found:
        return ""
    family, model = int(found[1]), int(found[2])
    if family == 25:
        return "Zen 3" if model < 16 or 32 <= model < 96 else "Zen 4"
    return {23: "Zen 2", 26: "Zen 5"}.get(family, "")


def _commit() -> str:
    """The commit, with a remark if the tree differs from it; records do not count, and neither do pages of text.

    The kit of `make gpu-kit` has a file that says which commit it was built from.
    """
    built_from = REPOSITORY / "COMMIT"
    if built_from.exists():
        return built_from.read_text(encoding="utf-8").strip()
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", ".", ":!bench/record", ":!*.md")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + (" and changes not committed" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
