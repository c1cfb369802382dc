"""What the KubeVirt object says of the CPU and memory of containers that support VMs."""

from __future__ import annotations

import pytest

from kvedge.resources.configuration.support_containers import NOTHING_SAID, VIRTIOFS, VM_EXPORT, support_resources
from kvedge.resources.types.core import ResourceRequirements

REQUESTS = {"cpu": "10m", "memory": "16M"}
LIMITS = {"cpu": "100m", "memory": "80M"}


def given(**parts: dict[str, str]) -> dict[str, ResourceRequirements]:
    return {VM_EXPORT: ResourceRequirements(**parts)}


@pytest.mark.parametrize(
    "support", [NOTHING_SAID, {VIRTIOFS: ResourceRequirements(limits={"cpu": "7"})}], ids=["nothing", "of another type"]
)
def test_a_container_of_which_nothing_is_said_has_its_own(support: dict[str, ResourceRequirements]) -> None:
    made = support_resources(support, VM_EXPORT, REQUESTS, LIMITS)
    assert made == ResourceRequirements(requests=REQUESTS, limits=LIMITS)


def test_each_amount_that_is_said_counts_alone() -> None:
    made = support_resources(given(requests={"memory": "1G"}, limits={"memory": "2G"}), VM_EXPORT, REQUESTS, LIMITS)
    assert made.requests == {"cpu": "10m", "memory": "1G"}
    assert made.limits == {"cpu": "100m", "memory": "2G"}


def test_no_container_asks_for_more_than_it_may_have() -> None:
    made = support_resources(given(limits={"memory": "8M"}), VM_EXPORT, REQUESTS, LIMITS)
    assert made.requests == {"cpu": "10m", "memory": "8M"}


def test_what_has_no_limit_of_its_own_gets_the_one_that_is_said() -> None:
    made = support_resources(given(limits={"memory": "80Mi"}), VM_EXPORT, REQUESTS, {})
    assert (made.requests, made.limits) == (REQUESTS, {"memory": "80Mi"})


def test_in_a_guaranteed_pod_it_asks_for_all_that_it_may_have() -> None:
    made = support_resources(given(limits={"cpu": "1"}), VM_EXPORT, REQUESTS, LIMITS, guaranteed=True)
    assert made.requests == made.limits == {"cpu": "1", "memory": "80M"}
