"""Puts packets for Services on their way, and tells Services of type LoadBalancer where they are.

Run by the networking service, all Services at once: reads, asks the plans, brings the kernel to it. It looks again now
and then, as a firewall that is loaded anew may have taken our table away, and the host's address may change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.kube.errors import Conflict, Invalid, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again
from kvedge.kube.work_queue import Key
from kvedge.network.errors import NetworkError
from kvedge.network.services.pool_addresses import PoolAddresses
from kvedge.network.services.service_network import ServiceNetworks
from kvedge.resources.types.services import EndpointSlice, LoadBalancerIngress, Service
from kvedge.standalone.networking.balancing_plan import (
    LoadBalancer,
    is_load_balancer,
    plan_balancing,
    plan_load_balancers,
)
from kvedge.standalone.networking.endpoints_loop import FollowedServices, service_of
from kvedge.standalone.networking.pool_balancers import plan_pool_balancers

T = TypeVar("T")
log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 30.0
ALL: Final = Key("", "all")
_UNREADABLE: Final = "the host's addresses cannot be read"
_UNPLACED: Final = "load-balancer-pool cannot be put right"


class BalancingLoop(Struct):
    """Looks after the way to all Services."""

    client: KubeClient
    events: EventRecorder
    followed: FollowedServices
    network: ServiceNetworks
    # By which others reach the host: one of each family that Services have.
    host_addresses: Callable[[], tuple[str, ...]]
    # Those of programs that are at these addresses.
    listening_ports: Callable[..., frozenset[tuple[str, int]]]
    # Ports that no Service gets.
    kept_ports: frozenset[tuple[str, int]]
    service_cidrs: tuple[str, ...]
    # Those of the LAN that load balancers get; without a pool they are at the host's own.
    addresses: PoolAddresses
    # The last text, so that it is not said again.
    _told: dict[Key, str] = field(default_factory=dict)
    _errors: dict[str, str] = field(default_factory=dict)
    # Without a pool: whether the addresses of an earlier setting are gone.
    _cleared: bool = False

    def reconcile(self, key: Key) -> Again:
        """One look at everything.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        services = sorted(self.followed.services.list(), key=lambda item: (item.metadata.namespace, item.metadata.name))
        slices: dict[Key, list[EndpointSlice]] = {}
        for item in self.followed.slices.list():
            slices.setdefault(service_of(item), []).append(item)
        hosts = self.host_addresses()
        listening = self.listening_ports(*hosts)
        if self.addresses.pool:
            balancers = self._plan_pool_balancers(services)
        else:
            balancers = plan_load_balancers(services, hosts, listening, self.kept_ports)
        plan = plan_balancing(services, slices, balancers, self.service_cidrs, listening | self.kept_ports)
        self._apply("services cannot be put right", partial(self.network.apply, plan.ports))
        balancers = self._place_addresses(services, balancers)
        for service in services:
            key = Key(service.metadata.namespace, service.metadata.name)
            self._tell_problem(key, service, balancers.get(key, LoadBalancer()).problem, plan.problems.get(key, ""))
        known = {Key(service.metadata.namespace, service.metadata.name) for service in services}
        self._told = {key: problem for key, problem in self._told.items() if key in known}
        for service in services:
            self._tell_address(service, balancers.get(Key(service.metadata.namespace, service.metadata.name)))
        return Again(_LOOK_AGAIN_SECONDS)

    def _plan_pool_balancers(self, services: Iterable[Service]) -> dict[Key, LoadBalancer]:
        of_the_host = self._apply(_UNREADABLE, self.addresses.of_the_host)
        balancers = plan_pool_balancers(services, self.addresses.pool, of_the_host or ())
        if of_the_host is not None:
            return balancers
        # No Service draws an address that may be the host's.
        return _keep_told(services, balancers, f"{_UNREADABLE}: {self._errors[_UNREADABLE]}")

    def _place_addresses(
        self, services: Iterable[Service], balancers: dict[Key, LoadBalancer]
    ) -> dict[Key, LoadBalancer]:
        """Have the pool's addresses where the LAN finds them; with what is wrong with some."""
        if not self.addresses.pool:
            # No other program marks addresses as ours: those of an earlier setting go once.
            self._cleared = self._cleared or self._apply(_UNPLACED, partial(self.addresses.apply, [])) is not None
            return balancers
        wanted = [each for known in balancers.values() for each in known.addresses]
        problems = self._apply(_UNPLACED, partial(self.addresses.apply, wanted))
        if problems is None:
            return _keep_told(services, balancers, f"{_UNPLACED}: {self._errors[_UNPLACED]}")
        return {
            key: replace(
                known, problem=known.problem or next((problems[a] for a in known.addresses if a in problems), "")
            )
            for key, known in balancers.items()
        }

    def _apply(self, failure: str, work: Callable[[], T]) -> T | None:
        try:
            done = work()
        except NetworkError as error:
            # The present rules stay; the node's network may be coming back right now.
            if str(error) != self._errors.get(failure):
                log.error(failure, extra={"facts": {"error": str(error)}})
            self._errors[failure] = str(error)
            return None
        self._errors.pop(failure, None)
        return done

    def _tell_problem(self, key: Key, service: Service, balancer: str, other: str) -> None:
        problem = balancer or other
        if problem and self._told.get(key) != problem:
            self.events.record(service, "Warning", "SyncLoadBalancerFailed" if balancer else "ServiceLeftOut", problem)
        self._told[key] = problem

    def _tell_address(self, service: Service, balancer: LoadBalancer | None) -> None:
        if service.spec.type == "LoadBalancer" and not is_load_balancer(service):
            return
        ingress = [LoadBalancerIngress(ip=each) for each in (balancer.addresses if balancer is not None else ())]
        if service.status.load_balancer.ingress == ingress:
            return
        body = {"status": {"loadBalancer": {"ingress": [{"ip": each.ip} for each in ingress] or None}}}
        meta, patch = service.metadata, at_version(body, service.metadata.resource_version)
        # A Service that has changed meanwhile comes again with its change, and the server may refuse an object of an
        # earlier version. Neither keeps the others from their status.
        with suppress(NotFound, Conflict, Invalid):
            self.followed.services.observe(self.client.patch(Service, meta.namespace, meta.name, patch, "status"))


def _keep_told(
    services: Iterable[Service], balancers: Mapping[Key, LoadBalancer], problem: str
) -> dict[Key, LoadBalancer]:
    """Of these the addresses that users were told of before: what is new may be nowhere, for this problem."""
    told = {
        Key(service.metadata.namespace, service.metadata.name): {
            each.ip for each in service.status.load_balancer.ingress
        }
        for service in services
    }
    return {
        key: LoadBalancer(tuple(each for each in known.addresses if each in told[key]), known.problem or problem)
        for key, known in balancers.items()
    }
