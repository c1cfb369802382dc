"""How many vCPUs a running domain is to get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.launcher.hotplug.cpu_plan import CpuStep, plan_cpus, read_wanted_vcpus
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why


def facts(vcpus: int, most: int) -> DomainFacts:
    return DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, vcpus=vcpus, most_vcpus=most)


@pytest.mark.parametrize(
    ("cpu", "vcpus"),
    [({"sockets": 2, "cores": 3, "threads": 2}, 12), ({"sockets": 2}, 2), ({"cores": 4}, 0), ({}, 0), (None, 0)],
)
def test_sockets_are_counted_with_all_their_threads(cpu: Any, vcpus: int) -> None:
    assert read_wanted_vcpus(json.dumps({"spec": {"domain": {"cpu": cpu}}}).encode()) == vcpus


@pytest.mark.parametrize("document", [b"[]", b"{", b'{"spec": {"domain": {"cpu": {"sockets": "x"}}}}'])
def test_what_is_no_vmi_is_refused(document: bytes) -> None:
    with pytest.raises(BadRequest):
        read_wanted_vcpus(document)


@pytest.mark.parametrize(
    ("wanted", "vcpus", "most", "steps"),
    [
        (4, 2, 8, [CpuStep(4)]),
        (2, 2, 8, []),
        (1, 2, 8, []),
        (0, 2, 8, []),
        (4, 0, 0, []),
        (9, 2, 8, [CpuStep(9, "the guest was started with room for 8 vCPUs, and is to have 9")]),
    ],
    ids=["more", "as many", "fewer", "nothing said", "no domain", "too many"],
)
def test_vcpus_only_grow_and_only_into_their_room(wanted: int, vcpus: int, most: int, steps: list[CpuStep]) -> None:
    assert plan_cpus(wanted, facts(vcpus, most)) == steps
