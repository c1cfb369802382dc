"""What the user may do, so that pages offer nothing that would be refused.

Called by `page_calls` and what it calls, in threads of their own. Asks the server; the server still judges each call.
"""

from __future__ import annotations

from collections.abc import Mapping
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

_API: Final = "authorization.k8s.io/v1"
_PATH: Final = f"/apis/{_API}/selfsubjectaccessreviews"
_RULES_PATH: Final = f"/apis/{_API}/selfsubjectrulesreviews"
_ALL: Final = "*"
# An act on a resource: verb, group, resource, subresource.
Wanted = tuple[str, str, str, str]
_SUBRESOURCES: Final = "subresources.kubevirt.io"
_SECONDS: Final = 10.0
_VM, _MIGRATION = VirtualMachine.KIND, VirtualMachineInstanceMigration.KIND
_SNAPSHOT, _RESTORE = VirtualMachineSnapshot.KIND, VirtualMachineRestore.KIND
_CLONE, _BACKUP, _RETURN = VirtualMachineClone.KIND, BackupRun.KIND, BackupRestore.KIND
# Each act of a VM's page.
_ACTS: Final[Mapping[str, Wanted]] = {
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
    "spice": ("get", _SUBRESOURCES, VirtualMachineInstance.KIND.plural, "spice"),
    "backups": ("list", _BACKUP.group, _BACKUP.plural, ""),
    "backUp": ("create", _BACKUP.group, _BACKUP.plural, ""),
    "bringBack": ("create", _RETURN.group, _RETURN.plural, ""),
}


def read_rights(session: Session, namespace: str) -> JsonObject:
    """Each act with whether the user may do it; what the server does not tell counts as allowed."""
    return dict(may_each(session, check_name(namespace, "namespace"), _ACTS))


def may_each(session: Session, namespace: str, acts: Mapping[str, Wanted]) -> Mapping[str, bool]:
    """Each act with whether the user may do it there: one or two questions where the server lists the user's rules.

    Where its list is not complete, as where a webhook judges, each act is asked for by itself.
    """
    rules = _list_rules(session, namespace)
    if rules is None:
        return {act: may(session, namespace, wanted) for act, wanted in acts.items()}
    found = {act: any(_permits(rule, wanted) for rule in rules) for act, wanted in acts.items()}
    # The group system:masters may do all, and a cluster may have no rule that says so. Only a yes counts: a question
    # that nobody answers must not overrule a list that is whole.
    if all(found.values()) or ask_whether(session, namespace, (_ALL, _ALL, _ALL, "")) is not True:
        return found
    return dict.fromkeys(acts, True)


def may(session: Session, namespace: str, wanted: Wanted) -> bool:
    """Whether the user may do this there; True when the server does not tell."""
    return ask_whether(session, namespace, wanted) is not False


def ask_whether(session: Session, namespace: str, wanted: Wanted) -> bool | None:
    """Whether the user may do this there; None when the server does not tell."""
    verb, group, resource, subresource = wanted
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource}
    try:
        status = _ask(session, _PATH, "SelfSubjectAccessReview", {"resourceAttributes": asked})
    except KubeError:
        return None
    return bool(status.get("allowed"))


def _list_rules(session: Session, namespace: str) -> list[Mapping[str, Any]] | None:
    """The user's rules there; None when the server does not tell, or not all of them."""
    try:
        status = _ask(session, _RULES_PATH, "SelfSubjectRulesReview", {"namespace": namespace})
    except KubeError:
        return None
    # Only a server that says that it is complete is taken at its word.
    if status.get("incomplete") is not False or status.get("evaluationError"):
        return None
    return [rule for rule in status.get("resourceRules") or [] if isinstance(rule, dict)]


def _ask(session: Session, path: str, kind: str, spec: JsonObject) -> JsonObject:
    body = {"apiVersion": _API, "kind": kind, "spec": spec}
    answer: Any = session.client.hurry(_SECONDS).request("POST", path, body)
    return answer.get("status") or {}


def _permits(rule: Mapping[str, Any], wanted: Wanted) -> bool:
    """As RBAC reads a rule; one of certain names permits nothing of all names."""
    verb, group, resource, subresource = wanted
    full = f"{resource}/{subresource}" if subresource else resource
    resources = {_ALL, full, *([f"{_ALL}/{subresource}"] if subresource else [])}
    asked = (("verbs", {_ALL, verb}), ("apiGroups", {_ALL, group}), ("resources", resources))
    return not rule.get("resourceNames") and all(not fits.isdisjoint(rule.get(key) or []) for key, fits in asked)
