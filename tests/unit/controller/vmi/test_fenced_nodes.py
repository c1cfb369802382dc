# Tests: kvedge/controller/vmi/vmi_plan.py, kvedge/controller/vmi/vmi_end_plan.py, kvedge/controller/vmi/vmi_status.py
"""A VMI whose node has ended its guest: its Pod is forgotten, it fails at once, and its VM may start again."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.vmi_loop import VmiLoop
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_steps import VmiSources
from kvedge.controller.vmi.vmi_view import ConfirmPodLost, ForgetPod, PatchVmi, VmiPlan, VmiView
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.meta import OwnerReference, condition
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import (
    LocalVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import PersistentVolumeClaimSource, Volume
from tests.support.builders import CONFIG, NOW, a_pod, a_vmi, patched
from tests.support.clocks import FakeClock
from tests.support.migrating import a_migrating_vmi, a_target_pod
from tests.support.values import replace
from tests.unit.controller.migrations.small_server import Cache

LOST = NodeState("node-1", trouble="Kubelet stopped posting node status.")
FENCED = replace(LOST, is_fenced=True)


def a_lost_run(*, deleting: bool = False) -> tuple[VirtualMachineInstance, Pod]:
    vmi = a_vmi("Running", deleting=deleting)
    vmi.status.node_name = "node-1"
    return vmi, a_pod(vmi, "Running", "node-1")


def after(vmi: VirtualMachineInstance, plan: VmiPlan) -> VirtualMachineInstance:
    document = encode(vmi)
    for action in plan.actions:
        if isinstance(action, PatchVmi):
            document = patched(document, action.body)
    return decode(VirtualMachineInstance, document)


@pytest.mark.parametrize("deleting", [False, True], ids=["runs", "is deleted"])
def test_the_pod_is_forgotten_before_anything_else(deleting: bool) -> None:
    vmi, pod = a_lost_run(deleting=deleting)
    view = VmiView(vmi, [pod], node=FENCED, fenced_nodes=frozenset({"node-1"}))
    assert plan_vmi(view, CONFIG, NOW).actions == (ForgetPod(pod),)


def test_a_pod_of_another_node_stays() -> None:
    vmi, pod = a_lost_run()
    view = VmiView(vmi, [pod], node=LOST, fenced_nodes=frozenset({"node-2"}))
    assert not any(isinstance(action, ForgetPod) for action in plan_vmi(view, CONFIG, NOW).actions)


def test_without_its_pod_the_run_has_failed_at_once_and_the_reason_says_so() -> None:
    vmi, _ = a_lost_run()
    plan = plan_vmi(VmiView(vmi, [], node=FENCED, fenced_nodes=frozenset({"node-1"})), CONFIG, NOW)
    assert plan.actions[0] == ConfirmPodLost()
    made = after(vmi, plan)
    assert (made.status.phase, made.status.reason) == ("Failed", "NodeFenced")
    assert plan.warning is not None
    assert "has ended the guest by itself" in plan.warning.message


def test_without_the_proof_it_waits_and_says_for_what() -> None:
    vmi, pod = a_lost_run()
    waits_for = "nothing is started elsewhere before the node is back, or it has been silent for 120 s"
    made = after(vmi, plan_vmi(VmiView(vmi, [pod], node=replace(LOST, waits_for=waits_for)), CONFIG, NOW))
    found = condition(made.status.conditions, "Ready")
    assert found is not None
    assert made.status.phase == "Running"
    assert waits_for in found.message


def test_a_source_that_is_fenced_counts_as_gone_and_the_arbiter_decides() -> None:
    vmi = a_migrating_vmi()
    state = vmi.status.migration_state
    assert state is not None
    source = replace(FENCED, name=state.source_node)
    target = a_target_pod(vmi)
    view = VmiView(
        vmi,
        [target],
        node=source,
        target_node=NodeState(state.target_node),
        fenced_nodes=frozenset({state.source_node}),
    )
    made = after(vmi, plan_vmi(view, CONFIG, NOW))
    assert made.status.phase == "Running"
    assert made.status.migration_state is not None
    assert made.status.migration_state.source_pod_gone_timestamp is not None


def test_with_both_nodes_fenced_the_guest_is_lost() -> None:
    vmi = a_migrating_vmi()
    state = vmi.status.migration_state
    assert state is not None
    view = VmiView(
        vmi,
        [],
        podless_seconds=1000.0,
        node=replace(FENCED, name=state.source_node),
        target_node=replace(FENCED, name=state.target_node),
        fenced_nodes=frozenset({state.source_node, state.target_node}),
    )
    made = after(vmi, plan_vmi(view, CONFIG, NOW))
    assert (made.status.phase, made.status.reason) == ("Failed", "GuestLost")


class Loop:
    """The loop of VMIs with its caches, and a server that records deletions."""

    def __init__(self, vmi: VirtualMachineInstance, pod: Pod, *, volume: PersistentVolume | None = None) -> None:
        self.caches = {kind: Cache() for kind in (VirtualMachineInstance, Pod, PersistentVolumeClaim)}
        self.client, self.events, self.version, self.vmi = MagicMock(), MagicMock(), 1, vmi
        self.attached = attached_to(pod)
        self.client.list.side_effect = lambda kind, namespace, selector: (
            [self.attached] if "hotplug" in selector else []
        )
        self.client.patch.side_effect = self.patch
        self.client.get.return_value = volume
        holders = MagicMock(holder=lambda vmi, name: None)
        vmis, pods, claims = self.caches.values()
        sources: Any = (self.client, vmis, pods, claims, lambda: None, holders, self.events, FakeClock())
        lost = partial(NodeState, trouble="gone")
        self.loop = VmiLoop(VmiSources(*sources, lost, Cache(), Gone()), lambda: CONFIG)  # type: ignore[arg-type]
        for item in (vmi, pod):
            self.hear(item)

    def hear(self, item: Any, *, gone: bool = False) -> None:
        self.version += 1
        item.metadata.resource_version = str(self.version)
        self.caches[type(item)].hear(item, gone=gone)

    def patch(self, kind: type, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        if kind is not VirtualMachineInstance:
            return self.caches[kind].get(namespace, name)
        self.vmi = decode(VirtualMachineInstance, patched(encode(self.vmi), patch.body))
        self.version += 1
        self.vmi.metadata.resource_version = str(self.version)
        return self.vmi

    def deleted(self) -> list[tuple[str, int]]:
        return [(call.args[2], call.kwargs["grace_seconds"]) for call in self.client.delete.call_args_list]


class Gone:
    """Node-1 has ended all that it had."""

    def is_gone(self, node: str, vmi_uid: str) -> bool:
        return node == "node-1"

    def describe_wait(self, node: str, vmi_uid: str) -> str:
        return ""


def attached_to(launcher: Pod) -> Pod:
    pod = copy.deepcopy(launcher)
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=launcher.metadata.name, uid=launcher.metadata.uid, controller=True
    )
    pod.metadata.name, pod.metadata.uid, pod.metadata.owner_references = "hp-volume", "attached", [owner]
    return pod


def test_the_pods_go_at_once_with_those_of_hotplugged_volumes_and_then_the_run_has_failed() -> None:
    vmi, pod = a_lost_run()
    world = Loop(vmi, pod)
    key = Key(vmi.metadata.namespace, vmi.metadata.name)
    assert world.loop.reconcile(key) is not None
    assert world.deleted() == [("hp-volume", 0), (pod.metadata.name, 0)]
    world.hear(pod, gone=True)
    world.loop.reconcile(key)
    assert (world.vmi.status.phase, world.vmi.status.reason) == ("Failed", "NodeFenced")


def test_a_vm_whose_disk_is_on_the_lost_node_alone_waits_for_it_and_names_the_claim() -> None:
    vmi, pod = a_lost_run()
    source = PersistentVolumeClaimSource(claim_name="data")
    vmi.spec.volumes = [Volume(name="disk", persistent_volume_claim=source)]
    world = Loop(vmi, pod, volume=PersistentVolume(spec=PersistentVolumeSpec(local=LocalVolume(path="/x"))))
    claim = PersistentVolumeClaim(spec=PersistentVolumeClaimSpec(volume_name="pv"))
    claim.metadata.name, claim.metadata.namespace = "data", vmi.metadata.namespace
    world.hear(claim)
    world.loop.reconcile(Key(vmi.metadata.namespace, vmi.metadata.name))
    found = condition(world.vmi.status.conditions, "Ready")
    assert found is not None
    assert world.deleted() == []
    assert "the disk of PVC data is on that node alone" in found.message
