"""Addresses and node ports of Services: each has one owner, also while writes are under way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError, Invalid

KINDS = KindIndex(BUILT_IN)
# Six addresses.
CIDR = "10.100.0.0/29"


def spec(**more: Any) -> JsonObject:
    return {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}], **more}


def stored(name: str, **more: Any) -> Stored:
    body = {"metadata": {"name": name, "namespace": "n"}, "spec": spec(**more)}
    return Stored(ObjectKey("services", "n", name), 1, json.dumps(body).encode())


def taking(ledger: ServiceLedger, name: str, wanted: JsonObject, subresource: str = "") -> Any:
    kind = KINDS.at("", "v1", "services")
    assert kind is not None
    target = RequestTarget("create", "", "", "v1", "n", "services", name, subresource)
    return ledger.take(RequestContext(target, kind, Caller("u")), name, {"spec": wanted})


def ledger_of(*services: Stored, draw: int | None = None) -> tuple[ServiceLedger, ObjectCache]:
    cache = ObjectCache(list(services), 1)
    chosen = (lambda first, last: first) if draw is None else (lambda first, last: draw)
    return ServiceLedger(cache, CIDR, chosen), cache


def given(ledger: ServiceLedger, name: str, **more: Any) -> JsonObject:
    wanted = spec(**more)
    with taking(ledger, name, wanted):
        return wanted


def test_two_writes_at_once_get_different_addresses_and_ports() -> None:
    ledger, _ = ledger_of()
    one, other = spec(type="NodePort"), spec(type="NodePort")
    with taking(ledger, "a", one), taking(ledger, "b", other):
        assert one["clusterIP"] != other["clusterIP"]
        assert one["ports"][0]["nodePort"] != other["ports"][0]["nodePort"]
    assert one["clusterIPs"] == [one["clusterIP"]]


def test_what_a_write_took_that_failed_is_free_again() -> None:
    ledger, _ = ledger_of()
    assert given(ledger, "a")["clusterIP"] == given(ledger, "b")["clusterIP"]


def test_an_address_that_is_drawn_is_not_one_that_somebody_has() -> None:
    ledger, _ = ledger_of(stored("a", clusterIP="10.100.0.3"), draw=int.from_bytes(bytes([10, 100, 0, 3])))
    assert given(ledger, "b")["clusterIP"] == "10.100.0.1"


def test_a_service_that_is_gone_gives_back_what_it_had() -> None:
    whole = stored("a", type="NodePort", clusterIP="10.100.0.3", ports=[{"port": 1, "nodePort": 30007}])
    ledger, cache = ledger_of(whole)
    named = {"type": "NodePort", "clusterIP": "10.100.0.3", "ports": [{"port": 1, "nodePort": 30007}]}
    with pytest.raises(Invalid, match="provided IP is already allocated"):
        given(ledger, "b", **named)
    with pytest.raises(Invalid, match="provided port is already allocated"):
        given(ledger, "b", **{**named, "clusterIP": "10.100.0.4"})
    cache.publish([Change(ChangeType.DELETED, whole, whole)])
    assert given(ledger, "b", **named)["clusterIP"] == "10.100.0.3"


def test_a_service_keeps_what_it_has_when_it_is_written_again() -> None:
    ledger, _ = ledger_of(stored("a", type="NodePort", clusterIP="10.100.0.3", ports=[{"port": 1, "nodePort": 30007}]))
    same = given(ledger, "a", type="NodePort", clusterIP="10.100.0.3", ports=[{"port": 1, "nodePort": 30007}])
    assert same["clusterIP"] == "10.100.0.3"


def test_an_address_of_before_the_range_was_changed_stays_its_services() -> None:
    ledger, _ = ledger_of(stored("a", clusterIP="10.44.0.3"))
    assert given(ledger, "a", clusterIP="10.44.0.3")["clusterIP"] == "10.44.0.3"
    with pytest.raises(Invalid, match=r"The range of valid IPs is 10\.100\.0\.0/29"):
        given(ledger, "b", clusterIP="10.44.0.3")


def test_when_all_addresses_are_taken_the_next_service_is_refused() -> None:
    ledger, _ = ledger_of(*(stored(f"s{last}", clusterIP=f"10.100.0.{last}") for last in range(1, 7)))
    with pytest.raises(ApiError, match="range is full"):
        given(ledger, "one-more")


@pytest.mark.parametrize(
    "wanted", [spec(clusterIP="None"), spec(type="ExternalName")], ids=["headless", "a name alone"]
)
def test_a_service_without_an_address_takes_none(wanted: JsonObject) -> None:
    ledger, _ = ledger_of()
    before = wanted.get("clusterIP")
    with taking(ledger, "a", wanted):
        assert wanted.get("clusterIP") == before


def test_a_status_takes_nothing() -> None:
    ledger, _ = ledger_of()
    wanted = spec()
    with taking(ledger, "a", wanted, "status"):
        assert "clusterIP" not in wanted


def test_a_node_port_that_is_drawn_is_not_one_of_a_program_of_the_host() -> None:
    cache = ObjectCache([], 1)
    has = {("TCP", 30000), ("UDP", 30001)}
    ledger = ServiceLedger(cache, CIDR, lambda first, last: first, lambda: has)
    assert given(ledger, "a", type="NodePort")["ports"][0]["nodePort"] == 30002


@pytest.mark.parametrize("address", ["name", "fd00::1"])
def test_a_stored_address_of_any_form_keeps_nobody_from_having_one(address: str) -> None:
    ledger, _ = ledger_of(stored("a", clusterIP=address))
    assert given(ledger, "b")["clusterIP"] == "10.100.0.1"


def test_a_number_that_is_shared_by_two_protocols_is_given_to_each_protocol_once() -> None:
    ledger, _ = ledger_of()
    ports = [
        {"name": "a", "port": 80, "protocol": "TCP", "nodePort": 30001},
        {"name": "b", "port": 80, "protocol": "UDP"},
        {"name": "c", "port": 81, "protocol": "UDP", "nodePort": 30001},
    ]
    found = given(ledger, "a", type="NodePort", ports=ports)["ports"]
    assert [each["nodePort"] for each in found] == [30001, 30000, 30001]


def dual(*services: Stored) -> ServiceLedger:
    return ServiceLedger(ObjectCache(list(services), 1), f"{CIDR},fd01::/125", lambda first, last: first)


def test_what_is_refused_takes_no_address() -> None:
    ledger = dual()
    asked = {"clusterIP": "10.100.0.3", "clusterIPs": ["10.100.0.3", "fd02::1"], "ipFamilyPolicy": "PreferDualStack"}
    with pytest.raises(Invalid, match="fd02::1"):
        given(ledger, "a", **asked)
    assert given(ledger, "b", clusterIP="10.100.0.3")["clusterIPs"] == ["10.100.0.3"]


def test_an_address_of_either_family_has_one_owner() -> None:
    has = stored("a", clusterIP="10.100.0.3", clusterIPs=["10.100.0.3", "fd01::3"], ipFamilies=["IPv4", "IPv6"])
    with pytest.raises(Invalid, match="provided IP is already allocated"):
        given(dual(has), "b", clusterIP="fd01::3")


def test_a_box_without_ipv6_gives_what_it_has_and_refuses_what_it_has_not() -> None:
    ledger, _ = ledger_of()
    assert given(ledger, "a", ipFamilyPolicy="PreferDualStack")["ipFamilies"] == ["IPv4"]
    with pytest.raises(Invalid, match="this cluster is not configured for dual-stack services"):
        given(ledger, "b", ipFamilyPolicy="RequireDualStack")
    with pytest.raises(Invalid, match="not configured on this cluster"):
        given(ledger, "b", ipFamilies=["IPv6"])


def test_what_a_service_has_of_a_time_with_ipv6_it_may_keep() -> None:
    whole = {
        "clusterIP": "10.100.0.3",
        "clusterIPs": ["10.100.0.3", "fd01::3"],
        "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack",
    }
    ledger, _ = ledger_of(stored("a", **whole))
    assert given(ledger, "a", **whole)["clusterIPs"] == ["10.100.0.3", "fd01::3"]


def test_an_ipv6_address_is_no_node_port_and_no_ipv4_address_of_the_same_number() -> None:
    low = [stored("a", clusterIP="::7530", clusterIPs=["::7530"], ipFamilies=["IPv6"])]
    low.append(stored("b", clusterIP="::a64:3", clusterIPs=["::a64:3"], ipFamilies=["IPv6"]))
    ledger, _ = ledger_of(*low)
    found = given(ledger, "c", type="NodePort", clusterIP="10.100.0.3", ports=[{"port": 80, "nodePort": 30000}])
    assert (found["clusterIPs"], found["ports"][0]["nodePort"]) == (["10.100.0.3"], 30000)


def test_without_a_pool_no_load_balancer_asks_for_an_address_and_one_that_did_may_be_changed() -> None:
    wish = {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.77"}
    ledger, _ = ledger_of(stored("old", clusterIP="10.100.0.3", **wish))
    with pytest.raises(Invalid, match="load-balancer-pool a load balancer is at the host's own address: leave it out"):
        given(ledger, "new", **wish)
    assert given(ledger, "old", clusterIP="10.100.0.3", **wish)["loadBalancerIP"] == "192.0.2.77"


def test_with_a_pool_a_load_balancer_may_ask_for_an_address() -> None:
    ledger = ServiceLedger(ObjectCache([], 1), CIDR, has_pool=True)
    assert given(ledger, "a", type="LoadBalancer", loadBalancerIP="192.0.2.77")["loadBalancerIP"] == "192.0.2.77"
