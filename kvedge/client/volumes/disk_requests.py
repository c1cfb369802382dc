"""Disks that a VM gets or gives away, also while it runs: the requests that virtctl makes.

Called by `kvedge addvolume|removevolume` and the web console. Reads and writes the API.
"""

from __future__ import annotations

from typing import Any, Final

from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session, check_name
from kvedge.client.subresources import VM, VMI, put
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject

# The length of a serial on a bus. A name is cut to it; the server judges a serial that is given.
_LONGEST_SERIAL: Final = {"scsi": 36, "virtio": 20}


def make_disk(name: str, bus: str, serial: str = "") -> JsonObject:
    """A disk of a VM's template; without a serial number it has its name as that."""
    return {"name": name, "disk": {"bus": bus}, "serial": serial or name[: _LONGEST_SERIAL[bus]]}


def find_source(session: Session, name: str) -> JsonObject:
    """The DataVolume of that name, else the claim, as a VM's volume names it.

    Raises:
        NotFoundError: when there is neither.
        KubeError: with the server's words.
    """
    at = f"namespaces/{session.namespace}"
    check_name(name)
    sources: tuple[tuple[str, JsonObject], ...] = (
        (f"/apis/cdi.kubevirt.io/v1beta1/{at}/datavolumes/{name}", {"dataVolume": {"name": name}}),
        (f"/api/v1/{at}/persistentvolumeclaims/{name}", {"persistentVolumeClaim": {"claimName": name}}),
    )
    for path, source in sources:
        try:
            session.client.request("GET", path)
        except NotFound:
            continue
        return source
    raise NotFoundError(f"volume {name} is neither a DataVolume nor a PersistentVolumeClaim")


def add_disk(session: Session, vm: str, disk: JsonObject, source: JsonObject, *, dry_run: bool = False) -> None:
    """Ask for a disk on a volume of the same name.

    Raises:
        NotFoundError: when there is neither a VM nor a VMI of that name.
        RefusedError: when it cannot have it.
        KubeError: with the server's words.
    """
    _ask(session, vm, "addvolume", {"name": disk["name"], "disk": disk, "volumeSource": source}, dry_run)


def remove_disk(session: Session, vm: str, name: str, *, dry_run: bool = False) -> None:
    """Ask for a volume and its disk to go; errors as :func:`add_disk`."""
    _ask(session, vm, "removevolume", {"name": name}, dry_run)


def _ask(session: Session, vm: str, call: str, body: JsonObject, dry_run: bool) -> None:
    """Of the VM, or of the VMI of that name where there is no VM."""
    sent: dict[str, Any] = {**body, "dryRun": ["All"] if dry_run else None}
    try:
        put(session, VM, vm, call, sent)
    except NotFoundError:
        put(session, VMI, vm, call, sent)
