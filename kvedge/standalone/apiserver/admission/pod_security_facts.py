"""Looking at what a Pod asks for, and telling who asks: what the checks of Pod Security share.

Called by `pod_baseline_checks` and `pod_restricted_checks`. Pure; the Pod has the types of its kind (`builtin_shape`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from kvedge.resources.codec import JsonObject

# A Pod may have thousands of containers; what is wrong with them is told once for each check, not whole.
_LONGEST_DETAIL = 512


class Violation(Struct, frozen=True):
    """What a Pod asks for that its level does not allow: a few words, and which part of the Pod asks."""

    reason: str
    detail: str

    @property
    def text(self) -> str:
        """As the refusal names it."""
        detail = self.detail if len(self.detail) <= _LONGEST_DETAIL else f"{self.detail[:_LONGEST_DETAIL]}..."
        return f"{self.reason} ({detail})"


# Looks at a Pod; None when it asks for nothing of the kind.
Check = Callable[[JsonObject], Violation | None]


def spec_of(pod: JsonObject) -> JsonObject:
    """The Pod's spec."""
    spec: JsonObject = pod.get("spec") or {}
    return spec


def containers_of(pod: JsonObject) -> Iterator[JsonObject]:
    """All containers, of whatever sort."""
    spec = spec_of(pod)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or []


def context_of(holder: JsonObject) -> JsonObject:
    """The security context of a container or of a Pod's spec."""
    context: JsonObject = holder.get("securityContext") or {}
    return context


def names_of(containers: Iterable[JsonObject]) -> list[str]:
    """Their names."""
    return [str(container.get("name") or "") for container in containers]


def quote(words: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{word}"' for word in words)


def several(word: str, names: Iterable[str]) -> str:
    """`container "a"` or `containers "a", "b"`."""
    found = list(names)
    return f"{word if len(found) == 1 else f'{word}s'} {quote(found)}"


def setters(pod: bool, containers: Iterable[str]) -> str:
    """The setters of a field: the Pod, containers, or both."""
    found = list(containers)
    parts = [*(["pod"] if pod else []), *([several("container", found)] if found else [])]
    return " and ".join(parts)


def spell(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False)
