"""The networking of one box as a service: endpoints follow Pods, packets for Services find them, policies filter.

Started by `kvedge standalone` once the node agent has made the node's network. It knows the API only by its client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.network.errors import NetworkError
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.services.pool_addresses import PoolAddresses
from kvedge.network.services.service_network import ServiceNetworks
from kvedge.network.services.service_plan import ServiceNetworkConfig
from kvedge.resources.types.core import Pod
from kvedge.resources.types.services import Endpoints, EndpointSlice, Service
from kvedge.runtime.address_pool import AddressPool
from kvedge.runtime.role import Part, Parts, part, unfailing
from kvedge.runtime.services import ServiceError
from kvedge.standalone.agent.node.node_manifest import host_addresses
from kvedge.standalone.names.name_table import NameTable, name_table
from kvedge.standalone.networking.balancing_loop import ALL, BalancingLoop
from kvedge.standalone.networking.endpoints_loop import (
    BY_NAMESPACE,
    EndpointsLoop,
    FollowedServices,
    make_followed_services,
    service_of,
)
from kvedge.standalone.networking.endpoints_plan import selects
from kvedge.standalone.networking.listening_ports import listening_ports
from kvedge.standalone.networking.policy_loop import PolicyLoop, make_followed_policies

_SYNC_SECONDS: Final = 30.0
_SSH_PORT: Final = 22
_COMPONENT: Final = "service-controller"


class NetworkingConfig(Struct, frozen=True):
    """The node's name, its networks of Services, one of each version of IP, that of Pods, where the API is, and the
    pool of addresses for load balancers."""

    node: str
    networks: tuple[ServiceNetworkConfig, ...]
    pods: NodeNetworkConfig
    api_port: int
    balancer_pool: AddressPool


class NetworkingService:
    """One box's Services."""

    name = "networking"

    def __init__(
        self, config: NetworkingConfig, client: KubeClient, know: Callable[[Callable[[], NameTable]], None]
    ) -> None:
        """`know` tells the name server where to find the names."""
        self._config = config
        self._know = know
        self._client = client
        self._addresses = PoolAddresses(config.pods.bridge, config.balancer_pool)
        self._parts = Parts()

    def start(self) -> None:
        """Return when Services are taken care of.

        Raises:
            ServiceError: with what is wrong and what to do.
        """
        try:
            self._addresses.check()
            self._parts = Parts(self._make_parts())
            self._parts.start()
        except (KubeError, NetworkError) as error:
            raise ServiceError(self.name, str(error)) from error

    def stop(self) -> None:
        """Let go of everything; packets go on as they did."""
        self._parts.stop()

    def failure(self) -> str | None:
        """Why Services are no longer taken care of, or None."""
        return self._parts.failure()

    def _make_parts(self) -> list[Part]:
        client, network = self._client, ServiceNetworks(self._config.networks)
        events = EventRecorder(client, _COMPONENT, self._config.node)
        followed = make_followed_services(client)
        endpoints_queue, balancing_queue = WorkQueue(), WorkQueue()
        endpoints_loop = EndpointsLoop(client, followed)
        # A Service in the place of these would leave nobody a way to take it away again.
        kept = frozenset({("TCP", _SSH_PORT), ("TCP", self._config.api_port)})
        networks = self._config.networks
        families = tuple(each.version for each in networks)
        balancing_loop = BalancingLoop(
            client,
            events,
            followed,
            network,
            partial(host_addresses, families),
            listening_ports,
            kept,
            tuple(each.service_cidr for each in networks),
            self._addresses,
        )
        endpoints = ReconcileLoop("endpoints", endpoints_loop.reconcile, queue=endpoints_queue)
        balancing = ReconcileLoop("balancing", balancing_loop.reconcile, queue=balancing_queue)
        followed_too = make_followed_policies(client, followed.pods)
        policy_loop = PolicyLoop(events, followed_too, PolicyNetwork(self._config.pods), self._config.pods)
        policies = ReconcileLoop("policies", policy_loop.reconcile, queue=policy_loop.queue)

        def wait_synced() -> None:
            own = (followed.services, followed.pods, followed.endpoints, followed.slices)
            lists = (*own, followed_too.policies, followed_too.namespaces)
            if not all(item.wait_synced(_SYNC_SECONDS) for item in lists):
                raise ServiceError(self.name, f"the API at {client.host} did not list services in time")

        names = _Names(followed)
        lists = ("service list", "pod list", "endpoints list", "slice list", "policy list", "namespace list")

        def begin() -> None:
            triggers = _Triggers(followed, endpoints_queue, balancing_queue)
            followed.services.on_change(names.forget)
            followed.pods.on_change(names.forget)
            followed.slices.on_change(names.forget)
            self._know(names.table)
            followed.services.on_change(triggers.on_service)
            followed.pods.on_change(triggers.on_pod)
            followed.endpoints.on_change(triggers.on_endpoints)
            followed.slices.on_change(triggers.on_slice)
            balancing_queue.add(ALL)
            policy_loop.follow()
            endpoints.start()

        return [
            unfailing("networking events", events),
            part("service list", followed.services),
            part("pod list", followed.pods),
            part("endpoints list", followed.endpoints),
            part("slice list", followed.slices),
            part("policy list", followed_too.policies),
            part("namespace list", followed_too.namespaces),
            Part("lists", wait_synced, needs=lists),
            Part("endpoints", begin, endpoints.stop, endpoints.failure, ("lists", "networking events")),
            part("balancing", balancing, "endpoints"),
            part("policies", policies, "endpoints"),
        ]


class _Names:
    """The names that there are, made anew for the first question after a change."""

    def __init__(self, followed: FollowedServices) -> None:
        self._followed = followed
        self._changes = 0
        self._made: tuple[int, NameTable] | None = None

    def forget(self, old: object, new: object) -> None:
        """Something has changed."""
        self._changes += 1

    def table(self) -> NameTable:
        """All of them; asked in the name server's thread alone."""
        changes = self._changes
        if self._made is None or self._made[0] != changes:
            followed = self._followed
            made = name_table(followed.services.list(), followed.slices.list(), followed.pods.list())
            self._made = (changes, made)
        return self._made[1]


class _Triggers(Struct, frozen=True):
    """What a change of one object means for the loops."""

    followed: FollowedServices
    endpoints: WorkQueue
    balancing: WorkQueue

    def on_service(self, old: Service | None, new: Service | None) -> None:
        known = new or old
        assert known is not None
        self.endpoints.add(Key(known.metadata.namespace, known.metadata.name))
        self.balancing.add(ALL)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        known = new or old
        assert known is not None
        for service in self.followed.services.find_indexed(BY_NAMESPACE, known.metadata.namespace):
            if any(pod is not None and selects(service, pod) for pod in (old, new)):
                self.endpoints.add(Key(service.metadata.namespace, service.metadata.name))

    def on_endpoints(self, old: Endpoints | None, new: Endpoints | None) -> None:
        known = new or old
        assert known is not None
        self.endpoints.add(Key(known.metadata.namespace, known.metadata.name))

    def on_slice(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        known = new or old
        assert known is not None
        self.endpoints.add(service_of(known))
        self.balancing.add(ALL)
