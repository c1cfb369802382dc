"""`--since`, by which a verb leaves out what is older.

Used by the verbs that show what happened. Touches nothing.
"""

from __future__ import annotations

from kvedge.cli.exits import Exit, Refused


def read_since(text: str | None) -> float | None:
    """How many seconds back the verb looks; None for no limit.

    Raises:
        Refused: when the text is no duration.
    """
    if text is None:
        return None
    from kvedge.resources.values.durations import DurationError, parse_duration

    try:
        return parse_duration(text)
    except DurationError as error:
        raise Refused(f"--since: {error}; such as 10m or 1h30m", Exit.USAGE) from error
