"""What the loop of all Services puts into the kernel and tells, against an API and a kernel that are played."""

from __future__ import annotations

from typing import Any, cast

from kvedge.kube.errors import Conflict
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.network.errors import NetworkError, OverlapError
from kvedge.network.services.pool_addresses import PoolAddresses
from kvedge.network.services.service_network import ServiceNetworks
from kvedge.network.services.service_rules import Balanced, Frontend
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.services import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from kvedge.runtime.address_pool import address_pool
from kvedge.standalone.networking.balancing_loop import ALL, BalancingLoop
from kvedge.standalone.networking.endpoints_loop import FollowedServices

HOST = "192.0.2.5"


class PlayedList:
    """An informer's objects."""

    def __init__(self, *objects: Service) -> None:
        self.objects = list(objects)

    def list(self) -> list[Service]:
        return self.objects

    def observe(self, item: Service) -> None:
        """Nothing here depends on it."""


class PlayedAddresses:
    """The pool's addresses on the host's links; `problems` says what is wrong with some."""

    def __init__(self, pool: str = "") -> None:
        self.pool = address_pool(pool)
        self.there: list[str] = []
        self.problems: dict[str, str] = {}
        self.broken = self.unreadable = False
        self.looks = 0

    def of_the_host(self) -> frozenset[str]:
        if self.unreadable:
            raise NetworkError("cannot list addresses", errno=1)
        return frozenset()

    def apply(self, wanted: list[str]) -> dict[str, str]:
        self.looks += 1
        if self.broken:
            raise NetworkError("cannot list links", errno=1)
        self.there = wanted
        return self.problems


class PlayedBox:
    """What the loop works with: `conflicts` names Services that somebody else writes right now."""

    def __init__(self, *services: Service, conflicts: tuple[str, ...] = (), overlaps: bool = False) -> None:
        self.services, self.slices = PlayedList(*services), PlayedList()
        self.conflicts, self.overlaps = conflicts, overlaps
        self.put: list[Balanced] = []
        self.written: list[str] = []
        self.bodies: list[Any] = []
        self.events: list[tuple[str, str, str]] = []
        self.addresses = PlayedAddresses()

    def apply(self, ports: tuple[Balanced, ...]) -> None:
        if self.overlaps:
            raise OverlapError("--service-cidr overlaps", subject="eno1")
        self.put = list(ports)

    def patch(self, kind: object, namespace: str, name: str, *rest: Any) -> Service:
        self.bodies.append(rest[0].body)
        if name in self.conflicts:
            raise Conflict(409, "Conflict", "it has changed")
        self.written.append(name)
        return Service()

    def record(self, item: Service, kind: str, reason: str, text: str) -> None:
        self.events.append((item.metadata.name, reason, text))

    def told(self) -> list[Any]:
        """Where Services are, as it was told."""
        return [body["status"]["loadBalancer"]["ingress"] for body in self.bodies]

    def loop(self) -> BalancingLoop:
        return BalancingLoop(
            cast(KubeClient, self),
            cast(EventRecorder, self),
            cast(FollowedServices, self),
            cast(ServiceNetworks, self),
            host_addresses=lambda: (HOST,),
            listening_ports=lambda *hosts: frozenset({("TCP", 30022)}),
            kept_ports=frozenset({("TCP", 22)}),
            service_cidrs=("10.100.0.0/16",),
            addresses=cast(PoolAddresses, self.addresses),
        )


def a_service(
    name: str, address: str = "10.100.0.5", kind: str = "LoadBalancer", port: int = 80, node: int = 0
) -> Service:
    meta = ObjectMeta(name=name, namespace="n", resource_version="1")
    return Service(
        metadata=meta, spec=ServiceSpec(type=kind, cluster_ip=address, ports=[ServicePort(port=port, node_port=node)])
    )


def at(address: str) -> ServiceStatus:
    return ServiceStatus(load_balancer=LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=address)]))


def test_a_service_that_somebody_else_writes_does_not_keep_others_from_being_told() -> None:
    box = PlayedBox(a_service("a"), a_service("b", "10.100.0.6", port=81), conflicts=("a",))
    box.loop().reconcile(ALL)
    assert box.written == ["b"]


def test_what_is_left_out_of_a_service_is_told_once_and_again_when_it_is_made_anew() -> None:
    box = PlayedBox(a_service("a", "10.44.0.5", "ClusterIP"))
    loop = box.loop()
    loop.reconcile(ALL)
    loop.reconcile(ALL)
    text = "its address 10.44.0.5 is not of 10.100.0.0/16: delete it and make it anew"
    assert box.events == [("a", "ServiceLeftOut", text)]
    gone, box.services.objects = box.services.objects, []
    loop.reconcile(ALL)
    box.services.objects = gone
    loop.reconcile(ALL)
    assert len(box.events) == 2


