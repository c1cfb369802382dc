"""Whether a clone may enter, worded as KubeVirt words it; and the name of a target that nobody has named.

Called by admission_plan.py and mutation_plan.py. Pure. Whether there is such a source is no matter of admission: the
clone waits for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause
from kvedge.api.admission.rules.kept_type_rules import patches_leave_kept_types
from kvedge.api.admission.rules.networks.network_rules import is_mac_address
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.snapshots.snapshot_verdict import is_unchanged, names_a_vm, patches_are_patches
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.disks.clone_names import target_name
from kvedge.resources.types.protection.clones import (
    CloneTemplateFilters,
    VirtualMachineClone,
    VirtualMachineCloneSpec,
)
from kvedge.resources.types.protection.snapshots import TypedReference, VirtualMachineSnapshot
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.key_patterns import MOST_INSTRUCTIONS, KeyFilter
from kvedge.resources.values.name_grammar import LABEL_LENGTH, is_subdomain
from kvedge.resources.values.pattern_reader import PatternError

_SPEC: Final = Field("spec")
_VM: Final = VirtualMachine.KIND
_SOURCES: Final = {_VM.kind: _VM.group, VirtualMachineSnapshot.KIND.kind: VirtualMachineSnapshot.KIND.group}
_POLICIES: Final = ("RandomizeNames", "PrefixTargetName")
# As many as a VM may have interfaces.
_MOST: Final = 256


def judge_clone(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a clone."""
    if request.old_object is not None:
        return Verdict(tuple(is_unchanged(request.old_object, document)))
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachineClone, body_of(document), Field("")))
    try:
        spec = decode(VirtualMachineClone, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [
        *_filters_can_be_used(spec),
        *_names_a_source(spec.source),
        *_names_a_target(spec),
        *_macs_are_addresses(spec.new_mac_addresses),
        *_patches_can_be_used(spec.patches),
        *patches_leave_kept_types(spec.patches[:_MOST], request.user),
    ]
    given = spec.volume_name_policy
    if given is not None and given not in _POLICIES:
        text = f'volume name policy "{given}" doesn\'t exist: one of {", ".join(_POLICIES)}'
        causes.append(Cause(_SPEC.at("volumeNamePolicy"), text))
    return Verdict(tuple(distinct(causes)))


def with_target(document: JsonObject, request_uid: str) -> JsonObject:
    """The clone with a target that has a name: KubeVirt's, with characters that are drawn from the request's UID."""
    spec: Any = document.get("spec")
    source = spec.get("source") if isinstance(spec, dict) else None
    target = spec.get("target") if isinstance(spec, dict) else None
    name = source.get("name") if isinstance(source, dict) else None
    if not isinstance(name, str) or (target is not None and not isinstance(target, dict)):
        return document
    if target is None:
        target = {"apiGroup": _VM.group, "kind": _VM.kind}
    if target.get("name"):
        return document
    drawn = hashlib.sha256(request_uid.encode()).hexdigest()
    return {**document, "spec": {**spec, "target": {**target, "name": target_name(name, drawn)}}}


def _filters_can_be_used(spec: VirtualMachineCloneSpec) -> Iterator[Cause]:
    template = spec.template or CloneTemplateFilters()
    size = 0
    for at, filters in (
        (_SPEC.at("annotationFilters"), spec.annotation_filters),
        (_SPEC.at("labelFilters"), spec.label_filters),
        (_SPEC.at("template", "annotationFilters"), template.annotation_filters),
        (_SPEC.at("template", "labelFilters"), template.label_filters),
    ):
        if filters is None:
            continue
        if len(filters) > _MOST:
            yield Cause(at, f"{at} list exceeds the {_MOST} element limit in length")
            continue
        size += yield from _filters_are_patterns(filters, at)
    if size > MOST_INSTRUCTIONS:
        yield Cause(_SPEC, "the filters are too large in all: have them repeat less, or name fewer keys")


def _filters_are_patterns(filters: Sequence[str], at: Field) -> Generator[Cause, None, int]:
    """What is wrong with them; returns how large they are."""
    size = 0
    for index, text in enumerate(filters):
        here, told = at.item(index), f"{at} filter {text} is invalid"
        if not text:
            yield Cause(here, f"{told}: it is empty")
            continue
        if text == "!":
            yield Cause(here, "a negation character is not a valid filter")
            continue
        if "!" in text[1:]:
            rule = "FilterRules: NegationChar can be only used at the beginning of the filter"
            yield Cause(here, f"{told}: cannot contain a negation character (!); {rule}")
        if "*" in text[:-1]:
            rule = "FilterRules: WildcardChar can be only at the end of the filter"
            yield Cause(here, f"{told}: cannot contain a wildcard character (*); {rule}")
        try:
            size += KeyFilter([text]).size
        except PatternError as error:
            yield Cause(here, f"{told}: {error}")
    return size


def _names_a_source(source: TypedReference | None) -> Iterator[Cause]:
    at = _SPEC.at("source")
    if source is None:
        yield required_cause(at, "Source cannot be nil")
        return
    if not source.api_group:
        yield required_cause(at.at("apiGroup"), "Source's APIGroup cannot be empty")
    if source.kind not in _SOURCES:
        yield Cause(at.at("kind"), "Source kind is not supported" if source.kind else "Source's Kind cannot be empty")
    elif source.api_group and source.api_group != _SOURCES[source.kind]:
        yield invalid_value(at.at("apiGroup"), source.api_group, f"{source.kind} is of {_SOURCES[source.kind]}")
    if not source.name:
        yield required_cause(at.at("name"), "Source's name cannot be empty")
    elif not is_subdomain(source.name):
        yield invalid_value(at.at("name"), source.name, f"it is no name of a {source.kind}")


def _names_a_target(spec: VirtualMachineCloneSpec) -> Iterator[Cause]:
    source, target, at = spec.source, spec.target, _SPEC.at("target")
    if target is None:
        return
    if target.kind != _VM.kind:
        yield Cause(at.at("kind"), "Target kind is not supported")
        return
    yield from names_a_vm(target, at, LABEL_LENGTH)
    if source is not None and (source.kind, source.name) == (target.kind, target.name):
        text = "Target name cannot be equal to source name when both are VirtualMachines"
        yield Cause(at.at("name"), text)


def _macs_are_addresses(addresses: dict[str, str]) -> Iterator[Cause]:
    at = _SPEC.at("newMacAddresses")
    if len(addresses) > _MOST:
        yield Cause(at, f"{at} has more than {_MOST} addresses")
        return
    for name, address in addresses.items():
        if address and not is_mac_address(address):
            yield Cause(at.key(name), f"interface {name} has malformed MAC address ({address}).")


def _patches_can_be_used(patches: Sequence[str]) -> Iterator[Cause]:
    at = _SPEC.at("patches")
    for index, text in enumerate(patches[:_MOST]):
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            yield Cause(at.item(index), f"patch is not valid JSON ({text})")
            return
    yield from patches_are_patches(patches)
