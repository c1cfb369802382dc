"""Services: addresses and ports that the server gives, what may be asked for, and what stays. On both servers."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import TABLE, Answer

pytestmark = pytest.mark.contract


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    """A Service in front of some Pods."""
    whole = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": ""}], **spec}
    kept = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": kept}


def create(server: Server, namespace: str, **spec: Any) -> Answer:
    return server.admin.post(f"/api/v1/namespaces/{namespace}/services", service(**spec))


def causes(answer: Answer) -> list[tuple[str, str]]:
    """Field and message of each cause."""
    found = (answer.json.get("details") or {}).get("causes") or []
    return [(each["field"], each["message"]) for each in found]


def test_a_service_gets_an_address_and_defaults(api_server: Server, namespace: str) -> None:
    answer = create(api_server, namespace)
    assert answer.status == 201
    spec = answer.json["spec"]
    address = spec.pop("clusterIP")
    assert ipaddress.ip_address(address).is_private
    assert spec == {
        "clusterIPs": [address],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    }
    assert answer.json["status"] == {"loadBalancer": {}}
    assert "Warning" not in answer.headers


def test_a_node_port_is_given_where_none_is_named(api_server: Server, namespace: str) -> None:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}, {"name": "x", "port": 80}]
    answer = create(api_server, namespace, type="NodePort", ports=ports)
    assert answer.status == 201
    spec = answer.json["spec"]
    given = [port["nodePort"] for port in spec["ports"]]
    assert all(30000 <= port <= 32767 for port in given)
    # Two protocols of one port are one port at the node.
    assert given[0] == given[1] != given[2]
    assert (spec["externalTrafficPolicy"], spec["internalTrafficPolicy"]) == ("Cluster", "Cluster")


def test_a_load_balancer_has_node_ports_unless_it_says_otherwise(api_server: Server, namespace: str) -> None:
    spec = create(api_server, namespace, type="LoadBalancer").json["spec"]
    assert spec["allocateLoadBalancerNodePorts"] is True
    assert spec["ports"][0]["nodePort"]
    without = create(api_server, namespace, name="b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in without.json["spec"]["ports"][0]


def test_what_another_service_has_is_refused(api_server: Server, namespace: str) -> None:
    first = create(api_server, namespace, type="NodePort").json["spec"]
    address, port = first["clusterIP"], first["ports"][0]["nodePort"]
    answer = create(api_server, namespace, name="b", clusterIP=address)
    assert answer.status == 422
    assert causes(answer) == [
        (
            "spec.clusterIPs",
            f'Invalid value: ["{address}"]: failed to allocate IP {address}: provided IP is already allocated',
        )
    ]
    answer = create(api_server, namespace, name="b", type="NodePort", ports=[{"port": 81, "nodePort": port}])
    assert answer.status == 422
    assert causes(answer) == [("spec.ports[0].nodePort", f"Invalid value: {port}: provided port is already allocated")]
    # Whoever is gone has nothing any more.
    api_server.admin.delete(f"/api/v1/namespaces/{namespace}/services/web")
    again = create(
        api_server, namespace, name="b", clusterIP=address, type="NodePort", ports=[{"port": 81, "nodePort": port}]
    )
    assert again.status == 201


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 99}]},
            "spec.ports[0].nodePort",
            "Invalid value: 99: provided port is not in the valid range. The range of valid ports is 30000-32767",
            id="a port outside of the range",
        ),
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30001}]},
            "spec.ports[0].nodePort",
            "Forbidden: may not be used when `type` is 'ClusterIP'",
            id="a node port without a node",
        ),
        pytest.param(
            {"type": "NodePort", "clusterIP": "None"},
            "spec.clusterIPs[0]",
            "Invalid value: \"None\": may not be set to 'None' for NodePort services",
            id="a node port without an address",
        ),
        pytest.param(
            {"externalTrafficPolicy": "Local"},
            "spec.externalTrafficPolicy",
            'Invalid value: "Local": may only be set for externally-accessible services',
            id="a way in that is none",
        ),
        pytest.param(
            {"clusterIP": "x"},
            "spec.clusterIPs[0]",
            'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            id="no address",
        ),
        pytest.param(
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100000}}},
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            "Invalid value: 100000: must be greater than 0 and less than 86400",
            id="an affinity of more than a day",
        ),
        pytest.param(
            {"ipFamilies": ["IPv6"]},
            "spec.ipFamilies[0]",
            'Invalid value: "IPv6": not configured on this cluster',
            id="a family that is not there",
        ),
        pytest.param(
            {"type": "ExternalName", "externalName": "a.example", "clusterIP": "10.0.0.7"},
            "spec.clusterIPs",
            "Forbidden: may not be set for ExternalName services",
            id="a name with an address",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    api_server: Server, namespace: str, spec: dict[str, Any], field: str, message: str
) -> None:
    answer = create(api_server, namespace, **spec)
    assert answer.status == 422
    assert (field, message) in causes(answer)


def test_an_address_outside_of_the_range_is_refused(api_server: Server, namespace: str) -> None:
    answer = create(api_server, namespace, clusterIP="203.0.113.7")
    assert answer.status == 422
    (cause,) = causes(answer)
    assert cause[0] == "spec.clusterIPs"
    assert cause[1].startswith('Invalid value: ["203.0.113.7"]: failed to allocate IP 203.0.113.7: ')


def test_an_update_keeps_the_address_and_the_ports_that_it_leaves_out(api_server: Server, namespace: str) -> None:
    made = create(api_server, namespace, type="NodePort").json
    path = f"/api/v1/namespaces/{namespace}/services/web"
    answer = api_server.admin.put(path, service(type="NodePort", selector={"app": "other"}))
    assert answer.status == 200
    assert answer.json["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert answer.json["spec"]["clusterIPs"] == made["spec"]["clusterIPs"]
    assert answer.json["spec"]["ports"][0]["nodePort"] == made["spec"]["ports"][0]["nodePort"]
    answer = api_server.admin.put(path, service(type="NodePort", clusterIP="10.0.0.9"))
    assert answer.status == 422
    assert causes(answer)[0] == ("spec.clusterIPs[0]", 'Invalid value: ["10.0.0.9"]: may not change once set')


def test_a_service_that_becomes_a_cluster_ip_loses_its_node_port(api_server: Server, namespace: str) -> None:
    made = create(api_server, namespace, type="NodePort").json
    made["spec"]["type"] = "ClusterIP"
    answer = api_server.admin.put(f"/api/v1/namespaces/{namespace}/services/web", made)
    assert answer.status == 200
    assert "nodePort" not in answer.json["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in answer.json["spec"]
    assert answer.json["spec"]["clusterIP"] == made["spec"]["clusterIP"]


def test_a_headless_service_has_no_address(api_server: Server, namespace: str) -> None:
    spec = create(api_server, namespace, clusterIP="None").json["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    open_one = create(api_server, namespace, name="b", clusterIP="None", selector=None).json["spec"]
    assert open_one["ipFamilyPolicy"] == "RequireDualStack"


def test_a_client_keeps_its_endpoint_for_three_hours(api_server: Server, namespace: str) -> None:
    spec = create(api_server, namespace, sessionAffinity="ClientIP").json["spec"]
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_a_dry_run_takes_nothing(api_server: Server, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services"
    # A port that is free: Services of other tests have some, drawn at random.
    drawn = create(api_server, namespace, type="NodePort").json["spec"]["ports"][0]["nodePort"]
    api_server.admin.delete(f"{path}/web")
    body = service(type="NodePort", ports=[{"port": 80, "nodePort": drawn}])
    assert api_server.admin.post(f"{path}?dryRun=All", body).status == 201
    assert api_server.admin.post(path, body).status == 201
    api_server.admin.delete(f"{path}/web")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"externalIPs": ["192.0.2.77"]}, "spec.externalIPs"),
        ({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.77"}, "spec.loadBalancerIP"),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]}, "spec.loadBalancerSourceRanges"),
    ],
    ids=["further addresses", "a wanted address", "wanted sources"],
)
def test_what_one_box_does_not_do_is_refused_there(embedded_server: Server, spec: dict[str, Any], field: str) -> None:
    answer = create(embedded_server, "default", name="refused", **spec)
    assert answer.status == 422
    assert [each[0] for each in causes(answer)] == [field]


def test_slices_are_shown_as_kubectl_expects_them(api_server: Server, namespace: str) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    four = [{"addresses": [f"10.1.1.{last}"]} for last in range(1, 5)]
    many = [{"port": 80 + number, "name": f"p{number}"} for number in range(4)]
    for name, endpoints, ports in (("a", four, many), ("b", [], []), ("c", four[:1], [{"name": "any"}])):
        body = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": ports,
        }
        assert api_server.admin.post(path, body).status == 201
    table = api_server.admin.get(path, accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "AddressType",
        "Ports",
        "Endpoints",
        "Age",
    ]
    assert [row["cells"][:4] for row in table["rows"]] == [
        ["a", "IPv4", "80,81,82 + 1 more...", "10.1.1.1,10.1.1.2,10.1.1.3 + 1 more..."],
        ["b", "IPv4", "<unset>", "<unset>"],
        ["c", "IPv4", "any", "10.1.1.1"],
    ]


def test_services_are_shown_with_their_addresses_and_ports(api_server: Server, namespace: str) -> None:
    made = create(api_server, namespace, type="NodePort").json["spec"]
    path = f"/api/v1/namespaces/{namespace}/services"
    (row,) = api_server.admin.get(path, accept=TABLE).json["rows"]
    port = f"80:{made['ports'][0]['nodePort']}/TCP"
    assert row["cells"][:5] == ["web", "NodePort", made["clusterIP"], "<none>", port]
