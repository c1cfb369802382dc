"""Which address of the pool each load balancer gets."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.work_queue import Key
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
from kvedge.standalone.networking.balancing_plan import LoadBalancer
from kvedge.standalone.networking.pool_balancers import WISHES, plan_pool_balancers

POOL = "192.0.2.100-192.0.2.102,2001:db8::10-2001:db8::12"
BOTH = {"cluster_ips": ["10.100.0.5", "fd01::5"]}


def a_service(name: str = "a", *at: str, made: str = "", wish: str = "", annotation: str = "", **spec: Any) -> Service:
    whole = {"type": "LoadBalancer", "cluster_ip": "10.100.0.5", "ports": [ServicePort(port=80)], **spec}
    notes = {WISHES[0]: annotation} if annotation else {}
    return Service(
        metadata=ObjectMeta(name=name, namespace="n", creation_timestamp=made, annotations=notes),
        spec=ServiceSpec(load_balancer_ip=wish, **whole),
        status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=each) for each in at])),
    )


def plan(*services: Service, pool: str = POOL, host: tuple[str, ...] = ()) -> dict[str, LoadBalancer]:
    found = plan_pool_balancers(services, address_pool(pool), host)
    return {key.name: each for key, each in found.items()}


def addresses(*services: Service, pool: str = POOL, host: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    return {name: each.addresses for name, each in plan(*services, pool=pool, host=host).items()}


def test_each_gets_the_lowest_free_address_the_older_first() -> None:
    later, earlier = a_service("a", made="2026-02-01T00:00:00Z"), a_service("b", made="2026-01-01T00:00:00Z")
    assert addresses(later, earlier) == {"b": ("192.0.2.100",), "a": ("192.0.2.101",)}


def test_what_a_service_has_it_keeps_whoever_draws() -> None:
    old = a_service("old", made="2025-01-01T00:00:00Z", **BOTH)
    has = a_service("has", "192.0.2.100", "2001:DB8::10", made="2026-01-01T00:00:00Z", **BOTH)
    assert addresses(old, has) == {
        "has": ("192.0.2.100", "2001:db8::10"),
        "old": ("192.0.2.101", "2001:db8::11"),
    }


def test_what_is_no_longer_of_the_pool_or_not_of_the_service_is_given_back() -> None:
    moved = a_service("a", "192.0.2.7")
    assert addresses(moved) == {"a": ("192.0.2.100",)}
    one_family = a_service("a", "2001:db8::12", "192.0.2.102")
    assert addresses(one_family) == {"a": ("192.0.2.102",)}
    another_kind = a_service("a", "192.0.2.102", type="ClusterIP")
    assert addresses(another_kind) == {}


def test_two_that_claim_one_address_do_not_both_have_it() -> None:
    first, second = a_service("a", "192.0.2.100"), a_service("b", "192.0.2.100")
    assert addresses(first, second) == {"a": ("192.0.2.100",), "b": ("192.0.2.101",)}


def test_a_service_of_both_families_has_one_of_each_as_far_as_the_pool_has() -> None:
    assert addresses(a_service(**BOTH)) == {"a": ("192.0.2.100", "2001:db8::10")}
    assert addresses(a_service(**BOTH), pool="192.0.2.100") == {"a": ("192.0.2.100",)}


def test_a_wish_is_met_by_the_field_or_the_annotation() -> None:
    assert addresses(a_service(wish="192.0.2.102")) == {"a": ("192.0.2.102",)}
    assert addresses(a_service("a", "192.0.2.100", wish="192.0.2.102")) == {"a": ("192.0.2.102",)}
    both = a_service(annotation="2001:db8::12, 192.0.2.101", **BOTH)
    assert addresses(both) == {"a": ("192.0.2.101", "2001:db8::12")}
    # The other family is drawn.
    assert addresses(a_service(wish="2001:db8::12", **BOTH)) == {"a": ("2001:db8::12", "192.0.2.100")}


@pytest.mark.parametrize("own_wish", ["", "192.0.2.100"])
@pytest.mark.parametrize("before", ["", "192.0.2.101"])
def test_an_older_service_that_wishes_for_what_another_one_has_does_not_get_it(own_wish: str, before: str) -> None:
    older = a_service("older", *filter(None, [before]), made="2025-01-01T00:00:00Z", annotation="192.0.2.100")
    victim = a_service("victim", "192.0.2.100", made="2026-01-01T00:00:00Z", wish=own_wish)
    found = plan(older, victim)
    assert found["victim"] == LoadBalancer(("192.0.2.100",))
    assert found["older"] == LoadBalancer((), "192.0.2.100 belongs to service n/victim")


def test_what_a_service_leaves_for_its_wish_others_get() -> None:
    moves = a_service("a", "192.0.2.100", made="2025-01-01T00:00:00Z", wish="192.0.2.101")
    assert addresses(moves, a_service("b", wish="192.0.2.100"), a_service("c")) == {
        "a": ("192.0.2.101",),
        "b": ("192.0.2.100",),
        "c": ("192.0.2.102",),
    }


def test_of_two_that_wish_for_one_free_address_the_older_gets_it() -> None:
    later = a_service("a", made="2026-02-01T00:00:00Z", wish="192.0.2.100")
    earlier = a_service("b", made="2026-01-01T00:00:00Z", wish="192.0.2.100")
    assert addresses(later, earlier) == {"b": ("192.0.2.100",), "a": ()}


@pytest.mark.parametrize(
    ("service", "words"),
    [
        pytest.param(a_service(wish="192.0.2.7"), "192.0.2.7 is not of load-balancer-pool", id="of no pool"),
        pytest.param(a_service(wish="192.0.2.101"), "192.0.2.101 belongs to service n/other", id="another one's"),
        pytest.param(a_service(wish="192.0.2.102"), "192.0.2.102 is this host's own", id="the host's"),
        pytest.param(a_service(wish="2001:db8::10"), "is of IPv6, which the Service is not", id="of another family"),
        pytest.param(a_service(annotation="web"), "'web' must be an address", id="no address"),
        pytest.param(a_service(annotation="192.0.2.100%1"), "must be an address", id="an address of a link"),
        pytest.param(a_service(annotation="192.0.2.100,192.0.2.102"), "or one of each family", id="two of one family"),
        pytest.param(a_service(annotation="," * 9999), "must be an address", id="a long wish"),
        pytest.param(a_service(wish="192.0.2.100", annotation="192.0.2.100"), "both ask", id="two wishes"),
        pytest.param(a_service(cluster_ip="None"), "it has no address of its own", id="headless"),
    ],
)
def test_a_wish_that_cannot_be_met_is_told_and_waited_for(service: Service, words: str) -> None:
    found = plan(a_service("other", "192.0.2.101"), service, host=("192.0.2.102",))["a"]
    assert found.addresses == ()
    assert words in found.problem
    assert len(found.problem) < 300


def test_a_pool_that_is_used_up_is_told_and_what_a_service_has_stays() -> None:
    found = plan(a_service("a", "192.0.2.100"), a_service("b"), a_service("c", **BOTH), pool="192.0.2.100,2001:db8::10")
    text = "all IPv4 addresses of load-balancer-pool are in use: delete a Service, or enlarge the pool"
    assert found["b"] == LoadBalancer((), text)
    assert found["c"] == LoadBalancer(("2001:db8::10",), text)


def test_a_pool_without_addresses_of_the_services_family_is_told() -> None:
    service = a_service(cluster_ip="fd01::5")
    assert plan(service, pool="192.0.2.100")["a"].problem == "load-balancer-pool has no IPv6 address"


def test_a_wide_pool_and_many_services_are_walked_through_once() -> None:
    services = [a_service(f"s{number:04}") for number in range(2000)]
    found = plan_pool_balancers(services, address_pool("2001:db8::/64,10.0.0.0/8"), ())
    assert found[Key("n", "s1999")].addresses == ("10.0.7.207",)
