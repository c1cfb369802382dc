"""What a user is told of a launcher that no node takes, where the networks of its guest ask for a node of their own.

Called by the VMI's status. Pure. A scheduler counts the nodes that do not fit, and names no reason in a user's words.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kvedge.resources.lan_bridges import BRIDGE_PREFIX, wanted_bridges
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import Pod

POD_SCHEDULED: Final = "PodScheduled"
_MOST_NAMED: Final = 4


def scheduled_with_networks(pod: Pod) -> Condition | None:
    """The Pod's own condition, with the bridges that its node must have while it has none."""
    found = condition(pod.status.conditions, POD_SCHEDULED)
    bridges = wanted_bridges(pod.spec.node_selector)[:_MOST_NAMED]
    if found is None or found.status != "False" or not bridges:
        return found
    selector = ",".join(BRIDGE_PREFIX + bridge for bridge in bridges)
    text = (
        f"{found.message} (spec.networks: its networks are on nodes with bridge {', '.join(bridges)} alone; "
        f"`kubectl get nodes -l {selector}` lists those; a bridge made on a node is known within a minute)"
    )
    return msgspec.structs.replace(found, message=text)
