"""What opens a repository of backups, as it is given on the command line: names of keys and files.

Called by the verbs of backups and of the state. Reads the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kvedge.cli.exits import Exit, Refused

KEYS: Final = ("accessKeyId", "secretKey", "region", "restUser", "restPassword", "sshKey", "knownHosts", "ca.crt")


def split_key(word: str, read: Callable[[Path], str] | None = None) -> tuple[str, str]:
    """The name and the content of NAME=FILE; `read` is for files that not any may be."""
    name, equals, path = word.partition("=")
    if not equals or name not in KEYS:
        raise Refused(f"--key: {word!r} is no NAME=FILE with a name among {', '.join(KEYS)}", Exit.USAGE)
    return name, (read or read_key)(Path(path))


def read_key(path: Path) -> str:
    """A file's text."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}", Exit.USAGE) from error
