"""A Pod's own fields as files: the downward API of volumes, as the kubelet has it.

Called for downwardAPI volumes and for such parts of projected ones. Pure. The files are those of the moment: a label
that changes later is not written again, which a guest's disk could not show either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Container, Pod
from kvedge.resources.values.quantities import QuantityError, parse_quantity
from kvedge.standalone.agent.container.atomic_files import FileContent

_MAPS: Final = ("metadata.labels", "metadata.annotations")


class BadField(ValueError):
    """A field cannot be a file; the text names it."""


def downward_files(pod: Pod, items: Iterable[JsonObject], default_mode: int) -> dict[str, FileContent]:
    """The content of each item by its path.

    Raises:
        BadField: for a field that Pods do not have, or that the downward API does not show.
    """
    found = {}
    for item in items:
        path, mode = str(item.get("path") or ""), item.get("mode")
        text = _text(pod, item, path)
        found[path] = FileContent(text.encode(), mode if isinstance(mode, int) else default_mode)
    return found


def _text(pod: Pod, item: JsonObject, path: str) -> str:
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if isinstance(field, dict):
        return _field(pod, str(field.get("fieldPath") or ""))
    if isinstance(resource, dict):
        return _resource(pod, resource)
    raise BadField(f"{path}: neither fieldRef nor resourceFieldRef is set")


def _field(pod: Pod, path: str) -> str:
    meta = pod.metadata
    plain = {"metadata.name": meta.name, "metadata.namespace": meta.namespace, "metadata.uid": meta.uid}
    if path in plain:
        return plain[path]
    for prefix, values in zip(_MAPS, (meta.labels, meta.annotations), strict=True):
        if path == prefix:
            return "\n".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return values.get(path[len(prefix) + 2 : -2], "")
    raise BadField(f"fieldPath {path} is not shown by the downward API: use one of metadata")


def _resource(pod: Pod, source: Mapping[str, Any]) -> str:
    name, resource = source.get("containerName"), str(source.get("resource") or "")
    container = next((each for each in pod.spec.containers if each.name == name), None)
    if container is None:
        raise BadField(f"resourceFieldRef: the Pod has no container {name}")
    try:
        divisor = parse_quantity(source.get("divisor") or "1") or Fraction(1)
        return str(math.ceil(_quantity(container, resource) / divisor))
    except QuantityError as error:
        raise BadField(f"resourceFieldRef {resource}: {error}") from error


def _quantity(container: Container, resource: str) -> Fraction:
    kind, _, name = resource.partition(".")
    values = {"limits": container.resources.limits, "requests": container.resources.requests}.get(kind)
    if values is None or not name:
        raise BadField(f"resourceFieldRef: {resource} is neither limits.NAME nor requests.NAME")
    if name not in values:
        raise BadField(f"resourceFieldRef: container {container.name} has no {resource}")
    return parse_quantity(values[name])