def test_ports_of_the_hosts_own_programs_and_kept_ones_go_to_no_service() -> None:
    box = PlayedBox(a_service("a", kind="NodePort", node=30022), a_service("b", "10.100.0.6", port=22))
    box.loop().reconcile(ALL)
    assert sorted(each.frontend for each in box.put) == [
        Frontend("10.100.0.5", "TCP", 80),
        Frontend("10.100.0.6", "TCP", 22),
    ]
    assert [(name, reason) for name, reason, _ in box.events] == [
        ("a", "ServiceLeftOut"),
        ("b", "SyncLoadBalancerFailed"),
    ]


def test_addresses_that_the_host_uses_too_are_waited_for() -> None:
    box = PlayedBox(a_service("a"), overlaps=True)
    loop = box.loop()
    assert loop.reconcile(ALL).after > 0
    assert box.put == []
    box.overlaps = False
    loop.reconcile(ALL)
    assert box.put


def test_with_a_pool_a_load_balancer_is_at_an_address_of_its_own_whatever_the_host_listens_at() -> None:
    box = PlayedBox(a_service("a", port=22), a_service("b", "10.100.0.6", port=22))
    box.addresses = PlayedAddresses("192.0.2.100-192.0.2.101")
    box.loop().reconcile(ALL)
    at = [each.frontend for each in box.put if each.frontend.address.startswith("192.0.2.")]
    assert at == [Frontend("192.0.2.100", "TCP", 22), Frontend("192.0.2.101", "TCP", 22)]
    assert box.addresses.there == ["192.0.2.100", "192.0.2.101"]
    assert box.told() == [[{"ip": "192.0.2.100"}], [{"ip": "192.0.2.101"}]]
    assert box.events == []


def test_a_pool_that_is_used_up_and_an_address_that_another_host_has_are_told() -> None:
    box = PlayedBox(a_service("a"), a_service("b", "10.100.0.6"))
    box.addresses = PlayedAddresses("192.0.2.100")
    box.addresses.problems = {"192.0.2.100": "another host has it"}
    box.loop().reconcile(ALL)
    used_up = "all IPv4 addresses of load-balancer-pool are in use: delete a Service, or enlarge the pool"
    assert box.events == [
        ("a", "SyncLoadBalancerFailed", "another host has it"),
        ("b", "SyncLoadBalancerFailed", used_up),
    ]
    assert box.addresses.there == ["192.0.2.100"]


def test_addresses_that_cannot_be_put_right_are_told_to_nobody_but_why_is_and_the_endpoints_stay() -> None:
    has, wants = a_service("a"), a_service("b", "10.100.0.6")
    has.status = at("192.0.2.100")
    box = PlayedBox(has, wants)
    box.addresses = PlayedAddresses("192.0.2.100-192.0.2.101")
    box.addresses.broken = True
    loop = box.loop()
    for _ in range(2):
        assert loop.reconcile(ALL).after > 0
    assert {"192.0.2.100", "192.0.2.101"} <= {each.frontend.address for each in box.put}
    assert box.written == []
    text = "load-balancer-pool cannot be put right: cannot list links: EPERM"
    assert box.events == [(name, "SyncLoadBalancerFailed", text) for name in ("a", "b")]
    box.addresses.broken = False
    loop.reconcile(ALL)
    assert box.told() == [[{"ip": "192.0.2.101"}]]


def test_nobody_draws_while_the_hosts_own_addresses_cannot_be_read() -> None:
    has = a_service("a")
    has.status = at("192.0.2.100")
    box = PlayedBox(has, a_service("b", "10.100.0.6"))
    box.addresses = PlayedAddresses("192.0.2.100-192.0.2.101")
    box.addresses.unreadable = True
    box.loop().reconcile(ALL)
    assert box.addresses.there == ["192.0.2.100"]
    assert box.written == []
    text = "the host's addresses cannot be read: cannot list addresses: EPERM"
    assert box.events == [(name, "SyncLoadBalancerFailed", text) for name in ("a", "b")]


def test_a_load_balancer_at_the_hosts_own_address_needs_no_pool_to_be_put_right() -> None:
    box = PlayedBox(a_service("a"))
    box.addresses.broken = True
    box.loop().reconcile(ALL)
    assert box.told() == [[{"ip": HOST}]]
    assert box.events == []


def test_without_a_pool_the_addresses_of_an_earlier_setting_go_and_are_not_looked_for_again() -> None:
    box = PlayedBox(a_service("a"))
    box.addresses.there = ["192.0.2.100"]
    box.addresses.broken = True
    loop = box.loop()
    loop.reconcile(ALL)
    assert box.addresses.there == ["192.0.2.100"]
    box.addresses.broken = False
    for _ in range(3):
        loop.reconcile(ALL)
    assert box.addresses.there == []
    assert box.addresses.looks == 2
