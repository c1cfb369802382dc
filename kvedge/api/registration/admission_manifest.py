"""The webhooks by which an API server asks the api role before it stores something, and when each may be passed by.

Called by registration_manifest.py, and by appliance/cluster, which looks whether they are there. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.registration.document import Document
from kvedge.api.registration.webhook_manifest import webhook, webhook_configuration
from kvedge.api.served_paths import (
    MUTATE_PATH,
    MUTATE_VM_PATH,
    VALIDATE_BACKUP_SOURCE_PATH,
    VALIDATE_EVICTION_PATH,
    VALIDATE_KUBEVIRT_PATH,
    VALIDATE_MIGRATION_PATH,
    VALIDATE_PATH,
    VALIDATE_VM_PATH,
)
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.instancetypes.matchers import PARTS
from kvedge.resources.names import APP, LAUNCHER_APP
from kvedge.resources.shares.container_paths import PATH_VARIABLE
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.kubevirt import BLOCK_UNINSTALL
from kvedge.resources.types.migrations import MigrationPolicy
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import CLONE_GROUP, CLONE_VERSIONS, VirtualMachineClone
from kvedge.resources.types.protection.exports import EXPORT_GROUP, EXPORT_VERSION, OLDER_EXPORT_VERSIONS
from kvedge.resources.types.protection.schedules import (
    SCHEDULE_GROUP,
    SCHEDULE_VERSION,
    VirtualMachineSnapshotSchedule,
)
from kvedge.resources.types.protection.snapshots import SNAPSHOT_GROUP, SNAPSHOT_VERSION
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.scaling.pools import POOL_GROUP

# A handler may speak as its node: see role_users.
_BY_NODES: Final = "('system:nodes' in request.userInfo.groups && request.userInfo.username.startsWith('system:node:'))"
_BY_ROLES: Final = (
    "request.userInfo.username.startsWith('system:serviceaccount:kvedge-system:kvedge-')"
    " || ['kvedge:controllers', 'kvedge:apis', 'kvedge:handlers'].exists(g, g in request.userInfo.groups)"
    f" || {_BY_NODES}"
)
_NOT_BY_ROLES: Final[JsonObject] = {"name": "not-by-kvedge-itself", "expression": f"!({_BY_ROLES})"}
# A role's write to a spec may follow a VM that a user has edited since, so the guest must be able to take it.
_NOT_A_REPORT_OF_ROLES: Final[JsonObject] = {
    "name": "not-a-report-of-kvedge-itself",
    "expression": f"!({_BY_ROLES}) || object.spec != oldObject.spec",
}
_SPEC_CHANGES: Final[JsonObject] = {
    "name": "spec-changes",
    "expression": "oldObject == null || has(object.spec) != has(oldObject.spec)"
    " || (has(object.spec) && object.spec != oldObject.spec)",
}
_BY_HANDLERS: Final[JsonObject] = {
    "name": "by-handlers",
    "expression": "request.userInfo.username == 'system:serviceaccount:kvedge-system:kvedge-handler'"
    f" || 'kvedge:handlers' in request.userInfo.groups || {_BY_NODES}",
}
_BLOCKED_BY_WORKLOADS: Final[JsonObject] = {
    "name": "blocked-by-workloads",
    "expression": f"has(oldObject.spec.uninstallStrategy) && oldObject.spec.uninstallStrategy == '{BLOCK_UNINSTALL}'",
}
_LABELS_CHANGE: Final = (
    "has(object.metadata.labels) != has(oldObject.metadata.labels)"
    " || (has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)"
)
_STATUS_CHANGES: Final = (
    "has(object.status) != has(oldObject.status) || (has(object.status) && object.status != oldObject.status)"
)
# A VMI on its way out only loses finalizers: that must not wait for anybody. But roles still act on its status: a
# user who could say that its guest has ended, while it runs, could have a second one started.
_MORE_THAN_LETTING_GO: Final[JsonObject] = {
    "name": "more-than-letting-go",
    "expression": "!has(object.metadata.deletionTimestamp) || object.spec != oldObject.spec"
    f" || {_STATUS_CHANGES} || {_LABELS_CHANGE}",
}
# An object on its way out only loses finalizers: that must not wait for anybody.
_NOT_BEING_DELETED: Final[JsonObject] = {
    "name": "not-being-deleted",
    "expression": "!has(object.metadata.deletionTimestamp)",
}
_FROM_ANOTHER_NAMESPACE: Final[JsonObject] = {
    "name": "from-another-namespace",
    "expression": "has(object.spec) && has(object.spec.vmNamespace) && object.spec.vmNamespace != request.namespace",
}
# KubeVirt's names of the webhooks of evictions and of their conditions, and how the names of their Pods begin.
_EVICTIONS: Final = (
    ("virt-launcher-eviction-interceptor.kubevirt.io", "only-vms", "virt-launcher-"),
    ("hotplug-pod-eviction-interceptor.kubevirt.io", "only-hotplug-pods", "hp-volume-"),
)
_SERVES_PATHS: Final[JsonObject] = {
    "name": "serves-paths",
    "expression": "object.spec.containers.exists(container, has(container.env)"
    f" && container.env.exists(variable, variable.name == '{PATH_VARIABLE}'))",
}
# All other networks of a cluster are its CNI plugins' to judge.
_IN_OUR_WORDS: Final[JsonObject] = {
    "name": "in-words-of-kvedge",
    "expression": "has(object.spec) && has(object.spec.config) && object.spec.config.contains('\"kvedge\"')",
}


def mutating_webhooks(ca_bundle: bytes, secret: str) -> Document:
    """Defaults, and a VMI's status kept from users."""
    vms = f"{MUTATE_VM_PATH}/{secret}"
    webhooks = [
        # Fail: a VM without its platform written down could become another machine with the next release.
        webhook("virtualmachines-mutator.kubevirt.io", vms, ca_bundle, "virtualmachines",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED,)),
        # Fail: a VMI without defaults has no finalizer, no phase and perhaps no network.
        webhook("virtualmachineinstances-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, "virtualmachineinstances",
                 operations=("CREATE",)),
        # Fail, as status is what roles act on; roles themselves and the end of a deletion do not pass here.
        webhook("virtualmachineinstances-status-mutator.kvedge.io", MUTATE_PATH, ca_bundle, "virtualmachineinstances",
                 operations=("UPDATE",), conditions=(_NOT_BY_ROLES, _MORE_THAN_LETTING_GO)),
        # Fail: a migration without its label could be one of two that move the same guest.
        webhook("migrations-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, "virtualmachineinstancemigrations",
                 operations=("CREATE",)),
        # Fail: a clone without a target's name makes a VM that nobody knows.
        webhook("virtualmachineclones-mutator.kubevirt.io", MUTATE_PATH, ca_bundle, VirtualMachineClone.KIND.plural,
                 operations=("CREATE",), served=(CLONE_GROUP, CLONE_VERSIONS)),
    ]  # fmt: skip
    for each in webhooks:
        each["reinvocationPolicy"] = "Never"
    webhooks.append(_launcher_webhook("virt-launcher-pod-mutator.kubevirt.io", MUTATE_PATH, ca_bundle))
    # What it looks for may be the work of a webhook that comes after it.
    webhooks[-1]["reinvocationPolicy"] = "IfNeeded"
    return webhook_configuration("Mutating", webhooks)


