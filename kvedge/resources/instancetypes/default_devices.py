"""Disks and the NIC that a VMI gets when its author has left them out.

Used by admission's defaults, and where preferences are applied, which fill these devices in, too. Pure; the spec that
is given is changed, and is the caller's own.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.type_application import object_at

DEFAULT_INTERFACE: Final = "default"


def attach_volumes(spec: JsonObject) -> None:
    """A volume that no disk names gets one."""
    devices = object_at(spec, "domain", "devices")
    # A volume without a name is refused, not attached.
    attached = {None, *(item.get("name") for name in ("disks", "filesystems") for item in items_of(devices, name))}
    missing = [
        volume["name"]
        for volume in items_of(spec, "volumes")
        if volume.get("name") not in attached and "memoryDump" not in volume
    ]
    if missing:
        devices["disks"] = [*items_of(devices, "disks"), *({"name": name} for name in missing)]


def set_default_network(spec: JsonObject, binding: str) -> None:
    """A VMI that says nothing of networks has a NIC on the Pod network, by this binding."""
    devices = object_at(spec, "domain", "devices")
    if spec.get("networks") or devices.get("interfaces") or devices.get("autoattachPodInterface") is False:
        return
    devices["interfaces"] = [{"name": DEFAULT_INTERFACE, binding: {}}]
    spec["networks"] = [{"name": DEFAULT_INTERFACE, "pod": {}}]


def items_of(parent: JsonObject, name: str) -> list[JsonObject]:
    """The objects of a list; none where there is no list."""
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
