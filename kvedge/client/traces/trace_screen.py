"""The screen of `kvedge trace`: one line for each step, with its offset, its length, a bar and whose step it is.

Called by the verb; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from kvedge.client.tables import columns
from kvedge.client.traces.start_trace import STEPS, Reached
from kvedge.runtime.milestones import AGENT_CONNECTED, START_ASKED, STARTED

_BAR: Final = 30
# So many of the longest waits are marked, where they are worth a look.
_MARKED: Final = 3
_SHORTEST_MARKED_MS: Final = 10


class Line(Struct, frozen=True):
    """A step: `offset` since the first one, `length` since the one before; None where only seconds are known."""

    reached: Reached
    offset: int | None
    length: int | None
    is_long: bool = False


def plan_lines(reached: Sequence[Reached]) -> list[Line]:
    """The lines; only steps that are known to the millisecond are compared, and the guest's own boot is not marked."""
    exact = [item for item in reached if not item.whole_seconds]
    lengths = {item.step: item.unix_ms - before.unix_ms for before, item in pairwise(exact)}
    waits = {step: length for step, length in lengths.items() if step != AGENT_CONNECTED}
    longest = sorted(waits, key=lambda step: -waits[step])[:_MARKED]
    return [
        Line(
            item,
            None if item.whole_seconds or not exact else item.unix_ms - exact[0].unix_ms,
            lengths.get(item.step),
            item.step in longest and waits[item.step] >= _SHORTEST_MARKED_MS,
        )
        for item in reached
    ]


def render_screen(reached: Sequence[Reached]) -> list[str]:
    """The screen's lines."""
    lines = plan_lines(reached)
    total = max((line.offset or 0 for line in lines if line.reached.step != AGENT_CONNECTED), default=0)
    rows = [["STEP", "WHO", "AT", "TOOK", ""]]
    for line in lines:
        who, text = STEPS[line.reached.step]
        rows.append([text, who, _at(line), "" if line.length is None else f"{line.length} ms", _bar(line, total)])
    return [*columns(rows), "", *_sum(reached, total)]


def _at(line: Line) -> str:
    if line.offset is None:
        # Of an object: the second of the minute is all that is known.
        return f"~:{line.reached.unix_ms // 1000 % 60:02d} s"
    return f"{line.offset} ms"


def _bar(line: Line, total: int) -> str:
    if line.offset is None or not total or line.offset > total:
        return ""
    end = line.offset * _BAR // total
    begin = (line.offset - (line.length or 0)) * _BAR // total
    drawn = " " * begin + "█" * max(1, end - begin)
    return f"{drawn.ljust(_BAR + 1)}{' ◄ long' if line.is_long else ''}"


def _sum(reached: Sequence[Reached], total: int) -> list[str]:
    at = {item.step: item.unix_ms for item in reached if not item.whole_seconds}
    if START_ASKED not in at or STARTED not in at or not total:
        why = "it is of an earlier version, or the guest has not started there"
        return [f"The launcher does not tell when it started QEMU: {why}."]
    own = at[STARTED] - at[START_ASKED]
    share = own * 100 // total
    return [f"{total} ms in all: {own} ms ({share} %) are the start of QEMU by libvirt, {total - own} ms all else."]
