"""What a resize of a Pod may change: CPU and memory of its containers, and nothing else.

Called by the write path for `pods/resize`. Pure; in Kubernetes' words. The node's agent then gives the containers what
they ask for, or says why not.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.pod_amounts import qos_class
from kvedge.standalone.apiserver.kinds.rules.pod_rules import check_resources
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import forbidden, invalid

_RESIZED = frozenset({"cpu", "memory"})
_LISTS = ("containers", "initContainers")


def take_resources(spec: JsonObject, wanted: JsonObject) -> None:
    """Take the resources of `wanted`'s containers into `spec`, which is altered; all else stays as it is."""
    for field in _LISTS:
        asked = {item.get("name"): item.get("resources") for item in wanted.get(field) or []}
        for container in spec.get(field) or []:
            if container.get("name") in asked:
                container["resources"] = asked[container["name"]] or {}


def check_resize(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """What is wrong with the resources that a resize asks for."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in _LISTS:
        known = {item.get("name"): item.get("resources") or {} for item in before.get(field) or []}
        for index, container in enumerate(after.get(field) or []):
            path = f"spec.{field}[{index}].resources"
            had, has = known.get(container.get("name"), {}), container.get("resources") or {}
            if had == has:
                continue
            yield from check_resources(has, path)
            yield from _check_change(had, has, path)
    if qos_class(new) != qos_class(old):
        text = "Pod QOS Class may not change as a result of resizing"
        yield invalid("spec", qos_class(new), text)


def _check_change(had: JsonObject, has: JsonObject, path: str) -> Iterator[FieldError]:
    if had.get("claims") != has.get("claims"):
        yield forbidden(f"{path}.claims", "only cpu and memory resources are mutable")
    for field in ("requests", "limits"):
        before, after = had.get(field) or {}, has.get(field) or {}
        for name in sorted(before.keys() | after.keys()):
            if name not in _RESIZED and before.get(name) != after.get(name):
                yield forbidden(f"{path}.{field}", "only cpu and memory resources are mutable")
            elif name not in after:
                yield forbidden(f"{path}.{field}", f"resource {field} cannot be removed")
