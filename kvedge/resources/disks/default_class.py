"""Which storage class claims get that name none: Kubernetes' rule, where controller, box and embedded API need it.

Touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.meta import ObjectMeta


class ClassSeen(Struct, frozen=True):
    """What of a class decides: its annotations, when it was made, and its name."""

    annotations: Mapping[str, str]
    made_at: str
    name: str

    @classmethod
    def of(cls, metadata: ObjectMeta) -> ClassSeen:
        """Read the facts of a typed class."""
        return cls(metadata.annotations, metadata.creation_timestamp or "", metadata.name)


def default_class_name(classes: Iterable[ClassSeen], mark: str = DEFAULT_CLASS) -> str | None:
    """The class with the mark: of several the newest, of equally old ones the first by name; None without any."""
    marked = sorted((seen for seen in classes if seen.annotations.get(mark) == "true"), key=lambda seen: seen.name)
    newest = max(marked, key=lambda seen: seen.made_at, default=None)
    return None if newest is None else newest.name
