"""The affinity that binds a Pod to one node by the scheduler, or keeps it away from one.

Used for what holds hotplugged volumes and for what fills claims: one that waits for its first consumer needs it. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject

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
