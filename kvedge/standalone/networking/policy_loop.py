"""Enforces NetworkPolicies: reads them with Pods and namespaces, asks the plan, brings the kernel to it.

Run by the networking service, all policies at once, at each change of something that they depend on. It looks again
now and then while there are policies, as a firewall that is loaded anew may have taken our tables away.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Struct, field

from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.network.errors import NetworkError
from kvedge.network.pods.attachments import NodeNetworkConfig, netns_name, port_name
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.standalone.networking.policy_plan import Member, has_changed, members_of, plan_policies

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 10.0
ALL: Final = Key("", "all")


class FollowedPolicies(Struct, frozen=True):
    """What the loop sees of the API."""

    policies: Informer[NetworkPolicy]
    namespaces: Informer[Namespace]
    pods: Informer[Pod]


def make_followed_policies(client: KubeClient, pods: Informer[Pod]) -> FollowedPolicies:
    """Informers; not started."""
    return FollowedPolicies(Informer(client, NetworkPolicy), Informer(client, Namespace), pods)


class PolicyLoop(Struct):
    """Looks after all policies."""

    events: EventRecorder
    followed: FollowedPolicies
    network: PolicyNetwork
    config: NodeNetworkConfig
    queue: WorkQueue = field(default_factory=WorkQueue)
    # The last text, so that it is not said again.
    _told: dict[Key, str] = field(default_factory=dict)
    _error: str = ""

    def follow(self) -> None:
        """From now on each change is looked at; and once what is there."""
        self.followed.policies.on_change(self._on_policy)
        self.followed.namespaces.on_change(self._on_namespace)
        self.followed.pods.on_change(self._on_pod)
        self.queue.add(ALL)

    def reconcile(self, key: Key) -> Again | None:
        """One look at everything."""
        policies = self.followed.policies.list()
        pods = members_of(self.followed.pods.list(), self.config.cidr)
        cidr, ipv6_cidr = self.config.cidr, self.config.ipv6_cidr
        members = [Member.of(pod, self._port(pod), cidr, ipv6_cidr) for pod in pods]
        plan = plan_policies(policies, self.followed.namespaces.list(), members)
        try:
            changed = self.network.apply(plan.pods) if policies else self.network.remove()
        except NetworkError as error:
            # The present rules go on filtering.
            if str(error) != self._error:
                log.error("policies cannot be enforced", extra={"facts": {"error": str(error)}})
            self._error = str(error)
        else:
            self._error = ""
            if changed:
                log.info("policies enforced", extra={"facts": {"policies": len(policies), "pods": len(plan.pods)}})
        for policy in policies:
            self._tell(policy, self._error or plan.problems.get(_key(policy), ""))
        known = {_key(policy) for policy in policies}
        self._told = {each: problem for each, problem in self._told.items() if each in known}
        return Again(_LOOK_AGAIN_SECONDS) if policies or self._error else None

    def _port(self, pod: Pod) -> str:
        return port_name(self.config.bridge, netns_name(self.config, pod.metadata.uid))

    def _tell(self, policy: NetworkPolicy, problem: str) -> None:
        if problem and self._told.get(_key(policy)) != problem:
            self.events.record(policy, "Warning", "NotEnforced", problem)
        self._told[_key(policy)] = problem

    def _on_policy(self, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        self.queue.add(ALL)

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        if self.followed.policies.list() and (old and old.metadata.labels) != (new and new.metadata.labels):
            self.queue.add(ALL)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if self.followed.policies.list() and has_changed(old, new):
            self.queue.add(ALL)


def _key(policy: NetworkPolicy) -> Key:
    return Key(policy.metadata.namespace, policy.metadata.name)
