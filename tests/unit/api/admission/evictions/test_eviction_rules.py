# Tests: kvedge/api/admission/evictions/eviction_rules.py, kvedge/resources/evacuation.py
"""What an eviction of a launcher comes to, by strategy, condition and place."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.evictions.eviction_rules import (
    Allow,
    Answer,
    Deny,
    Mark,
    is_attachment,
    is_by_descheduler,
    is_dry_run,
    judge_launcher,
    needs_a_node,
    vmi_of_launcher,
)
from kvedge.resources.meta import Condition, OwnerReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, vmi_with

TRIGGERED = 'Eviction triggered evacuation of VMI "default/web"'
STUCK = Deny("VMI web is configured with an eviction strategy but is not live-migratable")
MARK = Mark("node-1", TRIGGERED)


def a_run(strategy: str | None, migratable: str = "True", **status: Any) -> VirtualMachineInstance:
    conditions = [{"type": "LiveMigratable", "status": migratable}] if migratable else []
    spec = {} if strategy is None else {"evictionStrategy": strategy}
    known = {"phase": "Running", "nodeName": "node-1", "conditions": conditions, **status}
    return vmi_with(spec, known, name="web", namespace="default", uid="run-1")


def judged(vmi: VirtualMachineInstance, node: str = "node-1", default: str = "None") -> Answer:
    return judge_launcher(a_pod(vmi, "Running", node), vmi, default)


@pytest.mark.parametrize(
    ("strategy", "can_move", "cannot_move", "unknown"),
    [
        ("None", Allow(), Allow(), Allow()),
        ("LiveMigrate", MARK, STUCK, STUCK),
        ("LiveMigrateIfPossible", MARK, Allow(), Allow()),
        ("External", MARK, MARK, MARK),
    ],
)
def test_each_strategy_has_its_answer(strategy: str, can_move: Answer, cannot_move: Answer, unknown: Answer) -> None:
    for migratable, wanted in (("True", can_move), ("False", cannot_move), ("", unknown)):
        assert judged(a_run(strategy, migratable)) == wanted
        # The strategy of the KubeVirt object holds for a VMI that has none, and for no other.
        assert judged(a_run(None, migratable), default=strategy) == wanted
        assert judged(a_run("None", migratable), default=strategy) == Allow()


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("LiveMigrate", Deny("VMI web is configured with an eviction strategy but has no other node to go to")),
        ("LiveMigrateIfPossible", Allow()),
        ("External", MARK),
        ("None", Allow()),
    ],
)
def test_a_guest_of_the_only_node_is_not_marked_to_move(strategy: str, wanted: Answer) -> None:
    vmi = a_run(strategy)
    pod = a_pod(vmi, "Running", "node-1")
    assert judge_launcher(pod, vmi, "None", is_only_node=True) == wanted
    assert needs_a_node(vmi, "None") == strategy.startswith("LiveMigrate")
    # Nor does one that was marked while there was another node hold a drain.
    vmi.status.evacuation_node_name = "node-1"
    if strategy != "External":
        assert judge_launcher(pod, vmi, "None", is_only_node=True) == wanted


def held_by_disks(strategy: str, **annotations: str) -> VirtualMachineInstance:
    vmi = a_run(strategy, "")
    owner = OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachine", name="web", uid="v", controller=True)
    vmi.metadata.owner_references = [owner]
    vmi.metadata.annotations |= annotations
    vmi.status.conditions = [
        Condition(type="LiveMigratable", status="False", reason="DisksNotLiveMigratable"),
        Condition(type="StorageLiveMigratable", status="True"),
    ]
    return vmi


def test_a_guest_that_only_its_disks_keep_leaves_with_them_where_it_must_not_be_shut_down() -> None:
    along = Mark("node-1", f"{TRIGGERED}, with its disks")
    assert judged(held_by_disks("LiveMigrate")) == along
    assert judged(held_by_disks("LiveMigrateIfPossible")) == Allow()
    asked = held_by_disks("LiveMigrateIfPossible", **{"kvedge.io/evacuate-with-disks": "true"})
    assert judged(asked) == along
    assert judged(held_by_disks("None")) == Allow()
    alone = held_by_disks("LiveMigrate")
    alone.metadata.owner_references = []
    assert judged(alone) == STUCK
    vmi = held_by_disks("LiveMigrate")
    only = judge_launcher(a_pod(vmi, "Running", "node-1"), vmi, "None", is_only_node=True)
    assert only == Deny("VMI web is configured with an eviction strategy but has no other node to go to")
    vmi.status.evacuation_node_name = "node-1"
    assert judged(vmi) == Deny(f"Evacuation in progress: {TRIGGERED}, with its disks")


@pytest.mark.parametrize("strategy", ["LiveMigrate", "LiveMigrateIfPossible"])
def test_a_guest_whose_disks_are_about_to_move_is_not_shut_down(strategy: str) -> None:
    vmi = held_by_disks(strategy)
    vmi.status.conditions.append(Condition(type="VolumesChange", status="True"))
    assert judged(vmi) == Mark("node-1", f"{TRIGGERED}, with its disks")


def test_a_marked_guest_is_not_marked_again_wherever_the_pod_is() -> None:
    vmi = a_run("LiveMigrate", evacuationNodeName="node-1")
    assert judged(vmi) == judged(vmi, "node-2") == Deny(f"Evacuation in progress: {TRIGGERED}")


def test_a_mark_of_another_node_holds_no_drain_of_this_one() -> None:
    vmi = a_run("LiveMigrate", evacuationNodeName="node-7")
    assert judged(vmi) == Mark("node-1", TRIGGERED)


def test_a_pod_that_the_guest_is_not_in_is_left_alone() -> None:
    assert judged(a_run("LiveMigrate"), "node-2") == Deny("Eviction request for target Pod")


def test_a_pod_of_an_earlier_run_marks_nothing() -> None:
    vmi = a_run("LiveMigrate")
    pod = a_pod(vmi, "Running", "node-1")
    assert pod.metadata.owner_references
    pod.metadata.owner_references = [OwnerReference(api_version="v1", kind="x", name="web", uid="old", controller=True)]
    answer = judge_launcher(pod, vmi, "None")
    assert isinstance(answer, Deny)
    assert answer.message.startswith("kubevirt failed getting the vmi: pod virt-launcher-web-")


def labelled(phase: str = "Running", app: str = "virt-launcher", owners: int = 1) -> Pod:
    pod = a_pod(a_run("None"), phase, "node-1")
    pod.metadata.labels["kubevirt.io"] = app
    pod.metadata.annotations["kubevirt.io/domain"] = "web"
    pod.metadata.owner_references = pod.metadata.owner_references * owners
    return pod


def test_only_a_launcher_that_has_not_ended_has_a_guest() -> None:
    assert vmi_of_launcher(labelled()) == vmi_of_launcher(labelled("Pending")) == "web"
    assert not any(map(vmi_of_launcher, (labelled("Succeeded"), labelled("Failed"), labelled(app="shop"))))
    nameless = labelled()
    nameless.metadata.annotations.clear()
    assert vmi_of_launcher(nameless) == ""


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="r", controller=True)],
        [OwnerReference(api_version="shop/v1", kind="VirtualMachineInstance", name="web", uid="r", controller=True)],
        [OwnerReference(api_version="kubevirt.io/v1", kind="VirtualMachineInstance", name="web", uid="run-1")],
    ],
    ids=["nobody", "another kind", "another group", "an owner that controls nothing"],
)
def test_a_pod_that_no_vmi_controls_has_no_guest_whatever_it_says(owners: list[OwnerReference]) -> None:
    pod = labelled()
    pod.metadata.owner_references = owners
    assert vmi_of_launcher(pod) == ""


def test_an_attachment_has_one_owner() -> None:
    assert is_attachment(labelled(app="hotplug-disk"))
    assert not is_attachment(labelled(app="hotplug-disk", owners=0))
    assert not is_attachment(labelled())


@pytest.mark.parametrize("body", [{}, {"deleteOptions": None}, {"deleteOptions": {"dryRun": "All"}}, {"metadata": []}])
def test_an_eviction_that_says_nothing_of_it_is_meant(body: dict[str, Any]) -> None:
    assert not is_dry_run(body, asked=False)
    assert is_dry_run(body, asked=True)
    assert not is_by_descheduler(body)


def test_a_dry_run_and_the_descheduler_are_told_from_the_eviction() -> None:
    assert is_dry_run({"deleteOptions": {"dryRun": ["All"]}}, asked=False)
    assert is_by_descheduler({"metadata": {"annotations": {"requested-by": "sigs.k8s.io/descheduler"}}})
    assert not is_by_descheduler({"metadata": {"annotations": {"requested-by": "somebody"}}})
