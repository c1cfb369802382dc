"""The options that say how many backups of a VM stay, as restic has them.

Used by verbs of `kvedge backup`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

_WORDS: Final = {
    "last": "So many of the newest stay.",
    "hourly": "The newest of each of so many hours stays.",
    "daily": "The newest of each of so many days.",
    "weekly": "The newest of each of so many weeks.",
    "monthly": "The newest of each of so many months.",
}


def keep_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--keep-last`, `--keep-hourly` and so on, which reach the command as `keep_last` …"""
    for name, text in reversed(_WORDS.items()):
        option = click.option(f"--keep-{name}", type=click.IntRange(1, 10000), default=None, metavar="N", help=text)
        command = option(command)
    return command


def chosen_rules(given: Mapping[str, int | None]) -> dict[str, int]:
    """The rules of the API, of what was given."""
    return {name.removeprefix("keep_"): count for name, count in given.items() if count is not None}
