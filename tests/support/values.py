"""One `replace` for values of both kinds: Structs, and the dataclasses of what a launcher keeps in memory."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

Value = TypeVar("Value")


def replace(value: Value, **changes: Any) -> Value:
    """The value with these fields changed."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    made = dataclasses.replace(cast("Any", value), **changes)  # noqa: TID251 - it is known to be one
    return cast("Value", made)
