"""Where Services are named, who answers there, and which load balancers the host can be."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.work_queue import Key
from kvedge.network.services.service_rules import ANY_OWN, ANY_OWN_IPV6, Balanced, Frontend
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.services import (
    SERVICE_NAME,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from kvedge.standalone.networking import balancing_plan
from kvedge.standalone.networking.balancing_plan import (
    Balancing,
    LoadBalancer,
    plan_balancing,
    plan_load_balancers,
)

CIDR = "10.100.0.0/16"
CIDRS = (CIDR, "fd01::/112")
HOST = "192.0.2.5"
WEB = Key("default", "web")


def a_service(name: str = "web", made: str = "2026-01-01T00:00:00Z", at: str = "", **spec: Any) -> Service:
    whole = {"type": "ClusterIP", "cluster_ip": "10.100.0.5", "ports": [ServicePort(port=80)], **spec}
    ingress = [LoadBalancerIngress(ip=at)] if at else []
    return Service(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=made),
        spec=ServiceSpec(**whole),
        status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress)),
    )


def a_slice(*endpoints: Endpoint, port: int = 8080, name: str = "", family: str = "IPv4") -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name="web-1", namespace="default", labels={SERVICE_NAME: "web"}),
        address_type=family,
        endpoints=list(endpoints),
        ports=[EndpointPort(name=name, port=port, protocol="TCP")],
    )


def an_endpoint(address: str = "10.99.0.7", ready: bool | None = True, ending: bool = False) -> Endpoint:
    return Endpoint(addresses=[address], conditions=EndpointConditions(ready=ready, serving=True, terminating=ending))


def balanced(service: Service, *slices: EndpointSlice, at: str = "") -> list[Balanced]:
    balancers = {WEB: LoadBalancer((at,) if at else ())}
    return list(plan_balancing([service], {WEB: slices}, balancers, CIDRS).ports)


def plan(*services: Service, ways: int = 1, taken: frozenset[tuple[str, int]] = frozenset()) -> Balancing:
    """Of Services each of which has so many endpoints."""
    ends = a_slice(*(an_endpoint(f"10.99.0.{number}") for number in range(1, ways + 1)))
    slices = {Key("default", service.metadata.name): [ends] for service in services}
    return plan_balancing(services, slices, {}, CIDRS, taken)


def fronts(found: Balancing) -> list[Frontend]:
    return [each.frontend for each in found.ports]


def test_each_address_of_a_service_leads_to_the_same_endpoints() -> None:
    service = a_service(type="LoadBalancer", ports=[ServicePort(port=80, node_port=30080)])
    found = balanced(service, a_slice(an_endpoint()), at=HOST)
    ways = (("10.99.0.7", 8080),)
    assert found == [
        Balanced(Frontend("10.100.0.5", "TCP", 80), ways),
        Balanced(Frontend(HOST, "TCP", 80), ways),
        Balanced(Frontend(ANY_OWN, "TCP", 30080), ways),
    ]


@pytest.mark.parametrize("spec", [{"cluster_ip": "None"}, {"type": "ExternalName", "cluster_ip": ""}])
def test_a_service_without_an_address_is_named_nowhere(spec: dict[str, Any]) -> None:
    assert balanced(a_service(**spec), a_slice(an_endpoint())) == []


def test_session_affinity_keeps_a_client_at_its_endpoint() -> None:
    (found,) = balanced(a_service(session_affinity="ClientIP"), a_slice(an_endpoint()))
    assert found.sticky


def test_who_is_not_ready_gets_nothing() -> None:
    slices = a_slice(an_endpoint(), an_endpoint("10.99.0.8", ready=False), an_endpoint("10.99.0.9", ready=None))
    (found,) = balanced(a_service(), slices)
    assert found.endpoints == (("10.99.0.7", 8080), ("10.99.0.9", 8080))


def test_those_that_end_serve_while_nobody_else_does() -> None:
    ending = an_endpoint("10.99.0.8", ready=False, ending=True)
    (found,) = balanced(a_service(), a_slice(ending))
    assert found.endpoints == (("10.99.0.8", 8080),)
    (found,) = balanced(a_service(), a_slice(ending, an_endpoint()))
    assert found.endpoints == (("10.99.0.7", 8080),)


def test_each_port_of_a_service_finds_its_own_by_name() -> None:
    service = a_service(ports=[ServicePort(name="a", port=1), ServicePort(name="b", port=2)])
    found = balanced(service, a_slice(an_endpoint(), port=11, name="a"), a_slice(an_endpoint(), port=22, name="b"))
    assert [each.endpoints[0][1] for each in found] == [11, 22]


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "fd00::1", "name"])
def test_endpoints_that_somebody_writes_do_not_lead_to_the_host_itself(address: str) -> None:
    (found,) = balanced(a_service(), a_slice(an_endpoint(address)))
    assert found.endpoints == ()


def test_names_are_no_endpoints_either() -> None:
    (found,) = balanced(a_service(), a_slice(an_endpoint(), family="FQDN"))
    assert found.endpoints == ()


def test_what_two_services_name_is_the_older_ones_and_goes_into_the_kernel_once() -> None:
    port = ServicePort(port=80, node_port=30080)
    younger = a_service("a", "2026-02-01T00:00:00Z", type="NodePort", ports=[port])
    older = a_service("b", "2026-01-01T00:00:00Z", type="NodePort", cluster_ip="10.100.0.6", ports=[port])
    found = plan(younger, older)
    assert sorted(fronts(found)) == [
        Frontend(ANY_OWN, "TCP", 30080),
        Frontend("10.100.0.5", "TCP", 80),
        Frontend("10.100.0.6", "TCP", 80),
    ]
    assert found.problems == {Key("default", "a"): "port 30080/TCP of the node belongs to service default/b"}


def test_a_port_that_one_service_names_twice_goes_into_the_kernel_once() -> None:
    ports = [ServicePort(name="a", port=80), ServicePort(name="b", port=80)]
    assert fronts(plan(a_service(ports=ports))) == [Frontend("10.100.0.5", "TCP", 80)]


def test_services_for_which_there_is_no_room_are_left_out_the_youngest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing_plan, "MOST_ELEMENTS", 64)
    older = a_service("z", "2026-01-01T00:00:00Z")
    younger = a_service("a", "2026-02-01T00:00:00Z", cluster_ip="10.100.0.6")
    found = plan(younger, older, ways=2)
    assert fronts(found) == [Frontend("10.100.0.5", "TCP", 80)]
    assert list(found.problems) == [Key("default", "a")]
    assert "no room" in found.problems[Key("default", "a")]


@pytest.mark.parametrize("number", [-1, 0, 65536, 70000])
def test_numbers_that_are_no_ports_lead_nowhere(number: int) -> None:
    (found,) = balanced(a_service(), a_slice(an_endpoint(), port=number))
    assert found.endpoints == ()
    assert balanced(a_service(ports=[ServicePort(port=number)]), a_slice(an_endpoint())) == []


@pytest.mark.parametrize("address", ["fd00::5", "192.168.1.5", "10.101.0.5", "name"])
def test_an_address_that_is_none_of_services_is_not_taken_from_whoever_has_it(address: str) -> None:
    found = plan(a_service(cluster_ip=address))
    assert fronts(found) == []
    known = "fd01::/112" if ":" in address else CIDR
    assert found.problems == {WEB: f"its address {address} is not of {known}: delete it and make it anew"}


@pytest.mark.parametrize("number", [30080, 22, 40000])
def test_a_node_port_of_the_hosts_own_is_not_taken_away(number: int) -> None:
    service = a_service(type="NodePort", ports=[ServicePort(port=80, node_port=number)])
    found = plan(service, taken=frozenset({("TCP", 30080)}))
    assert fronts(found) == [Frontend("10.100.0.5", "TCP", 80)]
    assert found.problems[WEB].endswith("choose another one")


def test_what_an_earlier_version_made_headless_says_so() -> None:
    text = "it was made headless by an earlier version: delete it and make it anew"
    assert plan(a_service(type="NodePort", cluster_ip="None")).problems == {WEB: text}
    assert planned(a_service(type="LoadBalancer", cluster_ip="None")) == {"web": text}
    assert plan(a_service(cluster_ip="None")).problems == {}
    assert plan(a_service(cluster_ip="")).problems == {WEB: text}


def test_ports_by_which_the_host_is_looked_after_are_no_load_balancers() -> None:
    service = a_service(type="LoadBalancer", ports=[ServicePort(port=6443)])
    (found,) = plan_load_balancers([service], [HOST], (), {("TCP", 6443)}).values()
    assert found == LoadBalancer(problem=f"port 6443/TCP of {HOST} is kept for the host itself: choose another port")


def planned(
    *services: Service, hosts: tuple[str, ...] = (HOST,), listening: frozenset[tuple[str, int]] = frozenset()
) -> dict[str, Any]:
    found = plan_load_balancers(services, hosts, listening)
    return {key.name: ",".join(balancer.addresses) or balancer.problem for key, balancer in found.items()}


def test_a_load_balancer_is_at_the_hosts_address() -> None:
    assert planned(a_service(type="LoadBalancer"), a_service("other")) == {"web": HOST}


def test_a_load_balancer_of_a_class_is_somebody_elses() -> None:
    assert planned(a_service(type="LoadBalancer", load_balancer_class="x.example/y")) == {}


def test_of_two_at_one_port_the_older_has_it_unless_the_other_has_it_already() -> None:
    older = a_service("older", "2026-01-01T00:00:00Z", type="LoadBalancer")
    younger = a_service("younger", "2026-02-01T00:00:00Z", type="LoadBalancer")
    problem = f"port 80/TCP of {HOST} belongs to service default/"
    assert planned(younger, older) == {"older": HOST, "younger": f"{problem}older"}
    younger.status.load_balancer.ingress = [LoadBalancerIngress(ip=HOST)]
    assert planned(younger, older) == {"younger": HOST, "older": f"{problem}younger"}


def test_a_port_of_the_hosts_own_is_not_taken_away() -> None:
    service = a_service(type="LoadBalancer", ports=[ServicePort(port=22)])
    (problem,) = planned(service, listening=frozenset({("TCP", 22)})).values()
    assert problem == f"port 22/TCP of {HOST} is in use by a program of the host: choose another port"
    assert planned(service, listening=frozenset({("UDP", 22)})) == {"web": HOST}


def test_a_host_without_an_address_balances_nothing() -> None:
    (problem,) = planned(a_service(type="LoadBalancer"), hosts=("127.0.0.1",)).values()
    assert "no address" in problem


DUAL: dict[str, Any] = {"cluster_ips": ["10.100.0.5", "fd01::5"], "ip_families": ["IPv4", "IPv6"]}


def test_each_family_leads_to_endpoints_of_its_own() -> None:
    service = a_service(type="NodePort", ports=[ServicePort(port=80, node_port=30080)], **DUAL)
    slices = (a_slice(an_endpoint()), a_slice(an_endpoint("2001:db8::7"), family="IPv6"))
    found = {each.frontend.address: each.endpoints for each in balanced(service, *slices)}
    ipv4, ipv6 = (("10.99.0.7", 8080),), (("2001:db8::7", 8080),)
    assert found == {"10.100.0.5": ipv4, ANY_OWN: ipv4, "fd01::5": ipv6, ANY_OWN_IPV6: ipv6}


@pytest.mark.parametrize("address", ["::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "fe80::1%eth0", "10.99.0.7"])
def test_endpoints_of_ipv6_do_not_lead_to_the_host_itself_either(address: str) -> None:
    service = a_service(cluster_ip="fd01::5", ip_families=["IPv6"])
    (found,) = balanced(service, a_slice(an_endpoint(address), family="IPv6"))
    assert found.endpoints == ()


def test_a_second_address_of_a_time_with_ipv6_says_that_it_leads_nowhere() -> None:
    found = plan_balancing([a_service(**DUAL)], {}, {}, (CIDR,))
    assert fronts(found) == [Frontend("10.100.0.5", "TCP", 80)]
    assert found.problems == {WEB: "this box has no IPv6 addresses for Services any more: fd01::5 leads nowhere"}


def test_a_load_balancer_is_at_the_hosts_addresses_of_its_families() -> None:
    hosts = (HOST, "2001:db8:9::5")
    both = a_service("both", type="LoadBalancer", **DUAL)
    single = a_service("single", type="LoadBalancer", ports=[ServicePort(port=81)])
    third = a_service("third", type="LoadBalancer", cluster_ip="fd01::6")
    assert planned(both, single, hosts=hosts) == {"both": ",".join(hosts), "single": HOST}
    # A host that has no IPv6 serves what it can.
    assert planned(both, hosts=(HOST,)) == {"both": HOST}
    assert "no address" in planned(third, hosts=(HOST,))["third"]
    assert planned(single, third, hosts=hosts) == {"single": HOST, "third": hosts[1]}
