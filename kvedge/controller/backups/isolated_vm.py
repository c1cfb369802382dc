"""A VM that only tries whether a backup boots: nobody reaches it, it reaches nobody, and its disks are its own.

Called for the VM of a restore that asks for it. Pure. What is not known to be harmless is taken out, as the guest
believes that it is the one that runs. What its instance type would give it of hardware, `typed_vm` leaves out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kvedge.resources.codec import JsonObject

# Volumes of which each VM has its own, and those of which nobody writes the source.
_HARMLESS: Final = frozenset(
    {
        "containerDisk",
        "cloudInitNoCloud",
        "cloudInitConfigDrive",
        "emptyDisk",
        "configMap",
        "secret",
        "sysprep",
        "downwardAPI",
        "downwardMetrics",
    }
)
# Networks, and hardware that is another guest's.
_DEVICES: Final = (
    *("interfaces", "networkInterfaceMultiqueue", "hostDevices", "gpus", "clientPassthrough", "autoattachVSOCK"),
)
# What the network would answer, names in it, and devices that its Pod would claim.
_OF_OTHERS: Final = (
    *("networks", "readinessProbe", "livenessProbe", "subdomain", "dnsConfig", "dnsPolicy", "resourceClaims"),
)


def isolate(spec: JsonObject, claims: Collection[str]) -> JsonObject:
    """The spec of the VM that may boot beside the one that was backed up; `claims` are its own."""
    template = spec.get("template")
    inner: JsonObject = dict((template.get("spec") if isinstance(template, dict) else None) or {})
    volumes = [each for each in _items(inner.get("volumes")) if _is_harmless(each, claims)]
    names = {str(each.get("name", "")) for each in volumes}
    domain: JsonObject = dict(inner.get("domain") or {})
    devices: JsonObject = {key: value for key, value in (domain.get("devices") or {}).items() if key not in _DEVICES}
    devices["autoattachPodInterface"] = False
    for kind in ("disks", "filesystems"):
        if kind in devices:
            devices[kind] = [each for each in _items(devices[kind]) if each.get("name") in names]
    kept = {key: value for key, value in inner.items() if key not in _OF_OTHERS}
    made = {key: value for key, value in spec.items() if key not in ("running", "dataVolumeTemplates", "template")}
    return {
        **made,
        # It is started once: one that ends has not booted.
        "runStrategy": "Once",
        # Labels of the old one would lead traffic of its Services here.
        "template": {
            "spec": {
                **kept,
                "domain": {**domain, "devices": devices},
                "volumes": volumes,
                "evictionStrategy": "None",
                "terminationGracePeriodSeconds": 0,
            }
        },
    }


def _is_harmless(volume: JsonObject, claims: Collection[str]) -> bool:
    claim = volume.get("persistentVolumeClaim")
    if isinstance(claim, dict):
        return claim.get("claimName") in claims
    return bool(_HARMLESS & volume.keys())


def _items(value: Any) -> list[JsonObject]:
    return [each for each in value or () if isinstance(each, dict)]
