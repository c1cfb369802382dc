"""What was measured, and the table that says so: with rich in a terminal, as plain columns elsewhere."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field  # noqa: TID251 - of dataclasses of this file
from typing import Any

COLUMNS = ("what", "measured", "reference", "ratio", "goal", "met")


@dataclass(frozen=True, slots=True)
class Goal:
    """The most that a figure may be: absolutely, and as a multiple of the reference."""

    most: float | None = None
    ratio: float | None = None

    def text(self, unit: str) -> str:
        """As the table shows it."""
        parts = [f"≤ {self.ratio:g} ×"] if self.ratio is not None else []
        parts += [f"≤ {figure(self.most, unit)}"] if self.most is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the table."""

    what: str
    unit: str
    measured: float
    reference: float | None = None
    goal: Goal = field(default_factory=Goal)

    @property
    def ratio(self) -> float | None:
        """Measured over reference."""
        return self.measured / self.reference if self.reference else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None when there is none, or nothing to compare with."""
        limits = [(self.measured, self.goal.most), (self.ratio, self.goal.ratio)]
        known = [value <= limit for value, limit in limits if value is not None and limit is not None]
        return all(known) if known else None

    @property
    def ratio_met(self) -> bool | None:
        """Whether the ratio is what it may be; None when it has no limit. One that cannot be told is not met."""
        if self.goal.ratio is None:
            return None
        return self.ratio is not None and self.ratio <= self.goal.ratio

    def cells(self) -> tuple[str, ...]:
        """The row's texts, in the order of COLUMNS."""
        return (
            self.what,
            figure(self.measured, self.unit),
            "" if self.reference is None else figure(self.reference, self.unit),
            "" if self.ratio is None else f"{self.ratio:.2f} ×",
            self.goal.text(self.unit),
            {True: "met", False: "NOT MET", None: ""}[self.met],
        )


@dataclass(slots=True)
class Report:
    """Rows in the order in which they were measured, and notes that a reader needs to judge them."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Take a row in, and say it at once: a run takes minutes."""
        self.rows.append(row)
        said = "  ".join(cell for cell in row.cells() if cell)
        print(f"  {said}", file=sys.stderr, flush=True)

    def document(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        rows = [asdict(row) | {"ratio": row.ratio, "met": row.met} for row in self.rows]
        return {"rows": rows, "notes": self.notes}

    def show(self) -> None:
        """Print the table, then the notes."""
        if sys.stdout.isatty():
            _show_rich(self.rows)
        else:
            print("\n".join(_plain_lines(self.rows)))
        for note in self.notes:
            print(f"- {note}")


def missed(rows: Sequence[Row], *, by_ratio: bool) -> list[Row]:
    """The rows that make a run fail. `by_ratio`: by ratios alone, as a time is one machine's at one hour."""
    return [row for row in rows if (row.ratio_met if by_ratio else row.met) is False]


def figure(value: float, unit: str) -> str:
    """A number with its unit: three digits that count."""
    if unit == "s" and value < 1:
        return f"{value * 1000:.0f} ms"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".rstrip()


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def spread(values: Sequence[float], unit: str = "s") -> str:
    """Smallest to largest, for a note."""
    return f"{figure(min(values), unit)} to {figure(max(values), unit)}"


def _plain_lines(rows: Sequence[Row]) -> list[str]:
    table = [COLUMNS, *(row.cells() for row in rows)]
    widths = [max(len(line[index]) for line in table) for index in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _show_rich(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS, header_style="bold")
    for row in rows:
        style = {True: "green", False: "bold red", None: None}[row.met]
        table.add_row(*row.cells(), style=style)
    Console().print(table)
