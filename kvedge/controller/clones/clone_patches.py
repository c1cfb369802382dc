"""What a clone does not have in common with its source, as patches of the restore that makes it.

Called by `clone_plan`. Pure. What is cleared is made anew from the new VM's UID when it starts: MAC addresses and the
firmware UUID, and with the latter cloud-init's instance-id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.portable_vm import without_history
from kvedge.resources.names import MACHINE_MARKS
from kvedge.resources.types.protection.clones import CloneTemplateFilters, VirtualMachineCloneSpec
from kvedge.resources.values.key_patterns import KeyFilter

# A key has 317 characters at most, and each is held against each filter.
_MOST_KEYS: Final = 1000
_TEMPLATE: Final = "/spec/template"
_DOMAIN: Final = f"{_TEMPLATE}/spec/domain"


class TooManyKeys(ValueError):
    """A VM has more labels or annotations than filters are held against; the text says where."""


def make_patches(source: JsonObject, spec: VirtualMachineCloneSpec) -> list[str]:
    """The patches of the document of a VM, one operation each.

    Raises:
        PatternError: when a filter cannot be used.
        TooManyKeys: when the VM has very many labels or annotations.
    """
    domain = _member(source, "spec", "template", "spec", "domain")
    operations = [
        *_addresses(domain, spec.new_mac_addresses),
        *_firmware(domain, spec.new_smbios_serial),
        *_filter_keys(source, spec),
    ]
    return [*(json.dumps(each, separators=(",", ":")) for each in operations), *spec.patches]


def unknown_interfaces(source: JsonObject, spec: VirtualMachineCloneSpec) -> list[str]:
    """Interfaces that get a MAC address by the clone, and that the VM does not have."""
    domain = _member(source, "spec", "template", "spec", "domain")
    return sorted(spec.new_mac_addresses.keys() - {str(each.get("name", "")) for each in _interfaces(domain)})


def _addresses(domain: JsonObject, new: Mapping[str, str]) -> Iterator[JsonObject]:
    for index, interface in enumerate(_interfaces(domain)):
        path = f"{_DOMAIN}/devices/interfaces/{index}/macAddress"
        address = new.get(str(interface.get("name", "")))
        if address:
            yield {"op": "add", "path": path, "value": address}
        elif "macAddress" in interface:
            yield {"op": "remove", "path": path}


def _firmware(domain: JsonObject, serial: str | None) -> Iterator[JsonObject]:
    firmware = domain.get("firmware")
    if not isinstance(firmware, dict):
        if serial:
            yield {"op": "add", "path": f"{_DOMAIN}/firmware", "value": {"serial": serial}}
        return
    if serial:
        yield {"op": "add", "path": f"{_DOMAIN}/firmware/serial", "value": serial}
    elif "serial" in firmware:
        yield {"op": "remove", "path": f"{_DOMAIN}/firmware/serial"}
    if "uuid" in firmware:
        yield {"op": "remove", "path": f"{_DOMAIN}/firmware/uuid"}


def _filter_keys(source: JsonObject, spec: VirtualMachineCloneSpec) -> Iterator[JsonObject]:
    filters = spec.template or CloneTemplateFilters()
    metadata, template = dict(_member(source, "metadata")), _member(source, "spec", "template", "metadata")
    # The restore has left these out already.
    metadata["annotations"] = without_history(_member(metadata, "annotations"))
    yield from _keep(metadata, "labels", "/metadata", spec.label_filters)
    yield from _keep(metadata, "annotations", "/metadata", spec.annotation_filters)
    yield from _keep(template, "labels", f"{_TEMPLATE}/metadata", filters.label_filters)
    yield from _keep(template, "annotations", f"{_TEMPLATE}/metadata", filters.annotation_filters)


def _keep(metadata: JsonObject, name: str, path: str, filters: Sequence[str] | None) -> Iterator[JsonObject]:
    """One operation for all keys: a restore takes so many patches and no more."""
    there = metadata.get(name)
    if filters is None or not isinstance(there, dict) or not there:
        return
    if len(there) > _MOST_KEYS:
        raise TooManyKeys(f"{path.lstrip('/').replace('/', '.')}.{name} has more than {_MOST_KEYS} keys")
    wanted = KeyFilter(filters)
    # By these the guest finds its devices where the source's did; no filter is meant for them.
    kept = {key: value for key, value in there.items() if key in MACHINE_MARKS or wanted.keeps(key)}
    if len(kept) < len(there):
        yield {"op": "replace", "path": f"{path}/{name}", "value": kept}


def _interfaces(domain: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = _member(domain, "devices").get("interfaces") or []
    return found


def _member(document: JsonObject, *names: str) -> JsonObject:
    found: Any = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
