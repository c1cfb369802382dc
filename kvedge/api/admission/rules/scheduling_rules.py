"""Rules for where a VMI may run: affinity, spread and tolerations, as Kubernetes judges them of a Pod.

They become the launcher Pod's. What no Pod can have must be refused here: the Pod is made long after the VM was
accepted, and nobody would be there to read the answer. Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_value_cause, unsupported_value_cause
from kvedge.api.admission.rules.dns_names import label_key_complaints, label_value_complaints
from kvedge.api.admission.rules.subject import Rule, Subject

NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_SPREADS: Final = ("DoNotSchedule", "ScheduleAnyway")
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHTS: Final = range(1, 101)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def node_selector_is_of_labels(subject: Subject) -> Iterator[Cause]:
    """A node has labels, so that what is selected by must be one."""
    yield from labels_are_labels(subject.spec.node_selector, subject.at.at("nodeSelector"))


def template_labels_are_labels(subject: Subject) -> Iterator[Cause]:
    """A template's labels become those of objects that are made later, when nobody reads an answer."""
    yield from labels_are_labels(subject.metadata.labels, subject.metadata_at.at("labels"))


def affinity_is_one_of_a_pod(subject: Subject) -> Iterator[Cause]:
    """Terms, operators, topologies and weights."""
    affinity, at = subject.spec.affinity, subject.at.at("affinity")
    if affinity is None:
        return
    yield from _check_members(affinity, at, ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        yield from _check_members(_object(affinity, name), at.at(name), (_REQUIRED, _PREFERRED))
    node, here = _object(affinity, "nodeAffinity"), at.at("nodeAffinity")
    if _REQUIRED in node:
        terms, there = _items(_object(node, _REQUIRED), "nodeSelectorTerms"), here.at(_REQUIRED, "nodeSelectorTerms")
        if not terms:
            yield required_value_cause(there, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term(term, there.item(index))
    for index, preferred in enumerate(_items(node, _PREFERRED)):
        there = here.at(_PREFERRED).item(index)
        yield from _weight(preferred, there)
        yield from _node_term(_object(preferred, "preference"), there.at("preference"))
    for name in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(_object(affinity, name), at.at(name))


def spread_is_one_of_a_pod(subject: Subject) -> Iterator[Cause]:
    """Skew, topology, and what to do when it cannot be."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(subject.spec.topology_spread_constraints):
        at = subject.at.at("topologySpreadConstraints").item(index)
        skew, topology = constraint.get("maxSkew"), str(constraint.get("topologyKey") or "")
        action = str(constraint.get("whenUnsatisfiable") or "")
        if not isinstance(skew, int) or skew <= 0:
            yield invalid_value(at.at("maxSkew"), skew, "must be greater than zero")
        if not topology:
            yield required_value_cause(at.at("topologyKey"), "can not be empty")
        if action not in _SPREADS:
            yield unsupported_value_cause(at.at("whenUnsatisfiable"), action, _SPREADS)
        if (topology, action) in seen:
            text = f'{at}.{{topologyKey, whenUnsatisfiable}}: Duplicate value: "{{{topology}, {action}}}"'
            yield Cause(at, text, "FieldValueDuplicate")
        seen.add((topology, action))
        yield from _label_selector(_object(constraint, "labelSelector"), at.at("labelSelector"))


def tolerations_are_those_of_a_pod(subject: Subject) -> Iterator[Cause]:
    """Operators, effects and how long."""
    for index, toleration in enumerate(subject.spec.tolerations):
        at = subject.at.at("tolerations").item(index)
        key, operator = str(toleration.get("key") or ""), str(toleration.get("operator") or "Equal")
        effect = str(toleration.get("effect") or "")
        for complaint in label_key_complaints(key) if key else ():
            yield invalid_value(at.at("key"), key, complaint)
        if not key and operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid_value(at.at("operator"), operator, text)
        if operator not in ("Equal", "Exists"):
            yield unsupported_value_cause(at.at("operator"), operator, ("Equal", "Exists"))
        if operator == "Exists" and toleration.get("value"):
            yield invalid_value(at.at("operator"), operator, "value must be empty when `operator` is 'Exists'")
        if effect not in _EFFECTS:
            yield unsupported_value_cause(at.at("effect"), effect, tuple(filter(None, _EFFECTS)))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid_value(at.at("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")


def _node_term(term: dict[str, Any], at: Field) -> Iterator[Cause]:
    for name in ("matchExpressions", "matchFields"):
        for index, expression in enumerate(_items(term, name)):
            here = at.at(name).item(index)
            yield from _expression(expression, here, NODE_OPERATORS)
            if expression.get("operator") in ("Gt", "Lt") and len(_values(expression)) != 1:
                yield required_value_cause(
                    here.at("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"
                )


def _pod_affinity(affinity: dict[str, Any], at: Field) -> Iterator[Cause]:
    for index, term in enumerate(_items(affinity, _REQUIRED)):
        yield from _pod_term(term, at.at(_REQUIRED).item(index))
    for index, preferred in enumerate(_items(affinity, _PREFERRED)):
        here = at.at(_PREFERRED).item(index)
        yield from _weight(preferred, here)
        yield from _pod_term(_object(preferred, "podAffinityTerm"), here.at("podAffinityTerm"))


def _pod_term(term: dict[str, Any], at: Field) -> Iterator[Cause]:
    if not term.get("topologyKey"):
        yield required_value_cause(at.at("topologyKey"), "can not be empty")
    yield from _label_selector(_object(term, "labelSelector"), at.at("labelSelector"))


def _label_selector(selector: dict[str, Any], at: Field) -> Iterator[Cause]:
    yield from labels_are_labels(_object(selector, "matchLabels"), at.at("matchLabels"))
    for index, expression in enumerate(_items(selector, "matchExpressions")):
        yield from _expression(expression, at.at("matchExpressions").item(index), _LABEL_OPERATORS)


def _expression(expression: dict[str, Any], at: Field, operators: tuple[str, ...]) -> Iterator[Cause]:
    key, operator = str(expression.get("key") or ""), str(expression.get("operator") or "")
    values = _values(expression)
    for complaint in label_key_complaints(key):
        yield invalid_value(at.at("key"), key, complaint)
    if operator not in operators:
        yield invalid_value(at.at("operator"), operator, "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        yield required_value_cause(at.at("values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield Cause(at.at("values"), f"{at.at('values')}: Forbidden: {text}")


def _check_members(members: dict[str, Any], at: Field, known: tuple[str, ...]) -> Iterator[Cause]:
    """These members have no type of ours, so that a misspelt one is looked for here."""
    for name, value in members.items():
        if name not in known:
            yield Cause(at.at(name), f'unknown field "{at.at(name)}"; there are {", ".join(known)}')
        elif not isinstance(value, (dict, list)):
            yield Cause(at.at(name), f"{at.at(name)} must be an object or a list", "FieldValueTypeInvalid")


def _weight(preferred: dict[str, Any], at: Field) -> Iterator[Cause]:
    weight = preferred.get("weight")
    if not isinstance(weight, int) or weight not in _WEIGHTS:
        yield invalid_value(at.at("weight"), weight, "must be in the range 1-100")


def labels_are_labels(labels: Mapping[str, Any], at: Field) -> Iterator[Cause]:
    """Keys and values are those that a label can have."""
    for key, value in labels.items():
        for complaint in label_key_complaints(key):
            yield invalid_value(at, key, complaint)
        for complaint in label_value_complaints(str(value)):
            yield invalid_value(at.key(key), value, complaint)


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object; an empty one when it is anything else."""
    member = parent.get(name)
    return member if isinstance(member, dict) else {}


def _values(expression: dict[str, Any]) -> list[Any]:
    values = expression.get("values")
    return values if isinstance(values, list) else []


def _items(parent: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = parent.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


RULES: Final[tuple[Rule, ...]] = (
    node_selector_is_of_labels,
    template_labels_are_labels,
    affinity_is_one_of_a_pod,
    spread_is_one_of_a_pod,
    tolerations_are_those_of_a_pod,
)
