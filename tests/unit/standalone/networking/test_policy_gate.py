"""Before the first Pod starts: cut off where there are policies that nothing in the kernel enforces yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.network.errors import NetworkError
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.policies.policy_rules import PodTraffic
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.runtime.services import ServiceError
from kvedge.standalone.networking.policy_gate import PolicyGate


class PlayedBox:
    """The API and the kernel."""

    def __init__(self, *, policies: bool, is_there: bool = False) -> None:
        self.policies = [NetworkPolicy()] if policies else []
        self.there = is_there
        self.error: Exception | None = None
        self.put: list[PodTraffic] | None = None

    def list(self, kind: type[NetworkPolicy]) -> list[NetworkPolicy]:
        if isinstance(self.error, Unavailable):
            raise self.error
        return self.policies

    def is_there(self) -> bool:
        return self.there

    def apply(self, pods: Iterable[PodTraffic]) -> bool:
        if self.error is not None:
            raise self.error
        self.put = list(pods)
        return True

    def start(self) -> None:
        gate = PolicyGate(cast(KubeClient, self), cast(PolicyNetwork, self))
        gate.start()
        assert gate.failure() is None
        gate.stop()


@pytest.mark.parametrize(
    ("policies", "is_there", "put"),
    [(True, False, []), (True, True, None), (False, False, None)],
    ids=["after a boot", "after a restart", "without policies"],
)
def test_pods_are_cut_off_only_where_policies_are_not_enforced_yet(
    policies: bool, is_there: bool, put: list[PodTraffic] | None
) -> None:
    box = PlayedBox(policies=policies, is_there=is_there)
    box.start()
    assert box.put == put


def test_a_box_that_cannot_filter_starts_and_one_without_an_api_does_not() -> None:
    box = PlayedBox(policies=True)
    box.error = NetworkError("cannot change nftables table", subject="kvedge0_policies", errno=95)
    box.start()
    box.error = Unavailable(503, "ServiceUnavailable", "starting")
    with pytest.raises(ServiceError, match="starting"):
        box.start()
