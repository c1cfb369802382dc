"""The Pod CIDR beside what a host uses already."""

from __future__ import annotations

import pytest

from kvedge.network.errors import OverlapError
from kvedge.network.link_types import Route
from kvedge.network.pods.overlap_rules import overlaps_of
from kvedge.network.pods.pod_network_plan import plan_node_network
from kvedge.network.steps import DeleteLink
from tests.support.values import replace
from tests.unit.network.pods.node_networks import CONFIG, SECOND, attach, ensure, host


@pytest.mark.parametrize(
    "cidr",
    ["192.0.2.0/24", "192.0.0.0/16", "192.0.2.128/25", "172.20.0.0/16"],
    ids=["same", "wider", "within", "a route"],
)
def test_a_range_in_use_on_the_host_is_refused_by_the_name_of_its_option(cidr: str) -> None:
    model = host()
    model.routes.append(Route("172.20.5.0/24", "192.0.2.9", model.link("eno1").index))
    config = replace(CONFIG, cidr=cidr)
    with pytest.raises(OverlapError, match=r"--pod-cidr .* overlaps .* of eno1"):
        plan_node_network(config, model.seen_by_node())


def test_our_own_bridge_does_not_overlap_with_itself() -> None:
    model = host()
    ensure(model)
    model.routes.append(Route("10.99.0.0/24", "", model.link("kvedge0").index, protocol=2))
    ensure(model)


def test_a_vpns_default_route_in_pieces_is_no_overlap() -> None:
    model = host()
    model.routes += [Route(half, "", model.link("eno1").index) for half in ("0.0.0.0/1", "128.0.0.0/1")]
    ensure(model)


def test_a_route_that_is_wider_than_the_range_is_named_and_refused_by_nobody() -> None:
    model = host()
    model.routes.append(Route("10.0.0.0/8", "192.0.2.9", model.link("eno1").index))
    ensure(model)
    assert overlaps_of(CONFIG, model.seen_by_node()) == ["10.0.0.0/8 of eno1"]


def test_a_neighbour_whose_network_is_wider_than_the_range_is_one() -> None:
    model = host()
    model._add_address(model.link("eno1"), "10.0.0.5", 8)
    with pytest.raises(OverlapError, match=r"10\.0\.0\.5/8 of eno1"):
        ensure(model)


def test_what_comes_into_the_range_later_keeps_no_bridge_from_being_served() -> None:
    model = host()
    later = Route("10.99.0.0/24", "192.0.2.9", model.link("eno1").index)
    model.routes.append(later)
    with pytest.raises(OverlapError):
        ensure(model)
    model.routes.pop()
    ensure(model)
    assert overlaps_of(CONFIG, model.seen_by_node()) == []
    model.routes.append(later)
    ensure(model)
    assert overlaps_of(CONFIG, model.seen_by_node()) == ["10.99.0.0/24 of eno1"]
    attach(model)
    model.apply(DeleteLink("kvedge0"))
    ensure(model)
    assert model.link("kvedge0").up


def test_a_second_instance_with_the_same_range_is_refused() -> None:
    model = host()
    ensure(model)
    with pytest.raises(OverlapError, match="of kvedge0"):
        plan_node_network(replace(SECOND, cidr=CONFIG.cidr), model.seen_by_node())
