"""Clones of VMs as their users see them: asked for, and how far each is.

Called by `kvedge clone`. Reads and writes the API; the function that judges is pure.
"""

from __future__ import annotations

from datetime import datetime

from kvedge.client.errors import RefusedError
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.meta import condition
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine

# What the controller says as long as nothing has to be said.
_PROCESSING = "Still processing"


def clone_vm(
    session: Session, vm: str, target: str | None, now: datetime, snapshot: str | None = None
) -> VirtualMachineClone:
    """Ask for a clone of a VM that is there, or of a snapshot; a target without a name gets one.

    Raises:
        RefusedError: when the target is there already.
        KubeError: when the server refuses, or there is no such VM.
    """
    kind = VirtualMachine.KIND
    if snapshot is None:
        session.client.get(VirtualMachine, session.namespace, check_name(vm))
        source = {"apiGroup": kind.group, "kind": kind.kind, "name": vm}
    else:
        of = VirtualMachineSnapshot.KIND
        source = {"apiGroup": of.group, "kind": of.kind, "name": snapshot}
    spec: JsonObject = {"source": source}
    if target is not None:
        spec["target"] = {"apiGroup": kind.group, "kind": kind.kind, "name": check_name(target)}
        _refuse_known(session, target)
    metadata = {"name": f"{target or vm}-{now:%Y%m%d-%H%M%S}", "namespace": session.namespace}
    return session.client.create(decode(VirtualMachineClone, {"metadata": metadata, "spec": spec}))


def describe_clone(clone: VirtualMachineClone) -> str:
    """What it waits for, or why it failed; empty when it has succeeded."""
    status = clone.status
    if status.phase == "Succeeded":
        return ""
    ready, progressing = condition(status.conditions, "Ready"), condition(status.conditions, "Progressing")
    if ready is None:
        return "not seen by the controller yet"
    if ready.reason != _PROCESSING:
        return ready.reason
    said = "" if progressing is None else progressing.message
    return f"{status.phase}: {said}" if said else status.phase


def _refuse_known(session: Session, target: str) -> None:
    try:
        session.client.get(VirtualMachine, session.namespace, target)
    except NotFound:
        return
    raise RefusedError(f"VM {target} exists already: name another target")
