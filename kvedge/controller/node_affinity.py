"""The affinity that binds a Pod to one node by the scheduler: a claim that waits for its first consumer needs that.

Used for what holds hotplugged volumes and what fills them. Pure.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject


def on_node(name: str) -> JsonObject:
    """A Pod's affinity to the node of that name."""
    # By affinity and not by name: a claim that waits for its first consumer is bound by the scheduler alone.
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
