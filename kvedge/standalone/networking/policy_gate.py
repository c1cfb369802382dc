"""Keeps Pods apart until NetworkPolicies are enforced, where a box starts that has some.

Started before the node agent starts Pods: after the host has booted, nothing of the policies is in the kernel. Where
their tables are there, as after a restart of kvedge, these filter on, and nothing is done.
"""

from __future__ import annotations

import logging

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.network.errors import NetworkError
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.runtime.services import ServiceError

log = logging.getLogger(__name__)


class PolicyGate:
    """Done when it has started; the networking service opens what policies allow."""

    name = "policies"

    def __init__(self, client: KubeClient, network: PolicyNetwork) -> None:
        self._client = client
        self._network = network

    def start(self) -> None:
        """Return when no Pod can send anything that a policy forbids.

        Raises:
            ServiceError: when the API cannot be asked.
        """
        try:
            if not self._client.list(NetworkPolicy) or self._network.is_there():
                return
            self._network.apply(())
        except KubeError as error:
            raise ServiceError(self.name, str(error)) from error
        except NetworkError as error:
            # A box that cannot filter runs its VMs all the same: the loop tells each policy of it.
            log.error("policies cannot be enforced", extra={"facts": {"error": str(error)}})

    def stop(self) -> None:
        """Nothing runs."""

    def failure(self) -> str | None:
        """Nothing can fail later."""
        return None
