"""Whether KubeVirt's backup of a running VM, or what keeps track of its backups, may enter; in KubeVirt's words.

Called by admission_plan.py. Pure. Whether there is such a VM, tracker or claim is no matter of admission: the object
waits, and says for what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.configuration.feature_gates import INCREMENTAL_BACKUP
from kvedge.resources.types.protection.snapshots import TypedReference
from kvedge.resources.types.protection.vm_backups import (
    VM_BACKUP_GROUP,
    VirtualMachineBackup,
    VirtualMachineBackupSpec,
    VirtualMachineBackupTracker,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.name_grammar import is_subdomain

_SPEC: Final = Field("spec")
_SOURCE: Final = _SPEC.at("source")
_KINDS: Final = {
    VirtualMachine.KIND.group: VirtualMachine.KIND.kind,
    VM_BACKUP_GROUP: VirtualMachineBackupTracker.KIND.kind,
}
_LONGEST_NAME: Final = 63
# The name and a time are in a checkpoint's name, and with a volume's in that of a file.
_LONGEST_BACKUP: Final = 128


def judge_vm_backup(request: AdmissionRequest, document: JsonObject, cluster: Cluster) -> Verdict:
    """Judge one write of a backup or a tracker."""
    if request.old_object is not None:
        changed = request.old_object.get("spec") != document.get("spec")
        return Verdict((unsupported_cause("spec", "spec is immutable after creation"),) if changed else ())
    if not cluster.configuration.gates.is_on(INCREMENTAL_BACKUP):
        text = f"{INCREMENTAL_BACKUP} feature gate not enabled: name it in the KubeVirt object's featureGates"
        return Verdict((Cause("", text, "FieldValueNotSupported"),))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    is_backup = request.resource.resource == VirtualMachineBackup.KIND.plural
    kind = VirtualMachineBackup if is_backup else VirtualMachineBackupTracker
    causes = list(unknown_fields(kind, body_of(document), Field("")))
    try:
        if is_backup:
            backup = decode(VirtualMachineBackup, document)
            causes += [*_is_backup(backup.spec), *_name_is_short(backup.metadata.name)]
        else:
            tracker = decode(VirtualMachineBackupTracker, document)
            causes += _is_source(tracker.spec.source, {VirtualMachine.KIND.group: VirtualMachine.KIND.kind})
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
    return Verdict(tuple(distinct(causes)))


def _is_backup(spec: VirtualMachineBackupSpec) -> Iterator[Cause]:
    yield from _is_source(spec.source, _KINDS)
    at = _SPEC.at("pvcName")
    if not spec.pvc_name:
        yield required_cause(at, "pvcName is required")
    elif not is_subdomain(spec.pvc_name):
        yield invalid_value(at, spec.pvc_name, "it is no name of a claim")
    if spec.is_pull and not spec.token_secret_ref:
        yield required_cause(_SPEC.at("tokenSecretRef"), "tokenSecretRef is required when mode is Pull")
    if spec.token_secret_ref and not is_subdomain(spec.token_secret_ref):
        yield invalid_value(_SPEC.at("tokenSecretRef"), spec.token_secret_ref, "it is no name of a Secret")
    if spec.ttl_duration is None:
        return
    try:
        if parse_duration(spec.ttl_duration) <= 0:
            yield invalid_value(_SPEC.at("ttlDuration"), spec.ttl_duration, "must be more than nothing")
    except DurationError as error:
        yield invalid_value(_SPEC.at("ttlDuration"), spec.ttl_duration, f"{error}: write it as 30m or 2h")


def _is_source(source: TypedReference, kinds: dict[str, str]) -> Iterator[Cause]:
    if not source.api_group:
        yield required_cause(_SOURCE.at("apiGroup"), "apiGroup is required")
    elif source.api_group not in kinds:
        yield Cause(_SOURCE.at("apiGroup"), f"apiGroup must be {' or '.join(kinds)}")
    elif source.kind != kinds[source.api_group]:
        wanted = " or ".join(f"{kind} for {group}" for group, kind in kinds.items())
        yield Cause(_SOURCE.at("kind"), f"kind must be {wanted}")
    if not source.name:
        yield required_cause(_SOURCE.at("name"), "name is required")
    elif not is_subdomain(source.name):
        yield invalid_value(_SOURCE.at("name"), source.name, "it is no name of an object")


def _name_is_short(name: str) -> Iterator[Cause]:
    if len(name) > _LONGEST_BACKUP:
        yield invalid_value(Field("metadata").at("name"), name, f"at most {_LONGEST_BACKUP} characters")
