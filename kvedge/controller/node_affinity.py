"""The affinity that binds a Pod to one node by the scheduler, keeps it away from one, or draws it to another Pod.

Used for what holds hotplugged volumes, and for what fills and serves claims: one that waits for its first consumer
needs it. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.names import HOST_NAME

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
# Above all else that is preferred alike.
_MOST: Final = 100
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def on_node(name: str) -> JsonObject:
    """A Pod's affinity to the node of that name."""
    # By affinity and not by name: a claim that waits for its first consumer is bound by the scheduler alone.
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}


def off_node(affinity: JsonObject | None, name: str) -> JsonObject:
    """A Pod's affinity, and away from the node of that name."""
    own = affinity or {}
    node = own.get("nodeAffinity") or {}
    asked = node.get(_REQUIRED)
    away = {"key": "metadata.name", "operator": "NotIn", "values": [name]}
    # A term without any condition matches no node, and must not come to match some.
    terms = [term for term in (asked or {}).get("nodeSelectorTerms") or [] if any(term.values())]
    if asked and not terms:
        return own
    made = [{**term, "matchFields": [*(term.get("matchFields") or []), away]} for term in terms or [{}]]
    return {**own, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": made}}}


def without_label(affinity: JsonObject | None, label: str) -> JsonObject:
    """A Pod's affinity, and to nodes alone that do not have the label."""
    own = affinity or {}
    node = own.get("nodeAffinity") or {}
    asked = node.get(_REQUIRED)
    lacking = {"key": label, "operator": "DoesNotExist"}
    # As above.
    terms = [term for term in (asked or {}).get("nodeSelectorTerms") or [] if any(term.values())]
    if asked and not terms:
        return own
    made = [{**term, "matchExpressions": [*(term.get("matchExpressions") or []), lacking]} for term in terms or [{}]]
    return {**own, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": made}}}


def near(affinity: JsonObject | None, label: str, values: list[str]) -> JsonObject | None:
    """A Pod's affinity, and rather on the node of Pods that have one of these values of a label."""
    if not values:
        return affinity
    selector = {"matchExpressions": [{"key": label, "operator": "In", "values": values}]}
    # Not required: a Pod would wait for good for one that ends just then.
    term = {"weight": _MOST, "podAffinityTerm": {"labelSelector": selector, "topologyKey": HOST_NAME}}
    own = affinity or {}
    pods = own.get("podAffinity") or {}
    return {**own, "podAffinity": {**pods, _PREFERRED: [*(pods.get(_PREFERRED) or []), term]}}
