"""What the write path asks of admission: let somebody change an object, let somebody refuse it.

The write path knows this protocol only; `admission_webhooks` implements it.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.requests.request_context import RequestContext


class Review(Struct, frozen=True):
    """One write as admission sees it. `obj` is None for a delete, `old` for a create."""

    context: RequestContext
    operation: str
    obj: JsonObject | None
    old: JsonObject | None
    name: str = ""
    options: JsonObject | None = None


class Admission(Protocol):
    """Both raise ApiError when the write is refused."""

    async def mutate(self, review: Review) -> JsonObject | None:
        """The object as it is to be written; None for a delete."""

    async def validate(self, review: Review) -> None:
        """Return when nobody objects."""
