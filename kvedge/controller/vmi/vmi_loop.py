"""Brings one VMI after the other to a running launcher, and away again.

Run by the controller role. Reads VMIs and Pods from informers, asks :func:`plan_vmi`, and has `vmi_steps` do what it
says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from kvedge.controller.fencing.local_disks import find_local_claim
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.phase_times import time_vmi
from kvedge.controller.vmi.claim_rules import ClaimView
from kvedge.controller.vmi.launcher_pod_status import has_ended, may_still_run
from kvedge.controller.vmi.launcher_pods import is_moving, launcher_name, launcher_of
from kvedge.controller.vmi.vmi_plan import plan_vmi
from kvedge.controller.vmi.vmi_steps import VmiSources, VmiSteps, own_pods
from kvedge.controller.vmi.vmi_view import VmiView
from kvedge.controller.vmi.vsock_cids import VsockCids
from kvedge.controller.vmi_claims import index_by_claim, vmis_of
from kvedge.kube.figures.vmi_figures import VMI_FIGURES
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.counters.tsc_frequency import find_clock_field
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

_WORKERS: Final = 4
_MOST_STEPS: Final = 6


class VmiLoop:
    """One reconcile loop over all VMIs."""

    def __init__(self, sources: VmiSources, config: Callable[[], ClusterConfig]) -> None:
        """`config` gives the configuration in force for new Pods."""
        self._vmis = sources.vmis
        self._vmis.add_index("node", _nodes_of)
        index_by_claim(self._vmis)
        self._vmis.add_index("vsock", lambda vmi: (str(vmi.status.vsock_cid),) if vmi.status.vsock_cid else ())
        self._cids = VsockCids(lambda cid: bool(self._vmis.find_indexed("vsock", str(cid))))
        self._claims = sources.claims
        self._pods = sources.pods
        self._pods.add_index("vmi", _vmi_of)
        self._pods.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self._clock = sources.clock
        self._node_state = sources.node_state
        self._fences = sources.fences
        self._choose_tsc_frequency = sources.choose_tsc_frequency
        self._client = sources.client
        self._config = config
        self._steps = VmiSteps(sources, config)
        # Since when a VMI's Pod has been gone or has ended, by the VMI's UID.
        self._podless_since: dict[str, float] = {}
        # By a VMI's UID: the names and nodes of Pods that reported their launcher's end before they were gone.
        self._ended: dict[str, frozenset[tuple[str, str]]] = {}
        self._skips_backup_hooks = False
        self.loop = ReconcileLoop("vmi", self.reconcile, _WORKERS)

    def start(self) -> None:
        """Begin to work on all VMIs."""
        self._vmis.on_change(self._on_vmi)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        self.loop.start()

    def stop(self) -> None:
        """End the workers."""
        self.loop.stop()

    def note_node_change(self, name: str) -> None:
        """Look at the VMIs of a node again."""
        for pod in self._pods.find_indexed("node", name):
            self._on_pod(None, pod)
        # VMIs whose Pods are gone already.
        for vmi in self._vmis.find_indexed("node", name):
            self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))

    def note_configuration(self, configuration: Configuration) -> None:
        """Look at all VMIs again when backups are to freeze their guests by now, or not any more."""
        if configuration.skips_backup_hooks != self._skips_backup_hooks:
            self._skips_backup_hooks = configuration.skips_backup_hooks
            for vmi in self._vmis.list():
                self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))

    def note_cdi_config_change(self) -> None:
        """Look at all VMIs with claims again: their file systems may take more or less."""
        for vmi in self._vmis.list():
            if claims(vmi.spec.volumes):
                self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))

    def reconcile(self, key: Key) -> Again | None:
        """One pass for one VMI."""
        for _ in range(_MOST_STEPS):
            vmi = self._vmis.get(*key)
            if vmi is None:
                return None
            VMI_FIGURES.note_round(*key)
            view = self._view(vmi)
            plan = plan_vmi(view, self._config(), self._clock.now())
            if not plan.actions:
                waits = (plan.again_after, self._steps.reserve_waiting(vmi, view.pods))
                soonest = min((each for each in waits if each is not None), default=None)
                return None if soonest is None else Again(soonest)
            wait = self._steps.carry_out(vmi, plan)
            if wait is not None:
                return Again(wait)
        log.error("a VMI's plan does not settle", extra={"facts": {"vmi": str(key)}})
        return Again(5.0)

    def _view(self, vmi: VirtualMachineInstance) -> VmiView:
        uid = vmi.metadata.uid
        pods = own_pods(vmi, self._pods.find_owned_by(uid))
        launcher, claims = launcher_of(vmi, pods), self._steps.view_claims(vmi)
        placed = launcher.spec.node_name if launcher is not None else ""
        fenced, local = self._list_fenced(vmi, pods, claims)
        find_node = partial(self._find_node, vmi, fenced, local)
        view = VmiView(
            vmi,
            pods,
            node=find_node(vmi.status.node_name or placed),
            claims=claims,
            fenced_nodes=fenced,
            vsock_cid=self._find_cid(vmi),
            tsc_frequency=self._find_frequency(vmi, placed),
            keeps_limits=self._steps.keeps_limits(),
        )
        # While a guest moves, either Pod may have it.
        holders = pods if is_moving(vmi) else [launcher] if launcher is not None else []
        if any(not has_ended(pod) for pod in holders):
            self._podless_since.pop(uid, None)
        else:
            now = self._clock.monotonic()
            others = self._pods.find_indexed("vmi", f"{vmi.metadata.namespace}/{vmi.metadata.name}")
            podless = now - self._podless_since.setdefault(uid, now)
            view = replace(view, podless_seconds=podless, earlier_pods=others)
        # A Pod may have been made anew under its name.
        alive, state = {pod.metadata.name for pod in pods if not has_ended(pod)}, vmi.status.migration_state
        ended = {(name, where) for name, where in self._ended.get(uid, frozenset()) if name not in alive}
        view = replace(view, was_ended=(launcher_name(vmi), vmi.status.node_name) in ended)
        if state is None or not is_moving(vmi):
            return view
        was_target_ended = (state.target_pod, state.target_node) in ended
        return replace(view, was_target_ended=was_target_ended, target_node=find_node(state.target_node))

    def _find_cid(self, vmi: VirtualMachineInstance) -> int | None:
        if vmi.status.vsock_cid is not None:
            return vmi.status.vsock_cid
        is_due = vmi.spec.domain.devices.autoattach_vsock and vmi.status.phase == "Scheduling"
        return self._cids.give(vmi.metadata.uid) if is_due else None

    def _find_frequency(self, vmi: VirtualMachineInstance, node: str) -> int | None:
        is_due = vmi.status.phase == "Scheduling" and node and find_clock_field(vmi.spec.domain)
        return self._choose_tsc_frequency(node) if is_due else None

    def _list_fenced(
        self, vmi: VirtualMachineInstance, pods: Sequence[Pod], claims: ClaimView
    ) -> tuple[frozenset[str], str]:
        """The nodes that have ended what they had of a VMI, and the claim that keeps it from starting elsewhere."""
        uid = vmi.metadata.uid
        nodes = {pod.spec.node_name for pod in pods} | _nodes_of(vmi)
        gone = frozenset(node for node in nodes - {""} if self._fences.is_gone(node, uid))
        local = find_local_claim(self._client, claims.found.values()) if gone else ""
        return (frozenset(), local) if local else (gone, "")

    def _find_node(
        self, vmi: VirtualMachineInstance, fenced: frozenset[str], local: str, name: str
    ) -> NodeState | None:
        state = self._node_state(name) if name else None
        if state is None or not (state.trouble or name in fenced):
            return state
        if local:
            text = f"nothing is started elsewhere: the disk of PVC {local} is on that node alone, and is waited for"
            return replace(state, waits_for=text)
        hope = self._fences.describe_wait(name, vmi.metadata.uid)
        waits_for = f"nothing is started elsewhere before the node is back, or {hope}" if hope else ""
        return replace(state, is_fenced=name in fenced, waits_for=waits_for)

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        VMI_FIGURES.note_transitions(time_vmi(old, new))
        if new is None:
            VMI_FIGURES.forget(item.metadata.namespace, item.metadata.name)
            self._steps.forget(item.metadata.uid)
            self._podless_since.pop(item.metadata.uid, None)
            self._cids.forget(item.metadata.uid)
            self._ended.pop(item.metadata.uid, None)
            return
        self.loop.add(Key(item.metadata.namespace, item.metadata.name))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        item = new or old
        assert item is not None
        owner = item.metadata.controller_reference()
        if owner is None or owner.kind != VirtualMachineInstance.KIND.kind:
            return
        key = Key(item.metadata.namespace, owner.name)
        vmi = self._vmis.get(*key)
        if vmi is not None and vmi.metadata.uid == owner.uid and has_ended(item) and not may_still_run(item):
            # The Pod may be gone before the loop looks.
            told = (item.metadata.name, item.spec.node_name)
            self._ended[owner.uid] = self._ended.get(owner.uid, frozenset()) | {told}
        self.loop.add(key)

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        for vmi in vmis_of(self._vmis, item.metadata.namespace, item.metadata.name):
            self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))


def _nodes_of(vmi: VirtualMachineInstance) -> set[str]:
    """The nodes on which its guest may be."""
    state = vmi.status.migration_state
    target = "" if state is None or not state.is_open else state.target_node
    return {vmi.status.node_name, target} - {""}


def _vmi_of(pod: Pod) -> tuple[str, ...]:
    """The VMI that a Pod is for, by name: VMIs of one name follow each other."""
    owner = pod.metadata.controller_reference()
    if owner is None or owner.kind != VirtualMachineInstance.KIND.kind:
        return ()
    return (f"{pod.metadata.namespace}/{owner.name}",)
