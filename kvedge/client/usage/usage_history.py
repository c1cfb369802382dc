"""What one VM has used over an hour, a day or a month: asked of its node, and drawn as lines of text.

Called by `kvedge top VM --history` and by the console. Reads the aggregated API; what is drawn is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Final

from msgspec.structs import replace

from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.client.subresources import VMI, get_content
from kvedge.client.usage.guest_usage import show_size
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.usage.guest_history import (
    CPUS,
    MEMORY,
    RANGE,
    READ,
    RECEIVED,
    SENT,
    WAIT,
    WRITTEN,
    GuestHistory,
)

_CALL: Final = "usage"
_COLUMNS: Final = 60
_BARS: Final = "▁▂▃▄▅▆▇█"
_GAP: Final = " "
_MINUTE: Final = 60


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


# In the order of the table: the head, the series, how a value is shown, and the least that a full bar stands for.
_ROWS: Final[Sequence[tuple[str, str, Callable[[float], str], float]]] = (
    ("CPU", CPUS, _percent, 0.01),
    ("WAITING", WAIT, _percent, 0.01),
    ("MEMORY", MEMORY, show_size, 1.0),
    ("READ/s", READ, show_size, 1.0),
    ("WRITTEN/s", WRITTEN, show_size, 1.0),
    ("RECEIVED/s", RECEIVED, show_size, 1.0),
    ("SENT/s", SENT, show_size, 1.0),
)


def read_history(session: Session, namespace: str, name: str, span: str) -> GuestHistory:
    """What a VM that runs has used over one of `SPANS`.

    Raises:
        NotFoundError: when there is no such VM, or it does not run.
        RefusedError: when the node's answer is none.
        KubeError: with the server's words.
    """
    answer = get_content(replace(session, namespace=namespace), VMI, name, _CALL, {RANGE: span})
    try:
        return decode_json(GuestHistory, answer)
    except DecodeError as error:
        raise RefusedError(f"what VM {namespace}/{name} has used cannot be read: {error}") from error


def make_history_cells(history: GuestHistory) -> list[list[str]]:
    """The table, its heads first: a line of bars for each series that anything is known of."""
    cells = [["", "NOW", "MEAN", "MOST", "OLDEST TO NEWEST"]]
    for head, name, show, least in _ROWS:
        values = history.series.get(name, [])
        known = [value for value in values if value is not None]
        if known:
            now = values[-1] if values[-1] is not None else values[-2] if len(values) > 1 else None
            row = [head, "-" if now is None else show(now), show(sum(known) / len(known)), show(max(known))]
            cells.append([*row, draw_bars(values, least)])
    return cells


def draw_bars(values: Sequence[float | None], least: float) -> str:
    """A bar for each of at most 60 parts of equal length, by the mean of its values; a blank where none is known."""
    size = -(-len(values) // _COLUMNS) or 1
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    means = [_mean(part) for part in parts]
    full = max(least, max((mean for mean in means if mean is not None), default=0.0))
    return "".join(
        _GAP if mean is None else _BARS[min(len(_BARS) - 1, int(mean / full * len(_BARS)))] for mean in means
    )


def describe_span(history: GuestHistory, zone: tzinfo | None = None) -> str:
    """From when to when, and what one bar stands for."""
    points = max((len(values) for values in history.series.values()), default=0)
    begin, end = (
        f"{datetime.fromtimestamp(moment, zone):%Y-%m-%d %H:%M}"
        for moment in (history.end - points * history.step, history.end)
    )
    minutes = (-(-points // _COLUMNS) or 1) * history.step / _MINUTE
    bar = f"{minutes:.0f} minutes" if minutes > 1 else "a minute"
    return f"{begin} to {end}, {bar} a bar"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
