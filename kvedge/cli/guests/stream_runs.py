"""Runs streams for a verb: a failure beside them becomes a line on standard error.

Called by console, vnc and port-forward.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import click

from kvedge.client.streams.stream_client import run_streams


def run_here(work: Coroutine[Any, Any, None]) -> None:
    """Run streams to their end."""
    run_streams(work, _tell)


def _tell(text: str) -> None:
    # A terminal in raw mode needs both ends of a line.
    click.echo(f"{text}\r", err=True)
