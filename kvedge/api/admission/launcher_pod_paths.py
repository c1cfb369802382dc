"""Launchers' Pods with volumes `containerPath`: the containers that serve them get what others have mounted.

Called by mutation_plan.py, and by admission_plan.py once all webhooks have changed a Pod. Pure. The controller makes
these containers; a Pod whose launcher has nothing at such a path is refused, and made again by the controller later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.shares.container_paths import PATH_DIRECTORY, find_path_mounts
from kvedge.resources.types.core import Pod

_FIELD: Final = "spec.containers"


def add_path_mounts(document: JsonObject) -> list[JsonObject]:
    """The JSON patch that mounts what is there so far; webhooks that come later have this one called again."""
    pod = _read(document)
    mounts = [] if pod is None else find_path_mounts(pod)[0]
    patch: list[JsonObject] = []
    for container, volume, sub_path in mounts:
        mount: JsonObject = {"name": volume, "mountPath": PATH_DIRECTORY, "readOnly": True}
        if sub_path:
            mount["subPath"] = sub_path
        patch.append({"op": "add", "path": f"/spec/containers/{container}/volumeMounts/-", "value": mount})
    return patch


def paths_are_mounted(document: JsonObject) -> Iterator[Cause]:
    """KubeVirt's words, and why."""
    pod = _read(document)
    if pod is None:
        return
    mounts, troubles = find_path_mounts(pod)
    lacking = [*(pod.spec.containers[mount.container].name for mount in mounts), *(each.container for each in troubles)]
    if lacking:
        why = "; ".join(each.why for each in troubles) or "kvedge's webhook was not asked after the last change"
        text = f"pod is missing virtiofs containers for ContainerPath volumes: [{' '.join(lacking)}]: {why}"
        yield Cause(_FIELD, text)


def _read(document: JsonObject) -> Pod | None:
    """None for a document that the API server refuses next, as it fits no Pod."""
    try:
        return decode(Pod, document)
    except DecodeError:
        return None
