"""Brings one VMI after the other to a running launcher, and away again.

Run by the controller role. Reads VMIs and Pods from informers, asks :func:`plan_vmi`, does what it says, in its order
and each write against the version that was planned on. A launcher Pod is created only when the server confirms the VMI
as it was read, and under the one name that follows from the VMI's UID.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing, pod_refusal
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.claim_rules import ClaimView, needed_claims
from kvedge.controller.vmi.launcher_pod_status import has_ended, may_still_run
from kvedge.controller.vmi.placed_pod import placed_pod
from kvedge.controller.vmi.sriov_resources import FunctionsUnknown
from kvedge.controller.vmi.vmi_plan import (
    ConfirmPodLost,
    CreatePod,
    DeletePod,
    PatchPod,
    PatchPodStatus,
    PatchVmi,
    VmiAction,
    VmiPlan,
    VmiView,
    plan_create_failure,
    plan_vmi,
)
from kvedge.controller.vmi_claims import index_by_claim, vmis_of
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import MergePatch, StrategicPatch, at_version
from kvedge.kube.reconcile_loop import Again, ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.resources.disks.volume_facts import claims
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

_WORKERS: Final = 4
_MOST_STEPS: Final = 6
# A cache that is behind the server waits so long for its watch.
_CAUGHT_UP_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class VmiSources:
    """The informers and writers that the loop works with; `cdi_config` is None while it is not known."""

    client: KubeClient
    vmis: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    claims: Informer[PersistentVolumeClaim]
    cdi_config: Callable[[], CdiConfig | None]
    holders: ClaimHolders
    events: EventRecorder
    clock: Clock
    node_state: Callable[[str], NodeState | None]


class VmiLoop:
    """One reconcile loop over all VMIs."""

    def __init__(self, sources: VmiSources, config: Callable[[], ClusterConfig]) -> None:
        """`config` gives the configuration in force for new Pods."""
        self._client = sources.client
        self._vmis = sources.vmis
        self._vmis.add_index("node", lambda vmi: (vmi.status.node_name,) if vmi.status.node_name else ())
        index_by_claim(self._vmis)
        self._claims = sources.claims
        self._cdi_config = sources.cdi_config
        self._holders = sources.holders
        self._pods = sources.pods
        self._pods.add_index("vmi", _vmi_of)
        self._pods.add_index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self._events = sources.events
        self._clock = sources.clock
        self._node_state = sources.node_state
        self._config = config
        self._patience = CreatePatience(sources.clock.monotonic)
        # Since when a VMI's Pod has been gone or has ended, by the VMI's UID.
        self._podless_since: dict[str, float] = {}
        # UIDs of VMIs whose Pod reported the launcher's end before the Pod was gone.
        self._ended: set[str] = set()
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

    def node_changed(self, name: str) -> None:
        """Look at the VMIs of a node again."""
        for pod in self._pods.indexed("node", name):
            self._on_pod(None, pod)
        # VMIs whose Pods are gone already.
        for vmi in self._vmis.indexed("node", name):
            self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))

    def cdi_config_changed(self) -> None:
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
            plan = plan_vmi(self._view(vmi), self._config(), self._clock.now())
            if not plan.actions:
                return None if plan.again_after is None else Again(plan.again_after)
            wait = self._carry_out(vmi, plan)
            if wait is not None:
                return Again(wait)
        log.error("a VMI's plan does not settle", extra={"facts": {"vmi": str(key)}})
        return Again(5.0)

    def _view(self, vmi: VirtualMachineInstance) -> VmiView:
        uid = vmi.metadata.uid
        pods = self._own_pods(vmi, self._pods.owned_by(uid))
        node_name = vmi.status.node_name or next((pod.spec.node_name for pod in pods if pod.spec.node_name), "")
        node = self._node_state(node_name) if node_name else None
        if not all(has_ended(pod) for pod in pods):
            self._podless_since.pop(uid, None)
            self._ended.discard(uid)
            return VmiView(vmi, pods, node=node, claims=self._claim_view(vmi))
        now = self._clock.monotonic()
        podless = now - self._podless_since.setdefault(uid, now)
        others = self._pods.indexed("vmi", f"{vmi.metadata.namespace}/{vmi.metadata.name}")
        return VmiView(vmi, pods, podless, others, node, uid in self._ended, self._claim_view(vmi))

    def _claim_view(self, vmi: VirtualMachineInstance) -> ClaimView:
        names = {name for _, name in claims(vmi.spec.volumes)}
        found = ((name, self._claims.get(vmi.metadata.namespace, name)) for name in names)
        holders = ((name, self._holders.holder(vmi, name)) for name in names)
        return ClaimView(
            {name: claim for name, claim in found if claim is not None},
            {name: holder for name, holder in holders if holder is not None},
            self._cdi_config(),
        )

    def _carry_out(self, vmi: VirtualMachineInstance, plan: VmiPlan) -> float | None:
        if plan.warning is not None and any(isinstance(action, PatchVmi) for action in plan.actions):
            self._events.record(vmi, "Warning", plan.warning.reason, plan.warning.message)
        for action in plan.actions:
            wait = self._do(vmi, action)
            if wait is not None:
                return wait
        return None

    def _on_vmi(self, old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._patience.forget(item.metadata.uid)
            self._podless_since.pop(item.metadata.uid, None)
            self._ended.discard(item.metadata.uid)
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
            self._ended.add(owner.uid)
        self.loop.add(key)

    def _on_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        item = new or old
        assert item is not None
        for vmi in vmis_of(self._vmis, item.metadata.namespace, item.metadata.name):
            self.loop.add(Key(vmi.metadata.namespace, vmi.metadata.name))

    def _do(self, vmi: VirtualMachineInstance, action: VmiAction) -> float | None:
        """Do one action; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        match action:
            case CreatePod(pod):
                return self._create(vmi, pod)
            case PatchVmi(body):
                meta = vmi.metadata
                patch = at_version(body, meta.resource_version)
                patched = self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch)
                if patched.metadata.deletion_timestamp is not None and not patched.metadata.finalizers:
                    # The VMI went with its last finalizer, although the server's answer still shows it.
                    return _CAUGHT_UP_SECONDS
                self._vmis.observe(patched)
            case PatchPod(pod, body):
                self._patch_pod(pod, at_version(body, pod.metadata.resource_version), "")
            case PatchPodStatus(pod, body):
                self._patch_pod(pod, StrategicPatch(body), "status")
            case DeletePod(pod):
                self._delete(vmi, pod)
            case ConfirmPodLost():
                return _CAUGHT_UP_SECONDS if self._find_pods(vmi) else None
        return None

    def _create(self, vmi: VirtualMachineInstance, pod: Pod) -> float | None:
        meta = vmi.metadata
        wait = self._patience.seconds_left(meta.uid)
        if wait > 0:
            return wait
        if not self._is_as_read(vmi):
            return _CAUGHT_UP_SECONDS
        # Outside the lock, for which all other launchers wait: this asks the server.
        try:
            pod = placed_pod(pod, vmi, self._claim_view(vmi).found.values(), self._client, self._config())
        except FunctionsUnknown as error:
            return self._note_failure(vmi, str(error))
        with self._holders.taking:
            if any(self._holders.holder(vmi, name) for _, name in needed_claims(vmi)):
                return _CAUGHT_UP_SECONDS
            return self._create_pod(vmi, pod)

    def _create_pod(self, vmi: VirtualMachineInstance, pod: Pod) -> float | None:
        meta = vmi.metadata
        try:
            created = self._client.create(pod)
        except AlreadyExists as error:
            found = self._client.get(Pod, pod.metadata.namespace, pod.metadata.name)
            if not self._own_pods(vmi, [found]):
                return self._note_refusal(vmi, error)
            self._pods.observe(found)
            return None
        except Conflict:
            raise
        except KubeError as error:
            return self._note_refusal(vmi, error)
        self._patience.forget(meta.uid)
        self._pods.observe(created)
        self._events.record(vmi, "Normal", "SuccessfulCreate", f"Created virtual machine pod {created.metadata.name}")
        return None

    def _is_as_read(self, vmi: VirtualMachineInstance) -> bool:
        """Whether the server has this very version: a plan for an older one may start a second run."""
        try:
            live = self._client.get(VirtualMachineInstance, vmi.metadata.namespace, vmi.metadata.name)
        except NotFound:
            return False
        self._vmis.observe(live)
        return live.metadata.resource_version == vmi.metadata.resource_version

    def _note_refusal(self, vmi: VirtualMachineInstance, error: KubeError) -> float:
        if is_passing(error):
            raise error
        meta = vmi.metadata
        facts = {"vmi": f"{meta.namespace}/{meta.name}", "error": str(error)}
        log.warning("launcher Pod not created", extra={"facts": facts})
        return self._note_failure(vmi, pod_refusal(error, meta.namespace))

    def _note_failure(self, vmi: VirtualMachineInstance, message: str) -> float:
        self._events.record(vmi, "Warning", "FailedCreate", message)
        plan = plan_create_failure(vmi, message, self._config(), self._clock.now())
        for action in plan.actions:
            self._do(vmi, action)
        return self._patience.note_refusal(vmi.metadata.uid)

    def _patch_pod(self, pod: Pod, patch: MergePatch | StrategicPatch, subresource: str) -> None:
        meta = pod.metadata
        try:
            patched = self._client.patch(Pod, meta.namespace, meta.name, patch, subresource)
        except NotFound:
            return
        self._pods.observe(patched)

    def _delete(self, vmi: VirtualMachineInstance, pod: Pod) -> None:
        if delete_observed(self._client, self._pods, pod):
            name = pod.metadata.name
            self._events.record(vmi, "Normal", "SuccessfulDelete", f"Deleted virtual machine pod {name}")

    def _find_pods(self, vmi: VirtualMachineInstance) -> bool:
        """Whether the server has Pods of this VMI that the cache does not have (yet)."""
        selector = f"{CREATED_BY}={vmi.metadata.uid}"
        found = self._own_pods(vmi, self._client.list(Pod, vmi.metadata.namespace, selector))
        for pod in found:
            self._pods.observe(pod)
        return bool(found)

    def _own_pods(self, vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> list[Pod]:
        """The Pods whose controller is this very VMI: a label alone proves nothing."""
        owners = [(pod, pod.metadata.controller_reference()) for pod in pods]
        return [pod for pod, owner in owners if owner is not None and owner.uid == vmi.metadata.uid]


def _vmi_of(pod: Pod) -> tuple[str, ...]:
    """The VMI that a Pod is for, by name: VMIs of one name follow each other."""
    owner = pod.metadata.controller_reference()
    if owner is None or owner.kind != VirtualMachineInstance.KIND.kind:
        return ()
    return (f"{pod.metadata.namespace}/{owner.name}",)
