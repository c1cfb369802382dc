"""Whether a snapshot or a restore may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. Whether there is such a VM, and whether another operation has it, is no matter of
admission: the object waits, and says for what.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.kept_type_rules import patches_leave_kept_types
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.rules.vm_rules import longest_name_in
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.data_volume_names import (
    ALLOW_ADOPTION,
    EXTERNAL_POPULATION,
    POD_PHASE,
    POPULATED_FOR,
    PRE_POPULATED,
    STATIC_VOLUME,
)
from kvedge.resources.disks.snapshot_names import MEMORY_CLASS, RESTORE_MEMORY, SNAPSHOT_MEMORY, is_volume_copy
from kvedge.resources.types.protection.snapshots import (
    TypedReference,
    VirtualMachineRestore,
    VirtualMachineRestoreSpec,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotSpec,
    VolumeRestoreOverride,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.name_grammar import is_subdomain

_SPEC: Final = Field("spec")
_GROUP: Final = VirtualMachine.KIND.group
_READINESS: Final = ("WaitGracePeriod", "WaitEventually", "StopTarget", "FailImmediate")
_NAMES: Final = ("RandomizeNames", "PrefixTargetName", "InPlace")
_OWNERSHIP: Final = ("Vm", "None")
_OPERATIONS: Final = ("add", "remove", "replace", "move", "copy", "test")
_PATCHED: Final = ("/spec/", "/metadata/labels/", "/metadata/annotations/")
# By filters a clone replaces them as a whole.
_REPLACED: Final = ("/metadata/labels", "/metadata/annotations")
# By these annotations a DataVolume, or its claim, has its data already, or takes another's claim for its own.
_FILLED: Final = {PRE_POPULATED, STATIC_VOLUME, ALLOW_ADOPTION, EXTERNAL_POPULATION, POPULATED_FOR, POD_PHASE}
# As many as a VM may have volumes.
_MOST: Final = 256
# Of any object.
_LONGEST_NAME: Final = 253


def judge_snapshot(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a snapshot."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineSnapshot, body_of(document), Field("")))
    try:
        spec = decode(VirtualMachineSnapshot, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [*names_a_vm(spec.source, _SPEC.at("source")), *_deadline_is_one(spec)]
    causes += _memory_words_are_clear(document, (SNAPSHOT_MEMORY, MEMORY_CLASS))
    return Verdict(tuple(distinct(causes)))


def judge_restore(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a restore."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineRestore, body_of(document), Field("")))
    try:
        spec = decode(VirtualMachineRestore, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [
        # The restore may make the VM: by then nobody is there who could be told.
        *names_a_vm(spec.target, _SPEC.at("target"), longest_name_in(request.namespace)),
        *_names_a_snapshot(spec),
        *_policies_are_known(spec),
        *_overrides_say_something(spec.volume_restore_overrides),
        *patches_are_patches(spec.patches),
        *patches_leave_kept_types(spec.patches[:_MOST], request.user),
        *_memory_words_are_clear(document, (RESTORE_MEMORY,)),
    ]
    return Verdict(tuple(distinct(causes)))


def is_unchanged(old: JsonObject, document: JsonObject) -> Iterator[Cause]:
    """The controller acts on what it was made for."""
    if old.get("spec") != document.get("spec"):
        yield unsupported_cause("spec", "spec in immutable after creation")


def names_a_vm(reference: TypedReference, at: Field, longest: int = _LONGEST_NAME) -> Iterator[Cause]:
    """A reference that a VM can have, whose name has so many characters at most."""
    if reference.api_group is None:
        yield required_cause(at.at("apiGroup"), "missing apiGroup")
    elif reference.api_group != _GROUP:
        yield Cause(at.at("apiGroup"), "invalid apiGroup")
    if reference.kind != VirtualMachine.KIND.kind:
        yield Cause(at.at("kind"), "invalid kind")
    if not reference.name:
        yield required_cause(at.at("name"), f"{at.at('name')}: which VM must be given")
    elif len(reference.name) > longest or not is_subdomain(reference.name):
        yield invalid_value(at.at("name"), reference.name, f"it is no name of a VM: at most {longest} characters")


def _deadline_is_one(spec: VirtualMachineSnapshotSpec) -> Iterator[Cause]:
    at, given = _SPEC.at("failureDeadline"), spec.failure_deadline
    if given is None:
        return
    try:
        if parse_duration(given) < 0:
            yield invalid_value(at, given, "must not be negative; 0s is for no deadline")
    except DurationError as error:
        yield invalid_value(at, given, f"{error}: write it as 10m or 1h30m")


def _memory_words_are_clear(document: JsonObject, names: Sequence[str]) -> Iterator[Cause]:
    """Somebody counts on memory, or on its absence: a word that nobody reads is no answer."""
    given = (document.get("metadata") or {}).get("annotations") or {}
    for name in names:
        at = Field("metadata").at("annotations").key(name)
        if name == MEMORY_CLASS:
            if name in given and not is_subdomain(str(given[name])):
                yield invalid_value(at, given[name], "it is no name of a StorageClass")
        elif given.get(name, "false") not in ("true", "false"):
            yield unsupported_cause(at, f'{at}: "true" or "false", and not {given[name]!r}')


def _names_a_snapshot(spec: VirtualMachineRestoreSpec) -> Iterator[Cause]:
    at = _SPEC.at("virtualMachineSnapshotName")
    if not spec.virtual_machine_snapshot_name:
        yield required_cause(at, f"{at}: which snapshot must be given")
    elif not is_subdomain(spec.virtual_machine_snapshot_name):
        yield invalid_value(at, spec.virtual_machine_snapshot_name, "it is no name of a snapshot")


def _policies_are_known(spec: VirtualMachineRestoreSpec) -> Iterator[Cause]:
    given = spec.target_readiness_policy
    if given is not None and given not in _READINESS:
        at = _SPEC.at("targetReadinessPolicy")
        yield Cause(at, f'target readiness policy "{given}" doesn\'t exist: one of {", ".join(_READINESS)}')
    given, at = spec.volume_restore_policy, _SPEC.at("volumeRestorePolicy")
    if given is not None and given not in _NAMES:
        yield Cause(at, f'volume restore policy "{given}" doesn\'t exist')
    given = spec.volume_ownership_policy
    if given is not None and given not in _OWNERSHIP:
        yield Cause(_SPEC.at("volumeOwnershipPolicy"), f'volume ownership policy "{given}" doesn\'t exist')


def _overrides_say_something(overrides: list[VolumeRestoreOverride]) -> Iterator[Cause]:
    at = _SPEC.at("volumeRestoreOverrides")
    if len(overrides) > _MOST:
        yield Cause(at, f"{at} list exceeds the {_MOST} element limit in length")
    seen: set[str] = set()
    for index, each in enumerate(overrides[:_MOST]):
        here = at.item(index)
        if not each.volume_name:
            yield required_cause(here, "must provide a volume name")
        if not (each.restore_name or each.labels or each.annotations):
            yield required_cause(here, "must provide at least one overriden field")
        if each.restore_name and (not is_subdomain(each.restore_name) or is_volume_copy(each.restore_name)):
            yield invalid_value(here.at("restoreName"), each.restore_name, "it is no name for a new claim")
        for name in sorted(_FILLED & each.annotations.keys()):
            text = f"{here}: {name} would have the disk count as restored without its data: leave it out"
            yield unsupported_cause(here.at("annotations").key(name), text)
        if each.restore_name and each.restore_name in seen:
            yield Cause(here.at("restoreName"), f"{here}: another volume gets {each.restore_name} already")
        seen.add(each.restore_name)


def patches_are_patches(patches: Sequence[str]) -> Iterator[Cause]:
    """Each is one operation of a JSON patch, on what a user may say of a VM."""
    at = _SPEC.at("patches")
    if len(patches) > _MOST:
        yield Cause(at, f"{at} list exceeds the {_MOST} element limit in length")
    for index, text in enumerate(patches[:_MOST]):
        here = at.item(index)
        try:
            operation = json.loads(text)
        except (ValueError, RecursionError):
            yield Cause(here, f"{here}: patch format is not valid: it is no JSON: {text}")
            continue
        if not isinstance(operation, dict) or operation.get("op") not in _OPERATIONS:
            yield Cause(here, f"{here}: patch format is not valid: it is no operation of a JSON patch: {text}")
            continue
        for name in ("path", "from"):
            path = operation.get(name)
            if name == "from" and path is None:
                continue
            if not isinstance(path, str) or not (path.startswith(_PATCHED) or path in _REPLACED):
                yield Cause(here, f"patching is valid only for elements under /spec/ only: {text}")
