"""What is asked of the server before a VM with a disk of its own is made.

Called by `kvedge launch` and by the web console. Reads objects with the user's rights; changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvedge.client.errors import RefusedError
from kvedge.client.manifests.launch_disk import disk_name
from kvedge.client.session import Session
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine

if TYPE_CHECKING:
    from kvedge.resources.kinds import Kind


def check_launch_disk(session: Session, vm: str) -> None:
    """Whether something fills the disk, as a VM that waits for ever helps nobody; and whether its name is free.

    A claim of that name holds another disk, which must not go with this VM.

    Raises:
        RefusedError: with the remedy.
    """
    try:
        session.client.request("GET", f"/apis/{DataVolume.KIND.api_version}")
    except NotFound as error:
        text = "--disk: this cluster serves no DataVolumes; apply k3s/crds and run kvedge's controller, or install CDI"
        raise RefusedError(text) from error
    name = disk_name(vm)
    for short, kind in (("dv", DataVolume.KIND), ("pvc", PersistentVolumeClaim.KIND)):
        there = _look_at(session, kind, name)
        if there is None:
            continue
        if _look_at(session, VirtualMachine.KIND, vm) is not None:
            # That is what its user has to hear, and the disk is its own.
            return
        if there["metadata"].get("deletionTimestamp"):
            raise RefusedError(f"--disk: {kind.kind} {name} is still being deleted: try again once it is gone")
        raise RefusedError(
            f"--disk: {kind.kind} {name} is there already, and its data would go with this VM: choose another name for"
            f" the VM, or, where nobody needs that data, `kvedge delete {short} {name}` first"
        )


def _look_at(session: Session, kind: Kind, name: str) -> dict[str, Any] | None:
    """What is there; None also for what this user may not see, as the controller takes nothing over for this disk."""
    try:
        found: dict[str, Any] = session.client.request("GET", kind.path(session.namespace, name))
    except (NotFound, Forbidden):
        return None
    return found
