"""What identifies a kind of resource: group, version, names and scope.

Used by the types, the client, the CRDs and the embedded API. Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

# What no name of an object may have in it, and what would make another path of it.
_NOT_IN_SEGMENTS: Final = re.compile(r"[/?#%\\\x00-\x1f\x7f]")
_LONGEST_SHOWN: Final = 253


class Kind(Struct, frozen=True):
    """One kind as an API server serves it; `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_plural(self) -> str:
        """`virtualmachines.kubevirt.io`, as error messages and CRD names have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, or of one object when `name` is given.

        Raises:
            ValueError: for a namespace or a name that no object can have: with it the path would lead elsewhere.
        """
        _check_segment(namespace, "namespace")
        _check_segment(name, "name")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)


def _check_segment(text: str, what: str) -> None:
    if text in (".", "..") or _NOT_IN_SEGMENTS.search(text):
        raise ValueError(f"{what} {text[:_LONGEST_SHOWN]!r}: no object can be called so")
