"""What the handler of a node says of its host, in one annotation of the Node, with each heartbeat.

Written by the handler, read by the controller's alarms. Pure. Numbers are whole percents, so that they seldom change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

HOST_HEALTH: Final = "kvedge.io/host-health"
# Of each kind. A handler is not believed blindly: what is more is dropped.
MOST_PLACES: Final = 32
_LONGEST: Final = 8192

Kvm = Literal["yes", "no", "off", ""]


class NodeHealth(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One host. What could not be read is absent."""

    # The fill of local file systems in percent: by directory those of the host, by PersistentVolume those of claims.
    disks: Mapping[str, int] = {}
    volumes: Mapping[str, int] = {}
    # The memory that is still to be had, in percent.
    memory: int | None = None
    # Whether something keeps the clock.
    clock: bool | None = None
    # Whether guests can have KVM; "off" where the operator wants none.
    kvm: Kvm = ""
    # When the first certificate ends that the node works with, RFC 3339.
    certificate_end: str = ""


def read_health(annotations: Mapping[str, str]) -> NodeHealth | None:
    """What a Node's annotations say; None where they say nothing that can be read, as an older handler's."""
    text = annotations.get(HOST_HEALTH, "")
    if not text or len(text) > _LONGEST:
        return None
    try:
        found = msgspec.json.decode(text, type=NodeHealth)
    except msgspec.DecodeError:
        return None
    disks, volumes = (dict(sorted(each.items())[:MOST_PLACES]) for each in (found.disks, found.volumes))
    return msgspec.structs.replace(found, disks=disks, volumes=volumes)


def health_text(health: NodeHealth) -> str:
    """The annotation's value."""
    disks, volumes = (dict(sorted(each.items())[:MOST_PLACES]) for each in (health.disks, health.volumes))
    whole = msgspec.structs.replace(health, disks=disks, volumes=volumes)
    return msgspec.json.encode(whole, order="deterministic").decode()
