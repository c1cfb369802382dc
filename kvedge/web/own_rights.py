"""What the user may do, so that pages offer nothing that would be refused.

Called by `page_calls` and what it calls, in threads of their own. Asks the server; the server still judges each call.
"""

from __future__ import annotations

from typing import Any, Final

from kvedge.client.session import Session, check_name
from kvedge.kube.errors import KubeError
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.protection.backups import BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SUBRESOURCES: Final = "subresources.kubevirt.io"
_SECONDS: Final = 10.0
_VM, _MIGRATION = VirtualMachine.KIND, VirtualMachineInstanceMigration.KIND
_SNAPSHOT, _RESTORE = VirtualMachineSnapshot.KIND, VirtualMachineRestore.KIND
_CLONE, _BACKUP, _RETURN = VirtualMachineClone.KIND, BackupRun.KIND, BackupRestore.KIND
# Each act of a VM's page: verb, group, resource, subresource.
_ACTS: Final = {
    "edit": ("update", _VM.group, _VM.plural, ""),
    "snapshots": ("list", _SNAPSHOT.group, _SNAPSHOT.plural, ""),
    "takeSnapshot": ("create", _SNAPSHOT.group, _SNAPSHOT.plural, ""),
    "deleteSnapshot": ("delete", _SNAPSHOT.group, _SNAPSHOT.plural, ""),
    "restore": ("create", _RESTORE.group, _RESTORE.plural, ""),
    "migrations": ("list", _MIGRATION.group, _MIGRATION.plural, ""),
    "migrate": ("update", _SUBRESOURCES, _VM.plural, "migrate"),
    "cancelMigration": ("delete", _MIGRATION.group, _MIGRATION.plural, ""),
    "clone": ("create", _CLONE.group, _CLONE.plural, ""),
    "delete": ("delete", _VM.group, _VM.plural, ""),
    "disks": ("update", _SUBRESOURCES, _VM.plural, "addvolume"),
    "detach": ("update", _SUBRESOURCES, _VM.plural, "removevolume"),
    "agent": ("get", _SUBRESOURCES, VirtualMachineInstance.KIND.plural, "guestosinfo"),
    "backups": ("list", _BACKUP.group, _BACKUP.plural, ""),
    "backUp": ("create", _BACKUP.group, _BACKUP.plural, ""),
    "bringBack": ("create", _RETURN.group, _RETURN.plural, ""),
}


def read_rights(session: Session, namespace: str) -> JsonObject:
    """Each act with whether the user may do it; what the server does not tell counts as allowed."""
    check_name(namespace, "namespace")
    return {act: may(session, namespace, wanted) for act, wanted in _ACTS.items()}


def may(session: Session, namespace: str, wanted: tuple[str, str, str, str]) -> bool:
    """Whether the user may do this there: verb, group, resource, subresource; True when the server does not tell."""
    verb, group, resource, subresource = wanted
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    try:
        answer: Any = session.client.hurry(_SECONDS).request("POST", _PATH, body)
    except KubeError:
        return True
    return bool(answer.get("status", {}).get("allowed"))
