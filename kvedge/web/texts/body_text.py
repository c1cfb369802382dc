"""Texts of what a page sends. Pure."""

from __future__ import annotations

from kvedge.client.errors import FlagError
from kvedge.resources.codec import JsonObject


def text_of(body: JsonObject, key: str) -> str:
    """A text of the body.

    Raises:
        FlagError: when it is none.
    """
    value = body.get(key)
    if not isinstance(value, str):
        raise FlagError(key, "must be a text", f"{key}: must be a text")
    return value
