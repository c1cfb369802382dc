"""Disks that a VM gets or gives away on its page, also while it runs.

Called by `page_calls` in threads of their own, with the user's own rights. Raises what the client raises.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.session import Session, check_name
from kvedge.client.volumes.disk_requests import add_disk, find_source, make_disk, remove_disk
from kvedge.resources.codec import JsonObject
from kvedge.web.texts.body_text import text_of
from kvedge.web.vms.namespace_session import enter_namespace

_BUSES: Final = ("scsi", "virtio")


def attach(session: Session, namespace: str, vm: str, body: JsonObject) -> JsonObject:
    """Ask for a disk on the DataVolume or claim `volume`, on the bus `bus`; its serial number is its name.

    Raises:
        FlagError: for a body that makes no sense.
        NotFoundError: when there is no such VM, DataVolume or claim.
        KubeError: with the server's words.
    """
    volume, bus = text_of(body, "volume"), text_of(body, "bus")
    if bus not in _BUSES:
        raise FlagError("bus", "must be scsi or virtio", "bus: must be scsi or virtio")
    here = enter_namespace(session, namespace)
    add_disk(here, check_name(vm), make_disk(volume, bus), find_source(here, volume))
    return {}


def detach(session: Session, namespace: str, vm: str, name: str) -> JsonObject:
    """Ask for a volume and its disk to go; the claim stays."""
    remove_disk(enter_namespace(session, namespace), check_name(vm), check_name(name))
    return {}
