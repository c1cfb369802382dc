"""Whether a VirtualMachinePool may enter; worded as KubeVirt words it.

Called by admission_plan.py. Pure. The template is judged as the VM that it becomes; one that has not changed is not
judged again: newer rules must not keep a pool of before from being scaled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause
from kvedge.api.admission.rules.scheduling_rules import NODE_OPERATORS
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.scaling.replica_set_verdict import number_is_possible, selector_finds_template
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct, member_of
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.label_selectors import find_keys, selector_problems
from kvedge.resources.types.scaling.pools import (
    REVISION_LABEL,
    PoolScaleInStrategy,
    PoolSelectionPolicy,
    PoolUpdateStrategy,
    VirtualMachinePool,
    VirtualMachinePoolSpec,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.durations import DurationError, parse_duration
from kvedge.resources.values.whole_numbers import whole_number

_SPEC: Final = Field("spec")
_TEMPLATE: Final = _SPEC.at("virtualMachineTemplate")
# Where a path of the VM begins in a text.
_PATH: Final = re.compile(r"(?<![\w.])spec\.")
# A VM's name becomes a label's value whole up to 63 characters, of which its number needs some.
_LONGEST_NAME: Final = 55


def judge_pool(request: AdmissionRequest, document: JsonObject, judge_vm: Callable[[JsonObject], Verdict]) -> Verdict:
    """Judge one write of a pool; `judge_vm` judges a VM."""
    before, spec = member_of(request.old_object or {}, "spec"), member_of(document, "spec")
    if request.old_object is not None and before == spec:
        return Verdict()
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return Verdict(too_large)
    causes = list(unknown_fields(VirtualMachinePool, body_of(document), Field("")))
    try:
        pool = decode(VirtualMachinePool, document)
    except DecodeError as error:
        causes.append(Cause(error.path, str(error), "FieldValueTypeInvalid"))
        return Verdict(tuple(distinct(causes)))
    template = pool.spec.virtual_machine_template
    if template is None:
        causes.append(required_cause(_TEMPLATE, "missing virtual machine template."))
        return Verdict(tuple(distinct(causes)))
    warnings: tuple[str, ...] = ()
    if request.old_object is None or before.get("virtualMachineTemplate") != spec.get("virtualMachineTemplate"):
        judged = judge_vm(_vm_of(document, member_of(spec, "virtualMachineTemplate")))
        causes += [_move(cause) for cause in judged.causes]
        warnings = tuple(map(_moved_text, judged.warnings))
    if request.old_object is None and len(pool.metadata.name) > _LONGEST_NAME:
        causes.append(
            invalid_value(
                Field("metadata.name"), pool.metadata.name, f"must be no more than {_LONGEST_NAME} characters"
            )
        )
    causes += number_is_possible(pool.spec.replicas)
    causes += selector_finds_template(pool.spec.selector, template.metadata.labels, _TEMPLATE)
    if request.old_object is None:
        causes += _selector_is_lasting(pool.spec)
    elif before.get("selector") != spec.get("selector"):
        causes.append(Cause(_SPEC.at("selector"), "selector is immutable after creation."))
    causes += _strategies_are_possible(pool.spec)
    return Verdict(tuple(distinct(causes)), warnings)


def _vm_of(document: JsonObject, template: JsonObject) -> JsonObject:
    """The VM that the template becomes, as far as rules look at it."""
    namespace = member_of(document, "metadata").get("namespace") or ""
    metadata = {**member_of(template, "metadata"), "name": "vm", "namespace": namespace}
    kind = VirtualMachine.KIND
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": template.get("spec") or {}}


def _move(cause: Cause) -> Cause:
    """What is wrong with the VM, by its path in the pool, which the words name, too."""
    at = f"{_TEMPLATE}.{cause.field}" if cause.field else str(_TEMPLATE)
    return Cause(at, _moved_text(cause.message), cause.reason)


def _moved_text(text: str) -> str:
    return _PATH.sub(f"{_TEMPLATE}.spec.", text)


def _selector_is_lasting(spec: VirtualMachinePoolSpec) -> Iterator[Cause]:
    for path, _ in () if spec.selector is None else find_keys(spec.selector, (REVISION_LABEL,)):
        here = _SPEC.at("selector", path)
        yield Cause(here, f"{here}: kvedge itself writes this label on VMs: select by a label of the template")


def _strategies_are_possible(spec: VirtualMachinePoolSpec) -> Iterator[Cause]:
    yield from _limit_is_possible(spec.max_unavailable)
    for name, strategy in (("updateStrategy", spec.update_strategy), ("scaleInStrategy", spec.scale_in_strategy)):
        if strategy is not None:
            yield from _strategy_is_one(strategy, _SPEC.at(name))
    healing, at = spec.autohealing, _SPEC.at("autohealing")
    if healing is None:
        return
    if healing.start_up_failure_threshold is not None and healing.start_up_failure_threshold < 1:
        yield invalid_value(
            at.at("startUpFailureThreshold"), healing.start_up_failure_threshold, "must be greater than 0"
        )
    if healing.min_failing_to_start_duration is not None:
        here = at.at("minFailingToStartDuration")
        try:
            if parse_duration(healing.min_failing_to_start_duration) <= 0:
                yield invalid_value(here, healing.min_failing_to_start_duration, "must be greater than 0")
        except DurationError as error:
            yield invalid_value(here, healing.min_failing_to_start_duration, str(error))


def _limit_is_possible(limit: int | str | None) -> Iterator[Cause]:
    at = _SPEC.at("maxUnavailable")
    if isinstance(limit, int) and limit <= 0:
        yield Cause(at, "maxUnavailable must be greater than 0")
    if not isinstance(limit, str):
        return
    if not limit.endswith("%"):
        yield Cause(at, "maxUnavailable percentage must end with %")
        return
    share = whole_number(limit.removesuffix("%"))
    if share is None:
        yield Cause(at, f'maxUnavailable percentage value "{limit.removesuffix("%")}" is invalid: no number')
    elif not 1 <= share <= 100:
        yield Cause(at, f"maxUnavailable percentage value {share} must be between 1 and 100")


def _strategy_is_one(strategy: PoolUpdateStrategy | PoolScaleInStrategy, at: Field) -> Iterator[Cause]:
    given = [name for name in ("unmanaged", "opportunistic", "proactive") if getattr(strategy, name) is not None]
    if len(given) > 1:
        text = f"only one strategy can be configured at a time: but found {', '.join(given)} strategies"
        yield Cause(at, text)
    if strategy.proactive is not None and strategy.proactive.selection_policy is not None:
        yield from _policy_is_possible(strategy.proactive.selection_policy, at.at("proactive", "selectionPolicy"))


def _policy_is_possible(policy: PoolSelectionPolicy, at: Field) -> Iterator[Cause]:
    if policy.selectors is None:
        return
    here = at.at("selectors", "labelSelector")
    for path, text in selector_problems(policy.selectors.label_selector) if policy.selectors.label_selector else ():
        field = here.at(path) if path else here
        yield Cause(field, f"{field}: {text}")
    for index, item in enumerate(policy.selectors.node_selector_requirement_matcher):
        field = at.at("selectors", "nodeSelectorRequirementMatcher").item(index)
        if item.get("operator") not in NODE_OPERATORS:
            yield invalid_value(
                field.at("operator"), item.get("operator"), f"must be one of {', '.join(NODE_OPERATORS)}"
            )
        elif not isinstance(item.get("key"), str) or not item["key"]:
            yield required_cause(field.at("key"), f"{field.at('key')}: the label's key must be given")
        elif item["operator"] in ("Gt", "Lt") and _has_no_number(item):
            yield invalid_value(field.at("values"), item.get("values"), "must be one whole number")


def _has_no_number(item: JsonObject) -> bool:
    values = item.get("values")
    return not isinstance(values, list) or len(values) != 1 or whole_number(str(values[0])) is None
