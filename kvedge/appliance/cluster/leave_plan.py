"""What goes out of a cluster with a node that leaves kvedge, and what its operator is told.

Called by uninstalling, and when a server becomes an agent. Pure. An APIService that nobody serves keeps Kubernetes from
ending any namespace of the cluster, so that it goes with the last server. Webhooks stay as long as anything of kvedge
may run: they fail closed, and what they would not let by must not be written under a guest's feet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.handler.node.node_manifest import OWN_ANNOTATIONS, is_own_label
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SCHEDULABLE

# The command for an administrator whose lost node can no longer uninstall itself.
NODE_BY_HAND: Final = f"kubectl label node {{}} {SCHEDULABLE}-"
_KEPT: Final = "kept in the cluster: webhooks, policies and rights of kvedge"


class Others(Struct, frozen=True):
    """The other servers and nodes of kvedge in the cluster.

    `servers` are api roles that answer, `silent` those that do not, `nodes` have a handler, whether it runs or not.
    """

    servers: Sequence[str] = ()
    silent: Sequence[str] = ()
    nodes: Sequence[str] = ()


class Leaving(Struct, frozen=True):
    """The parts of the registration to take out, and the lines for the operator.

    `calls` is that which brings calls to the api role, APIServices and endpoints; `registration` is all else but VMs.
    """

    calls: bool
    registration: bool
    told: str


def plan_leaving(others: Others, *, purge: bool) -> Leaving:
    """With a server that answers, nothing; else the calls; and all the rest when that is wanted and nobody is left."""
    if others.servers:
        return Leaving(False, False, f"{_KEPT}, and its APIServices, as it serves on {_names(others.servers)}")
    silent = (
        f" No answer came from {_names(others.silent)}, which registers anew where it runs." if others.silent else ""
    )
    if not purge:
        return Leaving(
            True,
            False,
            f"{_KEPT}, and all VMs. Until kvedge runs on a server again, VMs cannot be created, changed or started, and"
            " one that is deleted, or its namespace, ends only then; other namespaces can be deleted (--purge takes all"
            f" but VMs out).{silent}",
        )
    if others.nodes or others.silent:
        why = [f"kvedge is on {_names(others.nodes)}, or was not uninstalled there"] if others.nodes else []
        why += [f"no answer came from {_names(others.silent)}"] if others.silent else []
        return Leaving(
            True,
            False,
            f"{_KEPT}, and all VMs, as {' and '.join(why)}: uninstall kvedge there, then run `uninstall --purge` here"
            f" again. Where a node is gone for good, say so with `{NODE_BY_HAND.format('NAME')}`. Until then VMs cannot"
            " be created or changed",
        )
    return Leaving(
        True,
        True,
        "kept in the cluster: the kinds and their VMs, and the namespace kvedge-system. Nobody judges any more what is"
        " written of VMs; one that is to run is judged when kvedge is there again",
    )


def plan_node(labels: Mapping[str, str], annotations: Mapping[str, str]) -> JsonObject | None:
    """A merge patch that takes off a Node what its handler has written; None when there is nothing.

    Without the label VMs are no longer sent there, and without the heartbeat the controller does not miss the next one.
    """
    gone = {key: None for key in labels if key.startswith(SCHEDULABLE) or is_own_label(key)}
    told = {key: None for key in annotations if key in OWN_ANNOTATIONS}
    return {"metadata": {"labels": gone, "annotations": told}} if gone or told else None


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
