"""Whether a write may enter: all rules over one AdmissionRequest, all causes at once.

Called by admission_server.py. Pure. Some rules judge the raw document: unknown fields, fields that are not supported
yet, the writer. All others judge the decoded type. A document that does not decode is refused for that alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.backups.backup_verdict import judge_backup, judge_repository, judge_return
from kvedge.api.admission.backups.upkeep_verdict import judge_backup_schedule, judge_task, judge_test
from kvedge.api.admission.backups.vm_backup_verdict import judge_vm_backup
from kvedge.api.admission.exports.export_verdict import judge_export
from kvedge.api.admission.instancetypes.matcher_rules import matchers_are_complete, matchers_follow_their_revision
from kvedge.api.admission.instancetypes.type_verdict import judge_type
from kvedge.api.admission.instancetypes.typed_template import (
    NOTHING_SEEN,
    SeenTypes,
    apply_to_template,
    name_origin,
    requirements_are_met,
)
from kvedge.api.admission.launcher_pod_paths import paths_are_mounted
from kvedge.api.admission.migrations.migration_verdict import judge_update
from kvedge.api.admission.migrations.policy_verdict import judge_policy
from kvedge.api.admission.network_definition_rules import network_can_be_joined, network_warnings
from kvedge.api.admission.presets.preset_parts import Preset
from kvedge.api.admission.presets.preset_plan import name_presets, preset_causes, preset_doubts, preset_warnings
from kvedge.api.admission.presets.preset_verdict import judge_preset
from kvedge.api.admission.rules import (
    vm_rules,
)
from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.kept_type_rules import kept_types_are_ours
from kvedge.api.admission.rules.resume_rules import (
    resume_is_ours,
    resumed_machine_stays,
    state_claim_is_ours,
    tpm_origin_is_ours,
)
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.storage.data_volume_rules import data_source_is_complete, data_volume_is_complete
from kvedge.api.admission.rules.subject import Cluster, Subject
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.rules.vm_update_rules import vm_update_is_allowed
from kvedge.api.admission.rules.vmi_update_rules import update_is_allowed
from kvedge.api.admission.scaling.pool_verdict import judge_pool
from kvedge.api.admission.scaling.replica_set_verdict import judge_replica_set
from kvedge.api.admission.snapshots.clone_verdict import judge_clone
from kvedge.api.admission.snapshots.schedule_verdict import judge_schedule
from kvedge.api.admission.snapshots.snapshot_verdict import judge_restore, judge_snapshot
from kvedge.api.admission.spec_verdict import (
    Verdict,
    annotation_warnings,
    body_of,
    disk_warnings,
    distinct,
    document_causes,
    member_of,
    nic_warnings,
    spec_causes,
    template_subject,
    template_warnings,
)
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MigrationPolicy, VirtualMachineInstanceMigration
from kvedge.resources.types.presets import PRESET_KIND
from kvedge.resources.types.protection.backup_schedules import BackupSchedule
from kvedge.resources.types.protection.backup_tasks import BackupTask
from kvedge.resources.types.protection.backup_tests import BackupTest
from kvedge.resources.types.protection.backups import BACKUP_GROUP, BackupRepository, BackupRestore, BackupRun
from kvedge.resources.types.protection.clones import VirtualMachineClone
from kvedge.resources.types.protection.exports import EXPORT_GROUP
from kvedge.resources.types.protection.schedules import VirtualMachineSnapshotSchedule
from kvedge.resources.types.protection.snapshots import SNAPSHOT_GROUP, VirtualMachineRestore, VirtualMachineSnapshot
from kvedge.resources.types.protection.vm_backups import VM_BACKUP_GROUP
from kvedge.resources.types.scaling.pools import VirtualMachinePool
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate
from kvedge.resources.types.vm_types.instancetypes import INSTANCETYPE_GROUP
from kvedge.resources.types.vmi import VirtualMachineInstance

_CDI_RULES: Final[Mapping[str, Callable[[JsonObject, JsonObject | None], Iterator[Cause]]]] = {
    "datavolumes": data_volume_is_complete,
    "datasources": data_source_is_complete,
}
_SNAPSHOT_RULES: Final[Mapping[str, Callable[[AdmissionRequest, JsonObject], Verdict]]] = {
    VirtualMachineSnapshot.KIND.plural: judge_snapshot,
    VirtualMachineRestore.KIND.plural: judge_restore,
}
_BACKUP_RULES: Final[Mapping[str, Callable[[AdmissionRequest, JsonObject], Verdict]]] = {
    BackupRepository.KIND.plural: judge_repository,
    BackupRun.KIND.plural: judge_backup,
    BackupRestore.KIND.plural: judge_return,
    BackupTask.KIND.plural: judge_task,
    BackupSchedule.KIND.plural: judge_backup_schedule,
    BackupTest.KIND.plural: judge_test,
}
_SPEC: Final = Field("spec")
_TEMPLATE_SPEC: Final = _SPEC.at("template", "spec")


def plan_verdict(
    request: AdmissionRequest,
    cluster: Cluster,
    presets: Sequence[Preset] = (),
    preset_doubt: str = "",
    seen: SeenTypes = NOTHING_SEEN,
) -> Verdict:
    """Judge one write. Deletes, subresources and kinds that are not ours pass.

    Args:
        request: the write.
        cluster: what holds for all VMs.
        presets: those of the namespace.
        preset_doubt: why these may not be all; empty when they are.
        seen: the instance type and the preference that a VM names.
    """
    document = request.object
    if document is None or request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return Verdict()
    if request.resource.resource == "virtualmachines":
        return _judge_vm(request, document, cluster, seen)
    if request.resource.resource == "virtualmachineinstances":
        if request.operation == "CREATE" and (too_large := tuple(size_is_sane(parts_to_judge(document)))):
            return Verdict(too_large)
        causes = [*resume_is_ours(request.old_object or {}, document, request.user)]
        causes += state_claim_is_ours(request.old_object or {}, document, request.user)
        causes += _vmi_causes(request, document, cluster)
        if request.operation == "CREATE":
            causes = [*name_presets(document, causes), *preset_causes(document, presets)]
        return Verdict(tuple(distinct(causes)), tuple(_vmi_warnings(request, document, preset_doubt)))
    if request.resource.resource == VirtualMachinePool.KIND.plural:
        return judge_pool(request, document, lambda vm: _judge_pooled(request, vm, cluster))
    if request.resource.resource == VirtualMachineInstanceMigration.KIND.plural:
        # Another webhook judges new ones: it asks what else there is.
        return Verdict(tuple(judge_update(document, request.old_object)) if request.old_object is not None else ())
    if request.resource.resource == MigrationPolicy.KIND.plural:
        return judge_policy(request, document)
    if request.resource.group == INSTANCETYPE_GROUP:
        return judge_type(request, document)
    if request.resource.resource == PRESET_KIND.plural:
        return judge_preset(request, document, cluster)
    if request.resource.resource == "virtualmachineinstancereplicasets":
        return judge_replica_set(request, document, cluster)
    if request.resource.group == CDI_GROUP and (rule := _CDI_RULES.get(request.resource.resource)) is not None:
        old = request.old_object if request.operation == "UPDATE" else None
        return Verdict(tuple(distinct(rule(document, old))))
    if request.resource.group == SNAPSHOT_GROUP and (judge := _SNAPSHOT_RULES.get(request.resource.resource)):
        return judge(request, document)
    if request.resource.group == EXPORT_GROUP:
        return judge_export(request, document)
    if request.resource.resource == VirtualMachineClone.KIND.plural:
        return judge_clone(request, document)
    if request.resource.group == BACKUP_GROUP and (judge := _BACKUP_RULES.get(request.resource.resource)):
        return judge(request, document)
    if request.resource.group == VM_BACKUP_GROUP:
        return judge_vm_backup(request, document, cluster)
    if request.resource.resource == VirtualMachineSnapshotSchedule.KIND.plural:
        return judge_schedule(request, document)
    if request.resource.resource == Pod.KIND.plural:
        return Verdict(tuple(paths_are_mounted(document)) if request.operation == "CREATE" else ())
    networks = NetworkAttachmentDefinition.KIND
    if (request.resource.group, request.resource.resource) == (networks.group, networks.plural):
        old = request.old_object if request.operation == "UPDATE" else None
        return Verdict(tuple(distinct(network_can_be_joined(document, old))), tuple(network_warnings(document)))
    return Verdict()


def _judge_vm(request: AdmissionRequest, document: JsonObject, cluster: Cluster, seen: SeenTypes) -> Verdict:
    old = request.old_object
    if request.user.is_handler:
        return Verdict(tuple(handlers_make_nothing(request)))
    forged = tuple(kept_types_are_ours(old or {}, document, request.user))
    forged += tuple(resume_is_ours(old or {}, document, request.user))
    forged += tuple(state_claim_is_ours(old or {}, document, request.user))
    forged += tuple(tpm_origin_is_ours(old or {}, document, request.user))
    if old is not None and old.get("spec") == document.get("spec"):
        # A write of labels, finalizers or owners: newer rules must not lock up an object that entered before them.
        return Verdict(forged)
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    allowed = forged + tuple(vm_update_is_allowed(old or {}, document, request.user))
    allowed += tuple(resumed_machine_stays(old or {}, document, request.user))
    allowed += tuple(matchers_follow_their_revision(old or {}, document))
    judged = _judge_new_vm(request, document, cluster, seen)
    return Verdict(tuple(distinct((*allowed, *judged.causes))), judged.warnings)


def _judge_new_vm(
    request: AdmissionRequest, document: JsonObject, cluster: Cluster, seen: SeenTypes = NOTHING_SEEN
) -> Verdict:
    """Judge all of a VM, whatever it was before; its template as it is with what it names."""
    causes = list(unknown_fields(VirtualMachine, body_of(document), Field("")))
    written = member_of(document, "spec").get("template")
    try:
        vm = decode(VirtualMachine, document)
    except DecodeError as error:
        if isinstance(written, dict):
            causes += document_causes(member_of(written, "spec"), _TEMPLATE_SPEC)
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [cause for rule in (matchers_are_complete, *vm_rules.RULES) for cause in rule(vm)]
    warnings = [*vm_rules.warnings(vm), *seen.missing]
    if isinstance(written, dict):
        found = _judge_template(written, vm, request, cluster, seen)
        causes, warnings = [*causes, *found.causes], [*warnings, *found.warnings]
    return Verdict(tuple(distinct(causes)), tuple(warnings))


def _judge_pooled(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Verdict:
    """The VM of a pool, which the controller makes as the pool's author has it."""
    judged = _judge_new_vm(request, document, cluster)
    rules = (kept_types_are_ours, resume_is_ours, tpm_origin_is_ours)
    forged = [cause for rule in rules for cause in rule({}, document, request.user)]
    return Verdict((*forged, *judged.causes), judged.warnings)


