"""Puts packets for Services on their way, and tells Services of type LoadBalancer where they are.

Run by the networking service, all Services at once: reads, asks the plans, brings the kernel to it. It looks again now
and then, as a firewall that is loaded anew may have taken our table away, and the host's address may change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kvedge.kube.errors import NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.network.errors import NetworkError
from kvedge.network.services.service_network import ServiceNetwork
from kvedge.resources.types.services import EndpointSlice, LoadBalancerIngress, Service
from kvedge.standalone.networking.balancing_plan import (
    LoadBalancer,
    is_load_balancer,
    plan_balancing,
    plan_load_balancers,
)
from kvedge.standalone.networking.endpoints_loop import FollowedServices, service_of

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 30.0
ALL: Final = Key("", "all")


@dataclass(slots=True)
class BalancingLoop:
    """Looks after the way to all Services."""

    client: KubeClient
    events: EventRecorder
    followed: FollowedServices
    network: ServiceNetwork
    host_address: Callable[[], str]
    listening_ports: Callable[[], frozenset[tuple[str, int]]]
    # What was said last, so that it is not said again.
    _told: dict[Key, str] = field(default_factory=dict)
    _error: str = ""

    def reconcile(self, key: Key) -> Again:
        """One look at everything.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        services = sorted(self.followed.services.list(), key=lambda item: (item.metadata.namespace, item.metadata.name))
        slices: dict[Key, list[EndpointSlice]] = {}
        for item in self.followed.slices.list():
            slices.setdefault(service_of(item), []).append(item)
        balancers = plan_load_balancers(services, self.host_address(), self.listening_ports())
        self._apply(services, slices, balancers)
        for service in services:
            self._tell(service, balancers.get(Key(service.metadata.namespace, service.metadata.name)))
        return Again(_LOOK_AGAIN_SECONDS)

    def _apply(
        self, services: list[Service], slices: dict[Key, list[EndpointSlice]], balancers: dict[Key, LoadBalancer]
    ) -> None:
        try:
            self.network.apply(plan_balancing(services, slices, balancers))
        except NetworkError as error:
            # What was there stays; the node's network may be coming back right now.
            if str(error) != self._error:
                log.warning("services cannot be put right", extra={"facts": {"error": str(error)}})
            self._error = str(error)
            return
        self._error = ""

    def _tell(self, service: Service, balancer: LoadBalancer | None) -> None:
        if service.spec.type == "LoadBalancer" and not is_load_balancer(service):
            return
        ingress = [LoadBalancerIngress(ip=balancer.address)] if balancer is not None and balancer.address else []
        key = Key(service.metadata.namespace, service.metadata.name)
        problem = balancer.problem if balancer is not None else ""
        if problem and self._told.get(key) != problem:
            self.events.record(service, "Warning", "SyncLoadBalancerFailed", problem)
        self._told[key] = problem
        if not problem:
            del self._told[key]
        if service.status.load_balancer.ingress == ingress:
            return
        body = {"status": {"loadBalancer": {"ingress": [{"ip": each.ip} for each in ingress] or None}}}
        patch = at_version(body, service.metadata.resource_version)
        try:
            self.followed.services.observe(self.client.patch(Service, key.namespace, key.name, patch, "status"))
        except NotFound:
            return
