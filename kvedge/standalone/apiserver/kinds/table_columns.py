"""One column of a table: its heading, and how its cell is read from an object.

Shared by the tables of built-in kinds and of custom ones. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.human_ages import age

Cell = Callable[[JsonObject, datetime], JsonValue]

NONE: Final = "<none>"


class Column(Struct, frozen=True):
    """A column of a metav1.Table; those with a `priority` above 0 are shown by `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> JsonObject:
        """The metav1.TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def at(document: Any, path: str, default: Any = None) -> Any:
    """What is at a dotted path, or the default when any part of it is absent or null."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return default if document is None else document


def text(name: str, path: str, default: JsonValue = "", priority: int = 0, description: str = "") -> Column:
    """A column that shows what is at a path."""
    return Column(name, lambda obj, now: at(obj, path, default) or default, description=description, priority=priority)


NAME: Final = Column(
    "Name",
    lambda obj, now: at(obj, "metadata.name", ""),
    format="name",
    description="Name of the object, unique within its namespace.",
)
AGE: Final = Column(
    "Age",
    lambda obj, now: age(at(obj, "metadata.creationTimestamp"), now),
    description="How long ago the object was created.",
)
CREATED_AT: Final = Column(
    "Created At",
    lambda obj, now: at(obj, "metadata.creationTimestamp", ""),
    type="date",
    description="When the object was created.",
)


def count_column(*paths: str) -> Column:
    """A column that shows how many entries there are at the paths."""

    def cell(obj: JsonObject, now: datetime) -> int:
        return sum(len(at(obj, path, {})) for path in paths)

    return Column(paths[0].capitalize(), cell, type="integer", description="How many there are.")
