"""Which endpoints a Service has."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.core import Container, ContainerPort, Pod, PodIp, PodSpec, PodStatus
from kvedge.resources.types.services import Service, ServicePort, ServiceSpec
from kvedge.standalone.networking.endpoints_plan import plan_endpoints, selects

LABELS = {"vmi.kubevirt.io/id": "web"}


def a_service(*ports: ServicePort, **spec: Any) -> Service:
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", uid="u-1", labels={"tier": "front"}),
        spec=ServiceSpec(
            selector=LABELS,
            ports=list(ports) or [ServicePort(port=80, target_port=8080)],
            cluster_ip=spec.pop("cluster_ip", "10.100.0.5"),
            **spec,
        ),
    )


def a_pod(name: str = "p", address: str = "10.99.0.7", *, ready: bool = True, ending: bool = False, **more: Any) -> Pod:
    named = more.pop("ports", [])
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=more.pop("namespace", "default"),
            uid=f"uid-{name}",
            labels=more.pop("labels", LABELS),
            deletion_timestamp="2026-01-01T00:00:00Z" if ending else None,
        ),
        spec=PodSpec(
            node_name="box",
            containers=[Container(name="compute", ports=named)],
            hostname=more.pop("hostname", ""),
            subdomain=more.pop("subdomain", ""),
        ),
        status=PodStatus(
            phase=more.pop("phase", "Running"),
            pod_ip=address,
            conditions=[Condition(type="Ready", status="True" if ready else "False")],
        ),
    )


def test_a_ready_pod_is_an_endpoint_at_the_target_port() -> None:
    endpoints, (found,) = plan_endpoints(a_service(), [a_pod()])
    (endpoint,) = found.endpoints
    assert endpoint.addresses == ["10.99.0.7"]
    assert (endpoint.conditions.ready, endpoint.conditions.serving, endpoint.conditions.terminating) == (
        True,
        True,
        False,
    )
    assert [(port.name, port.port, port.protocol) for port in found.ports] == [("", 8080, "TCP")]
    assert found.metadata.labels["kubernetes.io/service-name"] == "web"
    assert found.metadata.labels["tier"] == "front"
    assert found.metadata.owner_references[0].uid == "u-1"
    (subset,) = endpoints.subsets
    assert [address.ip for address in subset.addresses] == ["10.99.0.7"]
    assert subset.not_ready_addresses == []


def test_a_pod_that_is_not_ready_is_told_as_that() -> None:
    endpoints, (found,) = plan_endpoints(a_service(), [a_pod(ready=False)])
    assert found.endpoints[0].conditions.ready is False
    assert [address.ip for address in endpoints.subsets[0].not_ready_addresses] == ["10.99.0.7"]


def test_a_service_that_publishes_everybody_takes_its_pods_for_ready() -> None:
    service = a_service(publish_not_ready_addresses=True)
    endpoints, (found,) = plan_endpoints(service, [a_pod(ready=False, ending=True)])
    assert found.endpoints[0].conditions.ready is True
    assert len(endpoints.subsets[0].addresses) == 1


def test_a_pod_that_ends_still_serves_and_is_no_longer_ready() -> None:
    endpoints, (found,) = plan_endpoints(a_service(), [a_pod(ending=True)])
    conditions = found.endpoints[0].conditions
    assert (conditions.ready, conditions.serving, conditions.terminating) == (False, True, True)
    assert endpoints.subsets == []


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(phase="Succeeded"),
        a_pod(phase="Failed"),
        a_pod(address=""),
        a_pod(labels={"vmi.kubevirt.io/id": "other"}),
        a_pod(namespace="elsewhere"),
    ],
    ids=["ended well", "failed", "without an address", "of another VM", "of another namespace"],
)
def test_who_is_no_endpoint(pod: Pod) -> None:
    endpoints, (found,) = plan_endpoints(a_service(), [pod])
    assert (endpoints.subsets, found.endpoints, found.ports) == ([], [], [])


def test_a_service_without_a_selector_selects_nobody() -> None:
    service = a_service()
    service.spec.selector = {}
    assert not selects(service, a_pod())


def test_a_port_by_name_is_each_pods_own() -> None:
    service = a_service(ServicePort(name="http", port=80, target_port="web"))
    pods = [
        a_pod("a", "10.99.0.7", ports=[ContainerPort(container_port=8080, name="web")]),
        a_pod("b", "10.99.0.8", ports=[ContainerPort(container_port=9090, name="web")]),
        a_pod("c", "10.99.0.9"),
    ]
    _, slices = plan_endpoints(service, pods)
    found = {each.ports[0].port: [item.addresses[0] for item in each.endpoints] for each in slices}
    assert found == {8080: ["10.99.0.7"], 9090: ["10.99.0.8"]}
    assert len({each.metadata.name for each in slices}) == 2


def test_a_service_without_address_and_ports_has_its_pods_addresses() -> None:
    service = a_service(cluster_ip="None")
    service.spec.ports = []
    _, (found,) = plan_endpoints(service, [a_pod(hostname="one", subdomain="web")])
    assert (found.endpoints[0].addresses, found.endpoints[0].hostname) == (["10.99.0.7"], "one")
    assert found.metadata.labels["service.kubernetes.io/headless"] == ""


def test_many_endpoints_are_in_several_slices_of_names_that_stay() -> None:
    pods = [a_pod(f"p{number:03}", f"10.99.0.{number}") for number in range(1, 251)]
    _, slices = plan_endpoints(a_service(), pods)
    assert [len(each.endpoints) for each in slices] == [100, 100, 50]
    _, again = plan_endpoints(a_service(), reversed(pods))
    assert again == slices


def test_a_service_of_both_families_has_slices_of_each_and_endpoints_of_its_first() -> None:
    pod, other = a_pod("p"), a_pod("q", "10.99.0.8")
    pod.status.pod_ips = [PodIp(ip="10.99.0.7"), PodIp(ip="2001:db8::7")]
    endpoints, slices = plan_endpoints(a_service(ip_families=["IPv6", "IPv4"]), [pod, other])
    found = {each.address_type: [endpoint.addresses for endpoint in each.endpoints] for each in slices}
    assert found == {"IPv6": [["2001:db8::7"]], "IPv4": [["10.99.0.7"], ["10.99.0.8"]]}
    assert [address.ip for address in endpoints.subsets[0].addresses] == ["2001:db8::7"]
    assert len({each.metadata.name for each in slices}) == 2
    # The slice of IPv4 is the one that it had when it was alone.
    _, (alone,) = plan_endpoints(a_service(), [pod, other])
    assert alone.metadata.name == slices[1].metadata.name
    # A family of which no Pod has an address has an empty slice: somebody has looked.
    _, both = plan_endpoints(a_service(ip_families=["IPv4", "IPv6"]), [other])
    assert [(each.address_type, len(each.endpoints)) for each in both] == [("IPv4", 1), ("IPv6", 0)]