def _judge_template(
    written: JsonObject, vm: VirtualMachine, request: AdmissionRequest, cluster: Cluster, seen: SeenTypes
) -> Verdict:
    own = document_causes(member_of(written, "spec"), _TEMPLATE_SPEC)
    if vm.spec.template is None or not seen.types:
        template, causes = vm.spec.template or VirtualMachineInstanceTemplate(), list(own)
        applied = written
    else:
        made = apply_to_template(written, seen.types, cluster)
        if isinstance(made, list):
            # The rest is a matter of what the VM's author decides.
            return Verdict(tuple(made))
        applied = made
        causes = list(name_origin(document_causes(member_of(applied, "spec"), _TEMPLATE_SPEC), own))
        try:
            template = decode(VirtualMachineInstanceTemplate, applied)
        except DecodeError as error:
            at = f"spec.template.{error.path}"
            return Verdict((*causes, Cause(at, f"{at}: {error.detail}", "FieldValueTypeInvalid")))
    causes += spec_causes(template_subject(template, cluster, request.user))
    causes += requirements_are_met(applied, seen.types, cluster)
    knows_memory = vm.spec.instancetype is None or seen.types.instancetype is not None
    warnings = template_warnings(template) if knows_memory else []
    return Verdict(tuple(causes), tuple(warnings))


