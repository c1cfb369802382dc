"""Passwords and keys as they are given on a command line.

Called by `create vm` and `launch`. Reads files that the user names.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kvedge.cli.exits import Exit, Refused

_LARGEST: Final = 64 * 1024


def read_password(path: Path) -> str:
    """The one line of a password's file.

    Raises:
        Refused: when it cannot be read, or has no line or more than one.
    """
    text = read_text("password-file", path).rstrip("\r\n")
    if not text or "\n" in text:
        raise Refused(f"--password-file: {path} must have one line, the password", Exit.USAGE)
    return text


def read_text(flag: str, path: Path) -> str:
    """A small text file.

    Raises:
        Refused: when it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise Refused(f"--{flag}: {path} cannot be read: {error.strerror}", Exit.USAGE) from error
    except UnicodeDecodeError as error:
        raise Refused(f"--{flag}: {path} is not UTF-8 text", Exit.USAGE) from error
    if len(text) > _LARGEST:
        raise Refused(f"--{flag}: {path} has more than {_LARGEST >> 10} KiB", Exit.USAGE)
    return text


def split_keys(values: Iterable[str]) -> tuple[str, ...]:
    """Keys of one flag given several times, and of one with commas."""
    return tuple(key.strip() for value in values for key in value.split(",") if key.strip())
