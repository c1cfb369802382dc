"""Which nodes Medik8s has reset, by its SelfNodeRemediation objects; none where it is not installed.

A part of the controller. Its word counts as an administrator's, and only while the node's kubelet says nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.kube.informer import Informer
from kvedge.resources.node_loss.remediations import SelfNodeRemediation


class Remediations:
    """What the objects say, by node."""

    def __init__(self, informer: Informer[SelfNodeRemediation]) -> None:
        self._informer = informer
        informer.add_index("node", lambda item: (item.node,))

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call with the name of each node of which something else is said."""

        def tell(old: SelfNodeRemediation | None, new: SelfNodeRemediation | None) -> None:
            item = new or old
            if item is not None:
                callback(item.node)

        self._informer.on_change(tell)

    def is_reset(self, node: str) -> bool:
        """Whether Medik8s has reset that node, since it was lost."""
        return any(item.is_after_reset for item in self._informer.find_indexed("node", node))
