"""Whether a MigrationPolicy may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. A policy of before that nobody changes is not judged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.scheduling_rules import labels_are_labels
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.migrations import DOWNTIME_MS, MigrationPolicy, MigrationPolicySpec
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_quantity

_SPEC: Final = Field("spec")
_NEGATIVE: Final = "must not be negative"
_GIB: Final = 1 << 30


def judge_policy(request: AdmissionRequest, document: JsonObject) -> Verdict:
    """Judge one write of a policy."""
    if request.old_object is not None and request.old_object.get("spec") == document.get("spec"):
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(MigrationPolicy, body_of(document), Field("")))
    try:
        spec = decode(MigrationPolicy, document).spec
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    causes += [*_selectors_are_labels(spec), *_numbers_are_possible(spec), *_is_supported(spec)]
    return Verdict(tuple(distinct(causes)), tuple(_warnings(spec)))


def _selectors_are_labels(spec: MigrationPolicySpec) -> Iterator[Cause]:
    at = _SPEC.at("selectors")
    if spec.selectors is None:
        yield required_cause(at, f"{at}: which VMIs the policy is for must be given")
        return
    yield from labels_are_labels(spec.selectors.namespace_selector or {}, at.at("namespaceSelector"))
    yield from labels_are_labels(
        spec.selectors.virtual_machine_instance_selector or {}, at.at("virtualMachineInstanceSelector")
    )


def _numbers_are_possible(spec: MigrationPolicySpec) -> Iterator[Cause]:
    if spec.completion_timeout_per_gib is not None and spec.completion_timeout_per_gib < 0:
        yield invalid_value(_SPEC.at("completionTimeoutPerGiB"), spec.completion_timeout_per_gib, _NEGATIVE)
    lowest, highest = DOWNTIME_MS
    if spec.max_downtime_ms is not None and not lowest <= spec.max_downtime_ms <= highest:
        text = f"must be greater than or equal to {lowest} and less than or equal to {highest}"
        yield invalid_value(_SPEC.at("maxDowntimeMs"), spec.max_downtime_ms, text)
    if spec.bandwidth_per_migration is not None:
        yield from _bandwidth_is_possible(spec.bandwidth_per_migration)


def _bandwidth_is_possible(value: Quantity) -> Iterator[Cause]:
    at = _SPEC.at("bandwidthPerMigration")
    try:
        if parse_quantity(value) < 0:
            yield invalid_value(at, value, _NEGATIVE)
    except QuantityError as error:
        yield invalid_value(at, value, str(error))


def _is_supported(spec: MigrationPolicySpec) -> Iterator[Cause]:
    if spec.allow_post_copy:
        at = _SPEC.at("allowPostCopy")
        yield unsupported_cause(
            at,
            f"{at}: post-copy is not supported yet: set it to false; allowAutoConverge slows a guest down that writes "
            "too fast",
        )
    if spec.experimental is not None:
        at = _SPEC.at("experimental")
        yield unsupported_cause(at, f"{at}: not supported: remove it")


def _warnings(spec: MigrationPolicySpec) -> Iterator[str]:
    if spec.selectors is not None:
        given = (spec.selectors.namespace_selector, spec.selectors.virtual_machine_instance_selector)
        if spec.selectors.is_for_no_vmi:
            yield "spec.selectors: without a selector the policy is for no VMI"
        elif not any(given):
            yield "spec.selectors: a selector without labels is for all VMIs"
    seconds, rate = spec.completion_timeout_per_gib, _bytes(spec.bandwidth_per_migration)
    if seconds and rate and rate * seconds < _GIB:
        yield (
            f"spec.completionTimeoutPerGiB: {seconds}: at bandwidthPerMigration {spec.bandwidth_per_migration} one GiB "
            f"takes {_GIB // rate} seconds: guests that use all their memory do not move in time"
        )


def _bytes(value: Quantity | None) -> int:
    try:
        return int(parse_quantity(value)) if value is not None else 0
    except QuantityError:
        return 0
