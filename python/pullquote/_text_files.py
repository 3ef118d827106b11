"""Bytes of files as text: in the encoding that they declare or that their letters suggest, or refused as what they are."""

from __future__ import annotations

import codecs
import errno
import shlex
import sys
from pathlib import Path

from pullquote._native import FileKind, decode_undeclared
from pullquote._warnings import warn
from pullquote.errors import InvalidArgumentError, InvalidTextError, NotFoundError, UsageWarning

__all__ = [
    "MissingFileError",
    "NotTextError",
    "UnreadableFileError",
    "check_is_text",
    "decode",
    "is_piped",
    "name_of",
    "read_bytes",
    "unreadable",
]

STANDARD_INPUT = "standard input"

# Byte order marks. UTF-32 before UTF-16, with whose mark it begins.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class NotTextError(InvalidTextError):
    """A file of a kind that has no text, such as an image, a program or an archive."""


class UnreadableFileError(NotFoundError, OSError):
    """A file that cannot be read: an error of this library, and an `OSError` as of Python's own functions."""


class MissingFileError(UnreadableFileError, FileNotFoundError):
    """A file that is not there."""


def unreadable(name: str, error: OSError) -> UnreadableFileError:
    """Python's error about a file as one of this library."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else UnreadableFileError
    made = kind(f"{name}: {error.strerror or error}")
    made.errno = error.errno
    return made


def is_piped() -> bool:
    """Whether standard input is a pipe or a file, and not a terminal."""
    return sys.stdin is not None and not sys.stdin.isatty()


def name_of(name: str) -> str:
    """What errors call a file of the command line."""
    return STANDARD_INPUT if name == "-" else name


def read_bytes(name: str) -> bytes:
    """The bytes of a file; ``-`` is standard input. Raises `OSError`."""
    if name == "-" and sys.stdin is None:
        raise OSError(errno.EBADF, "is closed", STANDARD_INPUT)
    if name == "-":
        return sys.stdin.buffer.read()
    path = Path(name)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"is a directory; name its files, as {path}/*.txt, or pass --recursive")
    return path.read_bytes()


def check_is_text(data: bytes, name: str) -> None:
    """Raise `NotTextError` for a file of another kind, with a command that extracts its text."""
    file = "FILE" if name == STANDARD_INPUT else shlex.quote(name)
    if refusal := FileKind.of(data).refusal(file):
        message = f"{name} {refusal}"
        raise NotTextError(message)


def decode(data: bytes, name: str, encoding: str | None, option: str = "--encoding latin-1") -> str:
    """The text of bytes: in `encoding`, that of a byte order mark, UTF-16 or UTF-8, or else as the server decodes uploads.

    `option` is how a caller names an encoding. Raises `NotTextError` for bytes that are no text, `InvalidTextError` for those that
    are none in any encoding, and `InvalidArgumentError` for an encoding that there is not.
    """
    found = encoding or next((found for mark, found in BYTE_ORDER_MARKS if data.startswith(mark)), None)
    found = found or _utf16(data) or "utf-8"
    try:
        return data.decode(found)
    except LookupError:
        message = f'there is no encoding {found!r}; try "utf-8", "latin-1", "cp1252", "utf-16" or "shift_jis"'
        raise InvalidArgumentError(message) from None
    except UnicodeDecodeError as error:
        if b"\0" in data[:4096]:
            message = f"{name} is not text: it has zero bytes, like programs, images and archives"
            raise NotTextError(message) from None
        guessed = None if encoding else decode_undeclared(data)
        if guessed is None:
            message = f"{name}: not {found} at byte {error.start}; name its encoding, for instance {option}"
            raise InvalidTextError(message) from None
    text, guess = guessed
    if guess:
        warn(f"{name} is not UTF-8, and was read as {guess}, by its letters; {option} names another one", UsageWarning)
    return text


def _utf16(data: bytes) -> str | None:
    """UTF-16 without a mark: in most scripts every other byte is often 0, and never in UTF-8."""
    start = data[:4096]
    low, high = start[::2].count(0), start[1::2].count(0)
    if len(data) % 2 or max(low, high) * 5 < len(start) or min(low, high) * 20 > max(low, high):
        return None
    return "utf-16-le" if high > low else "utf-16-be"
