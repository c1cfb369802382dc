"""Which names there are."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod, PodIp, PodStatus
from kvedge.resources.types.services import (
    SERVICE_NAME,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    Service,
    ServiceSpec,
)
from kvedge.standalone.names.name_table import NameTable, is_in_zone, name_table, search_domains


def a_service(name: str, **spec: Any) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace="ns"), spec=ServiceSpec(**spec))


def an_endpoint(address: str, hostname: str = "", ready: bool = True) -> Endpoint:
    return Endpoint(addresses=[address], conditions=EndpointConditions(ready=ready), hostname=hostname or None)


def a_vm(name: str, address: str, phase: str = "Running") -> Pod:
    meta = ObjectMeta(name=f"virt-launcher-{name}", namespace="ns", labels={"vmi.kubevirt.io/id": name})
    return Pod(metadata=meta, status=PodStatus(phase=phase, pod_ip=address))


SLICE = EndpointSlice(
    metadata=ObjectMeta(name="db-1", namespace="ns", labels={SERVICE_NAME: "db"}),
    address_type="IPv4",
    endpoints=[
        an_endpoint("10.99.0.9", "two"),
        an_endpoint("10.99.0.8", "one"),
        an_endpoint("10.99.0.7", "three", ready=False),
    ],
)
TABLE = name_table(
    [
        a_service("web", cluster_ip="10.100.0.5"),
        a_service("db", cluster_ip="None"),
        a_service("alias", type="ExternalName"),
    ],
    [SLICE],
    [a_vm("vm", "10.99.0.20"), a_vm("web", "10.99.0.21"), a_vm("off", "10.99.0.22", "Succeeded"), a_vm("new", "")],
)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("web.ns.svc.cluster.local", ("10.100.0.5",)),
        ("db.ns.svc.cluster.local", ("10.99.0.8", "10.99.0.9")),
        ("one.db.ns.svc.cluster.local", ("10.99.0.8",)),
        ("three.db.ns.svc.cluster.local", None),
        ("one.web.ns.svc.cluster.local", None),
        ("vm.ns.svc.cluster.local", ("10.99.0.20",)),
        ("off.ns.svc.cluster.local", None),
        ("new.ns.svc.cluster.local", None),
        ("alias.ns.svc.cluster.local", None),
        ("web.other.svc.cluster.local", None),
        ("ns.svc.cluster.local", ()),
        ("other.svc.cluster.local", None),
        ("svc.cluster.local", ()),
        ("cluster.local", ()),
        ("vm.cluster.local", None),
        ("a.b.c.d.svc.cluster.local", None),
    ],
)
def test_a_name_of_the_zone(name: str, found: tuple[str, ...] | None) -> None:
    labels = tuple(name.split("."))
    assert is_in_zone(labels)
    assert TABLE.in_zone(labels) == found


@pytest.mark.parametrize(
    ("name", "found"),
    [("vm.ns", ("10.99.0.20",)), ("web.ns", ("10.100.0.5",)), ("vm", None), ("vm.ns.example", None), ("x.ns", None)],
)
def test_a_short_name_of_a_vm(name: str, found: tuple[str, ...] | None) -> None:
    labels = tuple(name.split("."))
    assert not is_in_zone(labels)
    assert TABLE.of_vm(labels) == found


def test_a_pods_own_namespace_is_searched_first() -> None:
    assert search_domains("ns") == ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local"]


def test_an_empty_box_has_no_names() -> None:
    assert NameTable().in_zone(("web", "ns", "svc", "cluster", "local")) is None


def test_what_is_no_address_is_not_answered() -> None:
    strange = EndpointSlice(
        metadata=SLICE.metadata, address_type="IPv6", endpoints=[an_endpoint("fe80::9%eth0", "two"), an_endpoint("x")]
    )
    services = [a_service("web", cluster_ip="name"), a_service("db", cluster_ip="None")]
    table = name_table(services, [strange], [a_vm("vm", "name")])
    found = [table.of_vm((name, "ns")) for name in ("web", "db", "vm")]
    assert found == [(), (), ()]
    assert table.hosts == {("ns", "db", "two"): ()}


def test_names_have_addresses_of_both_families() -> None:
    of_ipv6 = EndpointSlice(metadata=SLICE.metadata, address_type="IPv6", endpoints=[an_endpoint("2001:db8::9", "two")])
    web = a_service("web", cluster_ip="10.100.0.5", cluster_ips=["10.100.0.5", "fd01::5"])
    vm = a_vm("vm", "10.99.0.20")
    vm.status.pod_ips = [PodIp(ip="10.99.0.20"), PodIp(ip="2001:db8::14")]
    table = name_table([web, a_service("db", cluster_ip="None")], [SLICE, of_ipv6], [vm])
    assert table.of_vm(("web", "ns")) == ("10.100.0.5", "fd01::5")
    assert table.of_vm(("vm", "ns")) == ("10.99.0.20", "2001:db8::14")
    assert table.hosts["ns", "db", "two"] == ("10.99.0.9", "2001:db8::9")
