"""A bar on the terminal for an upload; nothing where there is no terminal.

Used by verbs that upload. Writes to standard error only. Lines may name what a file or a server says of itself.
"""

from __future__ import annotations

import sys

import click

from kvedge.client.harmless_text import harmless


class UploadBar:
    """How much is sent, in whole percents, on a line of standard error."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr is not None and sys.stderr.isatty()
        self._percent = -1

    def tell(self, text: str) -> None:
        """A line of its own."""
        self.end()
        click.echo(harmless(text.encode(errors="replace")), err=True)

    def show(self, sent: int, size: int) -> None:
        """Draw anew, when a percent has changed."""
        percent = sent * 100 // size if size else 100
        if self._is_seen and percent != self._percent:
            self._percent = percent
            done = "#" * (percent * 40 // 100)
            click.echo(f"\r\x1b[K[{done:40}] {percent:3d} %  {sent >> 20} of {size >> 20} MiB", nl=False, err=True)

    def end(self) -> None:
        """The line is gone."""
        if self._percent >= 0:
            self._percent = -1
            click.echo("\r\x1b[K", nl=False, err=True)
