"""Which policy a migration has, and what is frozen for it."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.migrations.policy_choice import choose_policy, freeze, needs_namespace
from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.migrations import MigrationPolicy, MigrationPolicySpec, PolicySelectors

VMI = {"app": "web", "tier": "gold"}
NAMESPACE = {"team": "a", "site": "b"}


def policy(
    name: str, vmi: dict[str, str] | None = None, namespace: dict[str, str] | None = None, **spec: Any
) -> MigrationPolicy:
    selectors = PolicySelectors(virtual_machine_instance_selector=vmi, namespace_selector=namespace)
    return MigrationPolicy(metadata=ObjectMeta(name=name), spec=MigrationPolicySpec(selectors=selectors, **spec))


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        pytest.param([policy("none")], None, id="no selector matches nothing"),
        pytest.param([MigrationPolicy(metadata=ObjectMeta(name="bare"))], None, id="no selectors at all"),
        pytest.param([policy("all", vmi={})], "all", id="an empty selector matches all"),
        pytest.param([policy("all", namespace={})], "all", id="an empty selector of namespaces matches all"),
        pytest.param([policy("other", vmi={"app": "db"})], None, id="another value"),
        pytest.param([policy("half", vmi={"app": "web"}, namespace={"team": "z"})], None, id="all must match"),
        pytest.param([policy("a", vmi={}), policy("b", vmi={"app": "web"})], "b", id="more labels"),
        pytest.param(
            [policy("a", namespace={"team": "a"}), policy("b", vmi={"app": "web"})], "b", id="more labels of the VMI"
        ),
        pytest.param([policy("b", vmi={"app": "web"}), policy("a", vmi={"tier": "gold"})], "a", id="the first name"),
        pytest.param(
            [policy("a", vmi={"app": "web"}), policy("b", namespace=NAMESPACE)], "b", id="labels of both count"
        ),
    ],
)
def test_the_policy_that_says_most_of_a_vmi_is_its(policies, expected):
    found = choose_policy(policies, VMI, NAMESPACE)
    assert (found and found.metadata.name) == expected


def test_a_vmi_without_labels_has_policies_of_its_namespace_alone():
    assert choose_policy([policy("a", namespace={"team": "z"})], {}, NAMESPACE) is None
    found = choose_policy([policy("a", namespace={"team": "a"})], {}, NAMESPACE)
    assert found is not None


def test_namespaces_are_asked_for_when_a_policy_names_their_labels():
    assert not needs_namespace([policy("a", vmi={}), MigrationPolicy()])
    assert needs_namespace([policy("a", namespace={"team": "a"})])


def test_the_clusters_configuration_is_frozen_and_the_policy_changes_what_it_names():
    limits = Migrations(bandwidth=1 << 20, progress_timeout=99)
    plain = freeze(limits, None)
    assert (plain.bandwidth_per_migration, plain.progress_timeout) == (str(1 << 20), 99)
    assert (plain.completion_timeout_per_gib, plain.max_downtime_ms) == (150, 900)
    assert (plain.allow_auto_converge, plain.allow_workload_disruption) == (False, False)
    changed = freeze(
        limits,
        policy(
            "a",
            vmi={},
            allow_auto_converge=True,
            allow_workload_disruption=True,
            bandwidth_per_migration="64Mi",
            completion_timeout_per_gib=0,
            max_downtime_ms=50,
        ),
    )
    assert (changed.bandwidth_per_migration, changed.progress_timeout) == ("64Mi", 99)
    assert (changed.completion_timeout_per_gib, changed.max_downtime_ms) == (0, 50)
    assert (changed.allow_auto_converge, changed.allow_workload_disruption) == (True, True)


def test_no_guest_runs_on_the_target_before_all_of_it_is_there():
    limits = Migrations(allow_post_copy=True)
    assert freeze(limits, policy("a", vmi={}, allow_post_copy=True)).allow_post_copy is False
