"""The ClusterRoles by which users get rights to VMs: `kubevirt.io:admin`, `edit`, `view`, `migrate` and `default`.

Written to k3s/rbac for clusters, and by the embedded API into itself. Pure. Names, rules and labels are KubeVirt's, so
that a RoleBinding that names one means the same here: `admin`, `edit` and `view` are gathered into the cluster's roles
of those names, `default` is for everybody who is known, `migrate` has to be bound by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import UPLOAD_GROUP
from kvedge.resources.disks.uploads import TOKEN_REQUESTS
from kvedge.resources.guest_verbs import GUEST_VERBS, VM_PLURAL, VMI_PLURAL, Role
from kvedge.resources.manifests.policy_rules import RBAC_GROUP, PolicyRule

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_API_VERSION: Final = f"{RBAC_GROUP}/v1"
_LABELS: Final = {"kubevirt.io": ""}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("get", "delete", "create", "update", "patch", "list", "watch")
_OWN: Final = (*_WRITE, "deletecollection")
_SUBRESOURCES: Final = ("subresources.kubevirt.io",)

# Each of these roles has what the ones before it have.
_INCLUDED: Final[Mapping[Role, frozenset[Role]]] = {
    "view": frozenset({"view"}),
    "edit": frozenset({"view", "edit"}),
    "admin": frozenset({"view", "edit", "admin"}),
    "migrate": frozenset({"migrate"}),
}
# A manifest's VM is expanded without an object: it is no verb of a guest.
_EXPAND: Final = PolicyRule(("update",), _SUBRESOURCES, ("expand-vm-spec",))
# A user who may write a claim's disk may ask for a token to upload with; no token is read again.
_UPLOAD: Final = PolicyRule(("create",), (UPLOAD_GROUP,), (TOKEN_REQUESTS,))
# KubeVirt's roles leave it out. A user who may write the number in the object itself may also write it so.
_SCALE_VERBS: Final = ("get", "update", "patch")
_SCALE: Final = (
    PolicyRule(_SCALE_VERBS, ("kubevirt.io",), ("virtualmachineinstancereplicasets/scale",)),
    PolicyRule(_SCALE_VERBS, ("pool.kubevirt.io",), ("virtualmachinepools/scale",)),
)
_KINDS: Final = (
    ("kubevirt.io", (VM_PLURAL, VMI_PLURAL, "virtualmachineinstancepresets", "virtualmachineinstancereplicasets")),
    ("snapshot.kubevirt.io", ("virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores")),
    (
        "backup.kvedge.io",
        ("backuprepositories", "backupruns", "backuprestores", "backuptasks", "backupschedules", "backuptests"),
    ),
    ("snapshot.kvedge.io", ("virtualmachinesnapshotschedules",)),
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


# As in CDI's own aggregated roles: users who may edit may make and upload, and users who may view see all of it.
_DATA_VOLUMES: Final = ("cdi.kubevirt.io",)


def _data_volumes(verbs: tuple[str, ...]) -> tuple[PolicyRule, ...]:
    return (
        PolicyRule(verbs, _DATA_VOLUMES, ("datavolumes", "datasources", "dataimportcrons")),
        PolicyRule(_READ, _DATA_VOLUMES, ("cdiconfigs", "storageprofiles")),
    )


# The right to clone a namespace's claims, for those who may make DataVolumes there.
_CLONE: Final = PolicyRule(("create",), _DATA_VOLUMES, ("datavolumes/source",))


def user_roles() -> list[JsonObject]:
    """The ClusterRoles, and the binding of the one that everybody has."""
    return [
        role("kubevirt.io:default", _default(), labels={**_LABELS, "kubernetes.io/bootstrapping": "rbac-defaults"}),
        binding("kubevirt.io:default", "Group", "system:authenticated"),
        role(
            "kubevirt.io:admin",
            (*_calls("admin"), _EXPAND, _UPLOAD, *_kinds(_OWN), *_SCALE, *_data_volumes(_OWN), _CLONE),
            labels=_aggregation("admin"),
        ),
        role(
            "kubevirt.io:edit",
            (*_calls("edit"), _EXPAND, _UPLOAD, *_kinds(_WRITE), *_SCALE, _KUBEVIRTS, *_data_volumes(_WRITE), _CLONE),
            labels=_aggregation("edit"),
        ),
        role(
            "kubevirt.io:view",
            (*_calls("view"), _EXPAND, *_kinds(_READ), *_data_volumes(_READ)),
            labels=_aggregation("view"),
        ),
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


def _aggregation(into: str) -> dict[str, str]:
    return {**_LABELS, f"{RBAC_GROUP}/aggregate-to-{into}": "true"}


_KUBEVIRTS: Final = PolicyRule(("get", "list"), ("kubevirt.io",), ("kubevirts",))


def _default() -> tuple[PolicyRule, ...]:
    # A role of a namespace gives no right to what is in none, and clients of uploads ask the CDIConfig for the proxy.
    return (
        _KUBEVIRTS,
        PolicyRule(("get", "list"), _SUBRESOURCES, ("version", "guestfs")),
        PolicyRule(_READ, _DATA_VOLUMES, ("cdiconfigs", "storageprofiles")),
    )


def _calls(role: Role) -> tuple[PolicyRule, ...]:
    """The calls that a role has by the table of guest verbs; a rule for each kind and RBAC verb."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for verb in GUEST_VERBS:
        if verb.role in _INCLUDED[role]:
            found.setdefault((verb.resource, verb.rbac_verb), {})[verb.asked] = None
    return tuple(PolicyRule((right,), _SUBRESOURCES, tuple(names)) for (_, right), names in found.items())


def _kinds(verbs: tuple[str, ...]) -> tuple[PolicyRule, ...]:
    return (
        *(PolicyRule(verbs, (group,), plurals) for group, plurals in _KINDS),
        PolicyRule(_READ, ("kubevirt.io",), ("virtualmachineinstancemigrations",)),
        PolicyRule(_READ, ("migrations.kubevirt.io",), ("migrationpolicies",)),
    )


def _migrating() -> tuple[PolicyRule, ...]:
    return (
        *_calls("migrate"),
        PolicyRule(_OWN, ("kubevirt.io",), ("virtualmachineinstancemigrations",)),
    )


def _instance_types() -> tuple[PolicyRule, ...]:
    plurals = ("virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences")
    return (PolicyRule(_READ, ("instancetype.kubevirt.io",), plurals),)
