"""Writes what a subresource answered to a file that the user has named, or to standard output.

Called by verbs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kvedge.cli.exits import Refused


def write_content(path: str, content: bytes) -> bool:
    """Write it; whether to a file: `-` is standard output.

    Raises:
        Refused: when the file cannot be written.
    """
    if path == "-":
        sys.stdout.buffer.write(content)
        return False
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise Refused(f"{path}: cannot be written: {error.strerror}") from error
    return True
