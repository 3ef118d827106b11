"""Checks the files of `dist/` before anything is uploaded: tags, sizes, contents, one version. `make wheel` runs it.

python tests/release/check_dist.py dist
"""

import io
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

# It comes with auditwheel.
from elftools.elf.elffile import ELFFile

# The goal for pullquote is 12, and it has 16.2: bench/notes/build_time.md has what was tried.
MEBIBYTES = {"pullquote": 17, "pullquote_minilm": 50, "pullquote_torch": 4}
# What each wheel must have: the library needs licences and its bill of materials, the model its weights and licence.
CONTENTS = {
    "pullquote": (
        "pullquote/_native.pyi",
        "pullquote/py.typed",
        "licenses/LICENSE",
        "licenses/THIRD_PARTY.md",
        ".cyclonedx.json",
    ),
    "pullquote_minilm": ("model/model.safetensors", "model/SHA256SUMS", "pullquote_minilm/LICENSE"),
    "pullquote_torch": ("pullquote_torch/_native.pyi", ".cyclonedx.json"),
}
FORBIDDEN = re.compile(r"__pycache__|\.pyc$|/tests/|\.pdb$")


def complaints(wheel: Path) -> Iterator[str]:
    name, version, python, abi, platform = wheel.stem.split("-")
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    size = wheel.stat().st_size / 2**20
    if size > MEBIBYTES[name]:
        yield f"{size:.1f} MiB, more than {MEBIBYTES[name]}"
    for end in CONTENTS[name]:
        if not any(file.endswith(end) for file in files):
            yield f"has no {end}"
    yield from (f"has {file}" for file in files if FORBIDDEN.search(file))
    wanted = ("py3", "none") if name == "pullquote_minilm" else ("cp311", "abi3")
    if (python, abi) != wanted:
        yield f"is for {python}-{abi}, not {'-'.join(wanted)}"
    if name == "pullquote" and "linux" in platform:
        yield from wrong_platform(wheel, platform)
    if version != source_version():
        yield f"is version {version}, and Cargo.toml has {source_version()}"


def wrong_platform(wheel: Path, platform: str) -> Iterator[str]:
    """What auditwheel finds that the tag does not allow. It cannot read wheels for musl where libc is glibc."""
    if "musllinux" in platform:
        if (libraries := linked_libraries(wheel)) != {"libc.so"}:
            yield f"links {', '.join(sorted(libraries))}, and musl's libc.so is all that a system must have"
        return
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=False
    )
    # The oldest platform that has all symbols; a wheel that links another library is "linux" for auditwheel.
    shown = re.search(r'platform\s+tag:\s+"(\w+?)"', done.stdout)
    oldest = shown[1] if shown else "none"
    print(f"{wheel.name}: auditwheel finds {oldest}, {wheel.stat().st_size / 2**20:.1f} MiB")
    allowed = [found for tag in platform.split(".") if (found := parsed(tag))]
    if not (needed := parsed(oldest)) or not any(needed[0] == tag[0] and needed <= tag for tag in allowed):
        yield f"is {oldest} for auditwheel:\n{done.stdout}{done.stderr}"


def linked_libraries(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        library = ELFFile(io.BytesIO(archive.read("pullquote/_native.abi3.so")))
    tags = library.get_section_by_name(".dynamic").iter_tags()
    return {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}


def parsed(tag: str) -> tuple[str, int, int] | None:
    """`("manylinux", 2, 17)` of `manylinux_2_17_x86_64`; None of a plain `linux`, and of old names such as `manylinux2014`."""
    found = re.match(r"(manylinux|musllinux)_(\d+)_(\d+)_", tag)
    return (found[1], int(found[2]), int(found[3])) if found else None


def source_version() -> str:
    found = re.search(r'^version = "(.+)"', Path("Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1]


def main(folder: Path) -> int:
    wheels = sorted(folder.glob("*.whl"))
    found = [f"{wheel.name} {complaint}" for wheel in wheels for complaint in complaints(wheel)]
    for name in ("pullquote", "pullquote_minilm"):
        if not any(wheel.name.startswith(f"{name}-") for wheel in wheels):
            found.append(f"{folder} has no wheel of {name}")
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as sdist:
            files = sdist.getnames()
        for end in (
            "/Cargo.lock",
            "/LICENSE",
            "/THIRD_PARTY.md",
            "/rust/core/src/lib.rs",
            "/python/pullquote/__init__.py",
        ):
            if not any(file.endswith(end) for file in files):
                found.append(f"{archive.name} has no {end}")
    for complaint in found:
        print(complaint, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
