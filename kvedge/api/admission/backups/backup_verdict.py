"""Whether a repository of backups, a backup or its way back may enter.

Called by admission_plan.py. Pure. Whether there is such a VM, repository or backup is no matter of admission: the
object waits, and says for what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.backups.backup_fields import duration_is_one, is_backup_id, is_name, is_unchanged, is_vm
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.protection.backups import (
    BackupRepository,
    BackupRepositorySpec,
    BackupRestore,
    BackupRestoreSpec,
    BackupRun,
)

_SPEC: Final = Field("spec")
# restic's words for the places that are reached over the network. Each character is one that no option begins with and
# no shell reads; a local path would be one of the worker's own Pod.
_URL: Final = re.compile(r"(?:s3:(?:https?://)?|rest:https?://|sftp:(?://)?)[A-Za-z0-9][A-Za-z0-9@:/._~%+-]{0,1000}")
_WITH_PASSWORD: Final = re.compile(r"//[^/@]*:[^/@]*@")
_MOST_VOLUMES: Final = 256


def judge_repository(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a repository; what it is may change, as places move."""
    old = request.old_object
    if old is not None and old.get("spec") == document.get("spec"):
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupRepository, body_of(document), Field("")))
    try:
        spec = decode(BackupRepository, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [*_has_one_place(spec), *is_name(spec.secret_name, _SPEC.at("secretName"), "the Secret")]
    return Verdict(tuple(distinct(causes)))


def judge_backup(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a backup."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupRun, body_of(document), Field("")))
    try:
        spec = decode(BackupRun, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [
        *is_vm(spec.vm_name, _SPEC.at("vmName")),
        *is_name(spec.repository_name, _SPEC.at("repositoryName"), "the BackupRepository"),
        *(is_name(spec.snapshot_name, _SPEC.at("snapshotName"), "the snapshot") if spec.snapshot_name else ()),
        *duration_is_one(spec.deadline, _SPEC.at("deadline")),
    ]
    return Verdict(tuple(distinct(causes)))


def judge_return(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a backup's way back."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(BackupRestore, body_of(document), Field("")))
    try:
        spec = decode(BackupRestore, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [*is_name(spec.repository_name, _SPEC.at("repositoryName"), "the BackupRepository"), *_source(spec)]
    return Verdict(tuple(distinct(causes)))


def _has_one_place(spec: BackupRepositorySpec) -> Iterator[Cause]:
    if bool(spec.url) == bool(spec.claim_name):
        yield required_cause(_SPEC, "spec: one of url and claimName must be given, and not both")
    at = _SPEC.at("url")
    if spec.url and not _URL.fullmatch(spec.url):
        yield invalid_value(
            at, spec.url, "must be s3:https://host/bucket/path, rest:https://host/path or sftp:user@host:/path"
        )
    elif spec.url and _WITH_PASSWORD.search(spec.url):
        yield Cause(at, f"{at}: no password belongs here, where everybody reads it: put it into the Secret")
    if spec.claim_name:
        yield from is_name(spec.claim_name, _SPEC.at("claimName"), "the claim")


def _source(spec: BackupRestoreSpec) -> Iterator[Cause]:
    yield from is_vm(spec.vm_name, _SPEC.at("vmName"))
    if spec.target_name:
        yield from is_vm(spec.target_name, _SPEC.at("targetName"))
    if spec.vm_namespace:
        yield from is_name(spec.vm_namespace, _SPEC.at("vmNamespace"), "the namespace")
    if spec.backup_id:
        yield from is_backup_id(spec.backup_id, _SPEC.at("backupID"))
    if spec.volumes:
        yield from _disks_are_some(spec)
    if spec.live and (spec.volumes or spec.isolated):
        other = "volumes" if spec.volumes else "isolated"
        yield unsupported_cause(
            "spec.live",
            f"spec.live: a VM that starts from its backup is a whole one: leave out one of live and {other}",
        )


def _disks_are_some(spec: BackupRestoreSpec) -> Iterator[Cause]:
    at = _SPEC.at("volumes")
    if spec.target_name:
        yield unsupported_cause(
            "spec.targetName", "spec.targetName: with spec.volumes no VM is made: name the claims there"
        )
    if len(spec.volumes) > _MOST_VOLUMES:
        yield invalid_value(at, len(spec.volumes), f"at most {_MOST_VOLUMES} disks come back at once")
        return
    names = [each.volume_name for each in spec.volumes]
    claims = [each.claim_name for each in spec.volumes if each.claim_name]
    if len(set(names)) < len(names) or len(set(claims)) < len(claims):
        yield invalid_value(at, ", ".join(names), "each disk and each claim is named once")
    for number, each in enumerate(spec.volumes):
        yield from is_name(each.volume_name, at.item(number).at("volumeName"), "the VM's volume")
        if each.claim_name:
            yield from is_name(each.claim_name, at.item(number).at("claimName"), "the claim")
