# Tests: kvedge/launcher/domain/placement/numa_plan.py, kvedge/launcher/domain/placement/numa_xml.py
# Tests: kvedge/launcher/domain/placement/cputune_xml.py
"""The NUMA cells of a guest, and what libvirt is told of them and of pins."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, tostring

import pytest

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.host_cpus import HostCell, HostCpus
from kvedge.launcher.domain.placement.cputune_xml import add_cputune
from kvedge.launcher.domain.placement.numa_plan import GuestCell, plan_numa
from kvedge.launcher.domain.placement.numa_xml import add_cells, add_numatune
from kvedge.launcher.domain.placement.pin_plan import PinPlan
from kvedge.resources.types.domain import DomainSpec
from tests.unit.launcher.domain.vmis import context, vmi

NUMA = {"numa": {"guestMappingPassthrough": {}}}
HOST = HostCpus((HostCell(0, ((1,), (2,)), {0: 10, 2: 32}), HostCell(2, ((9,),), {})), 16)
PAGES = {"hugepages": {"pageSize": "2Mi"}}


def domain(memory: dict[str, Any], **cpu: Any) -> DomainSpec:
    return vmi({"cpu": cpu, "memory": memory}).spec.domain


def plan(memory: dict[str, Any], *vcpus: int) -> tuple[GuestCell, ...]:
    return plan_numa(domain(memory, **NUMA), context(host_cpus=HOST), PinPlan(vcpus))


def test_cells_are_those_of_the_cpus_with_an_even_share_of_pages() -> None:
    assert plan({"guest": "6Mi", **PAGES}, 9, 1, 2) == (
        GuestCell(0, (1, 2), 4 << 20, {0: 10, 1: 32}),
        # The node does not say how far it is.
        GuestCell(2, (0,), 2 << 20, {0: 20, 1: 10}),
    )


def test_cells_without_cpus_of_the_guest_are_none_of_it() -> None:
    assert plan({"guest": "6Mi", **PAGES}, 9) == (GuestCell(2, (0,), 6 << 20, {0: 10}),)


def test_a_guest_that_asks_for_none_has_none() -> None:
    assert plan_numa(domain({"guest": "6Mi"}), context(), PinPlan()) == ()


@pytest.mark.parametrize(
    ("memory", "vcpus", "words"),
    [
        ({"guest": "2Mi", **PAGES}, (1, 9), "not enough memory requested to allocate at least one hugepage per numa"),
        ({"guest": "3Mi", **PAGES}, (1,), "can't be divided through the numa page size: 2097152"),
        ({"guest": "4Mi"}, (1,), "no huge pages"),
        ({"guest": "4Mi", **PAGES}, (), "no CPUs for itself"),
    ],
)
def test_what_cannot_be_shared_out_is_told(memory: dict[str, Any], vcpus: tuple[int, ...], words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        plan(memory, *vcpus)


def test_a_guest_without_pins_and_cells_has_no_elements() -> None:
    root = Element("domain")
    add_cputune(root, domain({"guest": "4Mi"}), PinPlan())
    add_numatune(root, ())
    add_cells(root, ())
    assert len(root) == 0


def test_cells_are_told_with_their_memory() -> None:
    root = Element("cpu")
    add_cells(root, [GuestCell(3, (0, 1, 4), 2 << 20, {0: 10})])
    cell = '<cell id="0" cpus="0-1,4" memory="2048" unit="KiB"><distances><sibling id="0" value="10" /></distances>'
    assert tostring(root, encoding="unicode") == f"<cpu><numa>{cell}</cell></numa></cpu>"


@pytest.mark.parametrize("mask", ["4", "^0", "x"])
def test_a_mask_of_other_vcpus_is_refused(mask: str) -> None:
    spec = domain({"guest": "4Mi"}, realtime={"mask": mask})
    with pytest.raises(ConversionError, match="write it like 0-3,\\^1"):
        add_cputune(Element("domain"), spec, PinPlan((1, 2)))