def validating_webhooks(
    ca_bundle: bytes, secret: str, *, judges_data_volumes: bool = True, joins_all_networks: bool = False
) -> Document:
    """All rules. Deletes never depend on us, though we may refuse one kind; nor does a role's write of a status."""
    kubevirts, moves = f"{VALIDATE_KUBEVIRT_PATH}/{secret}", f"{VALIDATE_MIGRATION_PATH}/{secret}"
    webhooks = [
        # Fail: what is not supported must be refused when it is applied, not found out when it runs.
        webhook("virtualmachine-validator.kubevirt.io", f"{VALIDATE_VM_PATH}/{secret}", ca_bundle, "virtualmachines",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED,)),
        # Fail: this is the last gate before something runs, also for VMs that were stored by an older release.
        webhook("virtualmachineinstances-create-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("CREATE",)),
        # Fail: a user must not change what runs under the roles' feet, and roles change no more than volumes that come
        # and go. Status reports of the roles and finished deletions do not pass here.
        webhook("virtualmachineinstances-update-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("UPDATE",),
                 conditions=(_NOT_A_REPORT_OF_ROLES, _MORE_THAN_LETTING_GO)),
        # Ignore: a handler reports what its VMs do, and must be able to while we are away. That it writes its own
        # node's VMIs only is then still seen to: by the policy of node_restriction_manifest.py in a cluster, by the
        # embedded API's authorizer on one box.
        webhook("virtualmachineinstances-node-restriction.kvedge.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstances", operations=("UPDATE",), conditions=(_BY_HANDLERS,), policy="Ignore"),
        # Fail: a guest that cannot move must not be tried to move, and not twice at a time.
        webhook("migration-create-validator.kubevirt.io", moves, ca_bundle,
                 "virtualmachineinstancemigrations", operations=("CREATE",)),
        # Fail: the roles act on what a migration was made for, also while it is cancelled. Letting go of it passes by.
        webhook("migration-update-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancemigrations", operations=("UPDATE",),
                 conditions=(_NOT_A_REPORT_OF_ROLES, _MORE_THAN_LETTING_GO)),
        # Fail: a policy that means nothing would be found out when a guest moves.
        webhook("migration-policy-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, MigrationPolicy.KIND.plural,
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(MigrationPolicy.KIND.group, (MigrationPolicy.KIND.version,))),
        # Fail: a snapshot or a restore that can never come to its end must be refused when it is made, and nobody may
        # change what the controller acts on.
        *_snapshot_webhooks(ca_bundle),
        # Fail: the controller opens disks by what an export was made for.
        webhook("virtualmachineexport-validator.export.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineexports", operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(EXPORT_GROUP, (EXPORT_VERSION, *OLDER_EXPORT_VERSIONS))),
        # Fail, for the same reasons.
        webhook("vm-clone-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, VirtualMachineClone.KIND.plural,
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(CLONE_GROUP, CLONE_VERSIONS)),
        *_backup_webhooks(ca_bundle, secret),
        # Fail: what is wrong with one would be found out with every VM that names it.
        *_type_webhooks(ca_bundle),
        # Fail: a schedule that never takes a snapshot would be found out when one is needed.
        webhook("virtualmachinesnapshotschedule-validator.kvedge.io", VALIDATE_PATH, ca_bundle,
                 VirtualMachineSnapshotSchedule.KIND.plural, operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES), served=(SCHEDULE_GROUP, (SCHEDULE_VERSION,))),
        # Fail: a preset that contradicts itself would keep VMIs out later.
        webhook("virtualmachinepreset-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancepresets", operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES)),
        # Fail: a template that no VMI can be made of must be refused when it is applied. Scaling passes by `scale`.
        webhook("virtualmachineinstancereplicaset-validator.kubevirt.io", VALIDATE_PATH, ca_bundle,
                 "virtualmachineinstancereplicasets", operations=("CREATE", "UPDATE"),
                 conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES)),
        # Fail, for the same reason.
        webhook("virtualmachinepool-validator.kubevirt.io", VALIDATE_PATH, ca_bundle, "virtualmachinepools",
                 operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                 served=(POOL_GROUP, ("v1beta1", "v1alpha1"))),
        # Fail: a configuration that cannot be used must be refused when it is written, and there is one object only.
        webhook("kubevirt-create-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("CREATE",)),
        # Fail, for the same reason; the controller writes the status subresource, which does not pass here.
        webhook("kubevirt-update-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("UPDATE",), conditions=(_NOT_BEING_DELETED,)),
        # Ignore: a delete never depends on us, and this one takes no VM away. Only objects that ask for it are judged.
        webhook("kubevirt-validator.kubevirt.io", kubevirts, ca_bundle, "kubevirts",
                 operations=("DELETE",), conditions=(_BLOCKED_BY_WORKLOADS,), policy="Ignore"),
    ]  # fmt: skip
    webhooks.append(_launcher_webhook("virt-launcher-pod-validator.kvedge.io", VALIDATE_PATH, ca_bundle))
    webhooks.append(_network_webhook(ca_bundle, all_of_them=joins_all_networks))
    webhooks += [_eviction_webhook(ca_bundle, secret, *each) for each in _EVICTIONS]
    if judges_data_volumes:
        webhooks += _data_volume_webhooks(ca_bundle)
    return webhook_configuration("Validating", webhooks)


def _launcher_webhook(name: str, path: str, ca_bundle: bytes) -> JsonObject:
    """One of new launcher Pods that have a containerPath volume."""
    # Fail: a Pod without what the volume names would be of no use. No other Pod waits for us.
    made = webhook(name, path, ca_bundle, "pods", operations=("CREATE",),
                   conditions=(_SERVES_PATHS,), served=("", ("v1",)))  # fmt: skip
    made["objectSelector"] = {"matchLabels": {APP: LAUNCHER_APP}}
    return made


def _snapshot_webhooks(ca_bundle: bytes) -> Iterator[JsonObject]:
    for name, resource in (("snapshot", "virtualmachinesnapshots"), ("restore", "virtualmachinerestores")):
        yield webhook(f"virtualmachine{name}-validator.snapshot.kubevirt.io", VALIDATE_PATH, ca_bundle, resource,
                      operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                      served=(SNAPSHOT_GROUP, (SNAPSHOT_VERSION,)))  # fmt: skip


_BACKUP_KINDS: Final = (
    BackupRepository.KIND,
    BackupRun.KIND,
    BackupRestore.KIND,
    BackupTask.KIND,
    BackupSchedule.KIND,
    BackupTest.KIND,
)


def _backup_webhooks(ca_bundle: bytes, secret: str) -> Iterator[JsonObject]:
    for kind in (*_BACKUP_KINDS, VirtualMachineBackup.KIND, VirtualMachineBackupTracker.KIND):
        yield webhook(f"{kind.kind.lower()}-validator.{kind.group}", VALIDATE_PATH, ca_bundle, kind.plural,
                      operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                      served=(kind.group, (kind.version,)))  # fmt: skip
    for kind in (BackupRestore.KIND, BackupTest.KIND):
        # Fail: a user of a store that several namespaces have backups in could read the disks of all of them.
        yield webhook(f"{kind.kind.lower()}-source-validator.{kind.group}", f"{VALIDATE_BACKUP_SOURCE_PATH}/{secret}",
                      ca_bundle, kind.plural, operations=("CREATE",), conditions=(_FROM_ANOTHER_NAMESPACE,),
                      served=(kind.group, (kind.version,)))  # fmt: skip


def _type_webhooks(ca_bundle: bytes) -> Iterator[JsonObject]:
    for part in PARTS:
        for kind in (part.in_namespace, part.in_cluster):
            name = kind.kind.lower().removeprefix("virtualmachine")
            yield webhook(f"virtualmachine{name}-validator.instancetype.kubevirt.io", VALIDATE_PATH, ca_bundle,
                          kind.plural, operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                          served=(kind.group, (kind.version,)))  # fmt: skip


def _network_webhook(ca_bundle: bytes, *, all_of_them: bool) -> JsonObject:
    """Ignore: whoever joins a Pod to a network judges it once more, and says so on the VM."""
    kind = NetworkAttachmentDefinition.KIND
    conditions = (_NOT_BEING_DELETED, *(() if all_of_them else (_IN_OUR_WORDS,)))
    return webhook(
        "network-attachment-definition-validator.kvedge.io",
        VALIDATE_PATH,
        ca_bundle,
        kind.plural,
        operations=("CREATE", "UPDATE"),
        conditions=conditions,
        policy="Ignore",
        served=(kind.group, (kind.version,)),
    )


def _eviction_webhook(ca_bundle: bytes, secret: str, name: str, condition: str, beginning: str) -> JsonObject:
    """Fail: unasked, a guest that can move would be shut down. A Pod of another name is evicted while we are away."""
    expression = f"request.name.startsWith('{beginning}')"
    made = webhook(name, f"{VALIDATE_EVICTION_PATH}/{secret}", ca_bundle, "pods/eviction", operations=("CREATE",),
                   conditions=({"name": condition, "expression": expression},), served=("", ("v1",)))  # fmt: skip
    return {**made, "sideEffects": "NoneOnDryRun"}


def _data_volume_webhooks(ca_bundle: bytes) -> list[JsonObject]:
    """Fail: what can never be filled must be refused when it is applied. The controller's reports do not pass here."""
    return [
        webhook(f"{resource.removesuffix('s')}-validator.cdi.kvedge.io", VALIDATE_PATH, ca_bundle, resource,
                operations=("CREATE", "UPDATE"), conditions=(_NOT_BEING_DELETED, _SPEC_CHANGES),
                served=(CDI_GROUP, ("v1beta1",)))
        for resource in ("datavolumes", "datasources")
    ]  # fmt: skip
