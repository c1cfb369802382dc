"""`--wait` and `--timeout`, the same for every verb that can wait.

Used by the verbs. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def wait_options(function: F) -> F:
    """Hands `wait` and `timeout` (seconds) to the verb."""
    function = click.option(
        "--timeout", type=click.FloatRange(min=0), default=300.0, show_default=True, help="How many seconds to wait."
    )(function)
    return click.option("--wait/--no-wait", default=False, help="Wait until it is so; exit code 4 when it is not.")(
        function
    )
