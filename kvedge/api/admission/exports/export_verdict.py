"""Whether an export may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. Whether its source is there, and whether a guest has it, is no matter of admission:
the export waits, and says for what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.disks.exports import default_token_secret
from kvedge.resources.types.protection.exports import ExportSource, VirtualMachineExport, VirtualMachineExportSpec
from kvedge.resources.types.protection.snapshots import SNAPSHOT_GROUP
from kvedge.resources.types.protection.vm_backups import VM_BACKUP_GROUP
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.name_grammar import is_subdomain

_SPEC: Final = Field("spec")
_SOURCE: Final = _SPEC.at("source")
# By kind: how KubeVirt calls it, and the groups that it may have.
_SOURCES: Final = {
    "PersistentVolumeClaim": ("PVC", (None, "")),
    "VirtualMachineSnapshot": ("VMSnapshot", (SNAPSHOT_GROUP,)),
    "VirtualMachineBackup": ("VMBackup", (VM_BACKUP_GROUP,)),
    "VirtualMachine": ("VM", (VirtualMachine.KIND.group,)),
}
_NAMED: Final = {"VM": "Virtual Machine"}
# KubeVirt has them behind gates, or in alpha.
_NOT_SERVED: Final = ("VirtualMachineTemplate",)
_LONGEST_NAME: Final = 253


def judge_export(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of an export."""
    if request.old_object is not None:
        changed = request.old_object.get("spec") != document.get("spec")
        return Verdict((unsupported_cause("spec", "spec in immutable after creation"),) if changed else ())
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineExport, body_of(document), Field("")))
    try:
        export = decode(VirtualMachineExport, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [*_source_is_one(export.spec.source), *_token_is_one(export), *_life_is_one(export.spec)]
    return Verdict(tuple(distinct(causes)))


def _source_is_one(source: ExportSource) -> Iterator[Cause]:
    if source.kind in _NOT_SERVED:
        at = _SOURCE.at("kind")
        text = f"{at}: {source.kind} cannot be exported here: export a VirtualMachine or a VirtualMachineSnapshot"
        yield unsupported_cause(at, text)
        return
    if source.kind not in _SOURCES:
        yield Cause(_SOURCE.at("kind"), "invalid kind")
        return
    called, groups = _SOURCES[source.kind]
    if not source.name:
        yield required_cause(_SOURCE.at("name"), f"{_NAMED.get(called, called)} name must not be empty")
    elif not is_subdomain(source.name):
        yield invalid_value(_SOURCE.at("name"), source.name, f"it is no name of a {source.kind}")
    if source.api_group not in groups:
        wanted = "missing or blank" if None in groups else groups[0]
        yield Cause(_SOURCE.at("apiGroup"), f"{called} API group must be {wanted}")


def _token_is_one(export: VirtualMachineExport) -> Iterator[Cause]:
    at, given = _SPEC.at("tokenSecretRef"), export.spec.token_secret_ref
    if given is not None and not is_subdomain(given):
        yield invalid_value(at, given, "it is no name of a Secret; leave it out, and one is made")
    if given is None and len(default_token_secret(export.metadata.name)) > _LONGEST_NAME:
        text = "its Secret's name would be too long: take a shorter one, or name a Secret in spec.tokenSecretRef"
        yield invalid_value(Field("metadata").at("name"), export.metadata.name, text)


def _life_is_one(spec: VirtualMachineExportSpec) -> Iterator[Cause]:
    at, given = _SPEC.at("ttlDuration"), spec.ttl_duration
    if given is None:
        return
    try:
        if parse_duration(given) <= 0:
            yield invalid_value(at, given, "must be more than nothing; leave it out for two hours")
    except DurationError as error:
        yield invalid_value(at, given, f"{error}: write it as 30m or 2h")
