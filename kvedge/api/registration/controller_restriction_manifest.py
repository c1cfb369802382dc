"""The policy by which an API server itself keeps the controller to launchers, workers, their claims and a Node's label.

Called by registration_loop.py. Touches nothing. RBAC knows kinds only: somebody with the controller's credentials
could end any Pod of the cluster, and drain nodes. The embedded API has no policies, and no Pods of others.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.registration.document import Document
from kvedge.api.registration.policy_manifest import Validation, is_unchanged, match_writes, policy
from kvedge.resources.data_volume_names import CLONE_TARGET, UPLOAD_TARGET, WORKER_CONTAINER
from kvedge.resources.disks import memory_dumps
from kvedge.resources.disks.exports import EXPORTER_CONTAINER, EXPORTER_PREFIX, TOKEN_SECRET_PREFIX
from kvedge.resources.disks.snapshot_names import LAST_RESTORE, RETURNED_BY, UNPATCHED
from kvedge.resources.disks.state_claims import STATE_LABEL
from kvedge.resources.disks.uploads import UPLOAD_PREFIX
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.evacuation import EVICTION_IN_PROGRESS
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.names import APP, LAUNCHER_APP, SCHEDULABLE
from kvedge.resources.role_users import CONTROLLER_ACCOUNT, CONTROLLER_GROUP
from kvedge.resources.types.data_import_cron import DataImportCron
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.pod_networks import NETWORKS
from kvedge.resources.types.protection.backup_job import BACKUP_CONTAINER
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backups import BACKUP_GROUP, BackupRestore, BackupRun
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.snapshots import VirtualMachineSnapshotContent
from kvedge.resources.types.scaling.pools import REVISION_OF_POOL, VirtualMachinePool
from kvedge.resources.types.sriov_networks import NETWORK_INFO
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

NAME: Final = "kvedge-controller-restriction"
# All Pods of the cluster pass by this condition: it must not fail for anybody.
_BY_CONTROLLERS: Final = (
    f"request.userInfo.username == '{CONTROLLER_ACCOUNT}'"
    f" || (has(request.userInfo.groups) && '{CONTROLLER_GROUP}' in request.userInfo.groups)"
)
_NODE: Final = "request.resource.resource == 'nodes'"
_EVICTION: Final = (
    "request.resource.resource == 'pods' && has(request.subResource) && request.subResource == 'eviction'"
)
# An eviction comes with an Eviction, which tells nothing of the Pod but its name.
_POD: Final = f"request.resource.resource == 'pods' && !({_EVICTION})"
_REVISION: Final = "request.resource.resource == 'controllerrevisions'"
# Its status is a resource of its own.
_VM: Final = "request.resource.resource == 'virtualmachines'"
_POOL: Final = "request.resource.resource == 'virtualmachinepools'"
_SECRET: Final = "request.resource.resource == 'secrets'"
_SERVICE: Final = "request.resource.resource == 'services'"
_CREATE: Final = "request.operation == 'CREATE'"
_UPDATE: Final = "request.operation == 'UPDATE'"
_STATUS: Final = "has(request.subResource) && request.subResource == 'status'"
_RESIZE: Final = "has(request.subResource) && request.subResource == 'resize'"
_KIND: Final = VirtualMachineInstance.KIND
_META: Final = "{0} == null || !has({0}.metadata.{1}) ? {2} : {0}.metadata.{1}"
_LABELLED: Final = "'{0}' in variables.{1} && variables.{1}['{0}'] == '{2}'"
_OWNED: Final = (
    "variables.{0}.exists(o, has(o.controller) && o.controller"
    f" && o.kind == '{_KIND.kind}' && o.apiVersion.startsWith('{_KIND.group}/'))"
)
_LAUNCHER_OWNED: Final = (
    "variables.{0}.exists(o, has(o.controller) && o.controller && o.kind == 'Pod' && o.apiVersion == 'v1'"
    f" && o.name.startsWith('{LAUNCHER_APP}-'))"
)
_VM_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{VirtualMachine.KIND.kind}'")
_POOL_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{VirtualMachinePool.KIND.kind}'").replace(
    f"'{_KIND.group}/'", f"'{VirtualMachinePool.KIND.group}/'"
)
_REVISION_OWNED: Final = f"({_VM_OWNED} || {_POOL_OWNED})"
_DV_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{DataVolume.KIND.kind}'").replace(
    f"'{_KIND.group}/'", f"'{DataVolume.KIND.group}/'"
)
# The worker of an upload into a claim without a DataVolume.
_UPLOAD_OWNED: Final = (
    "variables.{0}.exists(o, has(o.controller) && o.controller && o.kind == 'PersistentVolumeClaim'"
    " && o.apiVersion == 'v1')"
)


_CLAIM: Final = "request.resource.resource == 'persistentvolumeclaims'"
_PLACE: Final = "request.resource.resource == 'persistentvolumes'"
_EMPTY: Final = (
    "!has(object.spec.dataSource) && !has(object.spec.dataSourceRef)"
    " && !(has(object.spec.volumeName) && object.spec.volumeName != '')"
)
_MOVED: Final = f"{_CREATE} && '{MOVED_FROM}' in variables.annotations && {_EMPTY}"
_CONTENT_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{VirtualMachineSnapshotContent.KIND.kind}'").replace(
    f"'{_KIND.group}/'", f"'{VirtualMachineSnapshotContent.KIND.group}/'"
)
# What copies of running guests' disks go into: empty at first, and nobody else's claim becomes one.
_COPIED: Final = (
    f"({_CONTENT_OWNED.format('owners')}) && ({_CREATE} ? ({_EMPTY}) : ({_CONTENT_OWNED.format('oldOwners')}))"
)
# What a restore in place makes under the old name: nothing is copied into it, as the volume with its data is named. A
# server binds it to no volume that another namespace's claim has.
_IN_PLACE: Final = (
    f"{_CREATE} && '{LAST_RESTORE}' in variables.annotations"
    " && !has(object.spec.dataSource) && !has(object.spec.dataSourceRef)"
    " && has(object.spec.volumeName) && object.spec.volumeName != ''"
)
# What keeps the state of a VM's TPM and UEFI firmware.
_STATE: Final = f"{_CREATE} && '{STATE_LABEL}' in variables.labels && {_EMPTY} && ({_VM_OWNED} || {_OWNED})".replace(
    "{0}", "owners"
)
# A user's claim that a guest's memory was dumped to: which dump is in it, and nothing else.
_DUMPED: Final = (
    f"{_UPDATE} && {is_unchanged('labels')} && {is_unchanged('finalizers')} && {is_unchanged('ownerReferences')}"
    f" && variables.annotations.all(k, k == '{memory_dumps.DUMP_ANNOTATION}'"
    " || (k in variables.oldAnnotations && variables.oldAnnotations[k] == variables.annotations[k]))"
    f" && variables.oldAnnotations.all(k, k == '{memory_dumps.DUMP_ANNOTATION}' || k in variables.annotations)"
)
_CLAIM_OWNED: Final = (
    "variables.{0}.exists(o, o.kind == 'PersistentVolumeClaim' && o.apiVersion == 'v1')"
    f" && '{CLONE_TARGET}' in variables.{{1}}"
)
_CRON_OWNED: Final = _DV_OWNED.replace(f"'{DataVolume.KIND.kind}'", f"'{DataImportCron.KIND.kind}'")
_WORKER_OWNED: Final = f"({_DV_OWNED}) || ({_CRON_OWNED}) || ({_CLAIM_OWNED})"
_EXPORT_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{VirtualMachineExport.KIND.kind}'").replace(
    f"'{_KIND.group}/'", f"'{VirtualMachineExport.KIND.group}/'"
)
_RETURN_OWNED: Final = _OWNED.replace(f"'{_KIND.kind}'", f"'{BackupRestore.KIND.kind}'").replace(
    f"'{_KIND.group}/'", f"'{BACKUP_GROUP}/'"
)
_BACKUP_OWNED: Final = " || ".join(
    f"({_RETURN_OWNED.replace(BackupRestore.KIND.kind, kind.kind)})"
    for kind in (BackupRestore.KIND, BackupRun.KIND, BackupTask.KIND)
)
# Disks that come back from a backup: empty at first, and the VM's once they are complete.
_RETURNED: Final = (
    f"({_CREATE} && ({_RETURN_OWNED.format('owners')}) && ({_EMPTY}))"
    f" || ({_UPDATE} && '{RETURNED_BY}' in variables.oldAnnotations)"
)
_EXPORTER_OWNED: Final = (
    f"variables.owners.exists(o, o.kind == 'Pod' && o.apiVersion == 'v1' && o.name.startsWith('{EXPORTER_PREFIX}'))"
)
# An exporter hands disks out, and never writes one.
_READS_CLAIMS: Final = (
    "request.resource.resource == 'pods' && object != null"
    " && (!has(object.spec.volumes) || object.spec.volumes.filter(v, has(v.persistentVolumeClaim)).all(v,"
    " has(v.persistentVolumeClaim.readOnly) && v.persistentVolumeClaim.readOnly))"
)
# A worker reads what strangers send: it has no token, no way to more rights, and nothing of the host to write to.
_WORKS: Final = f"c.name in ['{WORKER_CONTAINER}', '{EXPORTER_CONTAINER}', '{BACKUP_CONTAINER}']"
_WORKER_RIGHTS: Final = (
    "has(c.securityContext)"
    " && has(c.securityContext.runAsNonRoot) && c.securityContext.runAsNonRoot"
    " && has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPrivilegeEscalation"
    " && has(c.securityContext.capabilities) && !has(c.securityContext.capabilities.add)"
)
# Policies judge after webhooks: a mesh may have added its proxy, and the container that leads traffic to it.
_PROXY_RIGHTS: Final = (
    "!has(c.securityContext)"
    " || (!(has(c.securityContext.privileged) && c.securityContext.privileged)"
    " && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)"
    " || c.securityContext.capabilities.add.all(a, a in ['NET_ADMIN', 'NET_RAW'])))"
)
_NOT_MOUNTED: Final = "!has(c.volumeMounts) || c.volumeMounts.all(m, m.name != v.name)"
_ONLY_READ: Final = "!has(c.volumeMounts) || c.volumeMounts.all(m, m.name != v.name || (has(m.readOnly) && m.readOnly))"
_CONFINED: Final = (
    "request.resource.resource == 'pods' && object != null"
    " && has(object.spec.automountServiceAccountToken) && !object.spec.automountServiceAccountToken"
    " && !(has(object.spec.hostNetwork) && object.spec.hostNetwork)"
    " && !(has(object.spec.hostPID) && object.spec.hostPID)"
    " && !(has(object.spec.hostIPC) && object.spec.hostIPC)"
    f" && object.spec.containers.exists(c, {_WORKS})"
    f" && object.spec.containers.all(c, {_WORKS} ? ({_WORKER_RIGHTS}) : ({_PROXY_RIGHTS}))"
    f" && (!has(object.spec.initContainers) || object.spec.initContainers.all(c, {_PROXY_RIGHTS}))"
    " && (!has(object.spec.volumes) || object.spec.volumes.filter(v, has(v.hostPath)).all(v,"
    f" object.spec.containers.all(c, {_WORKS} ? ({_ONLY_READ}) : ({_NOT_MOUNTED}))"
    f" && (!has(object.spec.initContainers) || object.spec.initContainers.all(c, {_NOT_MOUNTED}))))"
)


def controller_restriction() -> list[Document]:
    """The policy, and the binding that puts it into force."""
    variables = {
        "labels": _META.format("object", "labels", "{}"),
        "oldLabels": _META.format("oldObject", "labels", "{}"),
        "owners": _META.format("object", "ownerReferences", "[]"),
        "oldOwners": _META.format("oldObject", "ownerReferences", "[]"),
        "annotations": _META.format("object", "annotations", "{}"),
        "oldAnnotations": _META.format("oldObject", "annotations", "{}"),
        "isLauncher": f"{_has_app_label('labels')} && {_OWNED.format('owners')}",
        # The controller must still end a launcher whose label somebody has removed.
        "wasLauncher": f"({_has_app_label('oldLabels')}) || {_OWNED.format('oldOwners')}",
        "isWorker": f"({_WORKER_OWNED.format('owners', 'labels')}) && {_CONFINED}",
        "wasWorker": _WORKER_OWNED.format("oldOwners", "oldLabels"),
        "isUpload": f"{_is_upload('object')} && {_UPLOAD_OWNED.format('owners')} && {_CONFINED}",
        "wasUpload": f"{_is_upload('oldObject')} && {_UPLOAD_OWNED.format('oldOwners')}",
        "isExporter": f"({_EXPORT_OWNED.format('owners')}) && {_CONFINED} && {_READS_CLAIMS}",
        "wasExporter": _EXPORT_OWNED.format("oldOwners"),
        "isBackup": f"({_BACKUP_OWNED.format('owners')}) && {_CONFINED}",
        "wasBackup": f"({_BACKUP_OWNED.format('oldOwners')})",
        "isAttachment": f"{_has_app_label('labels', ATTACHMENT_APP)} && {_LAUNCHER_OWNED.format('owners')}",
        "wasAttachment": f"{_has_app_label('oldLabels', ATTACHMENT_APP)}",
    }
    rules = [
        match_writes(
            *("", "nodes", "pods", "pods/status", "pods/resize", "pods/eviction", "secrets", "services"),
            *("persistentvolumeclaims", "persistentvolumes"),
        ),
        match_writes("apps", "controllerrevisions"),
        match_writes(VirtualMachine.KIND.group, VirtualMachine.KIND.plural),
        match_writes(VirtualMachinePool.KIND.group, VirtualMachinePool.KIND.plural),
    ]
    validations = [_validation(*rule) for rule in _RULES]
    return policy(NAME, rules, ("by-controllers", _BY_CONTROLLERS), variables, validations)


def _has_app_label(labels: str, app: str = LAUNCHER_APP) -> str:
    return _LABELLED.format(APP, labels, app)


def _is_upload(which: str) -> str:
    return f"{which} != null && has({which}.metadata.name) && {which}.metadata.name.startsWith('{UPLOAD_PREFIX}')"


def _validation(applies: str, expression: str, text: str) -> Validation:
    return Validation(f"!({applies}) || ({expression})", f"Controller restriction, virt-controller {text}")


_OTHER_LABELS: Final = (
    f"variables.labels.all(k, k == '{SCHEDULABLE}'"
    " || (k in variables.oldLabels && variables.oldLabels[k] == variables.labels[k]))"
    f" && variables.oldLabels.all(k, k == '{SCHEDULABLE}' || k in variables.labels)"
)
_TAKEN: Final = (
    f"'{SCHEDULABLE}' in variables.labels && (variables.labels['{SCHEDULABLE}'] == 'false'"
    f" || ('{SCHEDULABLE}' in variables.oldLabels"
    f" && variables.oldLabels['{SCHEDULABLE}'] == variables.labels['{SCHEDULABLE}']))"
)
# A launcher's guest may join and leave networks while it runs, is told its devices, and may be about to leave its node.
_ANNOTATIONS: Final = (NETWORKS, NETWORK_INFO, EVICTION_IN_PROGRESS)
_OTHER_ANNOTATIONS: Final = (
    f"variables.annotations.all(k, k in {list(_ANNOTATIONS)}"
    " || (k in variables.oldAnnotations && variables.oldAnnotations[k] == variables.annotations[k]))"
    f" && variables.oldAnnotations.all(k, k in {list(_ANNOTATIONS)} || k in variables.annotations)"
)
# Each rule has the writes that it is for, the condition that they must meet, and the message of a refusal.
_RULES: Final = (
    (
        f"{_VM} && {_CREATE}",
        f"{_POOL_OWNED.format('owners')} || '{LAST_RESTORE}' in variables.annotations"
        f" || '{RETURNED_BY}' in variables.annotations",
        "is not allowed to make other VMs than those of pools and of restores",
    ),
    (
        f"{_VM} && !({_CREATE} || {_UPDATE})",
        f"{_POOL_OWNED.format('oldOwners')} || ('{LAST_RESTORE}' in variables.oldAnnotations"
        f" && variables.oldAnnotations['{LAST_RESTORE}'].startsWith('{UNPATCHED}'))",
        "is not allowed to delete other VMs than those of pools, and those that a restore could not patch",
    ),
    # A pool adopts none: otherwise it could be given first, and deleted then.
    (
        f"{_VM} && {_UPDATE}",
        f"!({_POOL_OWNED.format('owners')}) || ({_POOL_OWNED.format('oldOwners')})",
        "is not allowed to give a VM to a pool",
    ),
    (_POOL, _UPDATE, "is not allowed to make or delete pools"),
    (f"{_POOL} && {_UPDATE}", "object.spec == oldObject.spec", "is not allowed to change a pool's spec"),
    (_NODE, _UPDATE, "is not allowed to make or delete Nodes"),
    (f"{_NODE} && {_UPDATE}", "object.spec == oldObject.spec", "is not allowed to change a Node's spec"),
    (
        f"{_NODE} && {_UPDATE}",
        f"{_OTHER_LABELS} && {is_unchanged('annotations')} && {is_unchanged('finalizers')}"
        f" && {is_unchanged('ownerReferences')}",
        f"is not allowed to change more of a Node than its label {SCHEDULABLE}",
    ),
    (f"{_NODE} && {_UPDATE}", _TAKEN, "is not allowed to say that a Node takes VMs"),
    (
        f"{_POD} && {_CREATE}",
        "variables.isLauncher || variables.isAttachment || variables.isWorker || variables.isUpload"
        " || variables.isExporter || variables.isBackup",
        "is not allowed to make other Pods than launchers of VMIs, what holds volumes for them, workers and exporters",
    ),
    (
        f"{_POD} && !({_CREATE})",
        "variables.wasLauncher || variables.wasAttachment || variables.wasWorker || variables.wasUpload"
        " || variables.wasExporter || variables.wasBackup",
        "is not allowed to touch other Pods than launchers of VMIs, what holds volumes for them, workers and exporters",
    ),
    (
        f"{_POD} && {_UPDATE}",
        # The server lets a resize change nothing but CPU and memory.
        f"({_STATUS}) || ({_RESIZE} && variables.wasLauncher)"
        f" || (variables.wasLauncher && object.spec == oldObject.spec && {_OTHER_ANNOTATIONS}"
        f" && {is_unchanged('labels')} && {is_unchanged('finalizers')} && {is_unchanged('ownerReferences')})",
        "is not allowed to change more of a Pod than its status, and a launcher's annotations "
        + ", ".join(_ANNOTATIONS),
    ),
    (
        _EVICTION,
        f"has(request.name) && request.name.startsWith('{LAUNCHER_APP}-')",
        "is not allowed to evict other Pods than launchers of VMIs",
    ),
    (
        f"{_CLAIM} && !({_DUMPED})",
        f"!({_UPDATE} || {_CREATE}) || {_DV_OWNED.format('owners')} || '{UPLOAD_TARGET}' in variables.oldAnnotations"
        f" || ({_MOVED}) || ({_COPIED}) || ({_RETURNED}) || ({_STATE})"
        f" || ({_IN_PLACE})",
        "is not allowed to make or touch other claims than those that DataVolumes and uploads fill, empty ones that"
        " disks move to, are copied to or come back to, or that keep the state of a TPM or of firmware, and those"
        " that a restore in place binds to the volume with its data",
    ),
    (
        f"{_CLAIM} && {_UPDATE}",
        "object.spec == oldObject.spec",
        "is not allowed to change a claim's spec",
    ),
    # It has no namespace: another one's claim would get somebody's data.
    (
        _PLACE,
        f"{_UPDATE} && has(object.spec.claimRef) && has(oldObject.spec.claimRef)"
        " && object.spec.claimRef.namespace == oldObject.spec.claimRef.namespace",
        "is not allowed to give a PersistentVolume to a claim of another namespace",
    ),
    # A Secret of another type could be a token of somebody's account.
    (
        _SECRET,
        f"{_CREATE} && ((object.type == 'kubernetes.io/tls' && (object.metadata.name.startsWith('{UPLOAD_PREFIX}')"
        f" || (object.metadata.name.startsWith('{EXPORTER_PREFIX}') && {_EXPORTER_OWNED})))"
        f" || (object.type == 'Opaque' && object.metadata.name.startsWith('{TOKEN_SECRET_PREFIX}')"
        f" && {_EXPORT_OWNED.format('owners')}))",
        "is not allowed to make other Secrets than the certificates of uploads' workers and of exporters, and tokens of"
        " exports",
    ),
    # One with addresses of its own choice could take the traffic of others.
    (
        _SERVICE,
        f"{_CREATE} && {_EXPORT_OWNED.format('owners')} && object.metadata.name.startsWith('{EXPORTER_PREFIX}')"
        " && object.spec.type == 'ClusterIP' && !has(object.spec.externalIPs)",
        "is not allowed to make other Services than those of exports, or to touch any",
    ),
    (
        f"{_REVISION} && {_CREATE}",
        _REVISION_OWNED.format("owners"),
        "is not allowed to make other ControllerRevisions than those of VMs and pools",
    ),
    (
        f"{_REVISION} && !({_CREATE})",
        # Those of an orphaned pool have no owner left.
        f"!({_UPDATE}) && ({_REVISION_OWNED.format('oldOwners')} || '{REVISION_OF_POOL}' in variables.oldLabels)",
        "is not allowed to touch other ControllerRevisions than those of VMs and pools",
    ),
)
