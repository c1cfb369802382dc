"""Parts that CustomResourceDefinitions have in common are in memory once.

The schema of a VMI's spec is in those of VMs, pools, replica sets and presets, and most fields are a type and a few
words: of the ten thousand dicts of KubeVirt's kinds a fifth differ. Called by the object hub, in the event loop.
"""

from __future__ import annotations

import sys
from typing import Any, Final

# Parts of definitions that have changed or gone stay in the table until it has so many.
_MOST_PARTS: Final = 50_000


class SharedParts:
    """Knows all parts that it has seen; they are read by many from then on, and never changed."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, document: Any) -> Any:
        """A JSON document that equals this one, made of parts that are known where there are such."""
        if len(self._known) > _MOST_PARTS:
            self._known.clear()
        return self._share(document)

    def _share(self, part: Any) -> Any:
        # Parts of a part are shared first, so that equal ones are the same, and are told apart by their numbers: all
        # that are in the table stay there, and their numbers with them.
        if isinstance(part, dict):
            made = {sys.intern(key): self._share(value) for key, value in part.items()}
            return self._known.setdefault((dict, tuple(made), tuple(map(id, made.values()))), made)
        if isinstance(part, list):
            items = [self._share(item) for item in part]
            return self._known.setdefault((list, tuple(map(id, items))), items)
        # 1, 1.0 and True are equal, and not the same.
        return self._known.setdefault((type(part), part), part)
