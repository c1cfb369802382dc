"""What the page of one VM shows, made of its objects: state, conditions, disks, interfaces, events. Pure.

Called by `vm_calls`. Every text goes through `showable`, every list has an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from kvedge.client.vm_rows import rows_of
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition
from kvedge.resources.types.core import Event
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import wants_spice
from kvedge.web.texts.shown_text import showable

_MOST: Final = 64
_LONGEST_MESSAGE: Final = 1024


def view_of(
    vm: VirtualMachine | None, vmi: VirtualMachineInstance | None, events: Sequence[Event], now: datetime
) -> JsonObject:
    """The document for the page; at least one of the first two is there."""
    row = rows_of([vm] if vm else [], [vmi] if vmi else [], now)
    known = row[0].document() if row else {}
    texts = {name: showable(value) for name, value in known.items() if isinstance(value, str)}
    return {
        **texts,
        "ready": bool(known.get("ready")),
        "cpus": known.get("cpus", 0),
        "uid": vmi.metadata.uid if vmi else "",
        "vmUid": vm.metadata.uid if vm else "",
        "spice": vmi is not None and wants_spice(vmi),
        "detachable": _detachable(vm, vmi),
        "conditions": [*_conditions("VM", vm), *_conditions("VMI", vmi)],
        "disks": [{name: showable(text) for name, text in disk.items()} for disk in known.get("disks", [])[:_MOST]],
        "interfaces": _interfaces(vmi),
        "events": _events(events),
    }


def _detachable(vm: VirtualMachine | None, vmi: VirtualMachineInstance | None) -> list[str]:
    """Volumes that may be taken away."""
    specs = [vm.spec.template.spec] if vm and vm.spec.template else []
    specs += [vmi.spec] if vmi else []
    volumes = [volume for spec in specs for volume in spec.volumes]
    sources = [(volume.name, volume.persistent_volume_claim or volume.data_volume) for volume in volumes]
    return sorted({showable(name) for name, source in sources if source is not None and source.hotpluggable})[:_MOST]


def _conditions(of: str, owner: VirtualMachine | VirtualMachineInstance | None) -> list[JsonObject]:
    conditions: list[Condition] = owner.status.conditions if owner else []
    return [
        {
            "of": of,
            "type": showable(item.type),
            "status": showable(item.status),
            "reason": showable(item.reason),
            "message": showable(item.message, _LONGEST_MESSAGE),
        }
        for item in conditions[:_MOST]
    ]


def _interfaces(vmi: VirtualMachineInstance | None) -> list[JsonObject]:
    return [
        {
            "name": showable(item.name or item.interface_name),
            "mac": showable(item.mac),
            "addresses": [showable(address) for address in (item.ip_addresses or [item.ip_address])[:_MOST] if address],
            "from": showable(item.info_source),
        }
        for item in (vmi.status.interfaces if vmi else [])[:_MOST]
    ]


def _events(events: Sequence[Event]) -> list[JsonObject]:
    newest = sorted(events, key=_moment, reverse=True)[:_MOST]
    return [
        {
            "time": showable(_moment(event)),
            "type": showable(event.type),
            "about": showable(event.involved_object.kind),
            "reason": showable(event.reason),
            "message": showable(event.message, _LONGEST_MESSAGE),
        }
        for event in newest
    ]


def _moment(event: Event) -> str:
    return event.last_timestamp or event.metadata.creation_timestamp or ""
