"""What several roles must know of a VMI in the same way."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import pod_resources
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.codec import decode
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.guest_nics import nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.durations import LONGEST_GRACE_SECONDS
from kvedge.resources.vmi_facts import (
    UnreadableCpus,
    character_not_in_xml,
    default_pull_policy,
    grace_seconds,
    guest_memory_field,
    has_agent,
    is_paused,
    most_memory_bytes,
    topology_of,
    vcpu_count,
)
from tests.support.builders import CONFIG, vmi_of
from tests.unit.launcher.domain.vmis import context, vmi


def domain_of(document: dict[str, Any]) -> DomainSpec:
    return decode(DomainSpec, document)


@pytest.mark.parametrize(
    ("domain", "topology"),
    [
        ({}, (1, 1, 1)),
        ({"cpu": {"maxSockets": 8}}, (1, 1, 1)),
        ({"cpu": {"cores": 2}}, (1, 2, 1)),
        ({"cpu": {"threads": 2, "sockets": 3}}, (3, 1, 2)),
        ({"cpu": {"cores": 2, "sockets": 3, "threads": 2}}, (3, 2, 2)),
        ({"cpu": {"model": "host-model"}, "resources": {"limits": {"cpu": "2500m"}}}, (3, 1, 1)),
        ({"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 2}}}, (2, 1, 1)),
        ({"resources": {"requests": {"cpu": "100m"}}}, (1, 1, 1)),
        ({"cpu": {"cores": 2}, "resources": {"limits": {"cpu": 8}}}, (1, 2, 1)),
    ],
    ids=[
        "one of everything",
        "sockets that may come later",
        "zeros count as one",
        "as asked",
        "all three",
        "a socket for each CPU of the limit, rounded up",
        "the limit before the request",
        "at least one",
        "a topology before any limit",
    ],
)
def test_cpus_come_from_the_topology_or_from_the_resources(
    domain: dict[str, Any], topology: tuple[int, int, int]
) -> None:
    assert topology_of(domain_of(domain)) == topology
    assert vcpu_count(domain_of(domain)) == topology[0] * topology[1] * topology[2]


def test_an_amount_of_cpus_that_is_no_quantity_is_named_by_its_field_and_counts_as_one() -> None:
    domain = domain_of({"resources": {"limits": {"cpu": "many"}}})
    with pytest.raises(UnreadableCpus) as caught:
        topology_of(domain)
    assert caught.value.field == "spec.domain.resources.limits.cpu"
    assert vcpu_count(domain) == 1


def test_all_roles_count_the_same_vcpus_when_a_limit_alone_says_them() -> None:
    domain = {"resources": {"limits": {"cpu": "4"}}, "devices": {"networkInterfaceMultiqueue": True}}
    asked = vmi_of({"metadata": {"name": "x"}, "spec": {"domain": domain}})
    assert pod_resources(asked, CONFIG).requests["cpu"] == "400m"
    domain["devices"]["interfaces"] = [{"name": "n", "bridge": {}}]
    queued = decode(VirtualMachineInstance, {"spec": {"domain": domain}})
    assert nic_queues(queued, queued.spec.domain.devices.interfaces[0]) == 4
    assert '<vcpu placement="static">4</vcpu>' in render_domain(vmi({"resources": domain["resources"]}), context())


@pytest.mark.parametrize(
    ("wanted", "seconds"), [(None, 30), (0, 0), (180, 180), (-5, 0), (1 << 62, LONGEST_GRACE_SECONDS)], ids=str
)
def test_a_guest_has_as_long_to_shut_down_as_its_vmi_says(wanted: int | None, seconds: int) -> None:
    document = {"spec": {"domain": {}, "terminationGracePeriodSeconds": wanted}}
    assert grace_seconds(decode(VirtualMachineInstance, document)) == seconds


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("fedora", "Always"),
        ("quay.io/a/b:latest", "Always"),
        ("registry:5000/demo", "Always"),
        ("registry:5000/demo:1", "IfNotPresent"),
        ("quay.io/a/b:latest@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_whose_name_may_move_is_always_asked_for(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_the_first_character_that_xml_lacks_is_told_by_its_number() -> None:
    assert character_not_in_xml("tab\t, line\n, é and 😀") is None
    assert character_not_in_xml("a\x01b\x00") == "U+0001"
    assert character_not_in_xml("\ufffe") == "U+FFFE"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(
            {"memory": {"guest": "1Gi"}, "resources": {"requests": {"memory": "2Gi"}}},
            ("spec.domain.memory.guest", "1Gi"),
            id="the guest's own word",
        ),
        pytest.param(
            {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "3Gi"}}},
            ("spec.domain.resources.requests.memory", "2Gi"),
            id="the request before the limit",
        ),
        pytest.param(
            {"resources": {"limits": {"memory": "3Gi"}}},
            ("spec.domain.resources.limits.memory", "3Gi"),
            id="the limit alone",
        ),
        pytest.param({"memory": {"hugepages": {"pageSize": "2Mi"}}}, None, id="huge pages alone"),
    ],
)
def test_the_guests_memory_is_asked_for_in_one_order_everywhere(
    document: dict[str, Any], said: tuple[str, str] | None
) -> None:
    assert guest_memory_field(domain_of(document)) == said


@pytest.mark.parametrize(
    ("document", "most"),
    [
        ({"memory": {"guest": "1Gi", "maxGuest": "4Gi"}}, 4 << 30),
        ({"memory": {"guest": "1Gi", "maxGuest": "1Gi"}}, 0),
        ({"memory": {"guest": "1Gi"}}, 0),
        ({"memory": {"guest": "1Gi", "maxGuest": "x"}}, 0),
        ({"memory": {"guest": "1Gi", "maxGuest": "4Gi", "reservedOverhead": {"memLock": "Required"}}}, 0),
        ({"memory": {"guest": "1Gi", "maxGuest": "4Gi"}, "devices": {"gpus": [{"name": "g", "deviceName": "a/b"}]}}, 0),
        ({"memory": {"guest": "1Gi", "maxGuest": "4Gi"}, "devices": {"interfaces": [{"name": "n", "sriov": {}}]}}, 0),
    ],
    ids=["room", "no more than at start", "none", "no quantity", "locked", "a GPU", "a virtual function"],
)
def test_a_guest_may_get_memory_where_nothing_stands_against_it(document: dict[str, Any], most: int) -> None:
    assert most_memory_bytes(domain_of(document), "amd64") == most
    assert most_memory_bytes(domain_of(document), "aarch64") == 0


@pytest.mark.parametrize("status", ["True", "False", "Unknown", None])
def test_a_guest_is_paused_or_has_its_agent_where_a_condition_says_so(status: str | None) -> None:
    for fact, name in ((is_paused, "Paused"), (has_agent, "AgentConnected")):
        conditions = [] if status is None else [{"type": name, "status": status}]
        made = decode(
            VirtualMachineInstance, {"spec": {"domain": {"devices": {}}}, "status": {"conditions": conditions}}
        )
        assert fact(made) == (status == "True")