def _vmi_causes(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Iterator[Cause]:
    if request.operation == "UPDATE":
        yield from update_is_allowed(request.old_object or {}, document, request.user)
        return
    yield from handlers_make_nothing(request)
    yield from unknown_fields(VirtualMachineInstance, body_of(document), Field(""))
    yield from document_causes(member_of(document, "spec"), _SPEC)
    try:
        vmi = decode(VirtualMachineInstance, document)
    except DecodeError as error:
        yield Cause(error.path, str(error), "FieldValueTypeInvalid")
        return
    by_role = request.user.is_role
    yield from spec_causes(Subject(vmi.spec, vmi.metadata, _SPEC, Field("metadata"), cluster, by_role))


def _vmi_warnings(request: AdmissionRequest, document: JsonObject, preset_doubt: str) -> Iterator[str]:
    if request.operation == "CREATE":
        yield from preset_doubts(document, preset_doubt)
    if request.operation == "CREATE" and not request.user.is_role:
        # The author of a VM has got these warnings with the VM.
        yield from preset_warnings(document)
        with contextlib.suppress(DecodeError):
            vmi = decode(VirtualMachineInstance, document)
            yield from disk_warnings(vmi.spec, _SPEC)
            yield from nic_warnings(vmi.spec, _SPEC)
            yield from annotation_warnings(vmi.metadata, Field("metadata"))


def handlers_make_nothing(request: AdmissionRequest) -> Iterator[Cause]:
    """A node's handler only reports on its VMIs: it must not decide what runs where."""
    if request.user.is_handler:
        resource = request.resource.resource
        text = f"Node restriction, virt-handler is not allowed to {request.operation.lower()} {resource}"
        yield Cause("metadata.name", text, "FieldValueNotSupported")
