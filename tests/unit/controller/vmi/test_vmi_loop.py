"""What the loop of VMIs remembers of Pods that are gone: the reported end of the very Pod that had the guest."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vmi.vmi_loop import VmiLoop
from kvedge.controller.vmi.vmi_steps import VmiSources
from kvedge.kube.work_queue import Key
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.domain import Features, FeatureState, Hyperv
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import TopologyHints, VirtualMachineInstance
from tests.support.builders import CONFIG, a_pod, a_vmi, patched
from tests.support.clocks import FakeClock
from tests.support.migrating import a_migrating_vmi, a_target_pod
from tests.unit.controller.migrations.small_server import Cache

KEY = Key("default", "web")


class Seen:
    """The loop's caches, and what it writes of the VMI."""

    def __init__(self, vmi: VirtualMachineInstance, monkeypatch: pytest.MonkeyPatch) -> None:
        self.caches = {kind: Cache() for kind in (VirtualMachineInstance, Pod, PersistentVolumeClaim)}
        self.client, self.clock = MagicMock(), FakeClock()
        self.version = 1
        self.client.list.return_value = []
        self.client.patch.side_effect = self.patch
        vmis, pods, claims = self.caches.values()
        sources: Any = (self.client, vmis, pods, claims, lambda: None, MagicMock(), MagicMock(), self.clock)
        made = VmiSources(*sources, NodeState, Cache(), choose_tsc_frequency={"node-1": 2399998000}.get)  # type: ignore[arg-type]
        self.loop = VmiLoop(made, lambda: CONFIG)
        # No worker: a test calls for each pass.
        monkeypatch.setattr(self.loop.loop, "start", lambda: None)
        self.loop.start()
        self.vmi = vmi
        self.hear(vmi)

    def patch(self, kind: type, namespace: str, name: str, patch: Any, subresource: str = "") -> Any:
        if kind is not VirtualMachineInstance:
            return self.caches[kind].get(namespace, name)
        self.vmi = decode(kind, patched(encode(self.vmi), patch.body))
        self.version += 1
        self.vmi.metadata.resource_version = str(self.version)
        return self.vmi

    def hear(self, item: Any, *, gone: bool = False) -> None:
        self.version += 1
        item.metadata.resource_version = str(self.version)
        self.caches[type(item)].hear(item, gone=gone)

    def passes(self) -> VirtualMachineInstance:
        """Several passes, with time for the handler between them."""
        for _ in range(4):
            self.loop.reconcile(KEY)
            self.clock.seconds += 600
        return self.vmi


def pods_of(vmi: VirtualMachineInstance, source: str, target: str) -> tuple[Pod, Pod]:
    return copy.deepcopy(a_pod(vmi, source, "node-1")), a_target_pod(vmi, target)


def test_the_end_of_the_target_is_none_of_a_source_that_is_deleted_by_force(monkeypatch):
    vmi = a_migrating_vmi(failed=True, completed=True)
    seen = Seen(vmi, monkeypatch)
    source, target = pods_of(vmi, "Running", "Failed")
    for pod in (source, target):
        seen.hear(pod)
    for pod in (source, target):
        seen.hear(pod, gone=True)
    assert seen.passes().status.phase == "Running"


def test_a_source_that_reported_its_end_before_it_was_gone_is_off(monkeypatch):
    vmi = a_migrating_vmi()
    seen = Seen(vmi, monkeypatch)
    running, target = pods_of(vmi, "Running", "Running")
    ended, _ = pods_of(vmi, "Succeeded", "Running")
    seen.hear(running)
    seen.hear(target)
    seen.hear(running, gone=True)
    state = seen.passes().status.migration_state
    assert state is not None
    assert state.source_pod_gone_timestamp is None, "somebody deleted it by force"
    seen.hear(running)
    seen.hear(ended)
    seen.hear(ended, gone=True)
    made = seen.passes()
    assert made.status.migration_state is not None
    assert made.status.migration_state.source_pod_gone_timestamp is not None
    assert made.status.phase == "Running"


def test_the_next_guest_of_a_name_inherits_no_end(monkeypatch):
    vmi = a_migrating_vmi()
    seen = Seen(vmi, monkeypatch)
    ended, target = pods_of(vmi, "Succeeded", "Running")
    seen.hear(ended)
    seen.hear(vmi, gone=True)
    seen.hear(ended, gone=True)
    again = a_migrating_vmi()
    seen.vmi = again
    seen.hear(again)
    seen.hear(target)
    state = seen.passes().status.migration_state
    assert state is not None
    assert state.source_pod_gone_timestamp is None


@pytest.mark.parametrize(("node", "counts"), [("node-1", True), ("node-1", False), ("node-2", True)])
def test_a_guest_that_counts_on_its_nodes_counter_is_told_its_frequency(monkeypatch, node, counts):
    vmi = a_vmi("Scheduling")
    if counts:
        vmi.spec.domain.features = Features(hyperv=Hyperv(reenlightenment=FeatureState()))
    seen = Seen(vmi, monkeypatch)
    seen.hear(copy.deepcopy(a_pod(vmi, "Running", node)))
    made = seen.passes().status
    assert made.phase == "Scheduled"
    told = TopologyHints(tsc_frequency=2399998000) if counts and node == "node-1" else None
    assert made.topology_hints == told
