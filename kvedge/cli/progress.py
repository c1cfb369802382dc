"""One line on the terminal that says how far something is; nothing where there is no terminal.

Used by verbs that wait. Writes to standard error only.
"""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Final, Self

import click

_START_OF_LINE: Final = "\r\x1b[K"


class Progress:
    """Shows the last text that it was given, and how long it all takes; the line is gone at the end."""

    def __init__(self) -> None:
        self._shown = ""
        self._begun = time.monotonic()
        self._is_seen = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            click.echo(_START_OF_LINE, nl=False, err=True)

    def show(self, text: str) -> None:
        """Replace the line."""
        line = f"{text} ({time.monotonic() - self._begun:.0f} s)"
        if self._is_seen and line != self._shown:
            self._shown = line
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{_START_OF_LINE}{line[:width]}", nl=False, err=True)
