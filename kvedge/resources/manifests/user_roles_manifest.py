"""The ClusterRoles by which users get rights to VMs: `kubevirt.io:admin`, `edit`, `view`, `migrate` and `default`.

Written to k3s/rbac for clusters, and by the embedded API into itself. Pure. Names, rules and labels are KubeVirt's, so
that a RoleBinding that names one means the same here: `admin`, `edit` and `view` are gathered into the cluster's roles
of those names, `default` is for everybody who is known, `migrate` has to be bound by hand.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import RBAC_GROUP, PolicyRule

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_API_VERSION: Final = f"{RBAC_GROUP}/v1"
_LABELS: Final = {"kubevirt.io": ""}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("get", "delete", "create", "update", "patch", "list", "watch")
_OWN: Final = (*_WRITE, "deletecollection")
_SUBRESOURCES: Final = ("subresources.kubevirt.io",)

_VMI: Final = "virtualmachineinstances"
_VM: Final = "virtualmachines"
# What one learns of a VM without touching it; and with it, what SEV tells before a guest starts.
_LOOK: Final = (
    f"{_VMI}/guestosinfo",
    f"{_VMI}/filesystemlist",
    f"{_VMI}/userlist",
    f"{_VMI}/sev/fetchcertchain",
    f"{_VMI}/sev/querylaunchmeasurement",
    f"{_VM}/objectgraph",
    f"{_VMI}/objectgraph",
)
# The log of the console is ours; KubeVirt's is a container's, which whoever may read Pods' logs reads.
_ENTER: Final = (
    f"{_VMI}/console",
    f"{_VMI}/console/log",
    f"{_VMI}/vnc",
    f"{_VMI}/portforward",
    f"{_VMI}/usbredir",
)
_ACT: Final = (
    f"{_VMI}/pause",
    f"{_VMI}/unpause",
    f"{_VMI}/addvolume",
    f"{_VMI}/removevolume",
    f"{_VMI}/freeze",
    f"{_VMI}/unfreeze",
    f"{_VMI}/softreboot",
    f"{_VMI}/reset",
    f"{_VMI}/sev/setupsession",
    f"{_VMI}/sev/injectlaunchsecret",
    f"{_VMI}/evacuate/cancel",
)
_RUN: Final = (
    f"{_VM}/start",
    f"{_VM}/stop",
    f"{_VM}/restart",
    f"{_VM}/addvolume",
    f"{_VM}/removevolume",
    f"{_VM}/memorydump",
    f"{_VM}/removememorydump",
    f"{_VM}/evacuate/cancel",
)
_KINDS: Final = (
    ("kubevirt.io", (_VM, _VMI, "virtualmachineinstancepresets", "virtualmachineinstancereplicasets")),
    ("snapshot.kubevirt.io", ("virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores")),
    ("backup.kubevirt.io", ("virtualmachinebackups", "virtualmachinebackuptrackers")),
    ("export.kubevirt.io", ("virtualmachineexports",)),
    ("clone.kubevirt.io", ("virtualmachineclones",)),
    (
        "instancetype.kubevirt.io",
        (
            "virtualmachineinstancetypes",
            "virtualmachineclusterinstancetypes",
            "virtualmachinepreferences",
            "virtualmachineclusterpreferences",
        ),
    ),
    ("pool.kubevirt.io", ("virtualmachinepools",)),
)


def user_roles() -> list[JsonObject]:
    """The ClusterRoles, and the binding of the one that everybody has."""
    return [
        role("kubevirt.io:default", _default(), labels={**_LABELS, "kubernetes.io/bootstrapping": "rbac-defaults"}),
        binding("kubevirt.io:default", "Group", "system:authenticated"),
        role("kubevirt.io:admin", (*_working(shot=True), *_kinds(_OWN)), labels=_gathered("admin")),
        role("kubevirt.io:edit", (*_working(shot=False), *_kinds(_WRITE), _KUBEVIRTS), labels=_gathered("edit")),
        role("kubevirt.io:view", (*_looking(), *_kinds(_READ)), labels=_gathered("view")),
        role("kubevirt.io:migrate", _migrating(), labels=_LABELS),
        role("instancetype.kubevirt.io:view", _instance_types(), labels=_LABELS),
        binding("instancetype.kubevirt.io:view", "Group", "system:authenticated"),
    ]


def role(name: str, rules: tuple[PolicyRule, ...], *, labels: dict[str, str], namespace: str = "") -> JsonObject:
    """A ClusterRole; a Role when a namespace is given."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": _metadata(name, labels, namespace),
        "rules": [rule.document() for rule in rules],
    }


def binding(
    name: str, kind: str, subject: str, *, labels: dict[str, str] | None = None, role_name: str = ""
) -> JsonObject:
    """A ClusterRoleBinding of a ClusterRole, of the same name unless another one is given, to a user or a group."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name, labels or _LABELS, ""),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role_name or name},
        "subjects": [{"kind": kind, "apiGroup": RBAC_GROUP, "name": subject}],
    }


def _metadata(name: str, labels: dict[str, str], namespace: str) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(labels), "annotations": {AUTO_UPDATE: "true"}}
    return {**metadata, "namespace": namespace} if namespace else metadata


def _gathered(into: str) -> dict[str, str]:
    return {**_LABELS, f"{RBAC_GROUP}/aggregate-to-{into}": "true"}


_KUBEVIRTS: Final = PolicyRule(("get", "list"), ("kubevirt.io",), ("kubevirts",))


def _default() -> tuple[PolicyRule, ...]:
    return (_KUBEVIRTS, PolicyRule(("get", "list"), _SUBRESOURCES, ("version", "guestfs")))


def _working(*, shot: bool) -> tuple[PolicyRule, ...]:
    """What works with a VM; a picture of its display is the admin's to take, and whoever else is given it."""
    enter = (*_ENTER, f"{_VMI}/vnc/screenshot") if shot else _ENTER
    return (
        PolicyRule(("get",), _SUBRESOURCES, (*enter, *_LOOK)),
        PolicyRule(("update",), _SUBRESOURCES, _ACT),
        PolicyRule(("get",), _SUBRESOURCES, (f"{_VM}/expand-spec", f"{_VM}/portforward")),
        PolicyRule(("update",), _SUBRESOURCES, _RUN),
        PolicyRule(("update",), _SUBRESOURCES, ("expand-vm-spec",)),
    )


def _looking() -> tuple[PolicyRule, ...]:
    return (
        PolicyRule(("get",), _SUBRESOURCES, (f"{_VM}/expand-spec", *_LOOK)),
        PolicyRule(("update",), _SUBRESOURCES, ("expand-vm-spec",)),
    )


def _kinds(verbs: tuple[str, ...]) -> tuple[PolicyRule, ...]:
    return (
        *(PolicyRule(verbs, (group,), plurals) for group, plurals in _KINDS),
        PolicyRule(_READ, ("kubevirt.io",), ("virtualmachineinstancemigrations",)),
        PolicyRule(_READ, ("migrations.kubevirt.io",), ("migrationpolicies",)),
    )


def _migrating() -> tuple[PolicyRule, ...]:
    return (
        PolicyRule(("update",), _SUBRESOURCES, (f"{_VM}/migrate",)),
        PolicyRule(_OWN, ("kubevirt.io",), ("virtualmachineinstancemigrations",)),
    )


def _instance_types() -> tuple[PolicyRule, ...]:
    plurals = ("virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences")
    return (PolicyRule(_READ, ("instancetype.kubevirt.io",), plurals),)
