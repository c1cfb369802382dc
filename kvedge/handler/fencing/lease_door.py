"""This node's lease on the server: read once, and then written again and again, each time on the version before.

Used by the fence keeper alone. A write that meets another version was overtaken: the node has been fenced, or an
earlier handler's last write came late. Then it is read anew.
"""

from __future__ import annotations

from typing import Final

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.resources.node_loss.node_lease import (
    NODES_NAMESPACE,
    NodeFence,
    fence_patch,
    lease_name,
    new_lease,
    read_fence,
)
from kvedge.resources.types.core import ConfigMap
from kvedge.runtime.clock import Clock, rfc3339_micro

# One attempt, which must not hold up the next one for long.
_CALL_SECONDS: Final = 3.0


class LeaseDoor:
    """One lease; for one thread."""

    def __init__(self, client: KubeClient, node: str, clock: Clock) -> None:
        self._client = client.hurry(_CALL_SECONDS)
        self._node = node
        self._clock = clock
        self._version = ""

    def read(self) -> NodeFence:
        """What the server has.

        Raises:
            KubeError: when it does not answer.
        """
        try:
            lease = self._client.get(ConfigMap, NODES_NAMESPACE, lease_name(self._node))
        except NotFound:
            self._version = ""
            return NodeFence(self._node)
        self._version = lease.metadata.resource_version
        return read_fence(lease)

    def write(self, fence: NodeFence) -> None:
        """Renew it, and have it say this.

        Raises:
            Conflict, AlreadyExists: when the server has another version.
            KubeError: when it refuses, or does not answer.
        """
        if not self._version:
            self._version = self._client.create(new_lease(fence)).metadata.resource_version
            return
        patch = at_version(fence_patch(fence, rfc3339_micro(self._clock.now())), self._version)
        written = self._client.patch(ConfigMap, NODES_NAMESPACE, lease_name(self._node), patch)
        self._version = written.metadata.resource_version
