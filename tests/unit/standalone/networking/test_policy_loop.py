"""What the loop of all NetworkPolicies puts into the kernel and tells, against a kernel that is played."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from kvedge.kube.events import EventRecorder
from kvedge.network.errors import NetworkError
from kvedge.network.pods.attachments import NodeNetworkConfig, port_name
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.policies.policy_rules import PodTraffic
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.standalone.networking.policy_loop import ALL, FollowedPolicies, PolicyLoop

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
METADATA = {"name": "web", "namespace": "red", "uid": "u7", "labels": {"app": "web"}}
WEB = decode(
    Pod, {"metadata": METADATA, "spec": {"containers": []}, "status": {"podIP": "10.99.0.7", "phase": "Running"}}
)
DENY = decode(NetworkPolicy, {"metadata": {"name": "deny", "namespace": "red"}, "spec": {"podSelector": {}}})


class PlayedList:
    """An informer's objects, and who hears of their changes."""

    def __init__(self, *objects: Any) -> None:
        self.objects = list(objects)
        self.hearers: list[Callable[[Any, Any], None]] = []

    def list(self) -> list[Any]:
        return self.objects

    def on_change(self, hearer: Callable[[Any, Any], None]) -> None:
        self.hearers.append(hearer)

    def tell(self, old: Any, new: Any) -> None:
        for hearer in self.hearers:
            hearer(old, new)


class PlayedBox:
    """What the loop works with; `error` is what the kernel says."""

    def __init__(self, *policies: NetworkPolicy) -> None:
        self.policies, self.namespaces, self.pods = PlayedList(*policies), PlayedList(), PlayedList(WEB)
        self.error: NetworkError | None = None
        self.put: list[PodTraffic] | None = None
        self.events: list[tuple[str, str, str]] = []

    def apply(self, pods: Iterable[PodTraffic]) -> bool:
        if self.error is not None:
            raise self.error
        self.put = list(pods)
        return True

    def remove(self) -> bool:
        self.put = None
        return True

    def record(self, item: NetworkPolicy, kind: str, reason: str, text: str) -> None:
        self.events.append((item.metadata.name, reason, text))

    def loop(self) -> PolicyLoop:
        followed = cast(FollowedPolicies, self)
        return PolicyLoop(cast(EventRecorder, self), followed, cast(PolicyNetwork, self), CONFIG)


def waiting(loop: PolicyLoop) -> bool:
    """Whether there is something to look at; it is taken."""
    return loop.queue.take(0) is not None


def test_a_policy_is_enforced_for_the_port_of_its_pod_and_looked_after() -> None:
    box = PlayedBox(DENY)
    again = box.loop().reconcile(ALL)
    assert box.put == [PodTraffic("10.99.0.7", port_name("kvedge0", "kvedge0-u7"), ingress=())]
    assert again is not None
    assert again.after <= 10


def test_without_policies_nothing_is_in_the_way() -> None:
    box = PlayedBox()
    box.put = []
    assert box.loop().reconcile(ALL) is None
    assert box.put is None


def test_what_the_kernel_refuses_is_told_once_of_each_policy_and_tried_again() -> None:
    box = PlayedBox(DENY)
    loop = box.loop()
    box.error = NetworkError("cannot change nftables table", subject="kvedge0_policies", errno=95)
    for _ in range(2):
        assert loop.reconcile(ALL) is not None
    assert [each[:2] for each in box.events] == [("deny", "NotEnforced")]
    box.error = None
    loop.reconcile(ALL)
    assert box.put
    assert len(box.events) == 1


def test_pods_and_namespaces_are_looked_at_only_while_there_are_policies_and_only_for_what_matters() -> None:
    box = PlayedBox()
    loop = box.loop()
    loop.follow()
    assert waiting(loop)
    loop.queue.finish(ALL)
    namespace = decode(Namespace, {"metadata": {"name": "red", "labels": {"team": "red"}}})
    box.pods.tell(None, WEB)
    box.namespaces.tell(None, namespace)
    assert not waiting(loop)
    box.policies.objects.append(DENY)
    box.pods.tell(WEB, WEB)
    box.namespaces.tell(namespace, namespace)
    assert not waiting(loop)
    for told, change in (
        (box.policies, (None, DENY)),
        (box.pods, (WEB, None)),
        (box.namespaces, (None, namespace)),
    ):
        told.tell(*change)
        assert waiting(loop)
        loop.queue.finish(ALL)
