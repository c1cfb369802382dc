"""Fields of a document that its type does not have, with the nearest name that it has.

Works on documents as they came, as decoding drops what it does not know. Used by admission and by reports on
configuration; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec.inspect as shapes
from msgspec import Struct

from kvedge.resources.codec import JsonObject, shape_of
from kvedge.runtime.nearest_names import nearest_name

# Looking for a near name takes a millisecond. A user who has misspelt more names than these needs the manual.
MOST_HINTS: Final = 10


class UnknownField(Struct, frozen=True):
    """One such field: its path, and what may be meant (empty when nothing is near)."""

    path: str
    nearest: str

    @property
    def message(self) -> str:
        """In words for the author."""
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f'unknown field "{self.path}"{hint}'


def unknown_fields(cls: type, document: JsonObject, at: str) -> Iterator[UnknownField]:
    """Each field of the document, which stands at the path `at`, that the type lacks; hints with the first ones."""
    for index, found in enumerate(_in_struct(_shape(cls), document, at)):
        nearest = nearest_name(found.name, found.known) if index < MOST_HINTS else ""
        yield UnknownField(found.path, nearest)


class _Found(Struct, frozen=True):
    path: str
    name: str
    known: Iterable[str]


@cache
def _shape(cls: type) -> shapes.StructType:
    shape = shape_of(cls)
    assert isinstance(shape, shapes.StructType)
    return shape


def _in_struct(shape: shapes.StructType, value: Any, at: str) -> Iterator[_Found]:
    if not isinstance(value, dict):
        return  # The schema says so, with a cause of its own.
    known = {field.encode_name: field for field in shape.fields}
    for name, item in value.items():
        path = f"{at}.{name}" if at else str(name)
        if name in known:
            yield from _look_into(known[name].type, item, path)
        else:
            yield _Found(path, name, known)


def _look_into(shape: shapes.Type, value: Any, at: str) -> Iterator[_Found]:
    match shape:
        case shapes.StructType():
            yield from _in_struct(shape, value, at)
        case shapes.UnionType():
            for part in shape.types:
                if isinstance(part, (shapes.StructType, shapes.ListType, shapes.DictType)):
                    yield from _look_into(part, value, at)
        case shapes.ListType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _look_into(shape.item_type, item, f"{at}[{index}]")
        case shapes.DictType() if isinstance(value, dict):
            for key, item in value.items():
                yield from _look_into(shape.value_type, item, f"{at}[{key}]")
        case _:
            return
