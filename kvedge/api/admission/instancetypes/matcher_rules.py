"""Rules for `spec.instancetype` and `spec.preference` of a VM; worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, not_found_cause, unsupported_cause
from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.matchers import IGNORE, INSTANCETYPE, PREFERENCE, REJECT, Part, UnknownKind
from kvedge.resources.types.vm import Matcher, VirtualMachine


def matchers_are_complete(vm: VirtualMachine) -> Iterator[Cause]:
    """Each has a name, or a volume that it is read from."""
    for part, matcher in ((INSTANCETYPE, vm.spec.instancetype), (PREFERENCE, vm.spec.preference)):
        if matcher is not None:
            yield from _matcher_is_complete(part, matcher)


def _matcher_is_complete(part: Part, matcher: Matcher) -> Iterator[Cause]:
    at = Field("spec").at(part.member)
    if not matcher.name and not matcher.infer_from_volume:
        yield not_found_cause(at, f"Either Name or InferFromVolume should be provided within the {part.matcher}")
    if matcher.infer_from_volume:
        for name in ("name", "kind"):
            if getattr(matcher, name):
                text = f"{name.capitalize()} already set, should be cleared before setting inferFromVolume"
                yield unsupported_cause(at.at(name), text)
    for field, name in (("name", matcher.name), ("revisionName", matcher.revision_name)):
        # The API server is asked for it with our own rights.
        for complaint in dns_subdomain_complaints(name) if name else ():
            yield invalid_value(at.at(field), name, complaint)
    policy = matcher.infer_from_volume_failure_policy
    if policy is not None and policy not in (IGNORE, REJECT):
        here = at.at("inferFromVolumeFailurePolicy")
        yield Cause(here, f"Invalid value '{policy}' for InferFromVolumeFailurePolicy")
    try:
        part.kind_of(matcher)
    except UnknownKind as error:
        known = f"{part.in_cluster.kind} or {part.in_namespace.kind}"
        yield unsupported_cause(at.at("kind"), f"{error}; use {known}")


def matchers_follow_their_revision(old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    """Another name needs another copy: the VM would keep what it had, under the new name."""
    for part in (INSTANCETYPE, PREFERENCE):
        before, after = _member(old, part.member), _member(new, part.member)
        revision = before.get("revisionName")
        if revision and after and before.get("name") != after.get("name") and revision == after.get("revisionName"):
            at = Field("spec").at(part.member, "revisionName")
            yield Cause(at, "the Matcher Name has been updated without updating the RevisionName")


def _member(document: JsonObject, name: str) -> JsonObject:
    spec = document.get("spec")
    found = spec.get(name) if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}
