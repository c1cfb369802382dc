"""ControllerRevision: what a controller has made something from, kept beside it (apps/v1).

Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta


class ControllerRevision(KubeStruct, kw_only=True):
    """apps/v1 ControllerRevision; its data never changes."""

    KIND: ClassVar[Kind] = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: JsonObject = {}
    # Servers require the field.
    revision: int
