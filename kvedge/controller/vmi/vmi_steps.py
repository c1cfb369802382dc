"""Does what the plan of a VMI says, one action after the other, each write against the version that was planned on.

Held by `vmi_loop`. A launcher Pod is created only when the server confirms the VMI as it was read, and under the one
name that follows from the VMI's UID; while one is created, no other launcher takes its claims.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.node.node_plan import NodeState
from kvedge.controller.vm.create_patience import CreatePatience
from kvedge.controller.vm.create_refusal import is_passing, pod_refusal
from kvedge.controller.vmi.claim_holders import ClaimHolders
from kvedge.controller.vmi.claim_rules import ClaimView, find_needed_claims
from kvedge.controller.vmi.claimed_resources import ClaimsNotServed
from kvedge.controller.vmi.lans.lan_places import NetworkMissing
from kvedge.controller.vmi.lans.lan_reservations import LanReservations, NoAddress
from kvedge.controller.vmi.permitted_resources import NotPermitted
from kvedge.controller.vmi.placed_pod import place_pod
from kvedge.controller.vmi.quota_limits import create_launcher
from kvedge.controller.vmi.resizing.pod_resizer import PodResizer
from kvedge.controller.vmi.sriov_resources import FunctionsUnknown
from kvedge.controller.vmi.state_claim_modes import with_modes
from kvedge.controller.vmi.vmi_plan import plan_create_failure
from kvedge.controller.vmi.vmi_view import (
    ConfirmPodLost,
    CreateClaim,
    CreatePod,
    DeletePod,
    ForgetPod,
    PatchPod,
    PatchPodStatus,
    PatchVmi,
    ResizePod,
    VmiAction,
    VmiPlan,
)
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.observed_delete import delete_observed
from kvedge.kube.patches import MergePatch, StrategicPatch, at_version
from kvedge.resources.disks.state_claims import own_volumes
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP, claims
from kvedge.resources.names import APP, CREATED_BY, MADE_UNIX_MS
from kvedge.resources.types.core import Pod
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# A cache that is behind the server waits so long for its watch.
_CAUGHT_UP_SECONDS: Final = 0.05


class Fences(Protocol):
    """What nodes that fence themselves have ended."""

    def is_gone(self, node: str, vmi_uid: str) -> bool:
        """Whether nothing of a VMI runs on a node any more. Raises KubeError."""

    def describe_wait(self, node: str, vmi_uid: str) -> str:
        """What ends the wait for a silent node; empty for nothing."""


class NoFences:
    """No node fences itself."""

    def is_gone(self, node: str, vmi_uid: str) -> bool:
        """Nobody has said so."""
        return False

    def describe_wait(self, node: str, vmi_uid: str) -> str:
        """Nothing does."""
        return ""


class VmiSources(Struct, frozen=True):
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
    vms: Informer[VirtualMachine]
    fences: Fences = field(default_factory=NoFences)
    # In Hz: what a guest that starts on a node is told of its counter; None where the node tells none.
    choose_tsc_frequency: Callable[[str], int | None] = lambda _: None


class VmiSteps:
    """The one way of the loop's workers to write; one VMI is given to one of them at a time."""

    def __init__(self, sources: VmiSources, config: Callable[[], ClusterConfig]) -> None:
        """`config` gives the configuration in force for new Pods."""
        self._client = sources.client
        self._vmis = sources.vmis
        self._claims = sources.claims
        self._cdi_config = sources.cdi_config
        self._holders = sources.holders
        self._pods = sources.pods
        self._events = sources.events
        self._clock = sources.clock
        self._config = config
        self._addresses = LanReservations(sources.client, sources.vmis, sources.vms, sources.clock.monotonic)
        self._patience = CreatePatience(sources.clock.monotonic)
        self._resizer = PodResizer(sources.client, sources.pods, sources.events, sources.clock.monotonic)

    def carry_out(self, vmi: VirtualMachineInstance, plan: VmiPlan) -> float | None:
        """Do all that a plan says; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        if plan.warning is not None and any(isinstance(action, PatchVmi) for action in plan.actions):
            self._events.record(vmi, "Warning", plan.warning.reason, plan.warning.message)
        for action in plan.actions:
            wait = self._do(vmi, action)
            if wait is not None:
                return wait
        return None

    def reserve_waiting(self, vmi: VirtualMachineInstance, pods: Iterable[Pod]) -> float | None:
        """Reserve addresses for NICs that a VMI's Pod is to get; when to do so again, in seconds, None for never.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        return self._addresses.follow(vmi, pods, lambda text: self._tell_no_address(vmi, text))

    def forget(self, uid: str) -> None:
        """A VMI has gone: what its creations met with is of no use any more."""
        self._patience.forget(uid)
        self._resizer.forget(uid)

    def keeps_limits(self) -> bool:
        """Whether the server lowers no memory limit of a Pod that runs, as far as that is known."""
        return self._resizer.keeps_limits()

    def view_claims(self, vmi: VirtualMachineInstance) -> ClaimView:
        """The claims of a VMI as they are, and who has taken them."""
        names = {name for _, name in claims([*vmi.spec.volumes, *own_volumes(vmi)])}
        found = ((name, self._claims.get(vmi.metadata.namespace, name)) for name in names)
        holders = ((name, self._holders.holder(vmi, name)) for name in names)
        return ClaimView(
            {name: claim for name, claim in found if claim is not None},
            {name: holder for name, holder in holders if holder is not None},
            self._cdi_config(),
        )

    def _newest(self, vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        found = self._vmis.get(vmi.metadata.namespace, vmi.metadata.name)
        return found if found is not None and found.metadata.uid == vmi.metadata.uid else vmi

    def _do(self, vmi: VirtualMachineInstance, action: VmiAction) -> float | None:
        """Do one action; a number ends the pass, to be continued after so many seconds.

        Raises:
            KubeError: when the server refuses; the pass is repeated.
        """
        match action:
            case CreatePod(pod):
                return self._create(vmi, pod)
            case CreateClaim(claim):
                return self._create_claim(vmi, claim)
            case PatchVmi(body):
                meta = vmi.metadata
                patch = at_version(body, meta.resource_version)
                patched = self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch)
                if not patched.metadata.is_left:
                    # The VMI went with its last finalizer, although the server's answer still shows it.
                    return _CAUGHT_UP_SECONDS
                self._vmis.observe(patched)
            case PatchPod(pod, body):
                self._reserve_coming(vmi)
                self._patch_pod(pod, at_version(body, pod.metadata.resource_version), "")
            case PatchPodStatus(pod, body):
                self._patch_pod(pod, StrategicPatch(body), "status")
            case ResizePod():
                # Its room may have been written just now, and what is said of a refusal goes to that version.
                newest = self._newest(vmi)
                return self._resizer.resize(newest, action, lambda body: self._do(newest, body))
            case DeletePod(pod):
                self._delete(vmi, pod)
            case ForgetPod(pod):
                self._forget_pod(vmi, pod)
                # The next pass plans without it.
                return _CAUGHT_UP_SECONDS
            case ConfirmPodLost(known):
                return _CAUGHT_UP_SECONDS if self._find_pods(vmi, known) else None
        return None

    def _reserve_coming(self, vmi: VirtualMachineInstance) -> None:
        """A network that gives addresses has one for a NIC before the Pod joins it."""
        try:
            self._addresses.reserve(vmi)
        except NoAddress as error:
            # The NIC waits, and nothing else does.
            self._tell_no_address(vmi, str(error))

    def _tell_no_address(self, vmi: VirtualMachineInstance, text: str) -> None:
        self._events.record(vmi, "Warning", "FailedReserve", text)

    def _create(self, vmi: VirtualMachineInstance, pod: Pod) -> float | None:
        meta = vmi.metadata
        wait = self._patience.count_seconds_left(meta.uid)
        if wait > 0:
            return wait
        if not self._is_as_read(vmi):
            return _CAUGHT_UP_SECONDS
        # Outside the lock, for which all other launchers wait: this asks the server.
        try:
            self._addresses.reserve(vmi)
            pod = place_pod(pod, vmi, self.view_claims(vmi).found.values(), self._client, self._config())
        except (ClaimsNotServed, NotPermitted, NetworkMissing, FunctionsUnknown, NoAddress) as error:
            return self._note_failure(vmi, str(error))
        with self._holders.taking:
            if any(self._holders.holder(vmi, name) for _, name in find_needed_claims(vmi)):
                return _CAUGHT_UP_SECONDS
            return self._create_pod(vmi, pod)

    def _create_claim(self, vmi: VirtualMachineInstance, claim: PersistentVolumeClaim) -> float | None:
        wait = self._patience.count_seconds_left(vmi.metadata.uid)
        if wait > 0:
            return wait
        if not self._is_as_read(vmi):
            return _CAUGHT_UP_SECONDS
        try:
            self._claims.observe(self._client.create(with_modes(claim, self._client)))
        except AlreadyExists:
            return _CAUGHT_UP_SECONDS
        except KubeError as error:
            return self._note_refusal(vmi, error)
        return None

    def _create_pod(self, vmi: VirtualMachineInstance, pod: Pod) -> float | None:
        meta = vmi.metadata
        try:
            created = create_launcher(self._client, _stamp(pod, self._clock.now()), vmi)
        except AlreadyExists as error:
            found = self._client.get(Pod, pod.metadata.namespace, pod.metadata.name)
            if not own_pods(vmi, [found]):
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

    def _forget_pod(self, vmi: VirtualMachineInstance, pod: Pod) -> None:
        """No kubelet confirms the end of a lost node's Pods: they would stay for ever, and hold their claims."""
        attached = self._client.list(Pod, pod.metadata.namespace, f"{APP}={ATTACHMENT_APP}")
        owned = [each for each in attached if _is_owned_by(each, pod.metadata.uid)]
        for each in owned:
            with suppress(NotFound):
                self._delete_at_once(each)
        with suppress(NotFound):
            self._delete_at_once(pod)
            text = f"Deleted virtual machine pod {pod.metadata.name} of lost node {pod.spec.node_name}"
            self._events.record(vmi, "Normal", "SuccessfulDelete", text)

    def _delete_at_once(self, pod: Pod) -> None:
        meta = pod.metadata
        self._client.delete(Pod, meta.namespace, meta.name, Preconditions(uid=meta.uid), grace_seconds=0)

    def _find_pods(self, vmi: VirtualMachineInstance, known: Collection[str]) -> bool:
        """Whether the server has Pods of this VMI beside those that are `known`: the cache was behind."""
        selector = f"{CREATED_BY}={vmi.metadata.uid}"
        found = own_pods(vmi, self._client.list(Pod, vmi.metadata.namespace, selector))
        for pod in found:
            self._pods.observe(pod)
        return any(pod.metadata.uid not in known for pod in found)


def _is_owned_by(pod: Pod, uid: str) -> bool:
    owner = pod.metadata.controller_reference()
    return owner is not None and owner.uid == uid


def own_pods(vmi: VirtualMachineInstance, pods: Sequence[Pod]) -> list[Pod]:
    """The Pods whose controller is this very VMI: a label alone proves nothing."""
    owners = [(pod, pod.metadata.controller_reference()) for pod in pods]
    return [pod for pod, owner in owners if owner is not None and owner.uid == vmi.metadata.uid]


def _stamp(pod: Pod, now: datetime) -> Pod:
    """The Pod with the moment at which it is made."""
    annotations = {**pod.metadata.annotations, MADE_UNIX_MS: str(int(now.timestamp() * 1000))}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
